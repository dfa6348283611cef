"""Retrievers: candidates by words and by meaning, for small and large tables, within a filter."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np

from filrouge.core.protocols import Analyser, Tx, Vector, WordView
from filrouge.maintenance.health import number_of
from filrouge.memories.models import SUMS, Filters
from filrouge.runtime.services import Parts
from filrouge.search.analyser import Terms, any_of
from filrouge.search.fusion import BUILT_IN, Collection, bm25, bm25_of_counts
from filrouge.search.models import Counted, Selection
from filrouge.search.nearest_memories import nearest_beliefs
from filrouge.search.vector_repository import StoredVectors
from filrouge.search.vector_search import Meaning
from filrouge.search.word_repository import Owner, Place, Share, WordRows, Words, passes, selection

# Narrowing: both arms of a search within what passes the question's filters, cut only afterwards.


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


# Searching a large table: the word index for what it holds, the store for what came since.
#
# What is filtered is counted within the filter: how many rows pass, and in how many of them each word occurs. Rows of
# the last second, and memories that changed in it, are found by the store's full text and scored by the same formula.

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


# The arms of a search: who finds by words and by meaning, whatever the table's size and the question's filter.
#
# Three ways lead to the same answer. A small table is searched by the store's full text; a small filtered one by
# reading its share; a large one, filtered or not, by the word index. Ranking asks the arm and need not know which.


class Arm(Protocol):
    """Finds the candidates of one question in one table, and says how rare its words are there."""

    @property
    def frequencies(self) -> Mapping[str, int]:
        """In how many rows each form of a word occurs; those that occur nowhere may be left out."""
        ...

    def __len__(self) -> int:
        """How many rows the words are counted in."""
        ...

    @property
    def tokens(self) -> int:
        """How many tokens these rows are indexed under, together."""
        ...

    def by_words(self, limit: int) -> dict[str, float]:
        """The best by full text with their scores, best first, by id."""
        ...

    def by_meaning(self, meaning: Meaning, vector: Vector, limit: int) -> dict[str, float]:
        """The nearest by meaning with their cosines, best first, by id."""
        ...

    def holds(self, row: Mapping[str, Any]) -> bool:
        """True if a row of the table `turns` passes the question's filter."""
        ...


def arm(parts: Parts, tx: Tx, owner: Owner, place: Place, filters: Filters, terms: Terms) -> Arm:
    """The arm for a question of these words."""
    view = parts.words.view(tx, owner)
    # A word index is told of none of those, nor of threads and branches, whose share is small.
    if view and not set(SUMS) & set(filters.kinds) and filters.thread is filters.branch is None:
        return Indexed(tx, owner, place, filters, terms, view, parts.analyser)
    if filters.narrow:
        return Narrowed(tx, owner, place, filters, terms, any_of(terms), parts.analyser)
    return _Plain(parts, tx, owner, place, terms)


class _Plain:
    """A question without a filter in a table that the store's own full text searches."""

    def __init__(self, parts: Parts, tx: Tx, owner: Owner, place: Place, terms: Terms) -> None:
        self._parts, self._tx, self._place = parts, tx, place
        self._owner: Owner = owner
        self._terms: Sequence[Sequence[str]] = terms

    @property
    def frequencies(self) -> Mapping[str, int]:
        """In how many rows, of whatever scope and state, each form occurs."""
        forms = [form for forms in self._terms for form in forms]
        return Words(self._tx, self._parts.analyser, self._owner).frequencies(forms)

    def __len__(self) -> int:
        """How many rows there are, of whatever scope and state."""
        return number_of(self._tx, "memories.size" if self._owner == "memory" else "turns.count")

    def __bool__(self) -> bool:
        """An empty table is a table all the same."""
        return True

    @property
    def tokens(self) -> int:
        """How many tokens all rows are indexed under."""
        return Words(self._tx, self._parts.analyser, self._owner).totals().tokens

    def by_words(self, limit: int) -> dict[str, float]:
        """The best by FTS5's own bm25()."""
        match, place = any_of(self._terms), self._place
        if not match:
            return {}
        where = {"project_id": place.project, "user_id": place.user, "everywhere": place.everywhere}
        query = "turns.best" if self._owner == "turn" else "memories.best"
        rows = self._tx.all(query, {**where, "match": match, "limit": limit})
        return {row["id"]: float(row["bm25"]) for row in rows}

    def by_meaning(self, meaning: Meaning, vector: Vector, limit: int) -> dict[str, float]:
        """The nearest of the place's groups."""
        groups = groups_of(self._owner, self._place)
        if self._owner == "memory":
            return nearest_beliefs(self._tx, meaning.memory_index, vector, limit, groups)
        return {one.owner_id: one.cosine for one in meaning.turn_index.nearest(vector, limit, groups)}

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Always: nothing is filtered, and neighbours are of the same project."""
        del row
        return True
