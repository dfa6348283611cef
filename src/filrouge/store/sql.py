"""SQL as a language of its own: named queries and numbered migrations, read from files.

A query stands in `queries.sql` under a line `-- name: memories.neighbours`, followed by a sentence that says
what it answers. Python asks for it by that name. A migration is a numbered file; it runs once, in one
transaction together with the record that says so. `schema.sql` is what all migrations amount to (a test
compares them), so that a reader sees the whole schema on one page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z_]+\.[a-z_]+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    number: int
    name: str
    sql: str


@cache
def queries(dialect: str) -> dict[str, str]:
    """Every named query of a dialect (`sqlite`)."""
    text = (files("filrouge.store") / "sql" / dialect / "queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    named = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    if len(named) * 2 != len(parts):
        raise ValueError(f"queries.sql of {dialect} gives one name to two queries")
    return named


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Every migration of a dialect, in order."""
    folder = files("filrouge.store") / "sql" / dialect / "migrations"
    steps = [
        Migration(number=int(file.name[:4]), name=file.name[:-4], sql=file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(steps, key=lambda step: step.number))
