"""Narrowing: both arms of a search within what passes the question's filters, cut only afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from filrouge.app.meaning import Meaning
from filrouge.model.filters import Filters
from filrouge.model.memory import SUMS
from filrouge.ports import Analyser, Tx, Vector
from filrouge.recall.bm25 import BUILT_IN, Collection, bm25_of_counts
from filrouge.store.shares import Place, Share
from filrouge.store.vectors import StoredVectors
from filrouge.store.words import Owner


class Narrowed:
    """A question's terms and its share of the memories or of the turns."""

    def __init__(
        self,
        tx: Tx,
        owner: Owner,
        place: Place,
        filters: Filters,
        terms: Sequence[Sequence[str]],
        match: str,
        analyser: Analyser,
    ) -> None:
        self._tx = tx
        self._owner: Owner = owner
        self._share = Share(tx, owner, place, filters)
        forms = [form for forms in terms for form in forms]
        self._terms = terms
        if set(SUMS) & set(filters.kinds):
            self._read(forms, analyser)
        else:
            self._lengths = self._share.lengths
            self._matching = self._share.matching(match) if match else []
            self._counts = self._share.counts(forms, self._matching, analyser)
        having = {form: sum(form in row for row in self._counts.values()) for form in forms}
        self.frequencies: Mapping[str, int] = {form: count for form, count in having.items() if count}

    def __bool__(self) -> bool:
        """A share without rows is a share all the same."""
        return True

    def __len__(self) -> int:
        """How many items pass."""
        return len(self._share)

    @property
    def tokens(self) -> int:
        """How many tokens what passes is indexed under."""
        return sum(self._lengths.values())

    def holds(self, row: Mapping[str, Any]) -> bool:
        """True if this row of the table passes."""
        return row["id"] in self._share.ids

    def by_words(self, limit: int) -> dict[str, float]:
        """The best by full text, with BM25 counted over the share alone."""
        lengths = self._lengths
        mean = sum(lengths.values()) / len(lengths) if lengths else 0.0
        collection = Collection(rows=len(lengths), mean=mean, frequencies=self.frequencies, is_floored=True)
        counted = bm25_of_counts(self._terms, self._counts, lengths, collection, BUILT_IN)
        return _best({id_: counted.get(id_, 0.0) for id_ in self._matching}, limit)

    def by_meaning(self, meaning: Meaning, vector: Vector, limit: int) -> dict[str, float]:
        """The nearest by meaning; what an index holds no longer is read from the store."""
        index = meaning.memory_index if self._owner == "memory" else meaning.turn_index
        near = index.nearest(vector, limit, None, self._share.numbers)
        found = {one.owner_id: one.cosine for one in near}
        stored = StoredVectors(self._tx).some(self._owner, self._share.ended, meaning.space.id)
        found |= {id_: float((windows @ vector).max()) for id_, windows in stored.items()}
        return _best(found, limit)

    def _read(self, forms: Sequence[str], analyser: Analyser) -> None:
        """Know the words of the share from its texts: what sums sessions up is in no full text."""
        rows = self._tx.all("memories.searched", {"ids": json.dumps(sorted(self._share.ids))})
        tokens = {row["id"]: Counter(analyser.tokens(row["text"]).split()) for row in rows}
        self._lengths = {id_: own.total() for id_, own in tokens.items()}
        found = {id_: {form: own[form] for form in forms if form in own} for id_, own in tokens.items()}
        self._counts = {id_: occurring for id_, occurring in found.items() if occurring}
        self._matching = list(self._counts)


def _best(found: Mapping[str, float], limit: int) -> dict[str, float]:
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit])
