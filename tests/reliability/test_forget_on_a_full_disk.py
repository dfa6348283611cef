"""Forgetting works on a disk that is full to the last byte, also where nothing was ever forgotten before."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from filrouge.capture import inbox
from filrouge.core.paths import DISK_RESERVE, SPOOL, inside
from filrouge.erasure.tombstones import FILE, KEY, HomeKey, Tombstone, TombstoneFile
from filrouge.runtime import disk
from filrouge.runtime.disk import RESERVE_BYTES, ensure_reserve

from .processes import assert_sound, daemon, eventually, quiet, run, tiny_disk
from .test_full_disk import deliver, event

SECRET = "zanzibar"


def files_with(home: str, word: str) -> list[str]:
    paths = [path for path in Path(home).rglob("*") if path.is_file() and path.name != "filler"]
    return [path.name for path in paths if word.encode() in path.read_bytes().lower()]


def size(home: str) -> int:
    path = inside(home, DISK_RESERVE)
    return os.path.getsize(path) if os.path.exists(path) else -1


def test_a_reserve_that_was_cut_short_is_made_whole(home: str) -> None:
    os.makedirs(home, 0o700, exist_ok=True)
    for cut in (0, 4096):
        with open(inside(home, DISK_RESERVE), "wb") as file:
            file.write(bytes(cut))
        assert ensure_reserve(home)
        assert size(home) == RESERVE_BYTES


def test_the_reserve_is_released_and_taken_again_when_there_is_space(home: str) -> None:
    with tiny_disk(home, megabytes=100) as fill:
        with daemon(home):
            eventually("there is a reserve", lambda: size(home) == RESERVE_BYTES)
            assert run(home, "remember", f"The {SECRET} supplier sends invoices on Fridays.").code == 0
            eventually("everything is understood", lambda: quiet(home))
            assert not os.path.exists(inside(home, KEY))
            fill()
            numbers = iter(range(4000))
            eventually("the disk refuses", lambda: deliver(home, next(numbers)) < 0)
            # A hook that finds no room in the daemon may find room in the spool; this one holds the word.
            spooled = event(5000)._replace(data={"text": f"The {SECRET} supplier again."})
            os.truncate(inside(home, "filler"), os.path.getsize(inside(home, "filler")) - 65536)
            inbox.append_event(inside(home, SPOOL), spooled.to_json())
            fill()
            done = run(home, "forget", SECRET, "--yes", "--json")
            assert done.code == 0, done
            assert json.loads(done.out)["ok"] is True
            assert files_with(home, SECRET) == []
            assert not os.path.exists(inside(home, DISK_RESERVE))
            os.unlink(inside(home, "filler"))
            assert "supplier" not in run(home, "recall", "Which supplier sends invoices?").out
        with daemon(home):
            eventually("the reserve is back", lambda: size(home) == RESERVE_BYTES)
            assert files_with(home, SECRET) == []
        assert_sound(home)


def test_what_cannot_be_written_whole_leaves_nothing_behind(home: str) -> None:
    stones = [Tombstone(hash=bytes([n]) * 32, kind="row", at=datetime(2026, 1, 1, tzinfo=UTC)) for n in range(200)]
    with tiny_disk(home, megabytes=1) as fill:
        TombstoneFile(home).append(stones[:1])
        fill()
        before = Path(home, FILE).read_bytes()
        for attempt in (lambda: TombstoneFile(home).append(stones[1:]), lambda: HomeKey(home).get_or_create() and None):
            with pytest.raises(OSError, match="No space left"):
                attempt()
        assert Path(home, FILE).read_bytes() == before
        assert sorted(os.listdir(home)) == sorted(["filler", FILE])
        with pytest.raises(disk.CannotWrite, match="disk is full"):
            disk.with_reserve(home, HomeKey(home).get_or_create)
        os.unlink(inside(home, "filler"))
        TombstoneFile(home).append(stones[1:])
        assert set(TombstoneFile(home).read()) == {one.hash for one in stones}
