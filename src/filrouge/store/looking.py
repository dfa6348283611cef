"""Looking at a database file without touching it: its schema, its journal, and whether somebody holds it.

For the doctor, who may meet a file that is damaged, of another version, or in the hands of another program.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import apsw

from filrouge.errors import Busy
from filrouge.store.sqlite import translated


def schema_number(path: str) -> int:
    """The number of the last migration; 0 where there is none."""
    with _opened(path) as connection:
        known = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchone()
        if not known:
            return 0
        (number,) = connection.execute("select ifnull(max(number), 0) from schema_migrations").fetchone()
        return int(number)


def journal_mode(path: str) -> str:
    """How changes are kept safe: `wal`, `delete`, ..."""
    with _opened(path) as connection:
        return str(connection.execute("pragma journal_mode").fetchone()[0])


def complaints(path: str, *, quick: bool) -> list[str]:
    """What SQLite's own check complains of; `quick`: without holding the indexes against their tables."""
    with _opened(path) as connection:
        found = [str(row[0]) for row in connection.execute(f"pragma {'quick' if quick else 'integrity'}_check")]
        return [] if found == ["ok"] else found


def may_be_written(path: str, *, milliseconds: int) -> bool:
    """Whether somebody who wants to write gets his turn within that time; nothing is written."""
    try:
        with _opened(path, apsw.SQLITE_OPEN_READWRITE) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # what is in the log stays there
            connection.set_busy_timeout(milliseconds)
            connection.execute("begin immediate")
            connection.execute("rollback")
    except Busy:
        return False
    return True


@contextmanager
def _opened(path: str, flags: int = apsw.SQLITE_OPEN_READONLY) -> Generator[Any]:
    with translated():
        connection: Any = apsw.Connection(path, flags=flags)
        connection.set_busy_timeout(1000)
        with closing(connection):
            yield connection
