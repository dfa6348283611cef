"""What a whole export costs: memory and time for stores of several sizes, written to a file and read in again.

    python bench/exporting.py [--rows 1000,10000,100000] [--out bench/results/exporting.md]

The export runs as the route runs it, piece by piece to a file; the import as `filrouge import` runs it, without the
socket in between. Memory is the peak of what Python allocated meanwhile (tracemalloc, which slows both down about
threefold), beside what there was before. The messages are what tools answered, so that no vector and no thread is
computed meanwhile.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime, timedelta

from filrouge.capture.models import TRUST_TOOL, Turn
from filrouge.cli.imports import send_lines
from filrouge.core.clock import new_id
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.runtime.services import Parts
from filrouge.testing import running
from filrouge.transfer.exports import open_export
from filrouge.transfer.service import export_all, import_document

_START = datetime(2026, 1, 1, tzinfo=UTC)
_BATCH = 1000


def main() -> None:
    """Measure and write."""
    wanted = argparse.ArgumentParser()
    wanted.add_argument("--rows", default="1000,10000,100000")
    wanted.add_argument("--most-imported", type=int, default=10_000, help="Larger ones are only exported.")
    wanted.add_argument("--out", default="")
    given = wanted.parse_args()
    lines = ["| rows | file | export: peak memory | time | import: peak memory | time |", "|---|---|---|---|---|---|"]
    for rows in map(int, given.rows.split(",")):
        lines.append(measured(rows, rows <= given.most_imported))
        print(lines[-1], flush=True)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(_HEAD + "\n".join(lines) + "\n")


def measured(rows: int, imported: bool) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "all.jsonl")
        with running(os.path.join(folder, "here")) as parts:
            fill(parts, rows)
            tracemalloc.start()
            before, began = tracemalloc.get_traced_memory()[0], time.perf_counter()
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(export_all(parts))
            out = (tracemalloc.get_traced_memory()[1] - before, time.perf_counter() - began)
            tracemalloc.stop()
        size = os.path.getsize(path) / 1e6
        back = read_in(os.path.join(folder, "there"), path, rows) if imported else "| not measured | |"
    return f"| {rows:,} | {size:.1f} MB | {out[0] / 1e6:.1f} MB | {out[1]:.1f} s {back}"


def read_in(home: str, path: str, rows: int) -> str:
    """The cells of an import."""
    with running(home) as parts, open(path, "rb") as read:
        tracemalloc.start()
        before, began = tracemalloc.get_traced_memory()[0], time.perf_counter()
        found = open_export(read.readline(), read, 1)
        assert found is not None
        done = send_lines(found, lambda piece: import_document(parts, piece, trusted=True).to_json())
        peak, seconds = tracemalloc.get_traced_memory()[1] - before, time.perf_counter() - began
        tracemalloc.stop()
    if done["messages"]["added"] != rows or done["problems"]:
        raise SystemExit(f"{rows} rows were written, and this came back: {done}")
    return f"| {peak / 1e6:.1f} MB | {seconds:.1f} s |"


def fill(parts: Parts, rows: int) -> None:
    """Store messages of 500 characters, a hundred a session."""
    for first in range(0, rows, _BATCH):

        def write(tx: Tx, first: int = first) -> None:
            for number in range(first, min(first + _BATCH, rows)):
                parts.turns(tx).restore(message(number), None)

        parts.writer.run(write)


def message(number: int) -> Turn:
    """The message of a number."""
    at = _START + timedelta(seconds=number)
    text = f"Message {number}: " + f"the replica of database {number % 97} lags behind, see ticket {number}. " * 9
    return Turn(
        id=new_id(at), key=f"k{number}", scope=Scope(session=f"s{number // 100}", channel="bench"), host="bench",
        role="tool", source="command", text=text[:500], at=at, trust=TRUST_TOOL,
    )  # fmt: skip


_HEAD = """# Whole exports

Made by `python bench/exporting.py --out bench/results/exporting.md` on a machine with two cores that others used
meanwhile: times are an upper bound, and tracemalloc is part of them. Memory is what an export or an import allocates at
its peak, beside what the process had before. An export holds one page of 500 rows, whatever the size of the store; an
import one piece of some 4 MB of rows in the several forms that it goes through.

"""

if __name__ == "__main__":
    main()
