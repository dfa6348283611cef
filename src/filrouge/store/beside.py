"""Turns and those said beside them: what ranking reads of them, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from filrouge.ports import Tx

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """Turns in the order they were stored.

    Attributes:
        rows: the columns of `turns.told`.
        before: for each the place of the turn said before it in the same session and project; -1 where that is not
            among them, or nothing was said before.
    """

    rows: Sequence[Row]
    before: Sequence[int]


def told(tx: Tx, ids: Collection[str], reach: int, holds: Callable[[Row], bool]) -> Told:
    """The turns of these ids, with up to `reach` turns before and after each.

    Args:
        holds: what does not pass is left out, and is no neighbour either.
    """
    wanted, before = set[int](), dict[int, int]()
    # Of turns that are asked for alone it is known, too, which stand side by side.
    for row in tx.all("turns.beside", {"ids": json.dumps(list(ids)), "reach": max(1, reach)}):
        own = () if row["role"] == "tool" else (row["seq"],)
        said: list[int] = [*json.loads(row["earlier"]), *own, *json.loads(row["later"])]
        before.update((later, earlier) for earlier, later in pairwise(said))
        wanted.add(row["seq"])
        if reach:
            wanted.update(said)
    rows = [row for row in tx.all("turns.told", {"seqs": json.dumps(sorted(wanted))}) if holds(row)]
    places = {row["seq"]: place for place, row in enumerate(rows)}
    return Told(rows=rows, before=[places.get(before.get(row["seq"], -1), -1) for row in rows])
