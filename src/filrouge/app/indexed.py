"""Searching a large table: the word index for what it holds, the store for what came since.

What is filtered is counted within the filter: how many rows pass, and in how many of them each word occurs. Rows of
the last second, and memories that changed in it, are found by the store's full text and scored by the same formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from filrouge.app.believed import nearest_beliefs
from filrouge.app.meaning import Meaning
from filrouge.index.lexical import Terms, any_of
from filrouge.model.filters import Filters
from filrouge.model.wording import Counted, Selection
from filrouge.ports import Analyser, Tx, Vector, WordView
from filrouge.recall.bm25 import BUILT_IN, Collection, bm25
from filrouge.store.shares import Place
from filrouge.store.vectors import StoredVectors
from filrouge.store.word_rows import WordRows, passes, selection
from filrouge.store.words import Owner

#: A filter is told to the vector index row by row, at a fifth of a microsecond each, or enough are found among the
#: nearest of all, at so much for each that does not pass. Both take as long where the square of what passes is so many
#: times the whole: at 25,000 of 100,000, at 80,000 of a million.
_AS_LONG: Final = 6000
#: Candidates beyond those asked for where they are scored again.
_SPARE: Final = 20
_NOTHING: Final = Counted(rows=0, tokens=0, having={})


class Indexed:
    """One question's words in a table with a word index."""

    def __init__(
        self, tx: Tx, owner: Owner, place: Place, filters: Filters, terms: Terms, view: WordView, analyser: Analyser
    ) -> None:
        self._tx, self._place, self._filters = tx, place, filters
        self._owner: Owner = owner
        self._terms: Sequence[Sequence[str]] = terms
        self._view, self._analyser = view, analyser
        self._is_narrow = filters.narrow  # asked of every neighbour
        self._rows = WordRows(tx, owner)
        newest = self._rows.newest()
        changed = self._rows.changed(view.mark.change, newest.change)
        self._wanted = selection(owner, place, filters)
        is_behind = bool(changed) or newest.row > view.mark.row
        self._fresh = self._rows.fresh(view.mark.row, changed, self._wanted) if self._wanted and is_behind else {}
        self._indexed = replace(self._wanted, without=changed) if self._wanted else None
        self._fresh_tokens = self._tokens_of_fresh(changed)

    def __len__(self) -> int:
        """How many rows the words are counted in: those that pass the filter, or else all."""
        return self._counted.rows

    def __bool__(self) -> bool:
        """A share without rows is a share all the same."""
        return True

    @property
    def frequencies(self) -> Mapping[str, int]:
        """In how many of these rows each form occurs."""
        return self._counted.having

    @property
    def tokens(self) -> int:
        """How many tokens these rows are indexed under."""
        return self._counted.tokens

    def holds(self, row: Mapping[str, Any]) -> bool:
        """True if a row of the table `turns` passes the question's filter; neighbours are of the same project."""
        if self._wanted is None or not self._is_narrow:
            return self._wanted is not None
        return passes({**row, "agent": row["agent"] or row["channel"], "begins": row["at"]}, self._wanted)

    def by_words(self, limit: int) -> dict[str, float]:
        """The best by BM25; of a filtered question, counted within the filter."""
        if self._indexed is None:
            return {}
        rarity = {form: self._collection.rarity(form) for form in self.frequencies} if self._filters.narrow else None
        spare = _SPARE if _hides(self._filters) else 0
        found = self._view.best(self._terms, self._indexed, limit + spare, rarity)
        if _hides(self._filters):
            texts = self._rows.texts(found)
            found = self._scored({number: self._analyser.tokens(text).split() for number, text in texts.items()})
        found |= self._scored(self._fresh_tokens)
        best = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit]
        ids = self._rows.ids([number for number, _ in best])
        return {ids[number]: score for number, score in best if number in ids}

    def by_meaning(self, meaning: Meaning, vector: Vector, limit: int) -> dict[str, float]:
        """The nearest by meaning among what passes."""
        index = meaning.memory_index if self._owner == "memory" else meaning.turn_index
        groups = groups_of(self._owner, self._place)
        if not self._filters.narrow and self._owner == "memory":
            return nearest_beliefs(self._tx, index, vector, limit, groups)
        if not self._filters.narrow:
            return {one.owner_id: one.cosine for one in index.nearest(vector, limit, groups)}
        if self._indexed is None or self._wanted is None:
            return {}
        passing, found = self._counted.rows, dict[str, float]()
        if passing * passing <= _AS_LONG * len(index):
            numbers = np.append(self._view.numbers(self._indexed, passing), list(self._fresh)).astype(np.int64)
            found = {one.owner_id: one.cosine for one in index.nearest(vector, limit, groups, numbers)}
        else:
            asked, enough = limit + limit * len(index) // passing, False
            while not enough:
                near = index.nearest(vector, asked, groups)
                kept = self._rows.passing([one.owner_id for one in near], self._wanted)
                found = {one.owner_id: one.cosine for one in near if one.owner_id in kept}
                enough = len(found) >= limit or len(near) < asked
                asked *= 2
        if self._filters.as_of:
            found |= self._ended(self._indexed, meaning, vector)
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit])

    def _ended(self, wanted: Selection, meaning: Meaning, vector: Vector) -> dict[str, float]:
        """What was believed then and is no more: the vector index holds it no longer, so it is read."""
        gone = frozenset({"state:superseded", "state:binned"})
        ended = replace(wanted, labels=(*wanted.labels, gone))
        numbers = self._view.numbers(ended, self._counted.rows or 1)
        ids = [*self._rows.ids(numbers.tolist()).values(), *self._fresh.values()]
        stored = StoredVectors(self._tx).some(self._owner, ids, meaning.space.id)
        return {id_: float((windows @ vector).max()) for id_, windows in stored.items()}

    @cached_property
    def _counted(self) -> Counted:
        forms = list(dict.fromkeys(form for forms in self._terms for form in forms))
        if self._filters.narrow:
            held = self._view.counted(forms, self._indexed) if self._indexed else _NOTHING
        else:
            held = self._view.counted(forms, None)
        fresh = self._fresh_tokens.values()
        having = {form: held.having.get(form, 0) + sum(form in tokens for tokens in fresh) for form in forms}
        tokens = held.tokens + sum(map(len, fresh))
        # Of what came since, the rows without any of the words tell nothing but that they are there.
        unread = (len(self._fresh) - len(fresh)) * (tokens // max(1, held.rows + len(fresh)))
        having = {form: count for form, count in having.items() if count}
        return Counted(rows=held.rows + len(self._fresh), tokens=tokens + unread, having=having)

    @cached_property
    def _collection(self) -> Collection:
        counted = self._counted
        return Collection(rows=counted.rows, mean=counted.mean, frequencies=counted.having)

    def _scored(self, rows: Mapping[int, Sequence[str]]) -> dict[int, float]:
        named = {str(number): tokens for number, tokens in rows.items()}
        return {int(name): score for name, score in bm25(self._terms, named, self._collection, BUILT_IN).items()}

    def _tokens_of_fresh(self, changed: frozenset[int]) -> dict[int, list[str]]:
        """The tokens of those among what came since that have a word of the question."""
        match = any_of(self._terms)
        if not match or not self._fresh:
            return {}
        matching = {*self._rows.matching_behind(match, self._view.mark.row), *changed} & self._fresh.keys()
        asked = {form for forms in self._terms for form in forms}
        texts = self._rows.texts(matching)
        tokens = {number: self._analyser.tokens(text).split() for number, text in texts.items()}
        return {number: own for number, own in tokens.items() if number not in changed or not asked.isdisjoint(own)}


def groups_of(owner: Owner, place: Place) -> frozenset[str] | None:
    """The groups of a vector index that a place is made of; None = all."""
    if place.everywhere:
        return None
    return frozenset({place.project or ""} if owner == "turn" else {place.project or "", f"user:{place.user}"})


def _hides(filters: Filters) -> bool:
    """True where the filter says what the asker may see: nothing of the rest may show, not even how long its rows are.

    Other questions take the mean length of a row from the whole index.
    """
    return filters.agent is not None or filters.user is not None or filters.trust > 0
