"""How long an agent waits for MCP: the handshake with and without a daemon, and every tool in a large memory.

    nice -n 15 python bench/mcp.py --rows 100000 --keep /somewhere/large --out bench/results/mcp.md

A home of ROWS memories (words drawn by Zipf's law, vectors of the stable hash, each with its journal entry) is served
by the daemon as `filrouge daemon start` starts it. The shim is a process of its own, as an agent starts it, and timed
from outside: `initialize` from the start of the process to the answer, a call from the line that is written to the
line that comes back. Cold means that no daemon runs. The bundled model adds its 5 to 20 ms to whatever is searched by
meaning; the stable hash is used here so that a million vectors can be made.

`--check` exits 1 where the 95th percentile of anything is above 300 ms; the first call after a cold start waits for the
daemon, and is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Final

from filrouge.capture.models import TRUST_TYPED
from filrouge.core.clock import SystemClock
from filrouge.core.paths import DATABASE
from filrouge.core.scope import Scope
from filrouge.daemon import client
from filrouge.memories.models import Span, Statement
from filrouge.memories.repository import Origin
from filrouge.providers.hashing import StableHash
from filrouge.runtime import wiring
from filrouge.runtime.sqlite import Database
from filrouge.search.repository import StoredVectors

START: Final = datetime(2025, 1, 1, tzinfo=UTC)
ENVIRON: Final = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
VOCABULARY, WORDS, AT_ONCE, SESSION = 20_000, 15, 5_000, 20
LIMIT_MS: Final = 300.0
READY_SECONDS: Final = 900.0


def words_of(chance: random.Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(VOCABULARY)]


def fill(home: str, rows: int) -> None:
    """Fill a home with memories."""
    parts = wiring.build(home, environ=ENVIRON, clock=SystemClock())
    parts.readers.close()
    parts.writer.close()
    chance = random.Random(7)
    words, weights = words_of(chance), list(accumulate(1 / (n + 1) for n in range(VOCABULARY)))
    hashing, space = StableHash(), parts.vectors.space.id
    database = Database(os.path.join(home, DATABASE))
    for first in range(0, rows, AT_ONCE):
        with database.transaction() as tx:
            store, stored = parts.memories(tx), StoredVectors(tx)
            for number in range(first, min(rows, first + AT_ONCE)):
                said = f"{' '.join(chance.choices(words, cum_weights=weights, k=WORDS))} number {number}"
                scope = Scope(channel="bench", session=f"s{number // SESSION}")
                origin = Origin(scope=scope, trust=TRUST_TYPED, at=START + timedelta(seconds=number))
                statement = Statement(kind="fact", text=said, span=Span(start=0, end=0))
                memory = store.add(statement, origin, "bench").memory_id
                stored.put("memory", memory, space, hashing.passages([said]))
        print(f"\r{first + AT_ONCE:,}", end="", file=sys.stderr, flush=True)
    database.checkpoint()
    database.close()


class Agent:
    """An agent's side of the pipe."""

    def __init__(self, home: str, cwd: str) -> None:
        self.began = time.perf_counter()
        executable = os.path.join(os.path.dirname(sys.executable), "filrouge")
        environ = {**os.environ, **ENVIRON, "FILROUGE_HOME": home}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([executable, "mcp"], stdin=pipe, stdout=pipe, cwd=cwd, env=environ)
        self._number = 0

    def initialize(self) -> float:
        """Milliseconds from the start of the process to the answer."""
        who = {"name": "bench", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who})
        return (time.perf_counter() - self.began) * 1000

    def call(self, tool: str, **arguments: Any) -> tuple[float, Any]:
        """Milliseconds, and what the tool answered."""
        began = time.perf_counter()
        said = self._ask("tools/call", {"name": tool, "arguments": arguments})
        took = (time.perf_counter() - began) * 1000
        if "error" in said or said["result"]["isError"]:
            raise SystemExit(f"{tool} failed: {said}")
        return took, said["result"]["structuredContent"]

    def close(self) -> None:
        """Leave."""
        self._stdin.close()
        self._process.wait()

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin


def started(home: str) -> float:
    """Start the daemon, and wait until its indexes are in memory; seconds."""
    began = time.perf_counter()
    os.environ.update(ENVIRON)
    while time.perf_counter() - began < READY_SECONDS:
        if client.is_absent(home):
            client.start(home)
        if client.wait_ready(home, time.monotonic() + 2):
            status = client.request(home, "GET", "/daemon/status", timeout=60).body
            if status.get("index_ready") and status.get("queue", {}).get("waiting") == 0:
                return time.perf_counter() - began
        time.sleep(0.5)
    raise SystemExit("the daemon is not ready")


def stopped(home: str) -> None:
    client.request(home, "POST", "/daemon/stop", {})
    while not client.is_absent(home):
        time.sleep(0.1)


def percentiles(taken: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(taken)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], ordered[-1]


def tools(agent: Agent, rounds: int) -> list[tuple[str, list[float]]]:
    """Every tool, so many times each, on other words each time."""
    chance = random.Random(11)
    words = words_of(random.Random(7))
    weights = list(accumulate(1 / (n + 1) for n in range(VOCABULARY)))

    def question() -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=5))

    found: list[str] = []
    taken: list[tuple[str, list[float]]] = []

    def measure(name: str, one: Callable[[int], float]) -> None:
        taken.append((name, [one(number) for number in range(rounds)]))

    def search(mode: str) -> Callable[[int], float]:
        def one(_: int) -> float:
            took, value = agent.call("memory_search", query=question(), mode=mode)
            found.extend(hit["id"] for hit in value["results"] if hit["kind"] != "turn")
            return took

        return one

    for mode in ("hybrid", "text", "semantic"):
        measure(f"memory_search, {mode}", search(mode))
    measure("memory_get", lambda number: agent.call("memory_get", id=found[number])[0])
    measure("memory_context", lambda _: agent.call("memory_context", prompt=f"What about {question()}?")[0])
    added: list[str] = []

    def add(number: int) -> float:
        took, value = agent.call("memory_add", text=f"The {question()} of quay {number} is {chance.random()}.")
        added.extend(action["id"] for action in value["actions"] if action["action"] in ("add", "update"))
        return took

    measure("memory_add", add)
    live: list[str] = []

    def update(number: int) -> float:
        took, value = agent.call("memory_update", id=added[-1 - number], text=f"It is {question()} now.")
        live.append(value["actions"][0]["id"])
        return took

    measure("memory_update", update)
    measure("memory_forget, preview by topic", lambda _: agent.call("memory_forget", topic=question())[0])

    def forget(number: int) -> float:
        token = agent.call("memory_forget", id=live[number])[1]["token"]
        return agent.call("memory_forget", id=live[number], token=token)[0]

    measure("memory_forget, with its token", forget)
    return taken


def measured(home: str, rows: int, rounds: int) -> tuple[list[str], bool]:
    """The table, and whether all of it is within the limit."""
    cwd, cold, warm, first = tempfile.gettempdir(), list[float](), list[float](), list[float]()
    for _ in range(5):
        agent = Agent(home, cwd)
        cold.append(agent.initialize())
        first.append(agent.call("memory_search", query="pier", mode="text")[0])
        agent.close()
        stopped(home)
    ready = started(home)
    for _ in range(rounds):
        agent = Agent(home, cwd)
        warm.append(agent.initialize())
        agent.close()
    agent = Agent(home, cwd)
    agent.initialize()
    agent.call("memory_search", query="warm up")
    table = [
        ("`initialize`, no daemon", cold), ("`initialize`, daemon there", warm),
        *tools(agent, rounds),
    ]  # fmt: skip
    agent.close()
    stopped(home)
    size = os.path.getsize(os.path.join(home, DATABASE)) / 1e6
    said = f"{rows:,} memories, a database of {size:.0f} MB. Milliseconds; load {os.getloadavg()[0]:.1f} on two cores."
    wait = f"All indexes were in memory {ready:.0f} s after the start; the first call after a cold start took"
    lines = [
        f"{said} {wait} {percentiles(first)[0] / 1000:.1f} s (median of {len(first)}).", "",
        "| | n | median | p95 | longest |", "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    good = True
    for name, taken in table:
        median, p95, longest = percentiles(taken)
        good &= p95 <= LIMIT_MS
        lines.append(f"| {name} | {len(taken)} | {median:.0f} | {p95:.0f} | {longest:.0f} |")
    return lines, good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--keep", help="a directory for the home, filled if it is empty, and left there")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    place = asked.keep or tempfile.mkdtemp(prefix="filrouge-mcp-")
    try:
        home = os.path.join(place, "home")
        if not os.path.exists(os.path.join(home, DATABASE)):
            fill(home, asked.rows)
        lines, good = measured(home, asked.rows, asked.rounds)
    finally:
        if not asked.keep:
            shutil.rmtree(place)
    text = "\n".join(["# MCP: how long an agent waits", "", *lines, ""])
    print(text)
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")
    return 0 if good or not asked.check else 1


if __name__ == "__main__":
    sys.exit(main())
