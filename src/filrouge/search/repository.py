"""Rows of the search room: stored vectors, full text in the database, and the word index of a large table.

Vectors are half-precision BLOBs, each with the id of its embedding space. They are the source from which a vector index
is rebuilt. Vectors of two spaces are never read together: recall reads the one current space, another may be building,
and the rest are retired and cleared. The windows of a long text are written from the last to the first, so an owner (a
memory or a turn) is complete once its part 0 is stored.

The full-text index in the database scores every match. In a table with more than `SWITCH` rows, a separate word index
answers instead. One thread builds it from the stored rows, never in the transaction that stores them, and a mark
records how far it has followed. Until it exists, and while it lags too far behind, the full-text index answers.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from filrouge.core.clock import from_text
from filrouge.core.errors import FilrougeError
from filrouge.core.guard import logged
from filrouge.core.protocols import Analyser, RowNumbers, Tx, Vector, Vectors, WordIndex, WordIndexes, WordSnapshot
from filrouge.core.rows import number_of
from filrouge.memories.models import Filters
from filrouge.providers.models import Calibration, EmbeddingSpace
from filrouge.search.filters import parameters_of, passes_none
from filrouge.search.models import NEVER, IndexedTable, IndexPosition, Selection, WordRow

# The full-text index in the database, rows that pass a filter, and rows for a word index.
#
# `FullTextIndex` reads and writes the FTS5 index of turns and memories. `FilteredRows` reads the rows that pass a
# filter, with the statistics of these rows only. `WordRows` supplies rows with their labels to the word index of a
# large table. `turns_with_neighbours` reads turns with the turns around them for ranking.

# The full-text index of turns and memories. It holds the only copy of the analyser's tokens, and each row records which
# analyser version indexed it. Tokens are removed by reading them back from the index, never by computing them again, so
# nothing is left behind after an upgrade of the analyser, its stemmers or Python. Each removal reads the whole index
# once, regardless of how many rows are removed together.


_PUT: Mapping[IndexedTable, str] = {"turn": "turns.index", "memory": "memories.index"}
_REMOVE: Mapping[IndexedTable, str] = {"turn": "turns.unindex", "memory": "memories.unindex"}
_MERGE: Mapping[IndexedTable, str] = {"turn": "turns.merge", "memory": "memories.merge"}
_STALE: Mapping[IndexedTable, str] = {"turn": "turns.stale", "memory": "memories.stale"}
_SET_ANALYSED: Mapping[IndexedTable, str] = {"turn": "turns.analysed", "memory": "memories.analysed"}
_FREQUENCIES: Mapping[IndexedTable, str] = {"turn": "turns.frequencies", "memory": "memories.frequencies"}
_TOTALS: Mapping[IndexedTable, str] = {"turn": "turns.totals", "memory": "memories.totals"}
#: Secure deletion visits every segment of the index for every word; above this many rows, merging the segments first is
#: faster.
_MAX_REMOVED_WITHOUT_MERGE = 20


class Totals(Struct, frozen=True, kw_only=True):
    """The size of an index.

    Attributes:
        rows: rows with at least one token.
        tokens: tokens of all rows, with repetitions.
    """

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
        if len(ids) > _MAX_REMOVED_WITHOUT_MERGE:
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
            self._tx.run(_SET_ANALYSED[self._owner], {"id": id_, "version": self._analyser.version})

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


# The rows of one table that pass a filter; the queries call them a share. Word rarity, mean row length and row count
# are all computed within these rows. A filtered question is therefore ranked as if nothing else were stored, and rows
# that an agent may not see cannot influence its scores. Counting costs a few microseconds per row, so only filtered
# questions do it.

_ROWS: Mapping[IndexedTable, str] = {"turn": "turns.share", "memory": "memories.share"}
_MATCHING: Mapping[IndexedTable, str] = {"turn": "turns.share_matching", "memory": "memories.share_matching"}
_COUNTS: Mapping[IndexedTable, str] = {"turn": "turns.share_counts", "memory": "memories.share_counts"}
_TEXTS: Mapping[IndexedTable, str] = {"turn": "turns.searched", "memory": "memories.searched"}
_LENGTHS: Mapping[IndexedTable, str] = {"turn": "turns.share_lengths", "memory": "memories.share_lengths"}

#: Up to this many rows are tokenised again, at about 50 µs each, instead of being looked up in the index.
_MAX_RETOKENISED = 3000


class SearchScope(Struct, frozen=True, kw_only=True):
    """Where a question is searched.

    Attributes:
        project: the project to stay in; None with `everywhere` false means "outside every project".
        user: the user whose own memories are searched in every project.
    """

    project: str | None
    user: str
    everywhere: bool

    @property
    def parameters(self) -> dict[str, object]:
        """The scope as parameters of a query."""
        return {"project_id": self.project, "user_id": self.user, "everywhere": self.everywhere}


class FilteredRows:
    """The rows of a table that pass a filter, within a scope."""

    def __init__(self, tx: Tx, owner: IndexedTable, scope: SearchScope, filters: Filters) -> None:
        self._tx = tx
        self._owner: IndexedTable = owner
        rows = [] if passes_none(owner, filters) else tx.all(_ROWS[owner], scope.parameters | parameters_of(filters))
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
        if len(matching) <= _MAX_RETOKENISED:
            found = dict[str, dict[str, int]]()
            for row in self._tx.all(_TEXTS[self._owner], {"ids": json.dumps(matching)}):
                tokens = Counter(analyser.tokens(row["text"]).split())
                occurring = {form: tokens[form] for form in forms if form in tokens}
                found |= {row["id"]: occurring} if occurring and row["id"] in self.lengths else {}
            return found
        parameters = {"forms": json.dumps(list(forms)), "seqs": self._seqs}
        found = dict[str, dict[str, int]]()
        for row in self._tx.all(_COUNTS[self._owner], parameters):
            found.setdefault(self._ids[row["doc"]], {})[row["term"]] = row["n"]
        return found

    @cached_property
    def _seqs(self) -> str:
        return json.dumps(list(self._ids))


# Rows as a word index sees them: with labels, changes since a mark, and rows it does not hold yet. The labels cover
# every condition that the index filters by itself. The labels of turns never change. State changes of memories are
# recorded in the journal, which the index follows.

_NEWEST: Final[Mapping[IndexedTable, str]] = {"turn": "turns.last", "memory": "memories.last"}
_ROWS_AFTER: Final[Mapping[IndexedTable, str]] = {"turn": "turns.numbered", "memory": "memories.numbered"}
_MATCHING_AFTER: Final[Mapping[IndexedTable, str]] = {
    "turn": "turns.matching_behind",
    "memory": "memories.matching_behind",
}
_NEW_OR_CHANGED: Final[Mapping[IndexedTable, str]] = {
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
_TRUST_LEVELS: Final = range(4)
#: States of a memory that was valid at some time.
_ONCE_VALID_STATES: Final = ("live", "superseded", "binned")


class WordRows:
    """One table as a word index sees it."""

    def __init__(self, tx: Tx, owner: IndexedTable) -> None:
        self._tx = tx
        self._owner: IndexedTable = owner

    def newest(self) -> IndexPosition:
        """Return the last row and the last change; read it before the rows, so that it is never ahead of them."""
        return IndexPosition(
            row=number_of(self._tx, _NEWEST[self._owner]), change=number_of(self._tx, "journal.newest")
        )

    def rows_after(self, number: int, limit: int, analyser: Analyser) -> list[WordRow]:
        """Return the next `limit` rows after this row number."""
        rows = self._tx.all(_ROWS_AFTER[self._owner], {"after": number, "limit": limit})
        return [self._row(row, analyser) for row in rows]

    def current_rows(self, numbers: Collection[int], analyser: Analyser) -> list[WordRow]:
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

    def matching_after(self, match: str, number: int) -> list[int]:
        """Return the rows after this row number that match an FTS5 expression."""
        return [row["seq"] for row in self._tx.all(_MATCHING_AFTER[self._owner], {"match": match, "after": number})]

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

    def new_or_changed(self, number: int, changed: Collection[int], selection: Selection) -> dict[int, str]:
        """Return the ids of current rows that pass a selection and are new since `number` or changed, by row number."""
        parameters = {"after": number, "seqs": json.dumps(list(changed))}
        rows = self._tx.all(_NEW_OR_CHANGED[self._owner], parameters)
        return {row["seq"]: row["id"] for row in rows if passes(row, selection)}

    def _row(self, row: Mapping[str, Any], analyser: Analyser) -> WordRow:
        begins, ends = _times(row)
        tokens, labels = analyser.tokens(row["text"]), _labels(*(row.get(column) for column in _LABEL_COLUMNS))
        return WordRow(number=row["seq"], tokens=tokens, labels=labels, begins=begins, ends=ends)


def build_selection(owner: IndexedTable, scope: SearchScope, filters: Filters) -> Selection | None:
    """Return the selection for a filter within a scope; None if no row of this table can pass."""
    if passes_none(owner, filters):
        return None
    first, until, moment = _microseconds(filters.since), _microseconds(filters.until), _microseconds(filters.as_of)
    last = min((end for end in (None if until is None else until - 1, moment) if end is not None), default=None)
    labels = [*_scope_labels(owner, scope), *_filter_labels(filters)]
    if owner == "turn":
        return Selection(labels=tuple(labels), begins=(first, last))
    if filters.kinds:
        labels.append(frozenset(f"kind:{kind}" for kind in filters.kinds))
    labels.append(frozenset(f"state:{state}" for state in (_ONCE_VALID_STATES if filters.as_of else ("live",))))
    return Selection(labels=tuple(labels), begins=(first, last), lasts_beyond=moment)


def _scope_labels(owner: IndexedTable, scope: SearchScope) -> list[frozenset[str]]:
    if scope.everywhere:
        return []
    of_user = {f"of:user:{scope.user}"} if owner == "memory" else set[str]()
    return [frozenset({f"of:{scope.project or ''}", *of_user})]


def _filter_labels(filters: Filters) -> list[frozenset[str]]:
    values = {"user": filters.user, "agent": filters.agent, "channel": filters.channel, "role": filters.role}
    labels = [frozenset({f"{name}:{value}"}) for name, value in values.items() if value is not None]
    if filters.trust > 0:
        labels.append(frozenset(f"trust:{trust}" for trust in _TRUST_LEVELS if trust >= filters.trust))
    return labels


def passes(row: Mapping[str, Any], selection: Selection) -> bool:
    """Return True if a row with these columns passes the selection."""
    row_labels = _labels(*(row.get(column) for column in _LABEL_COLUMNS))
    if row["seq"] in selection.without or any(row_labels.isdisjoint(labels) for labels in selection.labels):
        return False
    first, last = selection.begins
    if first is None and last is None and selection.lasts_beyond is None:
        return True
    begins, ends = _times(row)
    return (
        (first is None or begins >= first)
        and (last is None or begins <= last)
        and (selection.lasts_beyond is None or ends > selection.lasts_beyond)
    )


#: The columns that labels are made of, in the order of `_labels`.
_LABEL_COLUMNS: Final = ("scope", "user_id", "project_id", "agent", "channel", "trust", "role", "kind", "state")


@lru_cache(maxsize=4096)
def _labels(scope: str | None, user: str, project: str | None, *others: object) -> frozenset[str]:
    scope_label = f"of:user:{user}" if scope == "user" else f"of:{project or ''}"
    named = zip(_LABEL_COLUMNS[3:], others, strict=True)
    return frozenset({scope_label, f"user:{user}", *(f"{name}:{value}" for name, value in named if value is not None)})


def _times(row: Mapping[str, Any]) -> tuple[int, int]:
    ends = row.get("ends")
    return _microseconds(from_text(row["begins"])) or 0, NEVER if ends is None else _microseconds(from_text(ends)) or 0


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


# Turns and their neighbours, with only the columns that ranking reads.

Row = Mapping[str, Any]


class TurnWindow(Struct, frozen=True, kw_only=True):
    """Turns in the order they were stored.

    Attributes:
        rows: the columns of the query `turns.told`.
        previous: for each turn the index of the turn before it in the same session and project; -1 if there is none
            or it is not among `rows`.
    """

    rows: Sequence[Row]
    previous: Sequence[int]


def turns_with_neighbours(tx: Tx, ids: Collection[str], reach: int, passes_filter: Callable[[Row], bool]) -> TurnWindow:
    """Return the turns with these ids, with up to `reach` turns before and after each.

    Args:
        passes_filter: a turn for which this returns False is left out, and is not used as a neighbour either.
    """
    numbers, previous = set[int](), dict[int, int]()
    # With a reach of 0, neighbours are still read to find which of the requested turns are adjacent.
    for row in tx.all("turns.beside", {"ids": json.dumps(list(ids)), "reach": max(1, reach)}):
        itself = () if row["role"] == "tool" else (row["seq"],)
        sequence: list[int] = [*json.loads(row["earlier"]), *itself, *json.loads(row["later"])]
        previous.update((later, earlier) for earlier, later in pairwise(sequence))
        numbers.add(row["seq"])
        if reach:
            numbers.update(sequence)
    rows = [row for row in tx.all("turns.told", {"seqs": json.dumps(sorted(numbers))}) if passes_filter(row)]
    indices = {row["seq"]: index for index, row in enumerate(rows)}
    return TurnWindow(rows=rows, previous=[indices.get(previous.get(row["seq"], -1), -1) for row in rows])


# Word indexes of large tables: built in the background, updated once a second.
#
# The full-text index in the database scores every match. In a table with more than `SWITCH` rows, a separate word
# index answers instead. One thread builds it from the stored rows, never in the transaction that stores them, and a
# mark records how far it has followed. Until it exists, and while it lags too far behind, the full-text index in the
# database answers.

_LOG = logging.getLogger(__name__)

#: Number of rows with words from which a table gets its own index (docs/adr/0010).
SWITCH: Final = 5_000
#: Rows and changes that an index may lack and still answer; the store is queried for those.
MAX_BEHIND: Final = 1000
_FEED_SECONDS: Final = 1.0
#: Rows read at once, and rows after which an index under construction is committed.
_ROWS_PER_READ, _ROWS_PER_COMMIT = 500, 10_000
_OWNERS: Final[tuple[IndexedTable, ...]] = ("turn", "memory")

T = TypeVar("T")
Read = Callable[[Callable[[Tx], T]], T]


class LargeWords:
    """The word indexes of one home. Safe for several threads: one feeds, any may query or forget.

    Args:
        indexes: None if no search engine is installed.
        switch: the number of rows from which a table gets an index.
    """

    def __init__(self, indexes: WordIndexes | None, analyser: Analyser, *, switch: int = SWITCH) -> None:
        self._indexes = indexes
        self._analyser = analyser
        self._switch = switch
        self._open: dict[IndexedTable, WordIndex] = {}
        self._tried: set[IndexedTable] = set()
        self._changing = Lock()
        self._interrupt = Flag()
        self._closed = False

    @property
    def has_engine(self) -> bool:
        """False if the full-text index in the database is the only one."""
        return self._indexes is not None

    def view(self, tx: Tx, owner: IndexedTable) -> WordSnapshot | None:
        """Return the index of a table, or None if there is none or it lags too far behind."""
        index = self._open.get(owner)
        if index is None:
            return None
        view, newest = index.view(), WordRows(tx, owner).newest()
        behind = max(newest.row - view.mark.row, newest.change - view.mark.change if owner == "memory" else 0)
        return view if behind <= MAX_BEHIND else None

    def forget(self, owner: IndexedTable, ids: Collection[str]) -> None:
        """Delete every file that may contain these rows; call it once they are deleted from the store.

        tantivy keeps the contents of a removed row in its files until they happen to be merged. All files of the index
        are therefore deleted at once. The index is rebuilt in the background, and the store answers meanwhile.
        """
        if not ids:
            return
        self._interrupt.set()  # a build in progress would hold the lock for seconds, and its index is deleted anyway
        with self._changing:
            self._interrupt.clear()
            self._close(owner)
            if self._indexes:
                self._indexes.drop(owner)

    def feed(self, read: Read[bool], stopping: Flag | None = None) -> None:
        """Bring every index up to date with the store, and build those that are missing and due."""
        for owner in _OWNERS:
            while not (stopping and stopping.is_set()):
                try:
                    if not read(lambda tx, owner=owner: self._step(tx, owner)):
                        break
                except (FilrougeError, OSError, ValueError, RuntimeError) as error:
                    _LOG.exception("the word index of %ss failed; deleting and rebuilding it", owner, exc_info=error)
                    self.forget(owner, ("all",))
                    break

    def close(self) -> None:
        """Close the indexes; what was committed is available at the next start."""
        with self._changing:
            self._closed = True
            for owner in list(self._open):
                self._close(owner)

    def to_json(self) -> dict[str, int]:
        """Return the last indexed row of each table that has an index."""
        return {owner: index.view().mark.row for owner, index in self._open.items()}

    def _step(self, tx: Tx, owner: IndexedTable) -> bool:
        """Feed some rows; return True if there are more."""
        with self._changing:
            index = None if self._closed else self._index(tx, owner)
            if index is None:
                return False
            rows, mark = WordRows(tx, owner), index.view().mark
            newest = rows.newest()
            changed = [number for number in rows.changed(mark.change, newest.change) if number <= mark.row]
            if changed:
                index.replace(changed, rows.current_rows(changed, self._analyser))
            last, count = mark.row, 0
            while (
                count < _ROWS_PER_COMMIT
                and not self._interrupt.is_set()
                and (found := rows.rows_after(last, _ROWS_PER_READ, self._analyser))
            ):
                index.replace((), found)
                last, count = found[-1].number, count + len(found)
            if changed or count:
                index.commit(IndexPosition(row=last, change=newest.change))
            return last < newest.row

    def _index(self, tx: Tx, owner: IndexedTable) -> WordIndex | None:
        if owner in self._open or self._indexes is None:
            return self._open.get(owner)
        is_due = FullTextIndex(tx, self._analyser, owner).totals().rows >= self._switch
        if owner not in self._tried and (found := self._indexes.open(owner)):
            self._open[owner] = found
        elif is_due:
            _LOG.info("building the word index of all %ss", owner)
            index = self._indexes.create(owner)
            index.commit(IndexPosition(row=0, change=WordRows(tx, owner).newest().change))
            self._open[owner] = index
        elif owner not in self._tried:
            self._indexes.drop(owner)  # an unreadable directory would only waste space
        self._tried.add(owner)
        return self._open.get(owner)

    def _close(self, owner: IndexedTable) -> None:
        index = self._open.pop(owner, None)
        if index:
            try:
                index.close()
            except (OSError, ValueError, RuntimeError):
                _LOG.warning("the word index of %ss could not be closed cleanly", owner, exc_info=True)


class WordFeed:
    """Feeds the word indexes once a second, on its own thread."""

    def __init__(self, words: LargeWords, read: Read[bool]) -> None:
        self._words, self._read = words, read
        self._stopping = Flag()
        self._thread = Thread(target=self._work, name="filrouge-words", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and close the indexes."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._words.close()

    def _work(self) -> None:
        while not self._stopping.is_set():
            # The feed must survive a full disk.
            with logged(_LOG, "the word indexes could not be fed"):
                self._words.feed(self._read, self._stopping)
            self._stopping.wait(_FEED_SECONDS)


# The files of the word indexes: one directory each, with a header about its origin.
#
# A directory with any defect (no header, another format, another analyser version, a truncated or altered file) is
# removed and rebuilt from the store; it holds no data of its own. tantivy ends every file with a checksum but does
# not verify it on its own, so this module does.

#: Increment this when the schema or the labels of rows change.
_FORMAT: Final = 1
_HEADER: Final = "header.json"
_FOOTER_MARK: Final = 1337


class WordFiles:
    """Implements `WordIndexes` in one directory. Only the holder of the home's lock uses it.

    Args:
        analyser: the version of the tokens; an index of another version is not used.
    """

    def __init__(self, directory: str, analyser: int) -> None:
        self._directory, self._analyser = directory, analyser

    def open(self, name: str) -> WordIndex | None:
        """Return the existing index; None if there is none, it is damaged, or another analyser version built it."""
        directory = self._path(name)
        if not os.path.isdir(directory):
            return None
        try:
            mark = _read_header(directory, self._analyser)
            _check(directory)
            return _open_index(directory, self._analyser, mark)
        except Exception as error:  # tantivy raises many exception types; all of them mean an unusable index
            _LOG.warning("the word index of %ss is rebuilt: %s", name, error)
            return None

    def create(self, name: str) -> WordIndex:
        """Create an empty index, replacing an existing one."""
        self.drop(name)
        directory = self._path(name)
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        os.mkdir(directory, mode=0o700)
        return _open_index(directory, self._analyser, IndexPosition(row=0, change=0))

    def drop(self, name: str) -> None:
        """Delete all files of the index."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def is_tantivy_installed() -> bool:
    """Return True if tantivy is installed."""
    return find_spec("tantivy") is not None


def _write_header(directory: str, analyser: int, mark: IndexPosition) -> None:
    header = {"format": _FORMAT, "analyser": analyser, "row": mark.row, "change": mark.change}
    path = os.path.join(directory, _HEADER)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(header, file)
    os.replace(f"{path}.new", path)


def _open_index(directory: str, analyser: int, mark: IndexPosition) -> WordIndex:
    def save_mark(reached: IndexPosition) -> None:
        _write_header(directory, analyser, reached)

    index: WordIndex = import_module("filrouge.search.tantivy_words").TantivyWords(directory, mark, save_mark)
    return index


def _read_header(directory: str, analyser: int) -> IndexPosition:
    with open(os.path.join(directory, _HEADER), encoding="utf-8") as file:
        header: dict[str, Any] = json.load(file)
    if (header.get("format"), header.get("analyser")) != (_FORMAT, analyser):
        raise ValueError("another version built it")
    return IndexPosition(row=int(header["row"]), change=int(header["change"]))


def _check(directory: str) -> None:
    """Verify the checksum of every file of the last commit; files left by a killed writer are ignored.

    Raises:
        ValueError: a file was altered.
        OSError: the list of files is missing.
    """
    with open(os.path.join(directory, "meta.json"), encoding="utf-8") as file:
        segments = {str(segment["segment_id"]).replace("-", "") for segment in json.load(file)["segments"]}
    for name in sorted(os.listdir(directory)):
        if name.partition(".")[0] in segments and not _is_intact(os.path.join(directory, name)):
            raise ValueError(f"{name} is damaged")


def _is_intact(path: str) -> bool:
    # tantivy's footer: its JSON, the length of that, and a mark; the last two have four bytes each.
    with open(path, "rb") as file:
        content = file.read()
    length, mark = (int.from_bytes(content[start : start + 4], "little") for start in (-8, -4 + len(content)))
    if len(content) < 8 or mark != _FOOTER_MARK or length > len(content) - 8:
        return False
    body, footer = content[: -8 - length], json.loads(content[-8 - length : -8])
    return footer["crc"] == zlib.crc32(body)


OwnerKind = Literal["memory", "turn"]
Indices = NDArray[np.int64]


#: Minimum share of texts that must have vectors; below it, vector recall misses too much.
MIN_COVERAGE: Final = 0.90
_LAST_PART = 1 << 31
_ROWS_PER_PAGE = 1000


class StoredSpace(Struct, frozen=True, kw_only=True):
    """An embedding space that has, had or will have vectors.

    Attributes:
        space: its `calibration` is the one measured here, or None if none was measured.
        embedder: the registered name of the embedder that produces its vectors.
    """

    space: EmbeddingSpace
    embedder: str
    state: Literal["current", "building", "retired"]

    @property
    def id(self) -> str:
        """The space's id."""
        return self.space.id


class Owner(Struct, frozen=True, kw_only=True):
    """A memory or a turn that needs vectors.

    Attributes:
        seq: its row number within its table; grows with time.
        group: the partition it is searched in: a project, or the user.
    """

    kind: OwnerKind
    id: str
    seq: int
    group: str
    text: str


class Spaces:
    """The table `spaces`. The schema allows at most one current space and at most one building space."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def declare(self, space: EmbeddingSpace, embedder: str) -> None:
        """Register a space before its first vector; a registered space keeps its state and its measured calibration."""
        row = {name: getattr(space, name) for name in ("id", "model", "revision", "dimension", "pooling", "prefix")}
        self._tx.run("spaces.declare", row | {"embedder": embedder})

    def all(self) -> list[StoredSpace]:
        """Return every registered space."""
        return [_stored_space(row) for row in self._tx.all("spaces.all")]

    def current(self) -> StoredSpace | None:
        """Return the space that recall reads; None before the first embedder is adopted."""
        return self._in_state("current")

    def building(self) -> StoredSpace | None:
        """Return the space that is being built, or None."""
        return self._in_state("building")

    def get(self, space_id: str) -> StoredSpace | None:
        """Return the space with this id, or None."""
        return next((space for space in self.all() if space.id == space_id), None)

    def begin(self, space_id: str) -> None:
        """Mark this space as building; a space that was building is retired."""
        self._set_state("building", space_id)

    def make_current(self, space_id: str) -> None:
        """Make this the space that recall reads; the previous one is retired."""
        self._set_state("current", space_id)

    def retire(self, space_id: str) -> None:
        """Retire a space, so that its vectors may be cleared."""
        self._tx.run("spaces.move", {"id": space_id, "state": "retired"})

    def set_calibration(self, space_id: str, calibration: Calibration) -> None:
        """Store a measured calibration; it takes precedence over the shipped one."""
        self._tx.run("spaces.calibrate", {"id": space_id, "calibration": json.dumps(asdict(calibration))})

    def _set_state(self, state: str, space_id: str) -> None:
        self._tx.run("spaces.retire", {"state": state, "id": space_id})
        self._tx.run("spaces.move", {"state": state, "id": space_id})

    def _in_state(self, state: str) -> StoredSpace | None:
        return next((space for space in self.all() if space.state == state), None)


class StoredVectors:
    """The table `vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, kind: OwnerKind, owner_id: str, space_id: str, vectors: Vectors, *, first: int | None = None) -> None:
        """Store windows of an owner, numbered from `first`.

        Windows are stored from the last to the first. They replace stored windows with the same numbers; the call that
        stores part 0 must bring every window before the first stored one. Without `first`, all the owner's windows in
        this space are replaced.
        """
        owner = {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id}
        last = _LAST_PART if first is None else first + len(vectors) - 1
        first = first or 0
        self._tx.run("vectors.drop", owner | {"first": first, "last": last})
        rows = [
            owner | {"part": first + n, "vector": vector.astype("<f2").tobytes()} for n, vector in enumerate(vectors)
        ]
        self._tx.many("vectors.put", rows)

    def first_part(self, kind: OwnerKind, owner_id: str, space_id: str) -> int | None:
        """Return the lowest stored window number: 0 = complete, None = nothing stored."""
        row = self._tx.one("vectors.first_part", {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id})
        return row["part"] if row else None

    def of(self, kind: OwnerKind, owner_id: str, space_id: str) -> Vectors | None:
        """Return the windows of an owner, or None if it has none."""
        rows = self._tx.all("vectors.of", {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id})
        return _matrix([row["vector"] for row in rows]) if rows else None

    def some(self, kind: OwnerKind, owner_ids: Collection[str], space_id: str) -> dict[str, Vectors]:
        """Return the windows of these owners by id; owners without vectors are left out."""
        parameters = {"owner_kind": kind, "ids": json.dumps(list(owner_ids)), "space_id": space_id}
        return {row["id"]: vectors for row, vectors in _by_owner(self._tx.all("vectors.some", parameters))}

    def first_windows(self, kind: OwnerKind, owner_ids: Collection[str], space_id: str) -> dict[str, Vector]:
        """Return the first window of these owners by id; owners without vectors are left out."""
        parameters = {"owner_kind": kind, "ids": json.dumps(list(owner_ids)), "space_id": space_id}
        rows = self._tx.all("vectors.first_windows", parameters)
        return {row["id"]: windows[0] for row, windows in _by_owner(rows)}

    def windows(self, kind: OwnerKind, owner_ids: Sequence[str], space_id: str) -> tuple[Vectors, Indices]:
        """Return all windows of these owners, and for each window the index of its owner in `owner_ids`, ascending."""
        parameters = {"owner_kind": kind, "ids": json.dumps(owner_ids), "space_id": space_id}
        rows = self._tx.all("vectors.windows", parameters)
        windows = _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return windows, np.array([row["place"] for row in rows], dtype=np.int64)

    def live_memories(self, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Yield the id, row number, group and windows of every live memory."""
        return self._grouped("vectors.live_memories", space_id)

    def turns(self, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Yield the id, row number, group and windows of every turn."""
        return self._grouped("vectors.turns", space_id)

    def ended_memories(self, space_id: str) -> list[str]:
        """Return the ids of memories that have vectors in this space but are no longer live."""
        return [row["id"] for row in self._tx.all("vectors.ended_memories", {"space_id": space_id})]

    def short_turns(self, space_id: str, *, max_characters: int, limit: int) -> tuple[Vectors, list[str]]:
        """Return the user's newest turns of at most `max_characters`: their vectors, and the session of each."""
        rows = self._tx.all("vectors.short_turns", {"space_id": space_id, "longest": max_characters, "limit": limit})
        vectors = _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return vectors, [row["session"] for row in rows]

    def prompts(self, space_id: str, user: str, limit: int) -> Vectors:
        """Return the vectors of the first windows of a user's newest prompts; shape (n, dimension)."""
        rows = self._tx.all("vectors.prompts", {"space_id": space_id, "user_id": user, "limit": limit})
        return _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)

    def count(self) -> int:
        """Return how many owners have vectors in the current space."""
        return number_of(self._tx, "vectors.count")

    def number(self, kind: OwnerKind, owner_id: str) -> int | None:
        """Return the row number of a memory or a turn; None if it was erased."""
        row = self._tx.one("vectors.owner", {"owner_kind": kind, "owner_id": owner_id})
        return int(row["number"]) if row else None

    def any(self, space_id: str) -> bool:
        """Return True if the space has any vector."""
        return self._tx.one("vectors.any", {"space_id": space_id}) is not None

    def missing(self, kind: OwnerKind, space_id: str, limit: int, *, after: int = 0) -> list[Owner]:
        """Return the first live memories or turns after `after` that lack vectors in this space, oldest first."""
        query = "vectors.missing_memories" if kind == "memory" else "vectors.missing_turns"
        rows = self._tx.all(query, {"space_id": space_id, "limit": limit, "after": after})
        return [Owner(kind=kind, id=row["id"], seq=row["seq"], group=row["grouping"], text=row["text"]) for row in rows]

    def newest(self, kind: OwnerKind) -> int:
        """Return the row number of the newest memory or turn."""
        row = self._tx.one("vectors.newest")
        return int(row[kind]) if row else 0

    def size(self, space_id: str) -> int:
        """Return how many memories and turns have a vector in this space."""
        return number_of(self._tx, "vectors.size", {"space_id": space_id})

    def coverage(self, space_id: str) -> tuple[int, int]:
        """Return how many memories and turns have vectors in this space, and how many should."""
        row = self._tx.one("vectors.coverage", {"space_id": space_id})
        return (int(row["done"]), int(row["total"])) if row else (0, 0)

    def drop_unfinished(self) -> int:
        """Delete the windows of incompletely embedded owners; they are embedded again from the current text."""
        return self._tx.run("vectors.drop_unfinished")

    def clear_retired(self, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Delete vectors of retired spaces in the next `limit` rows; return the last row read, or None at the end."""
        begins = {"owner_kind": after[0], "owner_id": after[1]}
        row = self._tx.one("vectors.after", begins | {"limit": limit})
        last = (row["owner_kind"], row["owner_id"]) if row else ("\uffff", "")
        self._tx.run("vectors.clear_retired", begins | {"last_kind": last[0], "last_id": last[1]})
        return last if row else None

    def _grouped(self, query: str, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Yield owners one at a time, reading rows in pages to bound the daemon's memory."""
        after, size = "", _ROWS_PER_PAGE
        while True:
            rows = self._tx.all(query, {"space_id": space_id, "after": after, "limit": size})
            # A full page may end in the middle of an owner; that owner is read with the next page.
            complete = rows if len(rows) < size else [row for row in rows if row["id"] != rows[-1]["id"]]
            for row, vectors in _by_owner(complete):
                yield row["id"], row["number"], row["grouping"], vectors
            if len(rows) < size:
                return
            if complete:
                after, size = complete[-1]["id"], _ROWS_PER_PAGE
            else:
                size *= 2  # one owner fills the page


def _by_owner(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Vectors]]:
    """Yield one row per owner with its windows, from rows grouped by owner; all vectors are decoded at once."""
    if not rows:
        return
    windows = _matrix([row["vector"] for row in rows])
    first = 0
    for last, row in enumerate(rows, 1):
        if last == len(rows) or rows[last]["id"] != row["id"]:
            yield row, windows[first:last]
            first = last


def _stored_space(row: Mapping[str, Any]) -> StoredSpace:
    space = EmbeddingSpace(
        id=row["id"],
        model=row["model"],
        revision=row["revision"],
        dimension=row["dimension"],
        pooling=row["pooling"],
        prefix=row["prefix"],
        calibration=_calibration(row["calibration"]),
    )
    return StoredSpace(space=space, embedder=row["embedder"], state=row["state"])


def _calibration(text: str | None) -> Calibration | None:
    if text is None:
        return None
    raw: dict[str, Any] = json.loads(text)
    anchors = {name: tuple((float(x), float(y)) for x, y in raw[name]) for name in ("texts", "questions")}
    return Calibration(**anchors, origin=raw["origin"], pairs=raw["pairs"])


def _matrix(parts: Sequence[bytes]) -> Vectors:
    return np.frombuffer(b"".join(parts), dtype="<f2").reshape(len(parts), -1).astype(np.float32)


# Need vectors: for each memory, the vector that prompts needing this memory are matched against.
#
# A memory is encoded together with the words before it, taken from its own turn or from the message that the turn
# answers. Its row also holds the id of the turn with those words. Need vectors are derived data: missing ones, and ones
# from another encoder revision, are computed again.

#: Characters of context before a statement; `bench/fit_questions.py` trains with the same number.
CONTEXT_CHARACTERS: Final = 120


#: Kind and dedupe key of the job that computes missing need vectors; there is one such job.
NEED_VECTORS_JOB: Final = "need_vectors"


class MissingNeedVector(NamedTuple):
    """A memory without its need vector, and its row number."""

    id: str
    seq: int


class StatementInContext(Struct, frozen=True, kw_only=True):
    """A memory together with the context it is encoded with.

    Attributes:
        memory_id, text: the memory's id and its statement.
        before: the text before the statement, at most `CONTEXT_CHARACTERS` long; empty if there is none.
        turn_id: the turn that contains that text; None if there is none.
    """

    memory_id: str
    text: str
    before: str = ""
    turn_id: str | None = None


class NeedVectors:
    """The table `need_vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, revision: str, encoded: Iterable[tuple[StatementInContext, Vector]]) -> None:
        """Store the need vectors of memories; memories that were erased in the meantime are skipped."""
        rows = [
            {
                "memory_id": statement.memory_id,
                "turn_id": statement.turn_id,
                "revision": revision,
                "vector": vector.astype("<f2").tobytes(),
            }
            for statement, vector in encoded
        ]
        self._tx.many("need_vectors.put", rows)

    def some(self, ids: Collection[str], revision: str) -> dict[str, Vector]:
        """Return the vectors of these memories that this encoder revision produced."""
        rows = self._tx.all("need_vectors.some", {"ids": json.dumps(list(ids)), "revision": revision})
        return (
            dict(zip((row["id"] for row in rows), _matrix([row["vector"] for row in rows]), strict=True))
            if rows
            else {}
        )

    def missing(self, revision: str, limit: int, *, after: int = 0) -> list[MissingNeedVector]:
        """Return the first live memories after `after` that lack a vector of this revision, oldest first."""
        rows = self._tx.all("need_vectors.missing", {"revision": revision, "limit": limit, "after": after})
        return [MissingNeedVector(id=row["id"], seq=row["seq"]) for row in rows]

    def in_context(self, ids: Collection[str]) -> list[StatementInContext]:
        """Return these memories with the context they are encoded with."""
        rows = self._tx.all("need_vectors.settings", {"ids": json.dumps(list(ids)), "most": CONTEXT_CHARACTERS})
        return [_in_context(row) for row in rows]


def _in_context(row: Mapping[str, Any]) -> StatementInContext:
    contexts = (row["before"], row["turn_id"]), (row["earlier"], row["earlier_id"])
    return replace(statement_in_context(row["text"], *contexts), memory_id=row["id"])


def statement_in_context(text: str, *contexts: tuple[str, str | None]) -> StatementInContext:
    """Return a statement that is no memory yet with the end of the first of these contexts that is not blank.

    Args:
        contexts: pairs of a text and the id of the turn that contains it.
    """
    for before, turn_id in contexts:
        end = before[-CONTEXT_CHARACTERS:]
        if end.strip():
            return StatementInContext(memory_id="", text=text, before=end, turn_id=turn_id)
    return StatementInContext(memory_id="", text=text)
