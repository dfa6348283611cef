"""Killed at any moment, Filrouge loses nothing that it acknowledged and does nothing twice.

Daemons (writer and worker are in them) and hooks get `kill -9` at random points while four agents go on working:
each sends prompts that state something learnable, replies and tool results, through hook processes and straight to
the socket. What was acknowledged is written down outside: the daemon answered 200, the spool file was synced, or a
hook process ended by itself. In the end a last daemon takes over what is left, and every row is held against that.

A hook that its own alarm ends after 900 ms has promised nothing; such are counted and printed. FILROUGE_SEED repeats
the choice of kill points, as far as a machine with other work to do repeats itself.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

from filrouge import hosts
from filrouge.capture import inbox
from filrouge.core import paths as places
from filrouge.core.clock import SystemClock, new_id
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client
from filrouge.daemon.process import start_lock

from .processes import (
    EXECUTABLE,
    Forge,
    Row,
    assert_sound,
    environment,
    eventually,
    kill,
    left,
    lock_holder,
    prompt,
    quiet,
    reply,
    tool,
    workplace,
)

DAEMON_KILLS, HOOK_KILLS, CLIENTS = 130, 70, 4
LONGEST_SECONDS = 240.0
ALARM_SECONDS = 0.85
NAMES = ("billing", "search", "invoice", "ferry", "almanac", "kiosk", "harbour", "ledger")


@dataclass
class Tally:
    """What the agents saw, written down where no daemon can reach it."""

    acknowledged: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    said: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    seen: Counter[str] = field(default_factory=Counter[str])
    enough: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list[BaseException])


def statement(number: int) -> str:
    return f"the {NAMES[number % len(NAMES)]}-{number} service listens on port {10_000 + number}"


@pytest.mark.proof
def test_two_hundred_kills_lose_nothing_acknowledged_and_do_nothing_twice(home: str) -> None:
    seed = int(os.environ.get("FILROUGE_SEED") or secrets.randbelow(1 << 32))
    print(f"seed {seed}")
    places.make_private(home)
    tally, forge, began = Tally(), Forge(home), time.monotonic()
    agents = [threading.Thread(target=guarded, args=(tally, home, seed, one)) for one in range(CLIENTS)]
    for agent in agents:
        agent.start()
    try:
        with start_lock(home):  # a hook that finds nobody spools: the processor is for those who are tested
            kill_daemons(home, forge, random.Random(seed), tally, began)
    finally:
        tally.enough.set()
        for agent in agents:
            agent.join()
    assert tally.failures == []
    killing = time.monotonic() - began
    for _ in range(5):  # a file that a killed hook began is taken in a minute later, at any moment, the last one too
        last = forge.daemon()
        eventually("the last daemon has understood everything", lambda: quiet(home), 150)
        with suppress(ProcessLookupError):  # a hook may have started the one that holds the lock, and this one gave up
            os.kill(lock_holder(home) or last, signal.SIGTERM)
        eventually("the last daemon is gone", lambda: lock_holder(home) == 0)
        if not any(job["state"] == "queued" for job in left(home).jobs):
            break
    forge.close()
    print(f"{dict(tally.seen)}, {len(tally.acknowledged)} acknowledged; {killing:.0f} s of killing, seed {seed}")

    found = left(home)
    assert found.jobs == []
    stored = Counter((row["session_id"], row["key"]) for row in found.events)
    turns = Counter((row["session_id"], row["key"]) for row in found.turns)
    assert tally.seen["daemon killed"] + tally.seen["hook killed"] >= DAEMON_KILLS + HOOK_KILLS
    assert tally.acknowledged - set(stored) == set()
    assert set(stored) - set(tally.said) == set()
    assert [key for key, times in (stored + turns).items() if times > 2] == []
    assert turns == stored
    learned = {key: tally.said[key] for key in stored if key[1].startswith("prompt:")}
    live = Counter(row["text"] for row in found.memories if row["state"] == "live")
    assert live == Counter(learned.values())
    assert len(found.memories) == len(learned)
    assert Counter(row["action"] for row in found.journal) == {"add": len(learned)}
    assert len({row["subject_id"] for row in found.journal}) == len(learned)
    assert_sound(home)


def kill_daemons(home: str, forge: Forge, chance: random.Random, tally: Tally, began: float) -> None:
    """Start and kill until both counts are reached."""
    while tally.seen["daemon killed"] < DAEMON_KILLS or tally.seen["hook killed"] < HOOK_KILLS:
        assert time.monotonic() - began < LONGEST_SECONDS, dict(tally.seen)
        assert tally.failures == []
        pid = forge.daemon()
        tally.enough.wait(chance.uniform(0.02, 0.15) if chance.random() < 0.4 else chance.uniform(0.15, 0.6))
        tally.seen["daemon killed"] += kill(lock_holder(home) or pid)


def guarded(tally: Tally, home: str, seed: int, one: int) -> None:
    try:
        agent(tally, home, random.Random(f"{seed} {one}"), one)
    except BaseException as error:
        tally.failures.append(error)
        raise


def agent(tally: Tally, home: str, chance: random.Random, one: int) -> None:
    """One agent at work: a prompt, a tool, an answer; a new session every few turns."""
    host, turn = ("claude-code", "codex")[one % 2], 0
    while not tally.enough.is_set():
        session, number = f"session-{one}-{turn // 4}", 4 * turn + one
        turn += 1
        words = statement(number)
        by_hook(tally, home, chance, host, f"prompt:p{number}", prompt(home, session, f"p{number}", words), words)
        output = f"listening on {10_000 + number}, build {number} passed"
        straight(tally, home, host, f"tool:t{number}", tool(home, session, f"t{number}", output))
        answer = reply(home, session, f"p{number}", f"Noted, I will use number {number} from now on.")
        if number % 3:
            straight(tally, home, host, f"reply:p{number}", answer)
        else:
            by_hook(tally, home, chance, host, f"reply:p{number}", answer, "")


def by_hook(tally: Tally, home: str, chance: random.Random, host: str, key: str, payload: Row, words: str) -> None:
    """Send one event through a hook process, which may be killed at any moment."""
    tally.said[payload["session_id"], key] = words
    raw, began = json.dumps(payload).encode(), time.monotonic()
    process = subprocess.Popen(
        [EXECUTABLE, "hook", "--host", host],
        env=environment(home),
        cwd=workplace(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadly = chance.uniform(0.0, 0.35) if chance.random() < 0.25 else 20.0
    try:
        _, said = process.communicate(raw, timeout=deadly)
    except subprocess.TimeoutExpired:
        process.kill()
        with process:  # what it never read keeps its pipe open else
            process.communicate()
        tally.seen["hook killed"] += process.returncode == -signal.SIGKILL
        return
    assert (process.returncode, said) == (0, b"")
    if time.monotonic() - began >= ALARM_SECONDS:
        tally.seen["hook too late to promise"] += 1
        return
    tally.seen["hook ended by itself"] += 1
    tally.acknowledged.add((payload["session_id"], key))


def straight(tally: Tally, home: str, host: str, key: str, payload: Row) -> None:
    """Send one event to the socket as a program does, and to the spool where nobody takes it."""
    now = SystemClock().now()
    [event] = hosts.parse(payload, host=host, environ={}, at=now.timestamp(), new_id=partial(new_id, now))
    tally.said[payload["session_id"], key] = ""
    try:
        answer = client.request(home, "POST", "/hooks/events", {"events": [event.to_json()]}, 1.0)
        tally.seen["answered 200"] += answer.status == 200
        taken = answer.status == 200
    except DaemonUnavailable:
        taken = False
    if not taken:
        inbox.append_event(places.inside(home, places.SPOOL), event.to_json())
        tally.seen["spooled"] += 1
    tally.acknowledged.add((payload["session_id"], key))
