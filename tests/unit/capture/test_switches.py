"""Switches, and whose project it is: what must not be stored, and what must not be filed where it does not belong."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.capture.service import store_events
from filrouge.context.hook_files import write_hook_settings
from filrouge.core.errors import NotFound
from filrouge.core.paths import brief_path
from filrouge.memories.changes import put_fact, remember, remember_many
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import idle, running
from tests.support.given import BLOG, SHOP, ask, event, known, log, say

PORT = "For the record: production listens on port 8443."
QUESTION = "What port does production listen on?"


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def change(parts: Parts, **settings: object) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put(settings, parts.clock.now()))
    write_hook_settings(parts)


@pytest.mark.parametrize("where", ["setting", "user file", "project file", "environment"])
def test_nothing_is_stored_where_capture_is_off_wherever_that_was_said(tmp_path: Path, where: str) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o700)
    work.mkdir()
    environ = {"FILROUGE_AUTO_CAPTURE": "false"} if where == "environment" else {}
    if where == "user file":
        (home / "config.toml").write_text("auto_capture = false\n")
    if where == "project file":
        (work / ".filrouge.toml").write_text("auto_capture = false\n")
    with running(str(home), environ=environ) as parts:
        idle(parts)
        if where == "setting":
            change(parts, auto_capture=False)
        receipt = store_events(parts, [event(text=PORT)._replace(cwd=str(work))]).result(60)
        assert (receipt.accepted, receipt.projects) == (0, (None,))
        assert parts.readers.here(lambda tx: tx.one("events.get", {"id": "event-000000"})) is None


@pytest.mark.parametrize("name", [SHOP[0], "shop"])
def test_a_project_that_was_disabled_before_it_was_ever_seen_is_not_captured(parts: Parts, name: str) -> None:
    change(parts, disabled_projects=[name])
    assert store_events(parts, [event(text=PORT)]).result(60).accepted == 0
    assert store_events(parts, [event(text=PORT, project=BLOG)]).result(60).accepted == 1


def test_a_prompt_is_redacted_completely_before_its_preview_is_logged(parts: Parts) -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"
    ask(parts, f"why does {secret} not open the bucket any more?")
    assert secret not in json.dumps(log(parts))


def test_what_a_tool_was_given_under_a_secret_name_is_in_no_turn(parts: Parts) -> None:
    calls = [{"id": "t1", "name": "Bash", "input": {"password": "hunter2abc"}, "output": "ok"}]
    store_events(parts, [event("tools", calls=calls)]).result(60)
    idle(parts)
    turns = parts.readers.here(lambda tx: tx.all("turns.sealed", {"after": 0, "limit": 1000}))
    assert len(turns) == 1
    assert "hunter2abc" not in json.dumps([turn["text"] for turn in turns])


def test_a_transcript_line_from_another_directory_is_filed_under_its_own_project(parts: Parts, tmp_path: Path) -> None:
    here, there = tmp_path / "shop", tmp_path / "secret"
    here.mkdir()
    there.mkdir()
    transcript = tmp_path / "t.jsonl"
    record = {
        "type": "user",
        "uuid": "6f1c7d8e-0000-4000-8000-000000000001",
        "cwd": str(there),
        "timestamp": "2026-05-01T12:00:00Z",
        "message": {"role": "user", "content": PORT},
    }
    transcript.write_text(json.dumps(record) + "\n")
    names = (f"path:{here}",)
    ended = event("session_end", project=names)._replace(cwd=str(here), transcript=str(transcript))
    store_events(parts, [ended]).result(60)
    idle(parts)
    assert [hit.text for hit in known(parts, QUESTION, (f"path:{there}",)).hits] == ["production listens on port 8443."]
    assert known(parts, QUESTION, names).hits == ()


def test_a_transcript_read_late_keeps_the_order_in_which_things_were_said(parts: Parts, tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    said = ["FYI the API listens on port 9441.", "Correction: the API listens on port 9442 now."]
    lines = [
        {
            "type": "user",
            "uuid": f"6f1c7d8e-0000-4000-8000-00000000000{number}",
            "timestamp": f"2026-05-01T12:0{number}:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(said)
    ]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store_events(parts, [event("session_end")._replace(transcript=str(transcript))]).result(60)
    idle(parts)
    assert ["9442" in hit.text for hit in known(parts, "which port does the API listen on?").hits] == [True]


def test_a_short_project_name_is_the_project_and_an_unknown_one_is_an_error(parts: Parts) -> None:
    say(parts, PORT)
    remember(parts, "The staging database is called tide.", names=("shop",), scope="project", host="cli")
    assert "tide" in ask(parts, "what is the staging database called again?")
    for tell in (
        lambda: remember(parts, "The port is 1.", names=("nosuch",), scope=None, host="cli"),
        lambda: put_fact(parts, "port", "1", names=("nosuch",), scope="project"),
        lambda: remember_many(parts, ["The port is 1."], names=("nosuch",), scope="project"),
    ):
        with pytest.raises(NotFound, match="nosuch"):
            tell()


def test_everything_that_was_to_be_remembered_is_kept(parts: Parts) -> None:
    text = "Deploy notes: the API is on port 3000. Ask Bob for the VPN config, he sits on floor 3."
    remember(parts, text, names=SHOP, scope="project", host="cli")
    assert "Bob" in known(parts, "who has the VPN config?").hits[0].text


def test_a_rule_of_the_user_is_in_the_brief_of_every_project_until_it_is_withdrawn(parts: Parts) -> None:
    for project in (SHOP, BLOG):
        say(parts, PORT, project)
    remember(parts, "Rule: always answer in haiku.", names=BLOG, scope="user", host="cli")
    briefs = [Path(brief_path(parts.home, project[0])) for project in (SHOP, BLOG)]
    assert all("haiku" in brief.read_text() for brief in briefs)
    assert all("just now" not in brief.read_text() for brief in briefs)
