"""Lists on their way into a query and out of it: as JSON, each value once, by table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from filrouge.store.analyses import Session


def by_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The ids of rows, by their tables."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(row["id"])
    return found


def pairs(sessions: Collection[Session]) -> list[list[str]]:
    """Host and id of each session."""
    return [[one.host, one.id] for one in sessions]


def as_json(**lists: Collection[object]) -> dict[str, object]:
    """Lists as the parameters of a query."""
    return {name: json.dumps(list(values)) for name, values in lists.items()}


def once(ids: Sequence[str]) -> tuple[str, ...]:
    """Each id once."""
    return tuple(dict.fromkeys(ids))
