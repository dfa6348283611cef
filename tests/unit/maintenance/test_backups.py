"""Backups: equal to one moment of their source, proven before they count, rotated, and restored as a whole."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import apsw
import pytest

from filrouge.core.clock import SystemClock, to_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt, NotFound, StoreError, WrongEngine
from filrouge.core.paths import BRIEFS, DATABASE, WORD_INDEXES
from filrouge.core.settings import check
from filrouge.maintenance import backup_files, backup_service, copies, health
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.restore import restore
from filrouge.memories.changes import remember
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.runtime.sqlite import migrations
from filrouge.runtime.wiring import bring_up_to_date
from filrouge.testing import ManualClock, idle, running
from tests.support.given import known, say
from tests.support.schemas import TOO_OLD, kept_home, made_older, with_later

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "the almanac service listens on port 19031"


def told(parts: Parts, text: str) -> None:
    remember(parts, text, names=[], scope=None, host="cli")
    idle(parts)


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with something in it, and nobody there."""
    path = str(tmp_path / "home")
    with running(path) as parts:
        told(parts, SECRET)
    return path


@contextmanager
def at_work(home: str, clock: ManualClock) -> Generator[Parts]:
    """A whole Filrouge with a clock that stands still."""
    whole = wiring.start(home, environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=clock)
    try:
        whole.parts.resumed.wait(10)
        yield whole.parts
    finally:
        whole.stop()


def database(home: str) -> str:
    return os.path.join(home, DATABASE)


def bare(path: str) -> Any:
    return apsw.Connection(path)


def flip(path: str, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def flip_words(path: str, words: bytes) -> None:
    """Change a letter of these words wherever they stand."""
    content = Path(path).read_bytes()
    assert words in content
    Path(path).write_bytes(content.replace(words, bytes([words[0] ^ 1]) + words[1:]))


def add(path: str, text: str) -> None:
    """Write a row beside the rules, so that a database differs from another."""
    connection = bare(path)
    connection.execute("insert or replace into memory_settings values ('note', ?, '')", (json.dumps(text),))
    connection.close()


def test_a_backup_is_one_moment_of_a_database_that_is_being_written(home: str) -> None:
    ending, written = Flag(), [0]

    def write() -> None:
        connection = bare(database(home))
        while not ending.is_set():
            with connection:  # two rows that are only right together
                for key in ("left", "right"):
                    connection.execute(
                        "insert or replace into memory_settings values (?, ?, '')", (key, str(written[0]))
                    )
            written[0] += 1
        connection.close()

    thread = Thread(target=write)
    thread.start()
    try:
        found: set[str] = set()
        for number in range(8):
            made = back_up(home, "hand", NOW + timedelta(seconds=number))
            copy = bare(backup_files.path_of(home, made.name))
            pair = dict(copy.execute("select key, value from memory_settings where key in ('left', 'right')"))
            copy.close()
            assert len(set(pair.values())) <= 1
            assert copies.content(backup_files.path_of(home, made.name)).hash == made.hash
            found.add(made.hash)
    finally:
        ending.set()
        thread.join()
    assert len(found) > 1
    assert written[0] > 8


def test_a_backup_is_private_and_its_manifest_holds_no_word_of_anybody(home: str) -> None:
    made = back_up(home, "hand", NOW)
    path = backup_files.path_of(home, made.name)
    assert made.verified == ("equal", "sound", "seals", "journal")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(backup_files.backup_directory(home)).st_mode) == 0o700
    about = Path(path.replace(".db", ".json")).read_text(encoding="utf-8")
    assert "almanac" not in about
    assert json.loads(about)["rows"]["memories"] == 1
    assert sorted(os.listdir(backup_files.backup_directory(home))) == [".lock", f"{made.name}.db", f"{made.name}.json"]


def test_what_is_damaged_is_not_called_a_backup_and_the_older_ones_stay(home: str) -> None:
    good = back_up(home, "hand", NOW)
    flip_words(database(home), SECRET.encode())
    with pytest.raises(Corrupt, match="rows are not what was stored"):
        back_up(home, "hand", NOW)
    assert [one.name for one in backup_files.list_backups(home)] == [good.name]
    assert not [name for name in os.listdir(backup_files.backup_directory(home)) if name.startswith(".new-")]


def test_a_memory_restored_into_an_empty_home_answers_as_it_did(home: str, tmp_path: Path) -> None:
    with running(home) as parts:
        for room in range(12):
            told(parts, f"server number{room} stands in room {room}")
        say(parts, "Remember that invoices go out on the 5th of each month.")
        asked = ("which port does the almanac use?", "where is server number7?", "when do invoices go out?")
        before = [hits(parts, question) for question in asked]
    made = back_up(home, "hand", NOW)
    elsewhere = str(tmp_path / "elsewhere")
    done = restore(elsewhere, backup_files.path_of(home, made.name), SystemClock())
    assert (done.verified, done.kept, done.at) == (("equal", "sound", "seals", "journal"), None, to_text(NOW))
    assert copies.content(database(elsewhere)).hash == made.hash
    with running(elsewhere) as parts:
        idle(parts)
        assert [hits(parts, question) for question in asked] == before
    assert all(before)


def hits(parts: Parts, question: str) -> list[tuple[str, float]]:
    return [(hit.item.id, hit.relevance) for hit in known(parts, question).hits]


def test_what_was_there_is_kept_and_can_be_restored_in_its_turn(home: str) -> None:
    made = back_up(home, "hand", NOW)
    add(database(home), "later")
    later = copies.content(database(home)).hash
    os.makedirs(os.path.join(home, WORD_INDEXES))
    os.makedirs(os.path.join(home, BRIEFS))
    kept = restore(home, made.name, SystemClock()).kept
    assert copies.content(database(home)).hash == made.hash
    assert not {WORD_INDEXES, BRIEFS} & set(os.listdir(home))
    assert kept is not None
    restore(home, kept, SystemClock())
    assert copies.content(database(home)).hash == later


def test_the_latest_backup_is_the_newest_that_was_proven(home: str) -> None:
    with pytest.raises(NotFound, match="no backup yet"):
        restore(home, "latest", SystemClock())
    back_up(home, "hand", NOW)
    newest = back_up(home, "hand", NOW + timedelta(days=1))
    back_up(home, "before-migration", NOW + timedelta(days=2))
    assert restore(home, "latest", SystemClock(), dry_run=True).path == backup_files.path_of(home, newest.name)


def test_a_dry_run_verifies_and_changes_nothing(home: str) -> None:
    made = back_up(home, "hand", NOW)
    add(database(home), "later")
    before = copies.content(database(home)).hash
    there = set(os.listdir(home))  # with the files that a reader of a log needs
    assert restore(home, made.name, SystemClock(), dry_run=True).kept is None
    assert (set(os.listdir(home)), copies.content(database(home)).hash) == (there, before)


def test_a_backup_that_was_changed_is_refused_and_nothing_is_replaced(home: str) -> None:
    made = back_up(home, "hand", NOW)
    before = copies.content(database(home)).hash
    flip_words(backup_files.path_of(home, made.name), b"19031")
    with pytest.raises(Corrupt, match="differs from its manifest"):
        restore(home, made.name, SystemClock())
    assert copies.content(database(home)).hash == before
    assert backup_files.list_backups(home) == [made]


def test_a_backup_of_a_newer_schema_is_refused(home: str) -> None:
    made = back_up(home, "hand", NOW)
    connection = bare(backup_files.path_of(home, made.name))
    connection.execute("insert into schema_migrations values (9999, '9999_later', '')")
    connection.close()
    with pytest.raises(WrongEngine, match="written by a newer Filrouge: schema 9999"):
        restore(home, made.name, SystemClock())


def test_what_is_no_memory_is_refused(home: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    connection = bare(other)
    connection.execute("create table things (id)")
    connection.close()
    with pytest.raises(Corrupt, match="not a memory database"):
        restore(home, other, SystemClock())
    (tmp_path / "text.db").write_text("words " * 1000)
    with pytest.raises(Corrupt):
        restore(home, str(tmp_path / "text.db"), SystemClock())


def test_an_older_database_is_brought_to_the_present_schema_on_its_way(home: str, tmp_path: Path) -> None:
    old = kept_home(tmp_path / "old")
    done = restore(home, old, SystemClock())
    assert (done.schema, done.at, done.verified) == (21, None, ("sound", "seals", "journal"))
    assert copies.schema_of(database(home)) == migrations("sqlite")[-1].number
    assert copies.schema_of(old) == 21


def test_a_database_that_is_too_old_is_refused_as_a_backup(home: str, tmp_path: Path) -> None:
    old = kept_home(tmp_path / "old")
    content, before = made_older(old), copies.content(database(home)).hash
    for dry_run in (True, False):
        with pytest.raises(WrongEngine, match=f"{old} was written by an older Filrouge: schema {TOO_OLD}"):
            restore(home, old, SystemClock(), dry_run=dry_run)
    assert Path(old).read_bytes() == content
    assert copies.content(database(home)).hash == before
    assert backup_files.list_backups(home) == []


def test_a_damaged_memory_is_kept_as_it_is_when_a_backup_replaces_it(home: str) -> None:
    made = back_up(home, "hand", NOW)
    flip_words(database(home), SECRET.encode())
    damaged = Path(database(home)).read_bytes()
    kept = restore(home, made.name, SystemClock()).kept
    assert kept is not None
    assert kept.endswith("-damaged")
    assert Path(backup_files.path_of(home, kept)).read_bytes() == damaged
    assert copies.content(database(home)).hash == made.hash


def test_a_replacement_that_was_interrupted_is_finished_by_the_next_start(home: str) -> None:
    made = back_up(home, "hand", NOW)
    add(database(home), "later")
    copies.copy(backup_files.path_of(home, made.name), os.path.join(home, backup_files.NEXT_DATABASE))
    Path(database(home) + "-wal").write_bytes(b"of the old one")
    bring_up_to_date(home, SystemClock())
    assert copies.content(database(home)).hash == made.hash
    assert not os.path.exists(os.path.join(home, backup_files.NEXT_DATABASE))


def test_an_older_database_is_backed_up_before_it_is_migrated(home: str) -> None:
    before, schema = copies.content(database(home)).hash, copies.schema_of(database(home))
    steps = with_later("create table moods (name text) strict")
    bring_up_to_date(home, SystemClock(), steps=steps)
    [kept] = backup_files.list_backups(home)
    assert (kept.kind, kept.schema, kept.hash, kept.verified) == ("before-migration", schema, before, ("equal",))
    bring_up_to_date(home, SystemClock(), steps=steps)
    assert backup_files.list_backups(home) == [kept]


def test_a_migration_that_fails_half_way_puts_the_memory_back(home: str) -> None:
    before, schema = copies.content(database(home)).hash, copies.schema_of(database(home))
    # The second step fails, the first does not.
    steps = with_later("update memories set text = 'other'", "create table tombstones (in_the_way)")
    with pytest.raises(StoreError, match="tombstones"):
        bring_up_to_date(home, SystemClock(), steps=steps)
    assert copies.schema_of(database(home)) == schema
    assert copies.content(database(home)).hash == before


def test_two_backups_are_never_made_at_once(home: str) -> None:
    with backup_files.backup_lock(home), pytest.raises(Busy, match="A backup is being made"):
        back_up(home, "hand", NOW)


def test_what_an_ended_backup_left_is_removed_by_the_next(home: str) -> None:
    back_up(home, "hand", NOW)
    for name in (".new-0123.db", ".new-0123.db-journal", "20260101T000000Z-hand.json"):
        Path(backup_files.backup_directory(home), name).write_bytes(b"half")
    back_up(home, "hand", NOW)
    assert len(os.listdir(backup_files.backup_directory(home))) == 5


def test_the_scheduled_backup_is_made_when_time_is_over_and_something_changed(home: str) -> None:
    clock = ManualClock(datetime.now(UTC))
    with at_work(home, clock) as parts:
        first = backup_service.back_up_if_due(parts)
        assert first is not None
        assert backup_service.back_up_if_due(parts) is None
        clock.move(hours=25)
        assert backup_service.back_up_if_due(parts) is None  # nothing has changed
        told(parts, "the kiosk service listens on port 19032")
        assert backup_service.back_up_if_due(parts) is not None
        told(parts, "the tower service listens on port 19033")
        clock.move(hours=23)
        assert backup_service.back_up_if_due(parts) is None
        set_to(parts, backup_hours=0)
        clock.move(days=30)
        assert backup_service.back_up_if_due(parts) is None
        set_to(parts, backup_hours=1)
        assert backup_service.back_up_if_due(parts) is not None


def set_to(parts: Parts, **settings: Any) -> None:
    changes = check(settings, where="test")
    parts.writer.run(lambda tx: StoredSettings(tx).put(changes, parts.clock.now()))


def test_an_empty_memory_needs_no_backup(tmp_path: Path) -> None:
    with at_work(str(tmp_path), ManualClock()) as parts:
        assert backup_service.back_up_if_due(parts) is None


def test_a_failed_backup_is_told_until_one_succeeds(home: str) -> None:
    clock = ManualClock(datetime.now(UTC))
    with at_work(home, clock) as parts:
        Path(backup_files.backup_directory(home)).write_text("in the way")
        with pytest.raises(CannotWrite):
            backup_service.back_up_if_due(parts)
        status = parts.readers.here(lambda tx: health.status(parts, tx))["backups"]
        assert status["newest"] is None
        assert "cannot be written" in status["failed"]["error"]
        assert backup_service.back_up_if_due(parts) is None  # not at every look
        os.unlink(backup_files.backup_directory(home))
        clock.move(hours=2)
        made = backup_service.back_up_if_due(parts)
        assert made is not None
        status = parts.readers.here(lambda tx: health.status(parts, tx))["backups"]
        assert status == {"backups": 1, "newest": made.at, "failed": None}


def test_rotation_keeps_the_newest_one_a_week_before_and_all_made_by_hand(home: str) -> None:
    for day in range(40):
        at = NOW + timedelta(days=day)
        back_up(home, "scheduled", at)
        backup_files.rotate(home, keep=7, weeks=4)
    by_hand = back_up(home, "hand", NOW - timedelta(days=900))
    for day in range(3):
        back_up(home, "before-restore", NOW + timedelta(days=day))
    backup_files.rotate(home, keep=7, weeks=4)
    days = [
        (datetime.fromisoformat(one.at) - NOW).days
        for one in backup_files.list_backups(home)
        if one.kind == "scheduled"
    ]
    assert days[:7] == list(range(39, 32, -1))
    older = days[7:]
    assert len(older) == 4
    assert all(4 <= late - early <= 10 for late, early in pairwise(older))
    kinds = [one.kind for one in backup_files.list_backups(home)]
    assert (kinds.count("before-restore"), kinds.count("hand")) == (2, 1)
    assert backup_files.list_backups(home)[-1] == by_hand


def test_a_backup_that_would_leave_no_room_for_capture_is_not_begun(home: str) -> None:
    with pytest.raises(CannotWrite, match="are reserved for capture"):
        back_up(home, "hand", NOW, reserved_bytes=1 << 60)
    assert backup_files.list_backups(home) == []


def test_a_backup_is_written_elsewhere_with_its_manifest(home: str, tmp_path: Path) -> None:
    made = back_up(home, "hand", NOW)
    target = str(tmp_path / "on another disk.db")
    backup_files.copy_out(home, made.name, target)
    assert backup_files.read_manifest(target) == made
    assert restore(str(tmp_path / "new"), target, SystemClock()).verified[0] == "equal"
