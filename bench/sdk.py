"""What the SDK costs: verbs embedded and at a daemon, beside the same verbs of `app` called directly.

    python bench/sdk.py [--memories 200] [--rounds 200] [--out bench/results/sdk.md]

The three take turns, round by round, on homes that were told the same, with the embedder that needs no model, so that
the difference is the way and nothing else. Milliseconds: median and 95th percentile of one verb at a time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import filrouge
from filrouge.daemon import client
from filrouge.maintenance import health
from filrouge.memories.changes import remember
from filrouge.search.service import Question, recall, search_turns
from filrouge.testing import running

WORDS_ONLY = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
PAGE = """# What the SDK costs

`python bench/sdk.py --memories {memories} --rounds {rounds}`: milliseconds of one verb at a time, median (95th
percentile), the three ways taking turns on homes that were told the same; embedder without a model. {cores} cores; load
average of the minute: {load:.1f}.

| way | remember | search, text |
|---|---|---|
{rows}
"""
SUBJECTS = ("harbour", "billing", "lighthouse", "bakery", "archive", "garage", "kitchen", "library")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--memories", type=int, default=200)
    asked.add_argument("--rounds", type=int, default=200)
    asked.add_argument("--out", default="")
    given = asked.parse_args()
    text = measured(given.memories, given.rounds)
    if given.out:
        Path(given.out).write_text(text, encoding="utf-8")
    print(text)
    return 0


def measured(memories: int, rounds: int) -> str:
    """The page with the figures."""
    with ExitStack() as held:
        homes = [held.enter_context(tempfile.TemporaryDirectory(prefix="filrouge-bench-")) for _ in range(3)]
        parts = held.enter_context(running(homes[0]))
        embedded = held.enter_context(filrouge.BlockingMemory.embedded(homes[1], environ=WORDS_ONLY))
        environ = {**os.environ, **WORDS_ONLY, "FILROUGE_HOME": homes[2]}
        process = held.enter_context(subprocess.Popen([sys.executable, "-m", "filrouge.server"], env=environ))
        held.callback(process.terminate)
        if not client.wait_ready(homes[2], time.monotonic() + 30):
            raise SystemExit("The daemon did not start.")
        remote = held.enter_context(filrouge.BlockingMemory(homes[2], start=False))

        def told(text: str) -> object:
            return remember(parts, text, names=[], scope=None, host="sdk")

        def searched(text: str) -> object:
            question = Question(text=text, project=None, everywhere=True, mode="text", limit=10)
            return parts.readers.here(
                lambda tx: health.hits(tx, [search_turns(parts, tx, question), recall(parts, tx, question)], 10)
            )

        ways: dict[str, tuple[Callable[[str], object], Callable[[str], object]]] = {
            "`app`, called directly": (told, searched),
            "`BlockingMemory`, embedded": (embedded.remember, embedded.search),
            "`BlockingMemory`, unix socket": (remote.remember, remote.search),
        }
        for tell, _ in ways.values():
            for n in range(memories):
                tell(statement(n))
        telling, searching = ({name: list[float]() for name in ways} for _ in range(2))
        for n in range(rounds):
            for name, (tell, search) in ways.items():
                searching[name].append(timed(search, f"{SUBJECTS[n % 8]} shelf {n % memories}"))
                telling[name].append(timed(tell, statement(memories + n)))
    rows = [f"| {name} | {spread(telling[name])} | {spread(searching[name])} |" for name in ways]
    return PAGE.format(
        memories=memories, rounds=rounds, rows="\n".join(rows), cores=os.cpu_count(), load=os.getloadavg()[0]
    )


def statement(n: int) -> str:
    return f"The {SUBJECTS[n % 8]} key number {n} hangs on shelf {n * 7 % 1000}."


def timed(verb: Callable[[str], object], text: str) -> float:
    began = time.perf_counter()
    verb(text)
    return (time.perf_counter() - began) * 1000


def spread(times: list[float]) -> str:
    return f"{np.median(times):.1f} ({np.percentile(times, 95):.1f})"


if __name__ == "__main__":
    sys.exit(main())
