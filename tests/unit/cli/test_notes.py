"""`filrouge notes`, and notes among what search and recall answer."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.notes.service import Watch
from filrouge.server.routes.notes import NotesAnswer
from tests.unit.server.conftest import serving

from .test_changing import Shell

SHOP = "origin:forge.example/ana/shop"
CADDY = "Caddy terminates TLS for the kiosk and forwards to port 8443."
QUESTION = "What terminates TLS for the kiosk?"


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path / "home")) as api:
        yield Shell(api=api)


@pytest.fixture
def folder(shell: Shell, tmp_path: Path) -> Path:
    """A vault of two notes, read."""
    vault = tmp_path / "Notes"
    vault.mkdir()
    (vault / "Proxy.md").write_text(CADDY, encoding="utf-8")
    (vault / "Bread.md").write_text("---\na: [\n---\nThe dough rests for twelve hours. #mine", encoding="utf-8")
    shell("settings", "notes_folder", str(vault))
    deadline = time.monotonic() + 60
    while (now := shell.json("notes"))["embedded"] < 2 or now["waiting"]:
        assert time.monotonic() < deadline, now
        Watch(shell.api.parts).scan()
        Watch(shell.api.parts).embed()
    return vault


def test_without_a_vault_it_says_how_to_name_one(shell: Shell) -> None:
    assert "filrouge settings notes_folder" in shell("notes").out
    NotesAnswer.model_validate(shell.json("notes"))


def test_it_says_how_the_vault_stands(shell: Shell, folder: Path) -> None:
    shell("settings", "notes_paths", "Proxy,Nowhere")
    found = shell.json("notes")
    NotesAnswer.model_validate(found)
    assert (found["folder"], found["is_there"], found["notes"], found["tagged"]) == (str(folder), True, 2, ["Bread.md"])
    shown = shell("notes").out
    assert "Proxy.md, Nowhere.md (missing)" in shown
    assert "its frontmatter is not valid YAML" in shown


def test_search_and_recall_answer_notes_beside_what_was_said(shell: Shell, folder: Path) -> None:
    shell.api.remember("For the record: the kiosk runs in Lyon.", SHOP)
    assert [hit["id"] for hit in shell.json("search", "--in", "notes", QUESTION)][:1] == ["Proxy.md"]
    assert shell.json("search", QUESTION)[0]["content"] == CADDY
    results = shell.json("recall", "--all", QUESTION)["results"]
    assert (results[0]["id"], results[0]["type"], results[0]["source"]) == ("Proxy.md", "note", "vault")
    assert "Lyon" in results[1]["text"]
    assert "Proxy.md" not in str(shell.json("search", QUESTION, "--in", "memories"))


def test_a_question_about_what_was_said_then_or_by_somebody_brings_no_note(shell: Shell, folder: Path) -> None:
    assert shell.json("search", QUESTION, "--channel", "codex") == []
    assert shell.json("search", QUESTION, "--since", "2020-01-01") == []
