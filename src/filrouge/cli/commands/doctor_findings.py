"""What a check of `filrouge doctor` finds, and how a check reads the database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from filrouge.home import DATABASE, inside
from filrouge.ports import Tx
from filrouge.store.sqlite import Database

MEND: Final = "See what `filrouge repair --dry-run` saves, or put the newest backup there: `filrouge restore latest`."


class Finding(NamedTuple):
    """What one check found."""

    check: str
    state: Literal["ok", "warn", "fail"]
    cause: str
    remedy: str = ""


@contextmanager
def reading(directory: str) -> Generator[Tx]:
    """The home's database, for as long as the block runs."""
    database = Database(inside(directory, DATABASE), readonly=True)
    try:
        yield database.tx
    finally:
        database.close()
