"""The full-text index in the database: what it holds, what changed, and the rows that pass a filter."""

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
from filrouge.core.protocols import Analyser, Numbers, Tx
from filrouge.memories.models import TURN, Filters
from filrouge.search.models import NEVER, Mark, Selection, WordRow

# Words: the full-text index of turns and memories, told what to hold and asked what it holds.
#
# The index is the only copy of the analyser's tokens. A row says which analyser indexed it; its words are taken out
# by reading them back from the index, never by computing them again, so nothing stays behind after an upgrade of the
# analyser, of its stemmers or of Python. That reads the whole index once, however many rows go together.

Owner = Literal["turn", "memory"]

_PUT: Mapping[Owner, str] = {"turn": "turns.index", "memory": "memories.index"}
_REMOVE: Mapping[Owner, str] = {"turn": "turns.unindex", "memory": "memories.unindex"}
_MERGE: Mapping[Owner, str] = {"turn": "turns.merge", "memory": "memories.merge"}
_STALE: Mapping[Owner, str] = {"turn": "turns.stale", "memory": "memories.stale"}
_FRESH: Mapping[Owner, str] = {"turn": "turns.analysed", "memory": "memories.analysed"}
_FREQUENCIES: Mapping[Owner, str] = {"turn": "turns.frequencies", "memory": "memories.frequencies"}
_TOTALS: Mapping[Owner, str] = {"turn": "turns.totals", "memory": "memories.totals"}
#: Secure deletion visits every segment of the index for every word: for more rows than this, merging them first pays.
_FEW = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """How much an index holds: rows with at least one token, and tokens."""

    rows: int
    tokens: int

    @property
    def mean(self) -> float:
        """Tokens of an average row; 0 of an empty index."""
        return self.tokens / self.rows if self.rows else 0.0


class Words:
    """The full-text index of one table."""

    def __init__(self, tx: Tx, analyser: Analyser, owner: Owner) -> None:
        self._tx = tx
        self._analyser = analyser
        self._owner: Owner = owner

    def put(self, id_: str, text: str, tokens: str | None = None) -> None:
        """Index a row that is not indexed, under the words of this text.

        Args:
            tokens: what the analyser made of the text, where that was done before.
        """
        tokens = self._analyser.tokens(text) if tokens is None else tokens
        if tokens:
            self._tx.run(_PUT[self._owner], {"id": id_, "tokens": tokens})

    def remove(self, ids: Sequence[str]) -> None:
        """Take rows out of the index, leaving no trace of their words; to be done before many rows are deleted."""
        if len(ids) > _FEW:
            self._tx.run(_MERGE[self._owner])
        self._tx.run(_REMOVE[self._owner], {"ids": json.dumps(list(ids))})

    def stale(self, limit: int) -> list[tuple[str, str]]:
        """Rows that another analyser indexed, with the text they are found by, newest first."""
        rows = self._tx.all(_STALE[self._owner], {"version": self._analyser.version, "limit": limit})
        return [(row["id"], row["text"]) for row in rows]

    def renew(self, rows: Sequence[tuple[str, str]]) -> None:
        """Index rows again, as the present analyser would."""
        self.remove([id_ for id_, _ in rows])
        self.add(rows)

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Index rows that are not indexed, as the present analyser would."""
        for id_, text in rows:
            self.put(id_, text)
            self._tx.run(_FRESH[self._owner], {"id": id_, "version": self._analyser.version})

    def frequencies(self, forms: Sequence[str]) -> dict[str, int]:
        """In how many rows, of whatever scope and state, each token occurs; those that occur nowhere are left out."""
        rows = self._tx.all(_FREQUENCIES[self._owner], {"forms": json.dumps(list(forms))})
        return {row["term"]: int(row["doc"]) for row in rows}

    def totals(self) -> Totals:
        """How much the index holds, at the price of one row."""
        row = self._tx.one(_TOTALS[self._owner])
        # FTS5's record 1 (https://sqlite.org/fts5.html): the number of rows, then the tokens of each column.
        numbers = varints(row["block"]) if row else []
        return Totals(rows=numbers[0], tokens=numbers[1]) if len(numbers) > 1 else Totals(rows=0, tokens=0)


def varints(block: bytes) -> list[int]:
    """SQLite's variable-length integers: seven bits a byte, high bits first, of at most nine bytes."""
    numbers, value, length = list[int](), 0, 0
    for byte in block:
        length += 1
        last = length == 9
        value = (value << 8 | byte) if last else (value << 7 | byte & 0x7F)
        if last or byte < 0x80:
            numbers.append(value)
            value, length = 0, 0
    return numbers


# A share: the rows of one table that pass a filter, with the words of these rows alone.
#
# How rare a word is, how long a row usually is, how many rows there are: all of it is counted within the share. So a
# filtered question is ranked as if nothing else were stored, and what an agent may not see cannot show through the
# scores either. Counting costs a few microseconds a row of the share, which is why only narrowed questions pay for
# it.

_ROWS: Mapping[Owner, str] = {"turn": "turns.share", "memory": "memories.share"}
_MATCHING: Mapping[Owner, str] = {"turn": "turns.share_matching", "memory": "memories.share_matching"}
_COUNTS: Mapping[Owner, str] = {"turn": "turns.share_counts", "memory": "memories.share_counts"}
_TEXTS: Mapping[Owner, str] = {"turn": "turns.searched", "memory": "memories.searched"}
_LENGTHS: Mapping[Owner, str] = {"turn": "turns.share_lengths", "memory": "memories.share_lengths"}

#: Rows that are analysed again rather than looked up in the index: some 50 µs each.
_SHARES_FEW = 3000


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


# What a word index is made from and asked for: rows with their labels, what changed, and what it does not hold yet.
#
# A row's labels say everything that a question may be narrowed by, so that the index can narrow by itself. The labels
# of turns never change; what becomes of a memory stands in the journal, by which an index follows.

_NEWEST: Final[Mapping[Owner, str]] = {"turn": "turns.last", "memory": "memories.last"}
_BEHIND: Final[Mapping[Owner, str]] = {"turn": "turns.numbered", "memory": "memories.numbered"}
_WORD_ROWS_MATCHING: Final[Mapping[Owner, str]] = {
    "turn": "turns.matching_behind",
    "memory": "memories.matching_behind",
}
_WORD_ROWS_FRESH: Final[Mapping[Owner, str]] = {"turn": "turns.labelled_behind", "memory": "memories.labelled_behind"}
_WORD_ROWS_TEXTS: Final[Mapping[Owner, str]] = {
    "turn": "turns.searched_by_number",
    "memory": "memories.searched_by_number",
}
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
        return [row["seq"] for row in self._tx.all(_WORD_ROWS_MATCHING[self._owner], {"match": match, "after": number})]

    def texts(self, numbers: Collection[int]) -> dict[int, str]:
        """What these rows are found by."""
        rows = self._tx.all(_WORD_ROWS_TEXTS[self._owner], {"seqs": json.dumps(list(numbers))})
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
        rows = self._tx.all(_WORD_ROWS_FRESH[self._owner], asked)
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


# Turns and those said beside them: what ranking reads of them, and nothing more.

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
