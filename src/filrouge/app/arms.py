"""The arms of a search: who finds by words and by meaning, whatever the table's size and the question's filter.

Three ways lead to the same answer. A small table is searched by the store's full text; a small filtered one by
reading its share; a large one, filtered or not, by the word index. Ranking asks the arm and need not know which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from filrouge.app.believed import nearest_beliefs
from filrouge.app.indexed import Indexed, groups_of
from filrouge.app.meaning import Meaning
from filrouge.app.narrowing import Narrowed
from filrouge.app.parts import Parts
from filrouge.app.report import number_of
from filrouge.index.lexical import Terms, any_of
from filrouge.model.filters import Filters
from filrouge.model.memory import SUMS
from filrouge.ports import Tx, Vector
from filrouge.store.shares import Place
from filrouge.store.words import Owner, Words


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
