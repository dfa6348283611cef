"""`filrouge garden`, as a person types it: the plan, the run, and what it came to."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.core.protocols import Tx
from filrouge.maintenance.garden_service import GARDEN, ConsolidationRuns
from filrouge.runtime.jobs import Jobs
from filrouge.testing import idle
from tests.unit.maintenance.gardens_given import converse
from tests.unit.server.conftest import serving

from .test_changing import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path / "home")) as api:
        yield Shell(api=api)


def spoken(shell: Shell, *sessions: str) -> None:
    for session in sessions:
        converse(shell.api.parts, session, f"The {session} worker is slow again.", f"Why is the {session} worker slow?")
    idle(shell.api.parts)


def test_the_plan_comes_first_and_nothing_is_begun_without_a_word(shell: Shell) -> None:
    assert shell("garden").out == "There is nothing to consolidate.\n"
    spoken(shell, "invoice")
    planned = shell("garden", "--dry-run").out
    assert planned.splitlines()[:2] == ["To be done:", "  read one unread or continued session"]
    asked = shell("garden")  # nobody is there to answer
    assert (asked.code, planned in asked.out) == (130, True)
    assert shell.json("garden", "--dry-run")["plan"]["counts"] == {"sessions": 1, "preferences": 1}
    assert shell.json("garden")["garden"] is None  # a program says --yes, or gets the plan
    assert shell.api.get("/api/memory/gardens") == []
    assert shell("garden", "--list").out == "The memory was never consolidated.\n"


def test_a_run_is_followed_to_its_end_and_listed(shell: Shell) -> None:
    spoken(shell, "invoice", "ledger")
    done = shell("garden", "--yes")
    assert (done.code, done.err) == (0, "")
    [one] = shell.api.get("/api/memory/gardens")
    assert done.out == f"✓ Consolidation completed: 2 sessions, {one['totals']['new_items']} new items\n"
    assert shell.json("garden", "--list") == [one]
    assert "completed\t4/4\t2" in shell("garden", "--list").out
    assert shell("garden", "--yes").out == "There is nothing to consolidate.\n"


def test_a_program_gets_the_run_as_it_ended(shell: Shell) -> None:
    spoken(shell, "invoice")
    found = shell.json("garden", "--yes")
    assert found["garden"] == shell.api.get(f"/api/memory/gardens/{found['garden']['id']}")
    assert (found["garden"]["state"], found["plan"]["counts"]["sessions"]) == ("completed", 1)


def test_a_run_is_left_to_itself_where_nobody_waits(shell: Shell) -> None:
    spoken(shell, "invoice")
    begun = shell("garden", "--yes", "--no-wait")
    idle(shell.api.parts)
    [one] = shell.api.get("/api/memory/gardens")
    assert (begun.out, one["state"]) == (f"Begun: {one['id']}.\n", "completed")


def test_a_second_run_is_refused(shell: Shell) -> None:
    now = shell.api.parts.clock.now()

    def another(tx: Tx) -> None:
        ConsolidationRuns(tx).begin("another", "idle", {"counts": {}, "memories_until": 0}, [], now)
        Jobs(tx).enqueue("waits", {}, dedupe=GARDEN, at=now, delay=600.0)

    shell.api.parts.writer.run(another)
    refused = shell("garden", "--dry-run")
    assert (refused.code, refused.out) == (5, "")
    assert "another" in refused.err
