"""A database on disk: its pragmas hold, transactions are all or nothing, and foreign errors are translated."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from filrouge.capture.repository import Turns
from filrouge.core.errors import CannotWrite, Corrupt, FilrougeError, StoreError
from filrouge.core.protocols import Tx
from filrouge.runtime.sqlite import Database, translated
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import ManualClock, memory_database
from tests.support.rows import turn


def test_every_connection_has_its_pragmas(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock())
    for one in (database, Database(str(tmp_path / "a.db"), readonly=True)):
        connection = one.tx._connection  # pyright: ignore[reportPrivateUsage] (pragmas are not the store's language)
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "busy_timeout")
        found = [connection.execute(f"pragma {name}").fetchone()[0] for name in names]
        assert found == ["wal", 2, 1, 1, 5000]


def test_the_files_admit_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = Database(str(tmp_path / "a.db"))
        database.migrate(ManualClock())
    finally:
        os.umask(before)
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "a.db": 0o600, "a.db-shm": 0o600, "a.db-wal": 0o600,
    }  # fmt: skip
    database.close()


def stumble(tx: Tx) -> None:
    Turns(tx, TextAnalyser()).add(turn("lost"))
    raise ZeroDivisionError


def test_a_transaction_is_all_or_nothing() -> None:
    database = memory_database()
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:
        stumble(tx)
    assert database.tx.one("turns.count") == {"n": 0}


def test_a_part_of_a_transaction_fails_alone() -> None:
    database = memory_database()
    with database.transaction() as tx:
        Turns(tx, TextAnalyser()).add(turn("kept"))
        with pytest.raises(ZeroDivisionError), database.savepoint() as part:
            stumble(part)
    assert [row["text"] for row in Turns(database.tx, TextAnalyser()).recent("codex", None, 9)] == ["kept"]


def test_a_read_only_database_says_that_it_cannot_be_written(tmp_path: Path) -> None:
    Database(str(tmp_path / "a.db")).migrate(ManualClock())
    with pytest.raises(CannotWrite) as refused:
        Turns(Database(str(tmp_path / "a.db"), readonly=True).tx, TextAnalyser()).add(turn("no"))
    assert isinstance(refused.value.__cause__, apsw.ReadOnlyError)


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"this is not a database, it only has its name" * 100)
    with pytest.raises(Corrupt, match="damaged"):
        Database(str(path)).migrate(ManualClock())


def test_a_sound_database_has_no_complaint(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock())
    assert database.check() == []


def test_a_foreign_key_is_enforced() -> None:
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        memory_database().tx.run("evidence.add", {"memory_id": "x", "turn_id": "y", "start": 0, "stop": 1})


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        with translated():
            raise error

    return fail


@pytest.mark.parametrize(
    ("foreign", "own"),
    [
        (apsw.FullError, "CannotWrite"),
        (apsw.IOError, "CannotWrite"),
        (apsw.CorruptError, "Corrupt"),
        (apsw.BusyError, "Busy"),
        (apsw.LockedError, "Busy"),
        (apsw.ConstraintError, "StoreError"),
    ],
)
def test_foreign_errors_become_ours_with_their_cause(foreign: type[Exception], own: str) -> None:
    cause = foreign("why")
    with pytest.raises(FilrougeError) as raised:
        failing(cause)()
    assert (type(raised.value).__name__, raised.value.__cause__) == (own, cause)


def test_a_deleted_turn_leaves_no_byte_of_its_words(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock())
    with database.transaction() as tx:
        for number in range(300):
            Turns(tx, TextAnalyser()).add(turn(f"ordinary words number{number}"))
        Turns(tx, TextAnalyser()).add(turn("the zanzibarquux is secret"))
    database.checkpoint()
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"zanzibarquux" in everything  # else the search below would prove nothing
    connection = database.tx._connection  # pyright: ignore[reportPrivateUsage] (no named query deletes yet)
    with database.transaction():
        connection.execute("delete from turns where text like '%zanzibarquux%'")
    database.checkpoint()
    for path in tmp_path.iterdir():
        assert b"zanzibar" not in path.read_bytes().lower()
    assert Database(str(tmp_path / "a.db")).check() == []
