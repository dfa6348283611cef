"""What was placed prompt by prompt is looked at again as a whole, and what a user put somewhere stays there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.sessions import queue_idle
from filrouge.runtime.executors import Writer
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from filrouge.threads.placing import PLACE, queue_quiet_projects, queue_regrouping, regroup_threads
from filrouge.threads.reports import explain_placement
from filrouge.threads.service import move, split
from tests.support.given import SHOP
from tests.support.spoken import COUPON, POSTGRES, as_sets, grouped, tell, thread, threads, turn_of

_NEWSLETTER = (
    "Please look at the newsletter: its template shows the wrong logo since we moved the images to the new host."
)


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def look_again(parts: Parts) -> None:
    parts.writer.run(lambda tx: queue_regrouping(parts.clock, tx, LOCAL_USER, SHOP[0]))
    parts.work_waiting.set()
    idle(parts)


def strayed(parts: Parts) -> None:
    """A session about the coupon is in the thread of the database, as nobody wanted it."""
    tell(parts, "a", *COUPON[:2], days_ago=3)
    tell(parts, "b", *POSTGRES, days_ago=2)
    tell(parts, "c", COUPON[2], days_ago=1)
    assert as_sets(POSTGRES, COUPON) == sorted(grouped(parts), key=len)
    database = next(one["id"] for one in threads(parts) if one["messages"] == 2)
    move(parts, [turn_of(parts, COUPON[2])], database)


def test_a_session_that_is_in_the_wrong_thread_goes_where_it_belongs_and_the_log_says_why(parts: Parts) -> None:
    strayed(parts)
    parts.writer.run(lambda tx: tx.run("thread_decisions.erase", {"turns": f'["{turn_of(parts, COUPON[2])}"]'}))
    look_again(parts)
    assert sorted(grouped(parts), key=len) == as_sets(POSTGRES, COUPON)
    told = parts.readers.here(lambda tx: explain_placement(parts, tx, turn_of(parts, COUPON[2])))["decisions"][-1]
    assert (told["action"], told["by"] if "by" in told else told["actor"]) == ("join", "rules")
    before = threads(parts)
    look_again(parts)
    assert threads(parts) == before


def test_what_a_user_moved_stays(parts: Parts) -> None:
    strayed(parts)
    look_again(parts)
    assert sorted(grouped(parts), key=len) == as_sets(COUPON[:2], (*POSTGRES, COUPON[2]))


def test_what_a_user_split_stays_apart(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=3)
    tell(parts, "b", COUPON[1], days_ago=2)
    [one] = threads(parts)
    split(parts, one["id"], [turn_of(parts, COUPON[1])])
    look_again(parts)
    assert sorted(one["messages"] for one in threads(parts)) == [1, 1]
    assert all(thread(parts, one["id"])["turns_shown"] for one in threads(parts))


def test_a_project_is_looked_at_once_after_it_fell_silent(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=1)
    assert queue_quiet_projects(parts, parts.clock.now() - timedelta(days=2)) == 0
    queue_idle(parts)
    idle(parts)
    assert queue_quiet_projects(parts, parts.clock.now()) == 0
    tell(parts, "b", COUPON[1], days_ago=0.5)
    assert queue_quiet_projects(parts, parts.clock.now()) == 1


def test_no_project_is_quiet_while_prompts_wait_for_their_place(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=1)
    turn = turn_of(parts, COUPON[0])
    parts.writer.run(lambda tx: Jobs(tx).enqueue(PLACE, {"turn": turn}, dedupe="waits", at=parts.clock.now(), delay=60))
    assert queue_quiet_projects(parts, parts.clock.now()) == 0
    parts.writer.run(lambda tx: Jobs(tx).drop(["waits"]))
    assert queue_quiet_projects(parts, parts.clock.now()) == 1


class Interrupting:
    """A writer before which something else is decided."""

    def __init__(self, writer: Writer, decide: Callable[[], None]) -> None:
        self._writer = writer
        self._decide = decide

    def submit_patient(self, writes: Sequence[Callable[[Tx], Any]]) -> list[Future[Any]]:
        self._decide()
        return self._writer.submit_patient(writes)


def test_a_regrouping_starts_over_when_something_else_is_decided_after_its_plan(parts: Parts) -> None:
    strayed(parts)
    parts.writer.run(lambda tx: tx.run("thread_decisions.erase", {"turns": f'["{turn_of(parts, COUPON[2])}"]'}))
    before = sorted(grouped(parts), key=len)
    writer = Interrupting(parts.writer, lambda: tell(parts, "d", _NEWSLETTER, days_ago=0.5))
    interrupted = replace(parts, writer=cast("Writer", writer))
    project = {"user": LOCAL_USER, "project": SHOP[0]}
    assert regroup_threads(interrupted, project).again() == project | {"restarts": 1}
    assert [group for group in sorted(grouped(parts), key=len) if len(group) > 1] == [
        group for group in before if len(group) > 1
    ]
