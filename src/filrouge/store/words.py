"""Words: the full-text index of turns and memories, told what to hold and asked what it holds.

The index is the only copy of the analyser's tokens. A row says which analyser indexed it; its words are taken out by
reading them back from the index, never by computing them again, so nothing stays behind after an upgrade of the
analyser, of its stemmers or of Python. That reads the whole index once, however many rows go together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from filrouge.ports import Analyser, Tx

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
