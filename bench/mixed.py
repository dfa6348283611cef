"""Writers and readers at once, through every door: how long each waits, and whether all is right.

    python bench/mixed.py --runs 3 --check --out bench/results/mixed.json    # eight clients
    python bench/mixed.py --writers 32 --readers 32                          # a crowd
    python bench/mixed.py --rate 8                                           # as much as the machine bears

Eight clients that write once and read three times a second are eleven writers and twenty-nine readers here: each acts
a little less than `--rate` times a second, and one that starts a process does so eight times as seldom. The doors are
those of `tests/support/crowd.py`: routes over the socket, MCP, hooks and commands. What is timed is a whole exchange as
its client sees it, of hooks and commands the whole process; clients and daemon share the machine. Exit 1 if somebody
was told of an error or a lock, if a fact's history is none that one client after the other could have made, or if
something acknowledged is missing.

Gate: in each run the 99th percentile of writes over the wire is at most 250 ms. A run begins once the load of the
machine is below 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.reliability import processes
from tests.reliability.test_many_clients import order_of
from tests.support.crowd import Crowd, Deed
from tests.support.serial import contradictions

from filrouge.daemon import client

WORK_LEFT_SECONDS = 900.0
QUIET_SECONDS = 300.0
GATE_MS = 250.0


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """Let a crowd loose on a new home, once the machine is quiet, and return what it did and saw."""
    load = wait_for_quiet()
    seconds, memories, model = asked.seconds, asked.memories, asked.embedder
    with processes.throw_away_home() as home, processes.started_daemon(home, FILROUGE_EMBEDDING_MODEL=model):
        fill(home, memories)
        warm(home)
        crowd = Crowd(home=home, rate=asked.rate)
        crowd.let_loose(seconds, writers=asked.writers, readers=asked.readers, mcp=not asked.without_mcp)
        backlog = processes.status(home, 60.0)["queue"]["waiting"]
        processes.eventually("all is understood", lambda: processes.quiet(home), WORK_LEFT_SECONDS)
        turns = [row["text"] for row in processes.left(home).turns]
        doors = sorted({(deed.door, deed.wrote) for deed in crowd.deeds})
        return {
            "seconds": seconds,
            "memories": memories,
            "embedder": model,
            "load before": load,
            "writes per second": round(sum(one.wrote for one in crowd.deeds) / seconds, 1),
            "reads per second": round(sum(not one.wrote for one in crowd.deeds) / seconds, 1),
            "writes over the wire": times(one for one in crowd.deeds if one.wrote and one.door in ("REST", "MCP")),
            "doors": {
                f"{door}, {'writing' if wrote else 'reading'}": times(
                    one for one in crowd.deeds if (one.door, one.wrote) == (door, wrote)
                )
                for door, wrote in doors
            },
            "troubles": [f"{one.door}: {one.trouble}" for one in crowd.deeds if one.trouble][:20],
            "locked": sum("locked" in one.trouble.lower() for one in crowd.deeds),
            "contradictions": [
                found for key, seen in crowd.registers.items() for found in contradictions(order_of(home, key), seen)
            ],
            "missing": len(set(crowd.said) - set(turns)),
            "waiting at the end": backlog,
        }


def wait_for_quiet() -> float:
    """Wait until the machine has nothing else to do, and return its load then; a busy one is measured all the same."""
    until = time.monotonic() + QUIET_SECONDS
    while os.getloadavg()[0] >= 1 and time.monotonic() < until:
        time.sleep(5)
    return round(os.getloadavg()[0], 1)


def fill(home: str, memories: int) -> None:
    """Put so many memories into a home, and wait until they are embedded."""
    for begin in range(0, memories, 1000):
        some = range(begin, min(begin + 1000, memories))
        items = [{"text": f"The export of region {number} runs at {number % 24} o'clock."} for number in some]
        reply = client.request(home, "POST", "/api/memory/facts", {"items": items}, 60.0)
        assert reply.status == 200, reply.value
    processes.eventually("all is embedded", lambda: processes.quiet(home), WORK_LEFT_SECONDS)


def warm(home: str) -> None:
    """Let the daemon load what its first client by MCP would wait for."""
    call = {"name": "memory_search", "arguments": {"query": "the harbour"}}
    body = {"jsonrpc": "2.0", "id": "first", "method": "tools/call", "params": call}
    reply = client.request(home, "POST", "/mcp", body, 60.0)
    assert reply.status == 200, reply.value


def times(deeds: Iterable[Deed]) -> dict[str, float]:
    """How many, and how long in milliseconds."""
    took = sorted(deed.seconds * 1000 for deed in deeds)
    if not took:
        return {"n": 0}
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {"n": len(took)} | {
        name: round(took[min(len(took) - 1, int(share * len(took)))], 1) for name, share in shares.items()
    }


def is_wrong(run: dict[str, Any]) -> bool:
    """Whether somebody was told of an error, or something is contradictory or missing."""
    return bool(run["troubles"] or run["contradictions"] or run["missing"])


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; None = those of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=11)
    parser.add_argument("--readers", type=int, default=29)
    parser.add_argument("--rate", type=float, default=1.0, help="how often a second each acts")
    parser.add_argument("--memories", type=int, default=2000, help="in the home before")
    parser.add_argument("--embedder", default="e5")
    parser.add_argument("--without-mcp", action="store_true")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit 1 when the gate is missed")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    asked = parse()
    runs = [measured(asked) for _ in range(asked.runs)]
    text = json.dumps(runs, indent=2, ensure_ascii=False)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n", encoding="utf-8")
    missed = any(run["writes over the wire"]["p99"] > GATE_MS for run in runs)
    return int(any(map(is_wrong, runs)) or (asked.check and missed))


if __name__ == "__main__":
    sys.exit(main())
