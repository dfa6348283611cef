"""claude-mem: its SQLite database, opened read-only; which columns there are is asked, for they changed often.

What it observed and how it summed sessions up are a model's words. The prompts that it kept are those of Claude Code's
own history, which is the better source of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from filrouge.errors import BadInput
from filrouge.model.imported import ImportedKind, ImportedMemory, Item, Trouble
from filrouge.transfer.readers.opening import as_list, opened, seconds

_PARTS: Final = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_MAGIC: Final = b"SQLite format 3\0"


def read(path: str) -> Iterator[Item]:
    """Every observation and every summary of a session, as a fact of its project."""
    with opened(path) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise BadInput(f"{path} is no SQLite database.", remedy="Name claude-mem.db, in ~/.claude-mem as a rule.")
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            yield from _observations(connection)
            yield from _summaries(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise BadInput(
            f"{path} cannot be read: {error}.", remedy="Stop claude-mem, or copy the file with its -wal and -shm."
        ) from error


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    """The rows of one of the two tables, those columns of it that there are; none where there is no such table."""
    columns = [str(row["name"]) for row in connection.execute(f"PRAGMA table_info({table})")]
    if columns:
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid"):  # noqa: S608 (named below)
            yield dict(row)


def _observations(connection: sqlite3.Connection) -> Iterator[Item]:
    for row in _rows(connection, "observations"):
        place = f"observations {row.get('id')}"
        told = [_text(row, name) for name in ("title", "subtitle", "narrative")]
        said = "\n".join(one for one in told if one) or _text(row, "text")
        facts = [one for one in as_list(_parsed(row.get("facts"))) if isinstance(one, str) and one not in said]
        text = "\n".join([said, *facts]).strip()
        if not text:
            yield Trouble(place, "it says nothing")
            continue
        kind: ImportedKind = "decision" if row.get("type") == "decision" else "fact"
        yield _memory(row, "observations", place, text, kind)


def _summaries(connection: sqlite3.Connection) -> Iterator[Item]:
    for row in _rows(connection, "session_summaries"):
        parts = [f"{name.replace('_', ' ').capitalize()}: {said}" for name in _PARTS if (said := _text(row, name))]
        if parts:
            place = f"session_summaries {row.get('id')}"
            yield _memory(row, "session_summaries", place, "\n".join(parts), "fact")


def _memory(row: Mapping[str, Any], table: str, place: str, text: str, kind: ImportedKind) -> ImportedMemory:
    project = _text(row, "project")
    at = seconds(row.get("created_at_epoch")) or seconds(row.get("created_at"))
    return ImportedMemory(
        key=f"{table}\0{row.get('id')}\0{row.get('created_at')}",
        text=text,
        kind=kind,
        at=at,
        place=place,
        subject=_text(row, "title"),
        project=(project,) if project else (),
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def _parsed(value: object) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
