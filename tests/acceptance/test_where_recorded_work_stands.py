"""Where the work stands after the recorded sessions, and what their next starts are told, against `EXPECTED.md`.

Both hosts together, and each alone. What must not be stored is in no synthesis; nothing of it is told to any start.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec import to_builtins

from filrouge.core.paths import DATABASE, inside
from filrouge.extraction.repository import Session
from filrouge.runtime.sqlite import Database
from filrouge.threads.models import Synthesis
from filrouge.threads.repository import Syntheses

from .replay import EXPECTED, RECORDINGS, Replayed

pytestmark = pytest.mark.slow

PLACES = ("/home/ana/shop", "/home/ana/atelier")
#: An open question is one, and is told as one.
_QUESTIONS = "question-as-fact"


def recorded(host: str) -> list[tuple[str, dict[str, Any]]]:
    """The sessions of a host, or of both, each with its host."""
    return [
        (name, session)
        for name in ("claude-code", "codex")
        if host in ("", name)
        for session in json.loads((RECORDINGS / name / "sessions.json").read_text(encoding="utf-8"))
    ]


def syntheses(replayed: Replayed) -> list[Synthesis]:
    """What the recorded sessions came to."""
    database = Database(inside(replayed.home, DATABASE), readonly=True)
    try:
        store = Syntheses(database.tx)
        sessions = [Session(host=host, id=one["session_id"]) for host, one in recorded(replayed.host)]
        return [one for session in sessions for one in store.of_session(session)]
    finally:
        database.close()


def forbidden(texts: list[str], *, but: str = "") -> list[tuple[str, str]]:
    """What of these texts must never be stored, with the name of its rule."""
    rules = [rule for rule in EXPECTED["never"] if rule["id"] != but]
    return [(rule["id"], text) for rule in rules for text in texts if re.search(rule["pattern"], text, re.IGNORECASE)]


def check_syntheses(replayed: Replayed) -> None:
    made = syntheses(replayed)
    decided = [point.text for one in made for point in one.decisions]
    anything = [text for one in made for text in _texts(to_builtins(one))]
    assert len(made) >= len(recorded(replayed.host)), "every session has come to something, or to nothing"
    assert decided
    assert forbidden(decided) == []
    assert forbidden(anything, but=_QUESTIONS) == []


def check_starts(replayed: Replayed) -> None:
    own = [
        replayed.start("compact", session["cwd"], host=host, session=session["session_id"])
        for host, session in recorded(replayed.host)
    ]
    others = [
        replayed.start(opening, place, host=host)
        for opening in ("startup", "clear")
        for place in PLACES
        for host in dict.fromkeys(host for host, _ in recorded(replayed.host))
    ]
    assert all(others), "every start in a project is told something"
    assert any(own)
    lines = [line for block in [*own, *others] for line in block.splitlines()]
    assert forbidden(lines, but=_QUESTIONS) == []


def _texts(held: dict[str, Any]) -> list[str]:
    found = [held["error"]["text"]] if held["error"] else []
    points = [point["text"] for name in ("state", "decisions", "questions") for point in held[name]]
    return [*found, *points, *held["files"]]


def test_nothing_that_must_not_be_stored_is_in_a_synthesis(replayed: Replayed) -> None:
    check_syntheses(replayed)


def test_nothing_that_must_not_be_stored_is_told_to_a_start(replayed: Replayed) -> None:
    check_starts(replayed)


def test_nor_where_only_one_of_the_hosts_was_used(replayed_host: Replayed) -> None:
    check_syntheses(replayed_host)
    check_starts(replayed_host)
