"""The full-text index in the database, rows that pass a filter, and rows for a word index.

`FullTextIndex` reads and writes the FTS5 index of turns and memories. `FilteredRows` reads the rows that pass a
filter, with the statistics of these rows only. `WordRows` supplies rows with their labels to the word index of a large
table. `turns_with_neighbours` reads turns with the turns around them for ranking.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Analyser, RowNumbers, Tx
from filrouge.memories.models import TURN, Filters
from filrouge.search.models import NEVER, IndexPosition, Selection, WordRow

# The full-text index of turns and memories. It holds the only copy of the analyser's tokens, and each row records which
# analyser version indexed it. Tokens are removed by reading them back from the index, never by computing them again, so
# nothing is left behind after an upgrade of the analyser, its stemmers or Python. Each removal reads the whole index
# once, regardless of how many rows are removed together.

IndexedTable = Literal["turn", "memory"]

_PUT: Mapping[IndexedTable, str] = {"turn": "turns.index", "memory": "memories.index"}
_REMOVE: Mapping[IndexedTable, str] = {"turn": "turns.unindex", "memory": "memories.unindex"}
_MERGE: Mapping[IndexedTable, str] = {"turn": "turns.merge", "memory": "memories.merge"}
_STALE: Mapping[IndexedTable, str] = {"turn": "turns.stale", "memory": "memories.stale"}
_FRESH: Mapping[IndexedTable, str] = {"turn": "turns.analysed", "memory": "memories.analysed"}
_FREQUENCIES: Mapping[IndexedTable, str] = {"turn": "turns.frequencies", "memory": "memories.frequencies"}
_TOTALS: Mapping[IndexedTable, str] = {"turn": "turns.totals", "memory": "memories.totals"}
#: Secure deletion visits every segment of the index for every word; above this many rows, merging the segments first is
#: faster.
_FEW = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """The size of an index: rows with at least one token, and tokens."""

    rows: int
    tokens: int

    @property
    def mean(self) -> float:
        """Return the mean number of tokens per row; 0 for an empty index."""
        return self.tokens / self.rows if self.rows else 0.0


class FullTextIndex:
    """The full-text index of one table."""

    def __init__(self, tx: Tx, analyser: Analyser, owner: IndexedTable) -> None:
        self._tx = tx
        self._analyser = analyser
        self._owner: IndexedTable = owner

    def put(self, id_: str, text: str, tokens: str | None = None) -> None:
        """Index a row that is not indexed yet, under the tokens of this text.

        Args:
            tokens: the token string of the text, if it was computed before.
        """
        tokens = self._analyser.tokens(text) if tokens is None else tokens
        if tokens:
            self._tx.run(_PUT[self._owner], {"id": id_, "tokens": tokens})

    def remove(self, ids: Sequence[str]) -> None:
        """Remove rows from the index with no trace of their tokens; call it before many rows are deleted."""
        if len(ids) > _FEW:
            self._tx.run(_MERGE[self._owner])
        self._tx.run(_REMOVE[self._owner], {"ids": json.dumps(list(ids))})

    def stale(self, limit: int) -> list[tuple[str, str]]:
        """Return rows indexed by another analyser version, with their searchable text, newest first."""
        rows = self._tx.all(_STALE[self._owner], {"version": self._analyser.version, "limit": limit})
        return [(row["id"], row["text"]) for row in rows]

    def renew(self, rows: Sequence[tuple[str, str]]) -> None:
        """Reindex rows with the current analyser."""
        self.remove([id_ for id_, _ in rows])
        self.add(rows)

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Index rows that are not indexed yet with the current analyser."""
        for id_, text in rows:
            self.put(id_, text)
            self._tx.run(_FRESH[self._owner], {"id": id_, "version": self._analyser.version})

    def frequencies(self, forms: Sequence[str]) -> dict[str, int]:
        """Return in how many rows, of any scope and state, each token occurs; tokens that occur nowhere are omitted."""
        rows = self._tx.all(_FREQUENCIES[self._owner], {"forms": json.dumps(list(forms))})
        return {row["term"]: int(row["doc"]) for row in rows}

    def totals(self) -> Totals:
        """Return the size of the index; reads a single row."""
        row = self._tx.one(_TOTALS[self._owner])
        # FTS5's record 1 (https://sqlite.org/fts5.html): the number of rows, then the tokens of each column.
        numbers = varints(row["block"]) if row else []
        return Totals(rows=numbers[0], tokens=numbers[1]) if len(numbers) > 1 else Totals(rows=0, tokens=0)


def varints(block: bytes) -> list[int]:
    """Decode SQLite's variable-length integers: seven bits per byte, high bits first, at most nine bytes."""
    numbers, value, length = list[int](), 0, 0
    for byte in block:
        length += 1
        last = length == 9
        value = (value << 8 | byte) if last else (value << 7 | byte & 0x7F)
        if last or byte < 0x80:
            numbers.append(value)
            value, length = 0, 0
    return numbers


# A share is the set of rows of one table that pass a filter. Word rarity, mean row length and row count are all
# computed within the share. A filtered question is therefore ranked as if nothing else were stored, and rows that an
# agent may not see cannot influence its scores. Counting costs a few microseconds per row of the share, so only
# filtered questions do it.

_ROWS: Mapping[IndexedTable, str] = {"turn": "turns.share", "memory": "memories.share"}
_MATCHING: Mapping[IndexedTable, str] = {"turn": "turns.share_matching", "memory": "memories.share_matching"}
_COUNTS: Mapping[IndexedTable, str] = {"turn": "turns.share_counts", "memory": "memories.share_counts"}
_TEXTS: Mapping[IndexedTable, str] = {"turn": "turns.searched", "memory": "memories.searched"}
_LENGTHS: Mapping[IndexedTable, str] = {"turn": "turns.share_lengths", "memory": "memories.share_lengths"}

#: Up to this many rows are tokenised again, at about 50 µs each, instead of being looked up in the index.
_SHARES_FEW = 3000


@dataclass(frozen=True, kw_only=True)
class SearchScope:
    """Where a question is searched.

    Attributes:
        project: the project to stay in; None with `everywhere` false means "outside every project".
        user: the user whose own memories are searched in every project.
    """

    project: str | None
    user: str
    everywhere: bool


class FilteredRows:
    """The rows of a table that pass a filter, within a place."""

    def __init__(self, tx: Tx, owner: IndexedTable, place: SearchScope, filters: Filters) -> None:
        self._tx = tx
        self._owner: IndexedTable = owner
        rows = [] if passes_none(owner, filters) else tx.all(_ROWS[owner], _parameters(place, filters))
        self._ids: dict[int, str] = {row["seq"]: row["id"] for row in rows}
        #: Rows that a vector index no longer holds.
        self.ended: tuple[str, ...] = tuple(row["id"] for row in rows if row["ended"])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._ids)

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all rows."""
        return frozenset(self._ids.values())

    @property
    def numbers(self) -> RowNumbers:
        """Return the row numbers of all rows."""
        return np.array(list(self._ids), dtype=np.int64)

    @cached_property
    def newest_first(self) -> list[str]:
        """The ids, newest row first."""
        return [self._ids[seq] for seq in sorted(self._ids, reverse=True)]

    @cached_property
    def lengths(self) -> dict[str, int]:
        """How many tokens each row is indexed under; rows without tokens are left out."""
        rows = self._tx.all(_LENGTHS[self._owner], {"seqs": self._seqs})
        return {self._ids[row["seq"]]: varints(row["sz"])[0] for row in rows}

    def matching(self, match: str) -> list[str]:
        """Return the rows that match an FTS5 expression, in no particular order."""
        rows = self._tx.all(_MATCHING[self._owner], {"match": match, "seqs": self._seqs})
        return [self._ids[row["seq"]] for row in rows]

    def counts(self, forms: Sequence[str], matching: Sequence[str], analyser: Analyser) -> dict[str, dict[str, int]]:
        """Return how often each form occurs in each matching row; rows without any of them are left out.

        A small number of rows is tokenised again, because the index would read every position of a frequent word.
        """
        if len(matching) <= _SHARES_FEW:
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


def passes_none(owner: IndexedTable, filters: Filters) -> bool:
    """Return True if the filter applies to the other table only."""
    if owner == "memory":
        return filters.role is not None
    return bool(filters.kinds) and TURN not in filters.kinds


def _parameters(place: SearchScope, filters: Filters) -> dict[str, object]:
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


# Rows as a word index sees them: with labels, changes since a mark, and rows it does not hold yet. The labels cover
# every condition that the index filters by itself. The labels of turns never change. State changes of memories are
# recorded in the journal, which the index follows.

_NEWEST: Final[Mapping[IndexedTable, str]] = {"turn": "turns.last", "memory": "memories.last"}
_BEHIND: Final[Mapping[IndexedTable, str]] = {"turn": "turns.numbered", "memory": "memories.numbered"}
_MATCHING_ROWS: Final[Mapping[IndexedTable, str]] = {
    "turn": "turns.matching_behind",
    "memory": "memories.matching_behind",
}
_FRESH_ROWS: Final[Mapping[IndexedTable, str]] = {
    "turn": "turns.labelled_behind",
    "memory": "memories.labelled_behind",
}
_TEXT_ROWS: Final[Mapping[IndexedTable, str]] = {
    "turn": "turns.searched_by_number",
    "memory": "memories.searched_by_number",
}
_IDS: Final[Mapping[IndexedTable, str]] = {"turn": "turns.ids", "memory": "memories.ids"}
_PASSING: Final[Mapping[IndexedTable, str]] = {"turn": "turns.labelled", "memory": "memories.labelled"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUSTS: Final = range(4)
#: States of a memory that was valid at some time.
_BELIEVED: Final = ("live", "superseded", "binned")


class WordRows:
    """One table as a word index sees it."""

    def __init__(self, tx: Tx, owner: IndexedTable) -> None:
        self._tx = tx
        self._owner: IndexedTable = owner

    def newest(self) -> IndexPosition:
        """Return the last row and the last change; read it before the rows, so that it is never ahead of them."""
        return IndexPosition(row=self._number(_NEWEST[self._owner]), change=self._number("journal.newest"))

    def behind(self, number: int, limit: int, analyser: Analyser) -> list[WordRow]:
        """Return the next `limit` rows after this row number."""
        rows = self._tx.all(_BEHIND[self._owner], {"after": number, "limit": limit})
        return [self._row(row, analyser) for row in rows]

    def again(self, numbers: Collection[int], analyser: Analyser) -> list[WordRow]:
        """Return the current version of these rows; deleted rows are left out."""
        if self._owner == "turn" or not numbers:
            return []
        rows = self._tx.all("memories.numbered_again", {"seqs": json.dumps(list(numbers))})
        return [self._row(row, analyser) for row in rows]

    def changed(self, after: int, until: int) -> frozenset[int]:
        """Return the rows whose labels may have changed in this range of journal entries."""
        if self._owner == "turn" or until <= after:
            return frozenset()
        ids = [row["memory_id"] for row in self._tx.all("journal.behind", {"after": after, "until": until})]
        return frozenset(row["seq"] for row in self._tx.all("memories.numbers", {"ids": json.dumps(ids)}))

    def matching_behind(self, match: str, number: int) -> list[int]:
        """Return the rows after this row number that match an FTS5 expression."""
        return [row["seq"] for row in self._tx.all(_MATCHING_ROWS[self._owner], {"match": match, "after": number})]

    def texts(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the searchable texts of these rows."""
        rows = self._tx.all(_TEXT_ROWS[self._owner], {"seqs": json.dumps(list(numbers))})
        return {row["seq"]: row["text"] for row in rows}

    def ids(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the ids of these rows; deleted rows are left out."""
        rows = self._tx.all(_IDS[self._owner], {"seqs": json.dumps(list(numbers))})
        return {row["seq"]: row["id"] for row in rows}

    def passing(self, ids: Collection[str], selection: Selection) -> dict[str, int]:
        """Return the current rows with these ids that pass a selection, with their row numbers."""
        rows = self._tx.all(_PASSING[self._owner], {"ids": json.dumps(list(ids))})
        return {row["id"]: row["seq"] for row in rows if passes(row, selection)}

    def fresh(self, number: int, changed: Collection[int], selection: Selection) -> dict[int, str]:
        """Return the ids of current rows that pass a selection and are new since `number` or changed, by row number."""
        asked = {"after": number, "seqs": json.dumps(list(changed))}
        rows = self._tx.all(_FRESH_ROWS[self._owner], asked)
        return {row["seq"]: row["id"] for row in rows if passes(row, selection)}

    def _number(self, query: str) -> int:
        row = self._tx.one(query)
        return int(row["n"]) if row else 0

    def _row(self, row: Mapping[str, Any], analyser: Analyser) -> WordRow:
        begins, ends = _times(row)
        tokens, own = analyser.tokens(row["text"]), _labels(*(row.get(column) for column in _COLUMNS))
        return WordRow(number=row["seq"], tokens=tokens, labels=own, begins=begins, ends=ends)


def selection(owner: IndexedTable, place: SearchScope, filters: Filters) -> Selection | None:
    """Return the selection for a filter within a place; None if no row of this table can pass."""
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


def _of(owner: IndexedTable, place: SearchScope) -> list[frozenset[str]]:
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
    """Return True if a row with these columns passes the selection."""
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


#: The columns that labels are made of, in the order of `_labels`.
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


# Turns and their neighbours, with only the columns that ranking reads.

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnWindow:
    """Turns in the order they were stored.

    Attributes:
        rows: the columns of the query `turns.told`.
        before: for each turn the index of the turn before it in the same session and project; -1 if there is none or it
            is not among `rows`.
    """

    rows: Sequence[Row]
    before: Sequence[int]


def turns_with_neighbours(tx: Tx, ids: Collection[str], reach: int, holds: Callable[[Row], bool]) -> TurnWindow:
    """Return the turns with these ids, with up to `reach` turns before and after each.

    Args:
        holds: a turn for which this returns False is left out, and is not used as a neighbour either.
    """
    wanted, before = set[int](), dict[int, int]()
    # With a reach of 0, neighbours are still read to find which of the requested turns are adjacent.
    for row in tx.all("turns.beside", {"ids": json.dumps(list(ids)), "reach": max(1, reach)}):
        own = () if row["role"] == "tool" else (row["seq"],)
        said: list[int] = [*json.loads(row["earlier"]), *own, *json.loads(row["later"])]
        before.update((later, earlier) for earlier, later in pairwise(said))
        wanted.add(row["seq"])
        if reach:
            wanted.update(said)
    rows = [row for row in tx.all("turns.told", {"seqs": json.dumps(sorted(wanted))}) if holds(row)]
    places = {row["seq"]: place for place, row in enumerate(rows)}
    return TurnWindow(rows=rows, before=[places.get(before.get(row["seq"], -1), -1) for row in rows])
