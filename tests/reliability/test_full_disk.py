"""A disk that is full, or fails, costs what was not acknowledged and nothing else.

SQLite's own file layer is made to fail at the N-th write or sync, for every N of a range, under the real writing
lane; and a daemon runs on a disk of three megabytes until it is full. Whoever was told "done" finds their event
again, whoever was refused was told why, the file is sound, and capture goes on as soon as there is space.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal

import apsw
import pytest

from filrouge.capture.events import Event
from filrouge.capture.models import Turn
from filrouge.capture.repository import Events
from filrouge.core import paths as places
from filrouge.core.clock import SystemClock, new_id
from filrouge.core.errors import CannotWrite
from filrouge.core.paths import DISK_RESERVE
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.daemon import client
from filrouge.daemon.process import is_held
from filrouge.erasure.service import erase
from filrouge.runtime.executors import Writer
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database
from filrouge.testing import running
from tests.support.tiers import is_proof

from .processes import assert_sound, daemon, eventually, left, quiet, run, tiny_disk

#: Every one of the first writes in `make proof`, every seventh of them in `make test`.
WRITES = range(1, 101) if is_proof() else range(1, 101, 7)
Failure = Literal["full", "io"]
FAILURES: dict[Failure, type[Exception]] = {"full": apsw.FullError, "io": apsw.IOError}


class Disk(apsw.VFS):
    """SQLite's file layer, with writes that can be made to fail. It becomes the default of this process."""

    def __init__(self) -> None:
        self.left = -1
        self.failure: type[Exception] = apsw.FullError
        self.failed = 0
        self.below = apsw.vfs_names()[0]
        super().__init__("filrouge-failing", self.below, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> Any:
        return File(self, name, flags)

    def spend(self) -> None:
        """Count one write; raise once there are none left."""
        if self.left == 0:
            self.failed += 1
            raise self.failure("no space left" if self.failure is apsw.FullError else "the disk fails")
        self.left -= self.left > 0


class File(apsw.VFSFile):
    """A file whose writes and syncs cost one each."""

    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        super().__init__(disk.below, name, flags)
        self._disk = disk

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.spend()
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]  (apsw leaves buffers untyped)

    def xSync(self, flags: int) -> None:
        self._disk.spend()
        super().xSync(flags)


@contextmanager
def disk() -> Generator[Disk]:
    made = Disk()
    try:
        yield made
    finally:
        made.unregister()


def event(number: int) -> Event:
    return Event(
        id=new_id(SystemClock().now()),
        host="claude-code",
        kind="prompt",
        session="s",
        at=1.0,
        key=f"prompt:{number}",
        cwd="",
        project=(),
        transcript="",
        agent="",
        # One is larger than SQLite's cache, so that a write can fail in the middle of a transaction, too.
        data={"text": f"{number} " + "words " * (600_000 if number == 4 else 200)},
    )


def store(tx: Tx, one: Event) -> str:
    now = SystemClock().now()
    assert Events(tx).add(one, received_at=now) is not None
    Jobs(tx).enqueue("read_turns", {"event": one.id}, dedupe=f"read_turns:{one.id}", at=now)
    return one.key


def settled(future: Future[str]) -> str | None:
    """The key that was acknowledged, or None where it was refused for the disk's sake."""
    try:
        return future.result(60)
    except CannotWrite:
        return None


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.law
def test_a_write_that_fails_at_any_point_loses_nothing_acknowledged(home: str, kind: Failure) -> None:
    places.make_private(home)
    refused = 0
    with disk() as failing:
        for count in WRITES:
            refused += one_run(os.path.join(home, f"{count}.db"), failing, kind, count)
    assert failing.failed >= len(WRITES) // 2
    assert refused >= len(WRITES) // 2


def one_run(path: str, failing: Disk, kind: Failure, count: int) -> int:
    """Fail at the `count`-th write; how many writers were refused."""
    clock, failing.left = SystemClock(), -1
    first = Database(path)
    first.migrate(clock)
    first.close()
    lane = Writer(lambda: Database(path))
    assert lane.run(lambda tx: store(tx, event(0))) == "prompt:0"
    failing.failure, failing.left = FAILURES[kind], count
    outcomes = [
        [settled(future) for future in [lane.submit(lambda tx, n=n: store(tx, event(n))) for n in numbers]]
        for numbers in (range(1, 2), range(2, 6), range(6, 7), range(7, 12))
    ]
    failing.left = -1
    after = lane.run(lambda tx: store(tx, event(99)))
    lane.close()
    acknowledged = {key for batch in outcomes for key in batch if key} | {"prompt:0", after}
    database = Database(path)
    assert database.check() == []
    database.close()
    connection: Any = apsw.Connection(path)
    stored = [row[0] for row in connection.execute("select key from events")]
    jobs = connection.execute("select count(*) from jobs").fetchone()[0]
    connection.close()
    assert acknowledged - set(stored) == set(), f"failing at write {count}"
    assert len(stored) == len(set(stored)) == jobs
    return sum(key is None for batch in outcomes for key in batch)


def test_a_lane_that_cannot_open_its_database_says_so_and_tries_again(home: str) -> None:
    places.make_private(home)
    path = os.path.join(home, "late.db")
    ready: list[bool] = []

    def opened() -> Database:
        if not ready:
            raise CannotWrite
        return Database(path)

    lane = Writer(opened)
    with pytest.raises(CannotWrite):
        lane.submit(lambda tx: 1).result(60)
    ready.append(True)
    assert lane.submit(lambda tx: 1).result(60) == 1
    lane.close()


def test_a_daemon_on_a_full_disk_refuses_and_resumes_when_there_is_space(home: str) -> None:
    with tiny_disk(home) as fill, daemon(home):
        acknowledged, refused = [deliver(home, 0)], list[int]()
        fill()
        for number in range(1, 400):
            if deliver(home, number) >= 0:
                acknowledged.append(number)
            else:
                refused.append(number)
            if len(refused) == 20:
                break
        assert len(refused) == 20
        told = run(home, "remember", "the almanac service listens on port 19031")
        assert (told.code, told.out) == (7, "")
        assert told.err.count("\n") == 1
        assert run(home, "recall", "almanac").code == 0
        os.unlink(os.path.join(home, "filler"))
        eventually("capture goes on", lambda: deliver(home, 1000) == 1000, 5)
        assert run(home, "remember", "the kiosk service listens on port 19032").code == 0
        eventually("everything is understood", lambda: quiet(home))
        assert client.request(home, "POST", "/daemon/stop").status == 200
        eventually("the daemon has left", lambda: not is_held(home))
        found = left(home)
        keys = {row["key"] for row in found.events}
        assert {f"prompt:{number}" for number in acknowledged} - keys == set()
        assert [job for job in found.jobs if job["state"] == "dead"] == []
        assert "19032" in " ".join(row["text"] for row in found.memories)
        assert_sound(home)


def deliver(home: str, number: int) -> int:
    """Hand an event over; its number where the daemon acknowledged it, else -1."""
    body = {"events": [event(number).to_json()]}
    answer = client.request(home, "POST", "/hooks/events", body, 5.0)
    assert answer.status in (200, 507)
    assert answer.status == 200 or answer.body["exit_code"] == 7
    return number if answer.status == 200 else -1


def test_on_a_full_disk_what_is_erased_makes_room_and_writing_goes_on_in_it(home: str) -> None:
    with tiny_disk(home, megabytes=100) as fill, running(home) as parts:
        eventually("ballast is aboard", lambda: os.path.exists(places.inside(home, DISK_RESERVE)))
        eventually("nothing is under way", parts.resumed.is_set)
        kept(parts, "doomed", 2_000_000)
        fill()
        assert any(is_refused(parts, f"turn-{number}") for number in range(4000))
        assert os.path.exists(places.inside(home, DISK_RESERVE))  # who only writes does not get it
        assert erase(parts, ["doomed"]).out_of_files
        assert not os.path.exists(places.inside(home, DISK_RESERVE))
        kept(parts, "afterwards", 50_000)


def is_refused(parts: Parts, name: str) -> bool:
    """True where the disk has no room for another turn."""
    try:
        kept(parts, name, 50_000)
    except CannotWrite:
        return True
    return False


def kept(parts: Parts, name: str, size: int) -> None:
    """Store a turn of that many characters."""
    turn = Turn(
        id=name,
        key=name,
        scope=Scope(user="local", project=None, agent="", channel="codex", session="s"),
        host="codex",
        role="tool",
        source="command",
        text="x" * size,
        at=parts.clock.now(),
        trust=0,
    )
    parts.writer.run(lambda tx: parts.turns(tx).add(turn))
