"""A share: the rows of one table that pass a filter, with the words of these rows alone.

How rare a word is, how long a row usually is, how many rows there are: all of it is counted within the share. So a
filtered question is ranked as if nothing else were stored, and what an agent may not see cannot show through the
scores either. Counting costs a few microseconds a row of the share, which is why only narrowed questions pay for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from filrouge.clock import to_text
from filrouge.model.filters import TURN, Filters
from filrouge.ports import Analyser, Numbers, Tx
from filrouge.store.words import Owner, varints

_ROWS: Mapping[Owner, str] = {"turn": "turns.share", "memory": "memories.share"}
_MATCHING: Mapping[Owner, str] = {"turn": "turns.share_matching", "memory": "memories.share_matching"}
_COUNTS: Mapping[Owner, str] = {"turn": "turns.share_counts", "memory": "memories.share_counts"}
_TEXTS: Mapping[Owner, str] = {"turn": "turns.searched", "memory": "memories.searched"}
_LENGTHS: Mapping[Owner, str] = {"turn": "turns.share_lengths", "memory": "memories.share_lengths"}

#: Rows that are analysed again rather than looked up in the index: some 50 µs each.
_FEW = 3000


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a question looks.

    Attributes:
        project: the project to stay in; None with `everywhere` false means "outside every project".
        user: whose own memories belong to every project.
    """

    project: str | None
    user: str
    everywhere: bool


class Share:
    """The rows of a table that pass a filter, within a place."""

    def __init__(self, tx: Tx, owner: Owner, place: Place, filters: Filters) -> None:
        self._tx = tx
        self._owner: Owner = owner
        rows = [] if passes_none(owner, filters) else tx.all(_ROWS[owner], _parameters(place, filters))
        self._ids: dict[int, str] = {row["seq"]: row["id"] for row in rows}
        #: Those that a vector index holds no longer.
        self.ended: tuple[str, ...] = tuple(row["id"] for row in rows if row["ended"])

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._ids)

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all its rows."""
        return frozenset(self._ids.values())

    @property
    def numbers(self) -> Numbers:
        """The places of all its rows in their table."""
        return np.array(list(self._ids), dtype=np.int64)

    @cached_property
    def newest_first(self) -> list[str]:
        """The ids in the order of their storing."""
        return [self._ids[seq] for seq in sorted(self._ids, reverse=True)]

    @cached_property
    def lengths(self) -> dict[str, int]:
        """How many tokens each row is indexed under; rows without any are left out."""
        rows = self._tx.all(_LENGTHS[self._owner], {"seqs": self._seqs})
        return {self._ids[row["seq"]]: varints(row["sz"])[0] for row in rows}

    def matching(self, match: str) -> list[str]:
        """The rows that match an FTS5 expression, in no order."""
        rows = self._tx.all(_MATCHING[self._owner], {"match": match, "seqs": self._seqs})
        return [self._ids[row["seq"]] for row in rows]

    def counts(self, forms: Sequence[str], matching: Sequence[str], analyser: Analyser) -> dict[str, dict[str, int]]:
        """How often each token occurs in each of the rows that match; rows with none of them are left out.

        Few rows are read again, since the index would walk through every place where a frequent word stands.
        """
        if len(matching) <= _FEW:
            found = dict[str, dict[str, int]]()
            for row in self._tx.all(_TEXTS[self._owner], {"ids": json.dumps(matching)}):
                tokens = Counter(analyser.tokens(row["text"]).split())
                occurring = {form: tokens[form] for form in forms if form in tokens}
                found |= {row["id"]: occurring} if occurring and row["id"] in self.lengths else {}
            return found
        asked = {"forms": json.dumps(list(forms)), "seqs": self._seqs}
        found = dict[str, dict[str, int]]()
        for row in self._tx.all(_COUNTS[self._owner], asked):
            found.setdefault(self._ids[row["doc"]], {})[row["term"]] = row["n"]
        return found

    @cached_property
    def _seqs(self) -> str:
        return json.dumps(list(self._ids))


def passes_none(owner: Owner, filters: Filters) -> bool:
    """True where the filter is about the other table."""
    if owner == "memory":
        return filters.role is not None
    return bool(filters.kinds) and TURN not in filters.kinds


def _parameters(place: Place, filters: Filters) -> dict[str, object]:
    return {
        "project_id": place.project,
        "user_id": place.user,
        "everywhere": place.everywhere,
        "user": filters.user,
        "agent": filters.agent,
        "channel": filters.channel,
        "kinds": json.dumps(filters.kinds) if filters.kinds else None,
        "since": _text(filters.since),
        "until": _text(filters.until),
        "as_of": _text(filters.as_of),
        "trust": filters.trust,
        "role": filters.role,
        "thread": filters.thread,
        "branch": filters.branch,
    }


def _text(at: datetime | None) -> str | None:
    return to_text(at) if at else None
