"""Helpers for query rows: some columns of a row, some fields of a value, a row that must exist, a count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx


def pick_columns(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return these columns of a row."""
    return {name: row[name] for name in names}


def fields_of(value: object, names: Iterable[str]) -> dict[str, object]:
    """Return these fields of a value."""
    return {name: getattr(value, name) for name in names}


def require_row(tx: Tx, query: str, parameters: Mapping[str, object], *, what: str, remedy: str) -> dict[str, Any]:
    """Return the row of a query.

    Raises:
        NotFound: there is none; the message names `what`.
    """
    row = tx.one(query, parameters)
    if row is None:
        raise NotFound(f"There is no {what}.", remedy=remedy)
    return row


def number_of(tx: Tx, query: str, parameters: Mapping[str, object] | None = None) -> int:
    """Return the result of a counting query."""
    row = tx.one(query, parameters)
    return int(row["n"]) if row else 0
