"""Retention: old tool output and noise go, what was said or is cited stays, and the file gives back its room."""

from __future__ import annotations

import os
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture.models import Role, Turn
from filrouge.context.log import Recalls
from filrouge.core.clock import to_text
from filrouge.core.paths import DATABASE, inside
from filrouge.core.rows import number_of
from filrouge.core.scope import Scope
from filrouge.maintenance import garden_service
from filrouge.maintenance.health import audit, status
from filrouge.maintenance.retention import last_run, queue_retention
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.search.models import Recall
from filrouge.search.service import Question, search_turns
from filrouge.testing import idle, running
from tests.support.given import known, say

PORT = "For the record: production listens on port 8443."


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def stored(parts: Parts, name: str, days: float, *, role: Role = "tool", text: str = "", skipped: str = "") -> str:
    """A turn of so many days ago."""
    turn = Turn(
        id=name,
        key=name,
        scope=Scope(user="local", project=None, agent="", channel="claude-code", session="old"),
        host="claude-code",
        role=role,
        source="command" if role == "tool" else "prompt",
        text=text or f"Bash: the output called {name}",
        at=parts.clock.now() - timedelta(days=days),
        trust=0,
        skipped=skipped,
    )
    parts.writer.run(lambda tx: parts.turns(tx).add(turn))
    return name


def there(parts: Parts, *names: str) -> set[str]:
    return {turn.id for turn in parts.readers.here(lambda tx: parts.turns(tx).get(names))}


def retained(parts: Parts) -> dict[str, Any]:
    """Let retention run; what it took."""
    assert queue_retention(parts)
    idle(parts)
    found = parts.readers.here(last_run)
    assert found is not None
    return found["taken"]


def settled(parts: Parts, **settings: int) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put(settings, parts.clock.now()))


def test_what_is_old_goes_and_what_is_young_or_said_stays(parts: Parts) -> None:
    stored(parts, "old-tool", 91)
    stored(parts, "old-noise", 31, role="user", skipped="too short")
    kept = [stored(parts, "tool", 89), stored(parts, "noise", 29, role="user", skipped="too short")]
    kept += [stored(parts, "prompt", 900, role="user"), stored(parts, "reply", 900, role="assistant")]
    assert retained(parts) == {"tools": 1, "noise": 1, "pressure": 0}
    assert there(parts, "old-tool", "old-noise", *kept) == set(kept)
    assert parts.readers.here(audit)["sound"]


def test_what_went_is_found_no_more_and_the_rest_still_is(parts: Parts) -> None:
    for number in range(70):
        stored(parts, f"old-{number}", 100 + number, text=f"Bash: quokka number{number}")
    stored(parts, "young", 3, text="Bash: quokka number5")
    assert retained(parts)["tools"] == 70
    asked = Question(text="quokka number5", limit=100, everywhere=True)
    found = parts.readers.here(lambda tx: search_turns(parts, tx, asked))
    assert {hit.id for hit in found.hits} == {"young"}


def test_what_a_memory_cites_stays_whatever_its_age(parts: Parts) -> None:
    say(parts, PORT)
    [hit] = known(parts, "What port does production listen on?").hits
    [evidence] = parts.readers.here(lambda tx: parts.memories(tx).get(hit.id)).evidence
    parts.writer.run(lambda tx: parts.turns(tx).skip(evidence.turn_id, "too short"))
    settled(parts, retention_noise_days=1)
    assert there(parts, evidence.turn_id) == {evidence.turn_id}
    retained(parts)
    assert there(parts, evidence.turn_id) == {evidence.turn_id}


def test_it_runs_once_a_day(parts: Parts) -> None:
    stored(parts, "old", 91)
    retained(parts)
    assert not queue_retention(parts)


def test_nothing_goes_where_the_user_keeps_all_of_it(parts: Parts) -> None:
    settled(parts, retention_tool_days=0, retention_noise_days=0)
    stored(parts, "old", 5000)
    assert retained(parts) == {"pressure": 0}
    assert there(parts, "old")


def logged(parts: Parts, name: str, days: float) -> None:
    """A recall, and an answer of a model that could not be read, of so many days ago."""
    at = parts.clock.now() - timedelta(days=days)
    recall = Recall(
        id=name, at=at, channel="codex", session="old", project=None, preview="a prompt", memories_injected=0,
        tokens_added=0, items=(), notices=(), nonce="", latency_ms=1.0, outcome="empty",
    )  # fmt: skip
    values = {
        "id": name, "at": to_text(at), "host": "codex", "session_id": "old", "operation": "extract",
        "prompt_version": "1", "reason": "no JSON", "turns": "[]", "answer": "Sorry.",
    }  # fmt: skip
    parts.writer.run(lambda tx: (Recalls(tx).add(recall), tx.run("unread.add", values)))


def in_the_log(parts: Parts) -> tuple[set[str], int]:
    """The recalls in the log, and the number of answers that nobody could read."""
    recalls = parts.readers.here(lambda tx: Recalls(tx).last(10))
    return {row["id"] for row in recalls}, parts.readers.here(lambda tx: number_of(tx, "unread.count"))


def test_the_log_of_recalls_goes_after_thirty_days(parts: Parts) -> None:
    logged(parts, "old", 31)
    logged(parts, "young", 29)
    assert retained(parts) == {"logs": 2, "pressure": 0}
    assert in_the_log(parts) == ({"young"}, 1)


def test_the_log_stays_where_the_user_keeps_all_of_it(parts: Parts) -> None:
    settled(parts, retention_log_days=0)
    logged(parts, "old", 5000)
    assert retained(parts) == {"pressure": 0}
    assert in_the_log(parts) == ({"old"}, 1)


def test_a_home_above_its_cap_keeps_less_of_that_and_all_that_was_said(parts: Parts) -> None:
    settled(parts, size_cap_mb=1)
    stored(parts, "big", 900, role="user", text="x" * 2_000_000)
    stored(parts, "weeks", 20)
    stored(parts, "days", 3)
    assert retained(parts) == {"tools": 1, "pressure": 2}
    assert there(parts, "big", "weeks", "days") == {"big", "days"}


def test_the_file_gives_back_its_room(parts: Parts) -> None:
    for number in range(40):
        stored(parts, f"old-{number}", 100, text="y" * 200_000)
    stored(parts, "young", 1)
    parts.writer.checkpoint()
    before = os.path.getsize(inside(parts.home, DATABASE))
    retained(parts)
    parts.writer.checkpoint()
    assert os.path.getsize(inside(parts.home, DATABASE)) < before / 2
    assert parts.readers.here(lambda tx: status(parts, tx))["turns"] == 1


def test_the_garden_has_it_done_where_there_is_anything_to_be_done(parts: Parts) -> None:
    assert garden_service.plan(parts).steps == ()
    stored(parts, "old-tool", 91)
    assert [step.kind for step in garden_service.plan(parts).steps] == ["retention"]
    garden_service.begin(parts)
    idle(parts)
    assert there(parts, "old-tool") == set()
