"""What a word index is made from and asked for: rows with their labels, what changed, and what it does not hold yet.

A row's labels say everything that a question may be narrowed by, so that the index can narrow by itself. The labels of
turns never change; what becomes of a memory stands in the journal, by which an index follows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from filrouge.clock import from_text
from filrouge.model.filters import Filters
from filrouge.model.wording import NEVER, Mark, Selection, WordRow
from filrouge.ports import Analyser, Tx
from filrouge.store.shares import Place, passes_none
from filrouge.store.words import Owner

_NEWEST: Final[Mapping[Owner, str]] = {"turn": "turns.last", "memory": "memories.last"}
_BEHIND: Final[Mapping[Owner, str]] = {"turn": "turns.numbered", "memory": "memories.numbered"}
_MATCHING: Final[Mapping[Owner, str]] = {"turn": "turns.matching_behind", "memory": "memories.matching_behind"}
_FRESH: Final[Mapping[Owner, str]] = {"turn": "turns.labelled_behind", "memory": "memories.labelled_behind"}
_TEXTS: Final[Mapping[Owner, str]] = {"turn": "turns.searched_by_number", "memory": "memories.searched_by_number"}
_IDS: Final[Mapping[Owner, str]] = {"turn": "turns.ids", "memory": "memories.ids"}
_PASSING: Final[Mapping[Owner, str]] = {"turn": "turns.labelled", "memory": "memories.labelled"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUSTS: Final = range(4)
#: What a memory may have become that was believed once.
_BELIEVED: Final = ("live", "superseded", "binned")


class WordRows:
    """One table as a word index sees it."""

    def __init__(self, tx: Tx, owner: Owner) -> None:
        self._tx = tx
        self._owner: Owner = owner

    def newest(self) -> Mark:
        """The last row and the last change there are; taken before the rows are read, it is never ahead of them."""
        return Mark(row=self._number(_NEWEST[self._owner]), change=self._number("journal.newest"))

    def behind(self, number: int, limit: int, analyser: Analyser) -> list[WordRow]:
        """The next rows behind one."""
        rows = self._tx.all(_BEHIND[self._owner], {"after": number, "limit": limit})
        return [self._row(row, analyser) for row in rows]

    def again(self, numbers: Collection[int], analyser: Analyser) -> list[WordRow]:
        """These rows as they are now; those that are gone are left out."""
        if self._owner == "turn" or not numbers:
            return []
        rows = self._tx.all("memories.numbered_again", {"seqs": json.dumps(list(numbers))})
        return [self._row(row, analyser) for row in rows]

    def changed(self, after: int, until: int) -> frozenset[int]:
        """The rows whose labels may be others since these entries of the journal."""
        if self._owner == "turn" or until <= after:
            return frozenset()
        ids = [row["memory_id"] for row in self._tx.all("journal.behind", {"after": after, "until": until})]
        return frozenset(row["seq"] for row in self._tx.all("memories.numbers", {"ids": json.dumps(ids)}))

    def matching_behind(self, match: str, number: int) -> list[int]:
        """The rows behind one that match an FTS5 expression."""
        return [row["seq"] for row in self._tx.all(_MATCHING[self._owner], {"match": match, "after": number})]

    def texts(self, numbers: Collection[int]) -> dict[int, str]:
        """What these rows are found by."""
        rows = self._tx.all(_TEXTS[self._owner], {"seqs": json.dumps(list(numbers))})
        return {row["seq"]: row["text"] for row in rows}

    def ids(self, numbers: Collection[int]) -> dict[int, str]:
        """The ids of these rows; those that are gone are left out."""
        rows = self._tx.all(_IDS[self._owner], {"seqs": json.dumps(list(numbers))})
        return {row["seq"]: row["id"] for row in rows}

    def passing(self, ids: Collection[str], selection: Selection) -> dict[str, int]:
        """Which of these rows a selection has, as they are now, with their numbers."""
        rows = self._tx.all(_PASSING[self._owner], {"ids": json.dumps(list(ids))})
        return {row["id"]: row["seq"] for row in rows if passes(row, selection)}

    def fresh(self, number: int, changed: Collection[int], selection: Selection) -> dict[int, str]:
        """The rows of a selection that lie behind one or were changed, as they are now, with their ids."""
        asked = {"after": number, "seqs": json.dumps(list(changed))}
        rows = self._tx.all(_FRESH[self._owner], asked)
        return {row["seq"]: row["id"] for row in rows if passes(row, selection)}

    def _number(self, query: str) -> int:
        row = self._tx.one(query)
        return int(row["n"]) if row else 0

    def _row(self, row: Mapping[str, Any], analyser: Analyser) -> WordRow:
        begins, ends = _times(row)
        tokens, own = analyser.tokens(row["text"]), _labels(*(row.get(column) for column in _COLUMNS))
        return WordRow(number=row["seq"], tokens=tokens, labels=own, begins=begins, ends=ends)


def selection(owner: Owner, place: Place, filters: Filters) -> Selection | None:
    """What passes a filter within a place; None where nothing of this table can."""
    if passes_none(owner, filters):
        return None
    first, until, moment = _micro(filters.since), _micro(filters.until), _micro(filters.as_of)
    last = min((end for end in (None if until is None else until - 1, moment) if end is not None), default=None)
    labels = [*_of(owner, place), *_named(filters)]
    if owner == "turn":
        return Selection(labels=tuple(labels), begins=(first, last))
    if filters.kinds:
        labels.append(frozenset(f"kind:{kind}" for kind in filters.kinds))
    labels.append(frozenset(f"state:{state}" for state in (_BELIEVED if filters.as_of else ("live",))))
    return Selection(labels=tuple(labels), begins=(first, last), lasts_beyond=moment)


def _of(owner: Owner, place: Place) -> list[frozenset[str]]:
    if place.everywhere:
        return []
    own = {f"of:user:{place.user}"} if owner == "memory" else set[str]()
    return [frozenset({f"of:{place.project or ''}", *own})]


def _named(filters: Filters) -> list[frozenset[str]]:
    wanted = {"user": filters.user, "agent": filters.agent, "channel": filters.channel, "role": filters.role}
    labels = [frozenset({f"{name}:{value}"}) for name, value in wanted.items() if value is not None]
    if filters.trust > 0:
        labels.append(frozenset(f"trust:{trust}" for trust in _TRUSTS if trust >= filters.trust))
    return labels


def passes(row: Mapping[str, Any], wanted: Selection) -> bool:
    """True if the selection has a row with these columns."""
    own = _labels(*(row.get(column) for column in _COLUMNS))
    if row["seq"] in wanted.without or any(own.isdisjoint(labels) for labels in wanted.labels):
        return False
    first, last = wanted.begins
    if first is None and last is None and wanted.lasts_beyond is None:
        return True
    begins, ends = _times(row)
    return (
        (first is None or begins >= first)
        and (last is None or begins <= last)
        and (wanted.lasts_beyond is None or ends > wanted.lasts_beyond)
    )


#: What rows are labelled with, in the order of `_labels`.
_COLUMNS: Final = ("scope", "user_id", "project_id", "agent", "channel", "trust", "role", "kind", "state")


@lru_cache(maxsize=4096)
def _labels(scope: str | None, user: str, project: str | None, *others: object) -> frozenset[str]:
    place = f"of:user:{user}" if scope == "user" else f"of:{project or ''}"
    named = zip(_COLUMNS[3:], others, strict=True)
    return frozenset({place, f"user:{user}", *(f"{name}:{value}" for name, value in named if value is not None)})


def _times(row: Mapping[str, Any]) -> tuple[int, int]:
    ends = row.get("ends")
    return _micro(from_text(row["begins"])) or 0, NEVER if ends is None else _micro(from_text(ends)) or 0


def _micro(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // timedelta(microseconds=1)
