"""Databases of other schemas: one of the baseline that was kept, made older, and migrations that nobody wrote yet."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, Final

import apsw

from filrouge.core.paths import DATABASE
from filrouge.runtime.sqlite import Migration, migrations

_KEPT: Final = Path(__file__).parent.parent / "migration/schema_21.db.gz"
#: The last schema that is refused.
TOO_OLD: Final = migrations("sqlite")[0].number - 1
ADVICE: Final = ("filrouge export --format jsonl --out all.jsonl", "filrouge import all.jsonl --mine")


def kept_home(home: Path) -> str:
    """A home with the kept database of schema 21; returns the path of the database."""
    home.mkdir(mode=0o700)
    path = home / DATABASE
    path.write_bytes(gzip.decompress(_KEPT.read_bytes()))
    path.chmod(0o600)
    return str(path)


def made_older(path: str, schema: int = TOO_OLD) -> bytes:
    """Have a database say that it is of an older schema; returns what is then in the file."""
    connection: Any = apsw.Connection(path)
    connection.execute("pragma journal_mode = delete")
    connection.execute("delete from schema_migrations where number > ?", (schema,))
    connection.execute("insert or ignore into schema_migrations values (?, 'older', '')", (schema,))
    connection.close()
    os.chmod(path, 0o600)
    return Path(path).read_bytes()


def with_later(*changes: str) -> tuple[Migration, ...]:
    """The migrations of the package and made-up ones after them, one for each text of SQL."""
    known = migrations("sqlite")
    first = known[-1].number + 1
    return known + tuple(
        Migration(number=number, name=f"{number:04}_later", sql=sql) for number, sql in enumerate(changes, first)
    )
