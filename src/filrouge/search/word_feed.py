"""Word indexes of large tables: built in the background, updated once a second.

The full-text index in the database scores every match. In a table with more than `SWITCH` rows, a separate word index
answers instead. One thread builds it from the stored rows, never in the transaction that stores them, and a mark
records how far it has followed. Until it exists, and while it lags too far behind, the full-text index in the database
answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from threading import Event as Flag
from threading import Lock, Thread
from typing import Final, TypeVar

from filrouge.core.errors import FilrougeError
from filrouge.core.guard import logged
from filrouge.core.protocols import Analyser, Tx, WordIndex, WordIndexes, WordSnapshot
from filrouge.search.models import IndexPosition
from filrouge.search.word_repository import FullTextIndex, IndexedTable, WordRows

_LOG = logging.getLogger(__name__)

#: Number of rows with words from which a table gets its own index (docs/adr/0010).
SWITCH: Final = 5_000
#: Rows and changes that an index may lack and still answer; the store is queried for those.
MOST_BEHIND: Final = 1000
_LOOK_SECONDS: Final = 1.0
#: Rows read at once, and rows after which an index under construction is committed.
_AT_ONCE, _COMMIT = 500, 10_000
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
        self._held: dict[IndexedTable, WordIndex] = {}
        self._looked: set[IndexedTable] = set()
        self._changing = Lock()
        self._hurry = Flag()
        self._closed = False

    @property
    def has_engine(self) -> bool:
        """False if the full-text index in the database is the only one."""
        return self._indexes is not None

    def view(self, tx: Tx, owner: IndexedTable) -> WordSnapshot | None:
        """Return the index of a table, or None if there is none or it lags too far behind."""
        held = self._held.get(owner)
        if held is None:
            return None
        view, newest = held.view(), WordRows(tx, owner).newest()
        behind = max(newest.row - view.mark.row, newest.change - view.mark.change if owner == "memory" else 0)
        return view if behind <= MOST_BEHIND else None

    def forget(self, owner: IndexedTable, ids: Collection[str]) -> None:
        """Delete every file that may contain these rows; call it once they are deleted from the store.

        tantivy keeps the contents of a removed row in its files until they happen to be merged. All files of the index
        are therefore deleted at once. The index is rebuilt in the background, and the store answers meanwhile.
        """
        if not ids:
            return
        self._hurry.set()  # a build in progress would hold the lock for seconds, and its index is deleted anyway
        with self._changing:
            self._hurry.clear()
            self._let_go(owner)
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
            for owner in list(self._held):
                self._let_go(owner)

    def to_json(self) -> dict[str, int]:
        """Return the last indexed row of each table that has an index."""
        return {owner: index.view().mark.row for owner, index in self._held.items()}

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
                index.replace(changed, rows.again(changed, self._analyser))
            last, count = mark.row, 0
            while (
                count < _COMMIT and not self._hurry.is_set() and (found := rows.behind(last, _AT_ONCE, self._analyser))
            ):
                index.replace((), found)
                last, count = found[-1].number, count + len(found)
            if changed or count:
                index.commit(IndexPosition(row=last, change=newest.change))
            return last < newest.row

    def _index(self, tx: Tx, owner: IndexedTable) -> WordIndex | None:
        if owner in self._held or self._indexes is None:
            return self._held.get(owner)
        is_due = FullTextIndex(tx, self._analyser, owner).totals().rows >= self._switch
        if owner not in self._looked and (found := self._indexes.open(owner)):
            self._held[owner] = found
        elif is_due:
            _LOG.info("building the word index of all %ss", owner)
            made = self._indexes.create(owner)
            made.commit(IndexPosition(row=0, change=WordRows(tx, owner).newest().change))
            self._held[owner] = made
        elif owner not in self._looked:
            self._indexes.drop(owner)  # an unreadable directory would only waste space
        self._looked.add(owner)
        return self._held.get(owner)

    def _let_go(self, owner: IndexedTable) -> None:
        held = self._held.pop(owner, None)
        if held:
            try:
                held.close()
            except (OSError, ValueError, RuntimeError):
                _LOG.warning("the word index of %ss could not be closed in order", owner, exc_info=True)


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
            self._stopping.wait(_LOOK_SECONDS)
