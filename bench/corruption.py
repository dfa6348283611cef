"""Flip one bit of a memory's database, again and again: who notices, and does an unnoticed one change anything?

    python bench/corruption.py --flips 1000

A home is filled, backed up, and closed. For each flip the whole file is copied, one random bit of it is turned over,
and the checks of `filrouge doctor --deep` that look at the database are run. Of a flip that none of them notices, all
rows of all tables are held against those of the sound file: it changed nothing, or a table that is named. The seed is
fixed and printed. Nothing is gated.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.given import event

from filrouge.capture.service import store_events
from filrouge.cli.doctor.report import CHECKS, DEEP_CHECKS, examine
from filrouge.cli.doctor.scene import scene_of
from filrouge.core.paths import DATABASE
from filrouge.maintenance.backup_service import back_up
from filrouge.runtime.soundness import TableHash, row_hashes
from filrouge.testing import idle, running

ABOUT_ROWS = {"Database", "Schema", "Seals", "Journal", "Vectors", "Against the backup"}


def fill(home: str, events: int) -> None:
    with running(home) as parts:
        for number in range(events):
            text = (
                f"Service number{number} of the shop listens on port {number + 1000}; {'and so on, ' * (number % 40)}"
            )
            kind = "prompt" if number % 2 == 0 else "reply"
            store_events(parts, [event(kind, session=f"s{number // 20}", text=text)]).result(30)
        idle(parts, 300)


def tables(path: str) -> dict[str, TableHash]:
    connection: Any = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return row_hashes(connection)
    finally:
        connection.close()


def owners(path: str) -> dict[int, str]:
    """What each page belongs to."""
    connection: Any = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return dict(connection.execute("select pageno, name from dbstat"))
    finally:
        connection.close()


def noticed(home: str) -> str:
    """The first check that complains, or nothing."""
    for check in (*CHECKS, *DEEP_CHECKS):
        if check.name in ABOUT_ROWS:
            [found] = examine(scene_of(home, deep=True), [check])
            if found.state == "fail":
                return check.name
    return ""


def changed(path: str, sound: dict[str, TableHash]) -> list[str]:
    try:
        found = tables(path)
    except Exception as error:
        return [type(error).__name__]
    return sorted(name for name in sound if found.get(name) != sound[name])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20260301)
    given = parser.parse_args()
    chance, by_check, by_table, pages = random.Random(given.seed), Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="frl-") as root:
        home = os.path.join(root, "home")
        fill(home, given.events)
        back_up(home, "hand", datetime.now(UTC))
        path = os.path.join(home, DATABASE)
        content, sound, belongs = Path(path).read_bytes(), tables(path), owners(path)
        assert noticed(home) == ""
        began = time.monotonic()
        for _ in range(given.flips):
            bit = chance.randrange(8 * len(content))
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            for suffix in ("-wal", "-shm"):
                Path(path + suffix).unlink(missing_ok=True)
            Path(path).write_bytes(flipped)
            check = noticed(home)
            differs = [] if check else changed(path, sound)
            by_check[check or ("unnoticed, a row changed" if differs else "unnoticed, no row changed")] += 1
            by_table.update(differs)
            if differs:
                pages[belongs.get(bit // 8 // 4096 + 1, "no table")] += 1
        print(f"{given.flips} flips in {len(content):,} bytes, seed {given.seed}, {time.monotonic() - began:.0f} s")
    for what, times in by_check.most_common():
        print(f"{what}: {times}")
    print("tables that changed unnoticed:", dict(by_table.most_common()))
    print("the pages they were in:", dict(pages.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
