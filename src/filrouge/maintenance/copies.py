"""Copy a database that is in use, check a copy for damage, and compare rows that never change with a backup."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

import apsw
import numpy as np
from msgspec import Struct

from filrouge.core.clock import SystemClock
from filrouge.core.errors import CannotWrite, Corrupt
from filrouge.core.paths import sync
from filrouge.runtime.soundness import row_hashes, total_hash
from filrouge.runtime.sqlite import Connection, Database, check_engine, check_schema_number, refuse_older, translated

# Copying a live database.

_PAGES_PER_STEP = 1024
_BUSY_TIMEOUT_MS = 5000


class Content(Struct, frozen=True, kw_only=True):
    """A summary of a database's content, without user text.

    Attributes:
        rows: number of rows per table.
        hash: over all rows of all tables (`runtime.soundness.total_hash`).
        schema: number of the last migration; 0 if the file is not a memory database.
    """

    rows: Mapping[str, int]
    hash: str
    schema: int


def copy(source: str, target: str) -> Content:
    """Copy the database at `source` into the new file `target`; return its content in the same transaction.

    SQLite's backup API copies pages inside one read transaction. The rows of the source are hashed in the same
    transaction, so copy and hash show the same moment regardless of concurrent commits. A WAL reader does not block
    writers; the log just cannot be truncated until the reader ends. The copy is a single file without a log.

    Raises:
        Corrupt: a page or a row of the source cannot be read.
        CannotWrite: there is no room for the copy.
    """
    check_engine()
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise CannotWrite(f"{target} cannot be written: {error.strerror}.") from error
    with _read_transaction(source) as origin:
        with translated():
            copied: Connection = apsw.Connection(target, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with translated():
                # The file is not used before it is complete, and it is synced below.
                list(copied.execute("pragma journal_mode = off; pragma synchronous = off"))
                with copied.backup("main", origin, "main") as backup:
                    while not backup.done:
                        backup.step(_PAGES_PER_STEP)
                content = _content(origin)
        finally:
            copied.close()
    _leave_wal_mode(target)
    sync(target)
    return content


def content(path: str) -> Content:
    """Return a summary of a database's content.

    Raises:
        Corrupt: it cannot be read.
    """
    with _read_transaction(path) as connection, translated():
        return _content(connection)


def integrity_errors(path: str) -> list[str]:
    """Return the errors of SQLite's own checks, including full-text indexes and foreign keys."""
    with _read_transaction(path) as connection, translated():
        errors = [str(row[0]) for row in connection.execute("pragma integrity_check")]
        errors = [] if errors == ["ok"] else errors
        return errors + [
            f"a row of {table} refers to a missing row of {other}"
            for table, _, other, _ in connection.execute("pragma foreign_key_check")
        ]


def schema_of(path: str) -> int:
    """Return the number of a database's last migration; 0 if it has none.

    Raises:
        Corrupt: it cannot be read.
    """
    with _read_transaction(path) as connection, translated():
        return _schema(connection)


def check_schema(path: str) -> int:
    """Return the number of a database's last migration, if this version can open it.

    Raises:
        Corrupt: it is not a memory database.
        WrongEngine: a newer Filrouge wrote it, or one from before the baseline.
    """
    found = schema_of(path)
    if not found:
        raise Corrupt(f"{path} is not a memory database.", remedy="See the backups in `filrouge backup --list`.")
    check_schema_number(found, what=path)
    return found


def schema_faults(path: str) -> list[str]:
    """Return the tables, indexes and triggers that differ from what the migrations make.

    Raises:
        Corrupt: it cannot be read.
        WrongEngine: its schema is older than the baseline.
    """
    number = schema_of(path)
    refuse_older(number, what=path)
    present, expected = Database(path, readonly=True), Database(":memory:")
    try:
        expected.migrate(SystemClock(), upto=number)
        present_schema, expected_schema = set(present.schema()), set(expected.schema())
    finally:
        present.close()
        expected.close()
    return [
        f"differs from what the migrations make: {' '.join(sql.split()[:4])}"
        for sql in sorted(present_schema ^ expected_schema)
    ]


def merge_log(path: str) -> None:
    """Merge a database's log into its file and truncate it; no other process may have the database open."""
    _run_exclusively(path, "pragma wal_checkpoint(truncate)")
    sync(path)


def _content(connection: Connection) -> Content:
    tables = row_hashes(connection)
    return Content(
        rows={name: table.rows for name, table in tables.items()}, hash=total_hash(tables), schema=_schema(connection)
    )


def _schema(connection: Connection) -> int:
    has_migrations = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchone()
    return (
        int(connection.execute("select max(number) from schema_migrations").fetchone()[0] or 0) if has_migrations else 0
    )


@contextmanager
def _read_transaction(path: str) -> Generator[Connection]:
    """Yield a read-only connection inside one read transaction."""
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with translated():
            connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            connection.execute("begin")
            connection.execute("select count(*) from sqlite_schema").fetchone()
        yield connection
    finally:
        connection.close()


def _leave_wal_mode(path: str) -> None:
    """Switch a copy out of WAL mode; a WAL database cannot be opened in a read-only directory."""
    _run_exclusively(path, "pragma journal_mode = delete")


def _run_exclusively(path: str, statement: str) -> None:
    """Run one statement on a database that no other process has open."""
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute(statement).fetchall()
        finally:
            connection.close()


# Damage detection in columns without a seal, by comparison with the newest backup.

_MAX_DAMAGED_NUMBERS: Final = 4

_VECTORS: Final = (
    "select here.vector, kept.vector from main.vectors as here join kept.vectors as kept"
    " using (owner_kind, owner_id, space_id, part) where here.vector <> kept.vector"
)


#: By table: its key, the columns that never change, and a condition for the rows to compare.
_UNCHANGING_COLUMNS: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "thread_decisions": ("seq", ("turn_id", "at", "action", "similarity", "reason", "weighed"), "true"),
    "events": (
        "seq",
        ("id", "tenant", "host", "session_id", "kind", "at", "received_at", "row_hash"),
        "here.state <> 'forgotten'",
    ),
    "turns": (
        "seq",
        (
            "id",
            "tenant",
            "host",
            "session_id",
            "user_id",
            "agent",
            "channel",
            "role",
            "source",
            "text_hash",
            "trust",
            "at",
            "row_key",
            "row_hash",
        ),
        "true",
    ),
    "memories": (
        "seq",
        ("id", "tenant", "user_id", "agent", "channel", "session_id", "created_at"),
        "true",
    ),
}


#: Tables whose project no seal covers, and the condition for a project that no merge explains.
_TABLES_WITH_PROJECT: Final = ("events", "turns")

_OTHER_PROJECT: Final = (
    "here.project_id is not kept.project_id and (kept.project_id is null or here.project_id is null"
    " or kept.project_id in (select id from main.projects)"
    " or here.project_id not in (select id from main.projects))"
)


#: By table: identifying columns; no two rows share their values.
_IDENTIFYING_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "thread_decisions": ("turn_id", "at"),
    "events": ("id", "row_hash"),
    "turns": ("id", "row_key", "row_hash"),
    "memories": ("id", "row_key", "row_hash"),
}


def differing(path: str, backup: str) -> dict[str, int]:
    """Count by table the rows that never change but differ from a backup of the same schema.

    Vectors, the evidence of thread decisions, and who said something when, are written once. If such a row differs from
    the backup, one of the two is damaged. A recomputed vector differs in many of its numbers, if at all; damage changes
    a few. A change of a vector's length is found without a backup.

    A backup may come from a different history: a memory that was reset, or one that an older backup replaced. Its rows
    have the same numbers but unrelated content. So two rows count as the same only if an identifying column is equal.

    Merging projects changes a row's project. So a different project counts as damage unless the backup's project no
    longer exists and the present one does. The seal of a memory, which covers its project, is checked separately.

    Returns:
        Tables with at least one difference.

    Raises:
        Corrupt: one of the two cannot be read.
    """
    with translated():
        connection: Connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("attach ? as kept", (backup,))
            pairs = connection.execute(_VECTORS)
            counts = {"vectors": sum(_is_damage(present, backed_up) for present, backed_up in pairs)}
            for table in _UNCHANGING_COLUMNS:
                counts[table] = int(connection.execute(_difference_query(table)).fetchone()[0])
        finally:
            connection.close()
    return {table: rows for table, rows in counts.items() if rows}


def _difference_query(table: str) -> str:
    key, columns, condition = _UNCHANGING_COLUMNS[table]
    is_same_row = " or ".join(f"here.{column} = kept.{column}" for column in _IDENTIFYING_COLUMNS[table])
    here, kept = (", ".join(f"{side}.{column}" for column in columns) for side in ("here", "kept"))
    misplaced = f" or {_OTHER_PROJECT}" if table in _TABLES_WITH_PROJECT else ""
    return (
        f"select count(*) from main.{table} as here join kept.{table} as kept using ({key})"  # noqa: S608
        f" where {condition} and ({is_same_row}) and (({here}) is not ({kept}){misplaced})"
    )


def _is_damage(present: bytes, backed_up: bytes) -> bool:
    if len(present) != len(backed_up) or len(present) % 2:
        return True
    differing = np.frombuffer(present, dtype="<u2") != np.frombuffer(backed_up, dtype="<u2")
    return int(differing.sum()) <= _MAX_DAMAGED_NUMBERS
