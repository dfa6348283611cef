"""Memories as pages in a folder: written, read by a person, and read in again."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.testing import idle
from tests.unit.server.conftest import Api, serving

from .test_changing import typed

SHOP = "name:shop"
ODD = "We decided on *stars*, [[links]], #tags, `code`, $x$ and <b>tags</b> -->\n\n- and a list\n\tin C:\\new"


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path / "home")) as found:
        yield found


def filled(api: Api) -> None:
    for text in (
        "For the record: production listens on port 8443.",
        "Correction: production listens on port 9443, not 8443.",
        "Always run the tests with `make check`.",
        ODD,
    ):
        api.remember(text, SHOP)
    api.remember("I prefer short commit messages.")
    api.ask("POST", "/api/memory/facts", {"key": "editor", "value": "Helix"})
    idle(api.parts)
    facts = api.get("/api/memory/facts")
    api.ask("PATCH", f"/api/memory/memories/{facts[0]['id']}", {"pinned": True})
    api.ask("POST", f"/api/memory/memories/{facts[1]['id']}/bin")
    api.ask("PATCH", f"/api/memory/rules/{api.get('/api/memory/rules')[0]['id']}", {"enabled": False})


def known(home: str) -> list[dict[str, Any]]:
    """Every memory of a home; which message proves it stays with the messages."""
    rows = json.loads(typed(home, "export", "--what", "memories").out)["memories"]
    return sorted(({**row, "evidence": []} for row in rows), key=lambda row: row["id"])


def test_pages_bring_every_memory_into_an_empty_home_and_change_nothing_twice(api: Api, tmp_path: Path) -> None:
    filled(api)
    folder = tmp_path / "vault"
    written = typed(api.home, "export", "--format", "markdown", "--out", str(folder))
    assert [Path(line).name for line in written.out.splitlines()] == ["User.md", "Project shop.md"]
    assert typed(api.home, "export", "--format", "markdown", "--out", str(folder)).out == ""
    before = known(api.home)
    at_home = json.loads(typed(api.home, "import", str(folder), "--mine", "--json").out)
    assert (at_home["memories"]["added"], at_home["memories"]["present"]) == (0, len(before))
    assert at_home["problems"] == []
    assert known(api.home) == before
    with serving(str(tmp_path / "other")) as other:
        first = json.loads(typed(other.home, "import", str(folder), "--mine", "--json").out)
        assert (first["memories"]["added"], first["problems"]) == (len(before), [])
        assert known(other.home) == before
        assert {row["state"] for row in before} == {"live", "superseded", "binned"}
        assert any(row["text"] == ODD for row in before)


def test_words_that_were_edited_and_files_of_others_are_told(api: Api, tmp_path: Path) -> None:
    api.remember("Production listens on port 8443.", SHOP)
    idle(api.parts)
    folder = tmp_path / "vault"
    typed(api.home, "export", "--format", "markdown", "--out", str(folder))
    page = folder / "Project shop.md"
    page.write_text(page.read_text("utf-8").replace("port 8443", "port 9443"), "utf-8")
    (folder / "Diary.md").write_text("# Mine\n- no memory\n", "utf-8")
    told = typed(api.home, "import", str(folder), "--mine").out.splitlines()
    assert "memories: 0 added, 1 present, 0 forgotten, 0 bad" in told
    assert told[-1].startswith("Project shop.md ")
    assert "was edited" in told[-1]
    page.write_text("mine", "utf-8")
    refused = typed(api.home, "export", "--format", "markdown", "--out", str(folder))
    assert (refused.code, page.read_text("utf-8")) == (7, "mine")


def test_a_folder_that_cannot_be_used_is_refused(api: Api, tmp_path: Path) -> None:
    assert typed(api.home, "import", str(tmp_path)).code == 2
    assert typed(api.home, "export", "--format", "markdown").code == 2
    assert typed(api.home, "export", "--format", "markdown", "--what", "threads", "--out", str(tmp_path)).code == 2


def test_a_whole_export_is_typed_like_any_other(api: Api, tmp_path: Path) -> None:
    filled(api)
    file = tmp_path / "all.jsonl"
    assert typed(api.home, "export", "--format", "jsonl", "--out", str(file)).code == 0
    lines = file.read_text("utf-8").splitlines()
    with serving(str(tmp_path / "other")) as other:
        file.write_text("\n".join([*lines[:3], lines[3][:30]]), "utf-8")
        cut = typed(other.home, "import", str(file), "--mine").out
        assert "line 4: " in cut
        file.write_text("\n".join(lines) + "\n", "utf-8")
        whole = typed(other.home, "import", str(file), "--mine")
        assert (whole.code, "line" in whole.out) == (0, False)
        again = typed(other.home, "export", "--format", "jsonl").out.splitlines()
        assert again[1:] == lines[1:]
