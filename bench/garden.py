"""The garden at length: killed again and again it comes to the same, and nobody waits for it.

One home is made, with sessions that nobody read, memories that say the same and some that cannot both hold, and copied.
In one copy a run goes through undisturbed. In the other its daemon, a real process, gets `kill -9` at random points;
after each the messages of the run are asked for: what was told before must be told again, to the letter. In the end
messages, totals and what the run left (memories by kind, text, state and mentions, concepts by session, questions,
journal by action, evidence) are held against each other.

In a third copy an agent delivers a prompt every few milliseconds and waits for its answer, as a hook does, first
without a run, then while one is at work, then without again. The ratio of the two is what carries over to another
machine.

    python bench/garden.py                                  # 500 sessions, 20 kills, hashing
    python bench/garden.py --sessions 200 --embedding e5    # with the bundled model
    python bench/garden.py --check                          # exit 1 when a gate is missed

Gates: equal after every kill and in the end; medians with a run at most twice those without.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import apsw

from filrouge.capture.events import Event, event_from_json
from filrouge.capture.service import store_events
from filrouge.core import paths as places
from filrouge.core.errors import DaemonUnavailable
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.daemon import client
from filrouge.memories.models import Span, Statement
from filrouge.memories.repository import Origin
from filrouge.projects.repository import Projects
from filrouge.testing import idle, running

PATIENCE_SECONDS: Final = 900.0
RATIO_GATE: Final = 2.0
PAUSE_SECONDS: Final = 0.03
PROJECT: Final = "name:shop"
THINGS: Final = ("export", "ledger", "kiosk", "ferry", "almanac", "harbour", "lantern", "orchard", "gateway", "mailer")
SAID: Final = (
    "The {thing} worker of customer {n} is slow since we moved its tables to shard {m}.",
    "We decided that the {thing} of customer {n} listens on port {m}.",
    "Why does the {thing} queue of customer {n} grow on Mondays?",
    "Le {thing} du client {n} garde ses journaux {m} jours.",
)
LEFT: Final = (
    "select kind, text, state, mention_count, trust from memories order by 1, 2, 3, 4, 5",
    "select text, own.session_id from concept_mentions own join memories on id = memory_id order by 1, 2",
    "select text, against is not null, outcome from reviews join memories on id = memory_id order by 1, 2, 3",
    "select action, count(*) from journal group by action order by action",
    "select count(*) from evidence",
    "select phase, count(*), sum(done_at is null) from garden_steps group by phase",
)


def event(number: int, session: str, kind: str, text: str) -> dict[str, Any]:
    """An event as a hook sends it."""
    id_ = f"{session}-{number}"
    return {
        "v": 1, "id": id_, "host": "claude-code", "kind": kind, "session": session, "at": time.time(),
        "key": f"key:{id_}", "cwd": "", "project": [PROJECT], "agent": "", "transcript": "", "data": {"text": text},
    }  # fmt: skip


def make(home: str, sessions: int, twins: int, embedding: str) -> None:
    """A home with so many unread sessions, and so many twins and contradictions among its memories."""
    draw = random.Random(7)
    with running(home, embedding=embedding) as parts:
        for number in range(sessions):
            session, made = f"session-{number:04}", list[Event]()
            for place in range(6):
                words = {"thing": draw.choice(THINGS), "n": number, "m": draw.randrange(1000, 9999)}
                text = draw.choice(SAID).format(**words) if place % 2 == 0 else "Done, all tests pass."
                made.append(event_from_json(event(place, session, "reply" if place % 2 else "prompt", text)))
            store_events(parts, made).result(PATIENCE_SECONDS)

        def add(tx: Tx) -> None:
            Projects(tx).resolve((PROJECT,), at=parts.clock.now())
            origin = Origin(scope=Scope(project=PROJECT, channel="codex"), trust=2, at=parts.clock.now())
            for number in range(twins):
                thing = f"{THINGS[number % len(THINGS)]}{number}"
                for text in (f"The {thing} lives on host{number}.", f"the {thing} lives on host{number}"):
                    parts.memories(tx).add(fact(text), origin, "given")
                for port in (1000 + number, 9000 + number):
                    parts.memories(tx).add(fact(f"The {thing} server listens on port {port}"), origin, "given")

        parts.writer.run(add)
        parts.work_waiting.set()
        idle(parts, PATIENCE_SECONDS)


def fact(text: str) -> Statement:
    """A statement that is compared with nothing."""
    return Statement(kind="fact", text=text, span=Span(start=0, end=0))


class Daemon:
    """A daemon of a home, as a process of its own."""

    def __init__(self, home: str, embedding: str) -> None:
        self._home = home
        environ = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        environ |= {"HOME": home, "FILROUGE_HOME": home, "FILROUGE_EMBEDDING_MODEL": embedding}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "filrouge.server"], env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > deadline:
                raise SystemExit("the daemon does not answer")
            time.sleep(0.01)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """An answer of success."""
        reply = client.request(self._home, method, path, body, 120.0)
        if reply.status >= 300:
            raise SystemExit(f"{method} {path}: {reply.status} {reply.body}")
        return reply.value

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_SECONDS)

    def _answers(self) -> bool:
        with suppress(DaemonUnavailable):
            return client.request(self._home, "GET", "/health", timeout=2.0).status == 200
        return False


@contextmanager
def serving(home: str, embedding: str) -> Generator[Daemon]:
    """A daemon for a block."""
    daemon = Daemon(home, embedding)
    try:
        yield daemon
    finally:
        daemon.stop()


def begin(daemon: Daemon) -> tuple[str, dict[str, int], float]:
    """Begin a run: its id, its steps by kind, and the seconds that planning took."""
    begun = time.perf_counter()
    found = daemon.ask("POST", "/api/memory/gardens", {})
    return found["garden"]["id"], found["plan"]["counts"], time.perf_counter() - begun


def progress(daemon: Daemon, garden_id: str, after: int = 0) -> dict[str, Any]:
    """The messages of a run, and how it stands."""
    return daemon.ask("GET", f"/api/memory/gardens/{garden_id}/progress?after={after}")


def payloads(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What goes over the wire."""
    return [one["payload"] for one in found["messages"]]


def until_over(daemon: Daemon, garden_id: str) -> dict[str, Any]:
    """Wait for the end of a run; all its messages."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while daemon.ask("GET", f"/api/memory/gardens/{garden_id}")["state"] == "running":
        if time.monotonic() > deadline:
            raise SystemExit("the run does not end")
        time.sleep(0.05)
    return progress(daemon, garden_id)


def is_exact(found: Sequence[dict[str, Any]]) -> bool:
    """True if every phase goes from 1 to its total and leaves nothing out, and the last message is the end."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for one in found[:-1]:
        phases.setdefault(one["phase"], []).append(one)
    whole = all([one["current"] for one in own] == list(range(1, own[0]["total"] + 1)) for own in phases.values())
    return whole and found[-1]["status"] == "completed" and found[-1]["total"] == len(found) - 1


def left(home: str) -> list[Any]:
    """What a run left, but for ids and times."""
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE))
    try:
        return [list(connection.execute(query)) for query in LEFT]
    finally:
        connection.close()


def undisturbed(home: str, embedding: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run that nobody interrupts: what it told, and a row of figures."""
    with serving(home, embedding) as daemon:
        garden_id, counts, planning = begin(daemon)
        begun = time.perf_counter()
        found = until_over(daemon, garden_id)
        seconds = time.perf_counter() - begun
    row = {"steps": counts, "planning_s": round(planning, 2), "run_s": round(seconds, 2)}
    return found, row | {"totals": found["garden"]["totals"]}


def killed(home: str, embedding: str, kills: int, seconds: float, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run whose daemon is killed so often: what it told in the end, and a row of figures."""
    chance, points, consistent = random.Random(seed), list[int](), True
    daemon = Daemon(home, embedding)
    garden_id, counts, _ = begin(daemon)
    told: list[dict[str, Any]] = []
    for _ in range(kills):
        time.sleep(chance.uniform(0.0, 1.2 * seconds / kills))
        daemon.kill()
        daemon = Daemon(home, embedding)
        now = payloads(progress(daemon, garden_id))
        consistent = consistent and now[: len(told)] == told
        told = now
        points.append(len(told))
    found = until_over(daemon, garden_id)
    daemon.stop()
    before_the_end = sum(point < found["next"] for point in points)
    return found, {
        "seed": seed, "kills": kills, "steps_of_the_killed": counts,
        "kills_before_the_end": before_the_end, "messages_at_each_kill": points,
        "told_again_to_the_letter": consistent,
    }  # fmt: skip


def latencies(home: str, embedding: str, probes: int) -> dict[str, Any]:
    """How long a prompt waits, with a run at work and without, in milliseconds."""
    found: dict[str, list[float]] = {"without": [], "with": []}
    with serving(home, embedding) as daemon:
        for number in range(30):
            probe(daemon, number)
        number = 30
        for _ in range(probes // 2):
            found["without"].append(probe(daemon, number := number + 1))
        garden_id, *_ = begin(daemon)
        while daemon.ask("GET", f"/api/memory/gardens/{garden_id}")["state"] == "running":
            found["with"].append(probe(daemon, number := number + 1))
        for _ in range(probes // 2):
            found["without"].append(probe(daemon, number := number + 1))
    told: dict[str, Any] = {}
    for name, own in found.items():
        p99 = sorted(own)[int(0.99 * (len(own) - 1))]
        told[name] = {"n": len(own), "p50_ms": round(statistics.median(own), 2), "p99_ms": round(p99, 2)}
        told[name]["max_ms"] = round(max(own), 1)
    told["ratio_p50"] = round(told["with"]["p50_ms"] / told["without"]["p50_ms"], 2)
    told["ratio_p99"] = round(told["with"]["p99_ms"] / told["without"]["p99_ms"], 2)
    return told


def probe(daemon: Daemon, number: int) -> float:
    """Deliver a prompt and wait for what goes in front of it; milliseconds."""
    time.sleep(PAUSE_SECONDS)
    text = f"Which port does the {THINGS[number % len(THINGS)]} of customer {number % 97} listen on?"
    delivery = {"events": [event(number, "probing", "prompt", text)], "context": True}
    begun = time.perf_counter()
    daemon.ask("POST", "/hooks/events", delivery)
    return 1000 * (time.perf_counter() - begun)


def main() -> int:
    """Measure, print a row, and judge."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--sessions", type=int, default=500)
    asked.add_argument("--kills", type=int, default=20)
    asked.add_argument("--twins", type=int, default=40, help="memories said twice, and contradictions, each")
    asked.add_argument("--probes", type=int, default=200, help="prompts without a run")
    asked.add_argument("--embedding", default="hashing", help="the embedder's name")
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        first, second, third = (os.path.join(directory, name) for name in ("a", "b", "c"))
        make(first, options.sessions, options.twins, options.embedding)
        for copy in (second, third):
            shutil.copytree(first, copy, ignore=shutil.ignore_patterns("*.sock", "*.lock", "daemon.json"))
        whole, row = undisturbed(first, options.embedding)
        again, kills = killed(second, options.embedding, options.kills, row["run_s"], options.seed)
        row |= kills | {
            "exact_to_the_end": is_exact(payloads(whole)) and is_exact(payloads(again)),
            "same_messages": payloads(whole) == payloads(again),
            "same_totals": whole["garden"]["totals"] == again["garden"]["totals"],
            "same_left": left(first) == left(second),
        }
        row["prompt"] = latencies(third, options.embedding, options.probes)
    row |= {"sessions": options.sessions, "embedding": options.embedding, "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(row, indent=1))
    equal = ("told_again_to_the_letter", "exact_to_the_end", "same_messages", "same_totals", "same_left")
    missed = not all(row[name] for name in equal) or row["prompt"]["ratio_p50"] > RATIO_GATE
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
