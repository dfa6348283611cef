"""What hostile clients cost the others: the p95 of searches by TCP and by the socket, beside slow and large requests.

    python bench/limits.py --out bench/results/limits.md

A real daemon answers searches one after the other while another process holds sixty connections that drip their heads
(slow-loris), sends bodies just above the limit, or bodies just below it. Quiet and hostile rounds alternate, so that
what else the machine does falls on both. Exit 1 where the p95 is more than twice the quiet one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.security.wire import Served, served

from filrouge.daemon import client

SEARCH = "/api/memory/search?q=Drizzle&mode=text"
DRIPPING = 60
MOST = 2.0


def dripping(door: Served) -> None:
    """Hold as many connections as there may be, each with a head that never ends; begin anew when they are ended."""
    head = f"GET /health HTTP/1.1\r\nHost: {door.host}\r\n".encode()
    held: list[socket.socket] = []
    while True:
        while len(held) < DRIPPING:
            with suppress(OSError):
                wire = door.connect()
                wire.sendall(head)
                held.append(wire)
        for wire in list(held):
            try:
                wire.sendall(b"X-A: b\r\n")
            except OSError:
                held.remove(wire)
        time.sleep(0.05)


def sending(door: Served, size: int) -> None:
    """Send one body of that size after the other."""
    body = b'{"old_id": "x", "new_text": "' + b"x" * size + b'"}'
    while True:
        with suppress(OSError):
            door.ask("POST", "/memory/supersede", token="write", body=body)


HOSTILE: dict[str, Callable[[Served], None]] = {
    f"slow-loris, {DRIPPING} connections": dripping,
    "bodies of 10.5 MB, refused": lambda door: sending(door, 10_500_000),
    "bodies of 9.9 MB, taken": lambda door: sending(door, 9_900_000),
}


@contextmanager
def beside(what: Callable[[Served], None], door: Served) -> Generator[None]:
    """Something hostile in a process of its own while the block runs."""
    process = multiprocessing.get_context("fork").Process(target=what, args=(door,), daemon=True)
    process.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        process.kill()
        process.join()
        time.sleep(0.5)


def p95(ask: Callable[[], object], count: int) -> float:
    """Milliseconds within which 95 of 100 are answered."""
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        ask()
        took.append((time.perf_counter() - began) * 1000)
        time.sleep(0.01)  # a token has a hundred a second
    return statistics.quantiles(took, n=20)[-1]


def measured(door: Served, rounds: int, count: int) -> list[tuple[str, str, float, float]]:
    """Where, beside what, the p95 when it is quiet and then, each the median of the rounds."""
    ways: dict[str, Callable[[], object]] = {
        "TCP": lambda: door.ask("GET", SEARCH, token="read"),
        "socket": lambda: client.request(door.home, "GET", SEARCH, timeout=20),
    }
    found: list[tuple[str, str, float, float]] = []
    for name, what in HOSTILE.items():
        for way, ask in ways.items():
            quiet, hostile = list[float](), list[float]()
            for _ in range(rounds):
                quiet.append(p95(ask, count))
                with beside(what, door):
                    hostile.append(p95(ask, count))
            found.append((name, way, statistics.median(quiet), statistics.median(hostile)))
            print(*found[-1], flush=True)
    return found


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with served() as door:
        for number in range(50):
            text = f"We decided to use Drizzle version {number} for the database layer of shop {number}."
            client.request(door.home, "POST", "/api/memory/memories", {"text": text, "project": []})
        found = measured(door, given.rounds, given.count)
    how = f"p95 of searches, the median of {given.rounds} rounds of {given.count}; quiet and hostile rounds alternate"
    lines = [
        "# What hostile clients cost the others",
        "",
        f"`python bench/limits.py`: {how}.",
        "",
        "| beside | over | quiet | hostile | ratio |",
        "|---|---|---|---|---|",
        *(f"| {name} | {way} | {quiet:.1f} ms | {bad:.1f} ms | {bad / quiet:.2f} |" for name, way, quiet, bad in found),
    ]
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return int(any(bad > MOST * quiet for _, _, quiet, bad in found))


if __name__ == "__main__":
    sys.exit(main())
