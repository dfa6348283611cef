"""A reindex killed at any moment goes on at the next start, and ends with every owner in one space, once.

A real daemon builds the other space while it gets `kill -9` again and again, and each next one is asked a question
before the space is complete. What is left in the end is held against the texts themselves.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import apsw
import pytest

from filrouge.core import paths as places
from filrouge.daemon import client
from filrouge.providers.embedders import windows

from .processes import (
    EXECUTABLE,
    Forge,
    assert_sound,
    environment,
    eventually,
    is_up,
    kill,
    lock_holder,
    quiet,
    started_daemon,
)

KILLS, TEXTS = 12, 800
LONG = "The quick brown fox jumps over the lazy dog. " * 1200
HASHING = "stable-hash/1/384/sum/none"
QUESTION = "in which room is server number77?"
WANTED = "Server number77 is in room 77"


def ask(home: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """An answer of the daemon, whose body must be one of success."""
    reply = client.request(home, method, path, body, 10.0)
    assert reply.status < 300, reply
    return reply.value


def tell(home: str) -> None:
    """Give the memory its texts: many short ones, and two of a hundred windows."""
    items = [{"text": f"Server number{n} is in room {n}"} for n in range(TEXTS)]
    items += [{"text": f"Note {n}. {LONG}"} for n in range(2)]
    ask(home, "POST", "/api/memory/facts", {"items": items, "scope": "user"})


def a_strangers_package(home: str, seconds: float = 0.001) -> str:
    """A directory with an installed package that brings the embedder `elsewhere`, which takes so long for a text."""
    where = os.path.join(os.path.dirname(home), "site")
    info = os.path.join(where, "elsewhere-1.dist-info")
    os.makedirs(info)
    files = {
        os.path.join(where, "elsewhere.py"): "from filrouge.testing import AnotherHash\n\n\ndef make():\n"
        f'    return AnotherHash("elsewhere", seconds={seconds})\n',
        os.path.join(info, "METADATA"): "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n",
        os.path.join(info, "entry_points.txt"): "[filrouge.embedders]\nelsewhere = elsewhere:make\n",
    }
    for path, text in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return where


def answers(home: str) -> bool:
    """True if recall finds the one text, in whatever space it looks."""
    found = ask(home, "POST", "/search", {"query": QUESTION, "k": 3})
    return any(result["text"] == WANTED for result in found["results"])


def stored(home: str) -> tuple[dict[str, str], Counter[tuple[str, str]]]:
    """States of the spaces, and how many windows each owner has in each."""
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE))
    try:
        spaces = dict(connection.execute("select id, state from spaces"))
        found = connection.execute("select owner_id, space_id, part from vectors")
        return spaces, Counter((owner, space) for owner, space, _ in found)
    finally:
        connection.close()


def wanted_windows(home: str) -> dict[str, int]:
    """How many windows each live memory and each turn has by its text."""
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE))
    try:
        rows = list(connection.execute("select id, text from memories where state = 'live'"))
        rows += list(connection.execute("select id, text from turns where role <> 'tool'"))
        return {id_: len(windows(text)) for id_, text in rows}
    finally:
        connection.close()


@pytest.mark.proof  # stays in `make test`: unit/search/test_spaces and the interrupted command below
def test_a_reindex_killed_at_random_points_ends_complete_in_one_space(home: str) -> None:
    seed = int(os.environ.get("FILROUGE_SEED") or secrets.randbelow(1 << 32))
    print(f"seed {seed}")
    chance, kills, seen = random.Random(seed), 0, Counter[str]()
    with started_daemon(home):
        tell(home)
        eventually("everything has its vectors", lambda: quiet(home), 60)
        assert answers(home)
    assert {space for _, space in stored(home)[1]} == {HASHING}
    forge = Forge(home, PYTHONPATH=a_strangers_package(home), FILROUGE_EMBEDDING_MODEL="elsewhere")
    target = "elsewhere/1/384/sum/none"
    begun = False
    began = time.monotonic()
    while kills < KILLS or seen["complete"] < 2:
        assert time.monotonic() - began < 120
        pid = forge.daemon()
        eventually("the daemon answers", lambda: is_up(home))
        if not begun:
            begun = ask(home, "POST", "/embedding/reindex")["building"]["space"] == target
        assert answers(home)
        now = ask(home, "GET", "/embedding")
        seen["complete" if now["space"] == target and now["building"] is None else "in building"] += 1
        time.sleep(chance.uniform(0.0, 0.25))
        kills += kill(lock_holder(home) or pid)
    print(f"{dict(seen)}, {kills} kills in {time.monotonic() - began:.0f} s")
    last = forge.daemon()
    eventually("the reindex is complete", lambda: quiet(home), 60)
    assert answers(home)
    coverage = ask(home, "GET", "/embedding")["coverage"]
    assert (coverage["share"], coverage["total"]) == (1.0, TEXTS + 2)
    os.kill(last, signal.SIGTERM)
    eventually("the last daemon is gone", lambda: lock_holder(home) == 0)
    forge.close()

    spaces, found = stored(home)
    assert spaces == {HASHING: "retired", target: "current"}
    assert found == Counter({(owner, target): count for owner, count in wanted_windows(home).items()})
    assert seen["in building"] >= 4
    assert_sound(home)


@pytest.mark.slow
def test_an_interrupted_command_leaves_the_reindex_running_and_says_so(home: str) -> None:
    with started_daemon(home, PYTHONPATH=a_strangers_package(home, 0.01)):
        items = [{"text": f"Server number{n} is in room {n}"} for n in range(500)]
        ask(home, "POST", "/api/memory/facts", {"items": items, "scope": "user"})
        eventually("everything has its vectors", lambda: quiet(home), 60)
        command = subprocess.Popen(
            [EXECUTABLE, "reindex", "elsewhere"], env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        eventually("it is begun", lambda: (ask(home, "GET", "/embedding")["building"] or {"done": 0})["done"] > 20)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=30)
        assert (command.returncode, out) == (130, b"")
        assert b"continues in the daemon" in err
        eventually("it is complete", lambda: quiet(home), 60)
        assert ask(home, "GET", "/embedding")["model"] == "elsewhere"
