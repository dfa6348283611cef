"""A run of the garden killed at any moment goes on at the next start, and comes to what it comes to undisturbed.

One home is made, and copied: in the one copy a run goes through, in the other its daemon gets `kill -9` again and
again. Messages, totals and everything that the run left are held against each other. `bench/garden.py` does the same
at length.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import time
from collections.abc import Sequence
from typing import Any

import apsw
import pytest

from filrouge.capture.service import store_events
from filrouge.core import paths as places
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.daemon import client
from filrouge.memories.models import Span, Statement
from filrouge.memories.repository import Origin
from filrouge.projects.repository import Projects
from filrouge.testing import idle, running
from tests.support.given import event

from .processes import Forge, assert_sound, eventually, is_up, kill, lock_holder

SESSIONS, KILLS = 40, 4
PROJECT = "name:shop"
THINGS = ("export", "ledger", "kiosk", "ferry", "almanac", "harbour", "lantern", "orchard")


def made(home: str) -> None:
    """A home with sessions that nobody read, memories that say the same, and some that cannot both hold."""
    with running(home) as parts:
        for number in range(SESSIONS):
            thing = THINGS[number % len(THINGS)]
            worker = f"{thing} worker number{number}"
            said = (f"The {worker} is slow again.", f"Why is the {worker} slow?")
            for text in said:
                prompt = event(project=(PROJECT,), session=f"s{number:03}", text=text)
                answer = event("reply", project=(PROJECT,), session=f"s{number:03}", text=f"The {thing} worker waits.")
                store_events(parts, [prompt, answer]).result(60)

        def add(tx: Tx) -> None:
            Projects(tx).resolve((PROJECT,), at=parts.clock.now())
            origin = Origin(scope=Scope(project=PROJECT, channel="codex"), trust=2, at=parts.clock.now())
            for number, thing in enumerate(THINGS):
                for text in (f"The {thing} lives on host{number}.", f"the {thing} lives on host{number}"):
                    parts.memories(tx).add(_fact(text), origin, "given")
                for port in (8000 + number, 9000 + number):
                    parts.memories(tx).add(_fact(f"The {thing} server listens on port {port}"), origin, "given")

        parts.writer.run(add)
        parts.work_waiting.set()
        idle(parts, 120)


def ask(home: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """An answer of the daemon, whose body must be one of success."""
    reply = client.request(home, method, path, body, 30.0)
    assert reply.status < 300, reply
    return reply.value


def progress(home: str, garden_id: str) -> dict[str, Any]:
    return ask(home, "GET", f"/api/memory/gardens/{garden_id}/progress")


def begun(home: str) -> str:
    eventually("the daemon answers", lambda: is_up(home))
    found = ask(home, "POST", "/api/memory/gardens")
    assert found["plan"]["counts"]["sessions"] == SESSIONS
    assert found["plan"]["counts"]["duplicates"] == found["plan"]["counts"]["contradictions"] == len(THINGS)
    return str(found["garden"]["id"])


def over(home: str, garden_id: str) -> dict[str, Any]:
    """The progress of a run once it is over, and its daemon gone."""
    eventually("the run is over", lambda: progress(home, garden_id)["garden"]["state"] != "running", 60)
    found = progress(home, garden_id)
    os.kill(lock_holder(home), signal.SIGTERM)
    eventually("the last daemon is gone", lambda: lock_holder(home) == 0)
    return found


def payloads(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one["payload"] for one in found["messages"]]


def left(home: str) -> Sequence[Any]:
    """What a run left, but for ids and times."""
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE))
    queries = (
        "select kind, text, state, mention_count, trust from memories order by kind, text, state, mention_count",
        "select text, own.session_id from concept_mentions own join memories on id = memory_id order by 1, 2",
        "select text, against is not null, outcome from reviews join memories on id = memory_id order by text",
        "select action, count(*) from journal group by action order by action",
        "select count(*) from evidence",
        "select phase, count(*) from garden_steps where done_at is not null group by phase",
    )
    try:
        return [list(connection.execute(query)) for query in queries]
    finally:
        connection.close()


@pytest.mark.proof  # stays in `make test`: unit/maintenance/test_gardening_loses_nothing
def test_a_run_killed_at_random_points_comes_to_what_an_undisturbed_one_comes_to(home: str) -> None:
    seed = int(os.environ.get("FILROUGE_SEED") or secrets.randbelow(1 << 32))
    print(f"seed {seed}")
    chance = random.Random(seed)
    killed = home + "-killed"
    made(home)
    try:
        shutil.copytree(home, killed, ignore=shutil.ignore_patterns("*.sock", "*.lock", "daemon.json"))
        forge = Forge(home)
        forge.daemon()
        began = time.monotonic()
        undisturbed = over(home, begun(home))
        seconds = time.monotonic() - began
        forge.close()
        assert undisturbed["garden"]["totals"]["merged_memories"] == len(THINGS)
        assert undisturbed["garden"]["totals"]["contradictions"] == len(THINGS)

        forge = Forge(killed)
        forge.daemon()
        garden_id, kills, told = begun(killed), 0, list[dict[str, Any]]()
        while kills < KILLS:
            time.sleep(chance.uniform(0.0, seconds / (2 * KILLS)))
            kills += kill(lock_holder(killed))
            forge.daemon()
            eventually("the daemon answers", lambda: is_up(killed))
            now = payloads(progress(killed, garden_id))
            assert now[: len(told)] == told  # nothing is told twice, and nothing is taken back
            told = now
        found = over(killed, garden_id)
        forge.close()
        print(f"{kills} kills, {len(told)} of {found['next']} messages before the last, undisturbed {seconds:.1f} s")
        assert payloads(found) == payloads(undisturbed)
        assert found["garden"]["totals"] == undisturbed["garden"]["totals"]
        assert left(killed) == left(home)
        for place in (home, killed):
            assert_sound(place)
    finally:
        shutil.rmtree(killed, ignore_errors=True)


def _fact(text: str) -> Statement:
    return Statement(kind="fact", text=text, span=Span(start=0, end=0))
