"""Backups of a memory that is being written: do they restore equal, and what do they cost those who write?

    python bench/backups.py --backups 50 --facts 2000 --check

A real daemon takes in what three clients send without a pause. Meanwhile it is asked for one backup after the other;
each is restored by `filrouge restore` into an empty home and served there by another daemon. Of each is asked: do
SQLite's checks hold, is the hash over all rows that of the source at its moment, is every event in it that was
acknowledged before it began, and does it answer as the source does. A write's time is counted as beside a backup where
one was being made when it began. Exit 1 if anything but a time fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.reliability.processes import eventually, quiet, run, status, throw_away_home
from tests.reliability.processes import started_daemon as daemon
from tests.reliability.test_backups import ask, keys

from filrouge.capture.events import Event
from filrouge.core import paths as places
from filrouge.daemon import client
from filrouge.maintenance import backup_files, copies

CLIENTS = 3
PAUSE_SECONDS = 1.5


@dataclass
class Load:
    """What the clients did: who was acknowledged, and how long each write took, by whether a backup was made."""

    acknowledged: list[int] = field(default_factory=list[int])
    took: dict[bool, list[float]] = field(default_factory=lambda: {True: list[float](), False: list[float]()})
    backing: bool = False
    ending: bool = False


def write(home: str, load: Load, which: int) -> None:
    for number in range(which, 1 << 30, CLIENTS):
        if load.ending:
            return
        data = {"text": f"Step {number} of the long migration is done and its {number % 97} tests pass."}
        session, key = f"s{number // 300}", f"prompt:{number}"
        said = Event(f"event-{number}", "claude-code", "reply", session, time.time(), key, "", (), "", "", data)
        began, beside = time.perf_counter(), load.backing
        if client.request(home, "POST", "/hooks/events", {"events": [said.to_json()]}, 30.0).status == 200:
            load.took[beside].append(1000 * (time.perf_counter() - began))
            load.acknowledged.append(number)
        time.sleep(0.01)


def restored(path: str, about: dict[str, str], asked: list[str], answers: list[tuple[str, str]]) -> dict[str, bool]:
    """What holds of one backup, restored into an empty home."""
    with throw_away_home() as empty:
        done = run(empty, "restore", path, "--yes", timeout=600)
        database = os.path.join(empty, places.DATABASE)
        if done.code != 0:
            return {"restored": False}
        held = {
            "restored": True,
            "sound": copies.integrity_errors(database) == [],
            "row hash equal": copies.content(database).hash == about["hash"],
        }
        with daemon(empty):
            eventually("it has its indexes", lambda: bool(status(empty).get("index_ready")), 300)
            return held | {"answers equal": [ask(empty, question)[0] for question in asked] == answers}


def told(took: list[float]) -> str:
    if len(took) < 100:
        return f"n={len(took)}"
    cuts = quantiles(took, n=100)
    return f"n={len(took)}, p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, max {max(took):.0f} ms"


def measure(home: str, backups: int, facts: int) -> bool:
    load, made, seconds = Load(), list[tuple[dict[str, str], set[int]]](), list[float]()
    asked = [f"in which room is server number{n}?" for n in range(0, facts, max(1, facts // 20))]
    with daemon(home):
        for begin in range(0, facts, 500):
            items = [{"text": f"Server number{n} stands in room {n}"} for n in range(begin, min(facts, begin + 500))]
            reply = client.request(home, "POST", "/api/memory/facts", {"items": items, "scope": "user"}, 120.0)
            assert reply.status < 300, reply
        eventually("the facts have their vectors", lambda: quiet(home), 600)
        answers = [ask(home, question)[0] for question in asked]
        threads = [threading.Thread(target=write, args=(home, load, which)) for which in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for _ in range(backups):
            time.sleep(PAUSE_SECONDS)
            before, began, load.backing = set(load.acknowledged), time.perf_counter(), True
            reply = client.request(home, "POST", "/api/memory/backups", {}, 600.0)
            seconds.append(time.perf_counter() - began)
            load.backing = False
            assert reply.status == 201, reply
            made.append((reply.body, before))
        load.ending = True
        for thread in threads:
            thread.join()
    found: dict[str, int] = {}
    for about, before in made:
        path = backup_files.path_of(home, about["name"])
        held = {"holds all that was acknowledged before": before <= keys(path)}
        held |= restored(path, about, asked, answers)
        for what, true in held.items():
            found[what] = found.get(what, 0) + true
    print(f"{backups} backups of {made[0][0]['bytes']:,} to {made[-1][0]['bytes']:,} bytes; moments: "
          f"{len({about['hash'] for about, _ in made})} different")  # fmt: skip
    for what, times in found.items():
        print(f"{what}: {times} of {backups}")
    print(f"a backup took {min(seconds):.2f} to {max(seconds):.2f} s, {sum(seconds) / len(seconds):.2f} on average")
    print(f"a write beside a backup: {told(load.took[True])}")
    print(f"a write without one: {told(load.took[False])}")
    return len(found) == 5 and all(times == backups for times in found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backups", type=int, default=50)
    parser.add_argument("--facts", type=int, default=2000)
    parser.add_argument("--check", action="store_true", help="exit 1 where one does not restore equal")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="frl-") as root:
        held = measure(os.path.join(root, "home"), given.backups, given.facts)
    return 0 if held or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
