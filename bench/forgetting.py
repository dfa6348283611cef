"""What forgetting costs in a large memory, and whether two hundred canaries are gone from every byte.

    nice -n 10 python bench/forgetting.py --rows 100000 --canaries 200 --out bench/results/forgetting.md

**Cost.** A home of ROWS rows (four turns with their events to one memory with its journal entry, all with vectors of
the stable hash, words drawn by Zipf's law) is opened as the daemon opens it; one memory is forgotten by its id and
one by a text that it alone holds. Timed is the whole call, from the token of a preview to the receipt, in its four
stages: rows (finding, comparing with the token, one transaction), files (indexes, briefs, log of writes), backups,
and the search of every row and every byte for what went. The preview is timed by itself.

**Canaries.** Random words are entered through every path there is (`tests/support/canaries.py`), merged, summarised and
backed up in the home and elsewhere; then each is forgotten by itself. Every file of the home is searched for every one
of them: as it is, in other case, JSON-escaped, UTF-16, base64. Then the older database from elsewhere takes the present
one's place, and all is searched again.

`--check` exits 1 where anything is found, or the rows of a forgetting take longer than two seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Final

from filrouge.capture.events import Event
from filrouge.capture.models import TRUST_TYPED, Turn
from filrouge.capture.repository import Events
from filrouge.core.clock import SystemClock
from filrouge.core.paths import DATABASE
from filrouge.core.scope import Scope
from filrouge.erasure.service import ForgetRequest, forget, preview
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.restore import restore
from filrouge.memories.models import Span, Statement
from filrouge.memories.repository import Origin
from filrouge.providers.hashing import StableHash
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database
from filrouge.search.repository import SWITCH, StoredVectors
from filrouge.testing import idle, running

START: Final = datetime(2025, 1, 1, tzinfo=UTC)
ENVIRON: Final = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
VOCABULARY, WORDS, AT_ONCE, SESSION = 20_000, 30, 5_000, 20
LIMIT_SECONDS: Final = 2.0
ALONE: Final = "Quibblethwaite"


def vocabulary(chance: random.Random) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(VOCABULARY)]


def fill(home: str, rows: int) -> None:
    """Fill a home."""
    parts = wiring.build(home, environ=ENVIRON, clock=SystemClock())
    parts.readers.close()
    parts.writer.close()
    chance = random.Random(7)
    words, weights = vocabulary(chance), list(accumulate(1 / (n + 1) for n in range(VOCABULARY)))
    hashing, space = StableHash(), parts.vectors.space.id
    database = Database(os.path.join(home, DATABASE))

    def text() -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=WORDS))

    for first in range(0, rows, AT_ONCE):
        with database.transaction() as tx:
            events, turns, stored = Events(tx), parts.turns(tx), StoredVectors(tx)
            for number in range(first, min(rows, first + AT_ONCE)):
                at, said = START + timedelta(seconds=number), text()
                session = f"s{number // SESSION}"
                if number % 5 == 4:
                    said = f"{said} {ALONE}{number}"
                    origin = Origin(scope=Scope(channel="bench", session=session), trust=TRUST_TYPED, at=at)
                    statement = Statement(kind="fact", text=said, span=Span(start=0, end=0))
                    memory = parts.memories(tx).add(statement, origin, "bench").memory_id
                    stored.put("memory", memory, space, hashing.passages([said]))
                    continue
                id_, data = f"{number:026d}", {"text": said}
                event = Event(id_, "bench", "prompt", session, at.timestamp(), f"k{number}", "", (), "", "", data)
                events.add(event, received_at=at)
                events.settle(event.id, "done")
                turn = Turn(
                    id=f"{number:026d}", key=f"k{number}", scope=Scope(channel="bench", session=session), host="bench",
                    role="user" if number % 2 else "assistant", source="prompt", text=said, at=at, trust=2,
                    event_id=event.id, skipped="bench",
                )  # fmt: skip
                turns.add(turn)
                stored.put("turn", turn.id, space, hashing.passages([said]))
        print(f"\r{first + AT_ONCE:,}", end="", file=sys.stderr, flush=True)
    database.checkpoint()
    database.close()


def cost(rows: int, keep: str | None) -> tuple[list[str], bool]:
    """The table of what forgetting one of so many costs.

    Args:
        keep: a home that is filled if there is none, and stays.
    """
    place = keep or tempfile.mkdtemp(prefix="filrouge-forgetting-")
    home, lines, good = os.path.join(place, "home"), list[str](), True
    try:
        if not os.path.exists(os.path.join(home, DATABASE)):
            fill(home, rows)
        memories = held(home)
        size = os.path.getsize(os.path.join(home, DATABASE)) / 1e6
        with running(home, environ=ENVIRON) as parts:
            idle(parts, 900)
            ready(parts, rows)
            asked = [ForgetRequest(id=memories[0][0]), ForgetRequest(id=memories[1][0])]
            asked += [ForgetRequest(text=memories[n][1].rpartition(" ")[2]) for n in (2, 3)]
            for one in asked:
                lines.append(timed(parts, one))
                good &= float(lines[-1].split("|")[4]) <= LIMIT_SECONDS
            back_up(home, "hand", SystemClock().now())
            lines.append(timed(parts, ForgetRequest(id=memories[4][0]), "with one backup"))
    finally:
        if not keep:
            shutil.rmtree(place)
    head = [
        f"{rows:,} rows, a database of {size:.0f} MB; seconds.", "",
        "| forgotten | preview | whole call | rows | files | backups | search afterwards | ok |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]  # fmt: skip
    return [*head, *lines], good


def held(home: str) -> list[tuple[str, str]]:
    """The ids and texts of the first memories."""
    database = Database(os.path.join(home, DATABASE), readonly=True)
    asked = {"after": 0, "space_id": "", "limit": 5}
    found = [(row["id"], row["text"]) for row in database.tx.all("vectors.missing_memories", asked)]
    database.close()
    return found


def ready(parts: Parts, rows: int) -> None:
    large = sum(n >= SWITCH for n in (rows // 5, rows - rows // 5))
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if parts.vectors.ready.is_set() and len(parts.words.to_json()) == large:
            return
        time.sleep(0.2)


def timed(parts: Parts, asked: ForgetRequest, note: str = "") -> str:
    begun = time.perf_counter()
    shown = preview(parts, asked)
    seen = time.perf_counter()
    receipt = forget(parts, asked, shown.token)
    done = time.perf_counter()
    took = receipt.content["seconds"]
    what = f"a memory by its {'id' if asked.id else 'words'}{', ' + note if note else ''}"
    print(what, round(seen - begun, 2), round(done - seen, 2), took, file=sys.stderr)
    return (
        f"| {what} | {seen - begun:.2f} | {done - seen:.2f} | {took['rows']:.2f} | {took['files']:.2f}"
        f" | {took['backups']:.2f} | {took['search']:.2f} | {receipt.content['ok']} |"
    )


def canaries(number: int) -> tuple[list[str], bool]:
    """What is left of so many canaries, afterwards and after an older database was put back."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.support.canaries import PATHS, backed_up, canary, enter, left, recalled, served

    chance, place = random.Random(number), Path(tempfile.mkdtemp(prefix="filrouge-canaries-"))
    words, home, elsewhere = [canary(chance, n) for n in range(number)], place / "home", place / "elsewhere.db"
    lines, wrong = list[str](), list[str]()
    try:
        with served(home) as found:
            begun = time.perf_counter()
            paths = enter(found, words)
            entered = time.perf_counter() - begun
            there = len(left(found.home, words))
            backed_up(found, elsewhere)
            begun = time.perf_counter()
            for word in words:
                receipt = found.ask("POST", "/api/memory/forget", {"text": word, "at_once": True})
                if not receipt["ok"]:
                    wrong.append(paths[word])
            each = (time.perf_counter() - begun) / number
            idle(found.parts, 300)
            bytes_left, hits = left(found.home, words), recalled(found.parts, words)
        restore(str(home), str(elsewhere), SystemClock())
        with served(home) as found:
            later_hits = recalled(found.parts, words)
            idle(found.parts, 300)
            later_bytes = left(found.home, words)
    finally:
        shutil.rmtree(place)
    said = (
        f"{number} canaries through {len(PATHS)} paths; {there} stood in files before; entered in {entered:.0f} s,"
        f" forgotten one by one in {each:.2f} s each, the rewriting of the backup and the search included."
    )
    lines += [
        said, "", "| | in any byte of any file | in answers | receipts that are not good |", "|---|--:|--:|--:|",
        f"| forgotten | {len(bytes_left)} | {len(hits)} | {len(wrong)} |",
        f"| and an older database restored | {len(later_bytes)} | {len(later_hits)} | |",
    ]  # fmt: skip
    for word, where in {**bytes_left, **later_bytes}.items():
        print("left:", paths[word], where, file=sys.stderr)
    print("wrong:", wrong, file=sys.stderr)
    return lines, there == number and not (bytes_left or hits or wrong or later_bytes or later_hits)


def main(words: Sequence[str]) -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--rows", type=int, default=100_000)
    reader.add_argument("--canaries", type=int, default=200)
    reader.add_argument("--keep", help="a directory for the large home, used again by the next run")
    reader.add_argument("--out", type=Path)
    reader.add_argument("--check", action="store_true")
    given = reader.parse_args(words)
    lines, good = list[str](), True
    if given.rows:
        lines, good = cost(given.rows, given.keep)
    if given.canaries:
        more, kept = canaries(given.canaries)
        lines, good = [*lines, "", *more], good and kept
    report = "\n".join(lines) + "\n"
    sys.stdout.write(report)
    if given.out:
        given.out.write_text(f"# Forgetting\n\n`python bench/forgetting.py {' '.join(words)}`\n\n{report}")
    return 0 if good or not given.check else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
