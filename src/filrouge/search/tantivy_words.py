"""Full-text search with tantivy: the best few of a million rows without scoring every match.

It indexes the same token string as FTS5, so both find the same rows. Its BM25 is Lucene's: k1 = 1.2, b = 0.75, rarity
`ln(1 + (N - n + ½) / (n + ½))`, lengths above 40 tokens rounded down by up to an eighth. The weight of each word in a
question is set as a boost: every word counts the same, and a rarity counted elsewhere can replace tantivy's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import tantivy

from filrouge.core.protocols import RowNumbers
from filrouge.search.analyser import Phrase, phrases
from filrouge.search.models import IndexPosition, Selection, WordCounts, WordRow

#: The minimum memory that tantivy accepts per writing thread, in bytes; it is released at each commit.
_WRITER_MEMORY: Final = 32_000_000
#: Maximum number of pairs that one character of a script without spaces is expanded to.
_MAX_PREFIX_MATCHES: Final = 64
_INTEGER: Final = tantivy.FieldType.Integer
_MUST, _SHOULD, _NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot

Query = tantivy.Query


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("tokens", tokenizer_name="whitespace", index_option="position")
    builder.add_text_field("labels", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("number", indexed=True, fast=True)
    builder.add_unsigned_field("length", fast=True)
    builder.add_integer_field("begins", fast=True)
    builder.add_integer_field("ends", fast=True)
    return builder.build()


class TantivyWords:
    """Implements `WordIndex` in one directory; only one thread of one process writes.

    Args:
        directory: contains an index with this schema, or is empty.
        save_mark: stores the mark of how far the index has followed the store.
        mark: how far the index has followed the store; later rows are left from an interrupted commit and are deleted.
    """

    def __init__(self, directory: str, mark: IndexPosition, save_mark: Callable[[IndexPosition], None]) -> None:
        self._save_mark = save_mark
        self._index = tantivy.Index(_schema(), path=directory)
        self._writer = self._index.writer(heap_size=_WRITER_MEMORY, num_threads=1)
        self._view = TantivyView(self._index, mark)
        self._writer.delete_documents_by_query(_rows_after(self._index.schema, mark.row))
        self.commit(mark)

    def view(self) -> TantivyView:
        """Return the index as of its last commit."""
        return self._view

    def replace(self, numbers: Collection[int], rows: Iterable[WordRow]) -> None:
        """Remove these row numbers and add these rows; nothing is visible before `commit`."""
        if numbers:  # by query: `delete_documents_by_term` treats every number as signed, and finds nothing
            old = Query.term_set_query(self._index.schema, "number", sorted(numbers))
            self._writer.delete_documents_by_query(old)
        for row in rows:
            document = tantivy.Document()
            document.add_text("tokens", row.tokens)
            for label in row.labels:
                document.add_text("labels", label)
            document.add_unsigned("number", row.number)
            document.add_unsigned("length", row.tokens.count(" ") + 1 if row.tokens else 0)
            document.add_integer("begins", row.begins)
            document.add_integer("ends", row.ends)
            self._writer.add_document(document)

    def commit(self, mark: IndexPosition) -> None:
        """Commit the replacements, with how far the index follows the store now."""
        self._writer.commit()
        # Write the mark last: after a kill before this line the old mark is read, and the rows after it are indexed
        # again.
        self._save_mark(mark)
        self._index.reload()
        self._view = TantivyView(self._index, mark)

    def close(self) -> None:
        """Close the index; uncommitted changes are dropped."""
        self._writer.rollback()
        self._writer.wait_merging_threads()


class TantivyView:
    """Implements `WordSnapshot`."""

    def __init__(self, index: tantivy.Index, mark: IndexPosition) -> None:
        self.mark = mark
        self._schema = index.schema
        self._searcher = index.searcher()
        self._all_rows: tuple[int, int] | None = None

    def best(
        self, terms: Sequence[Sequence[str]], selection: Selection, limit: int, rarity: Mapping[str, float] | None
    ) -> dict[int, float]:
        """Return the best rows by BM25, best first; `rarity` replaces the index's own rarity of each token."""
        queries = [query for phrase in phrases(terms) if (query := self._query(phrase, rarity)) is not None]
        if not queries or limit < 1:
            return {}
        any_word = Query.boolean_query([(_SHOULD, query) for query in queries])
        clauses = [(_MUST, any_word), *self._clauses(selection)]
        hits = self._searcher.search(Query.boolean_query(clauses), limit, count=False).hits
        numbers = self._numbers([address for _, address in hits])
        return {number: float(score) for number, (score, _) in zip(numbers, hits, strict=True)}

    def counted(self, forms: Collection[str], selection: Selection | None) -> WordCounts:
        """Return exact counts within a selection, or counts of the whole index (None).

        Counts of the whole index cost nothing, but may include removed rows.
        """
        if selection is None:
            self._all_rows = self._all_rows or self._count(Query.all_query())
            having = {form: self._searcher.doc_freq("tokens", form) for form in forms}
            return WordCounts(rows=self._all_rows[0], tokens=self._all_rows[1], having=having)
        clauses = self._clauses(selection)
        rows, tokens = self._count(Query.boolean_query([(_MUST, Query.all_query()), *clauses]))
        return WordCounts(rows=rows, tokens=tokens, having={form: self._count_having(form, clauses) for form in forms})

    def numbers(self, selection: Selection, limit: int) -> RowNumbers:
        """Return at most `limit` rows of a selection, in no particular order."""
        query = Query.boolean_query([(_MUST, Query.all_query()), *self._clauses(selection)])
        hits = self._searcher.search(query, limit, count=False).hits if limit else []
        return np.array(self._numbers([address for _, address in hits]), dtype=np.int64)

    def _numbers(self, addresses: list[tantivy.DocAddress]) -> list[int]:
        return cast("list[int]", self._searcher.fast_field_values("number", addresses)) if addresses else []

    def _count_having(self, form: str, clauses: Sequence[tuple[tantivy.Occur, Query]]) -> int:
        query = Query.boolean_query([(_MUST, self._token(form)), *clauses])
        return int(cast("Any", self._searcher.search(query, 1, count=True)).count)

    def _count(self, query: Query) -> tuple[int, int]:
        searcher = cast("Any", self._searcher)  # its stub leaves the types of dictionaries open
        found = searcher.aggregate(query, {"length": {"stats": {"field": "length"}}})["length"]
        return int(found["count"]), int(found["sum"] or 0)

    def _query(self, phrase: Phrase, rarity: Mapping[str, float] | None) -> Query | None:
        if len(phrase.words) > 1:
            return Query.phrase_query(self._schema, "tokens", list(phrase.words))
        word = "".join(phrase.words)
        if phrase.is_start:
            tokens = [term for term, _ in self._searcher.terms_with_prefix("tokens", word, limit=_MAX_PREFIX_MATCHES)]
            return Query.boolean_query([(_SHOULD, self._token(term)) for term in tokens]) if tokens else None
        boost = float(phrase.times)
        if rarity is not None:
            boost *= rarity.get(word, 0.0) / self._rarity(word)
        return Query.boost_query(self._token(word), boost)

    def _token(self, word: str) -> Query:
        return Query.term_query(self._schema, "tokens", word, "freq")

    def _rarity(self, word: str) -> float:
        """Return the rarity of a word as tantivy computes it."""
        having = self._searcher.doc_freq("tokens", word)
        rows = max(self._searcher.num_docs, having)
        return math.log(1 + (rows - having + 0.5) / (having + 0.5))

    def _clauses(self, selection: Selection) -> list[tuple[tantivy.Occur, Query]]:
        """Return the filter clauses of a selection; they do not affect the score."""
        schema, must = self._schema, list[Query]()
        for labels in selection.labels:
            any_label = [Query.term_query(schema, "labels", label, "basic") for label in sorted(labels)]
            must.append(
                any_label[0] if len(any_label) == 1 else Query.boolean_query([(_SHOULD, query) for query in any_label])
            )
        first, last = selection.begins
        if first is not None or last is not None:
            must.append(Query.range_query(schema, "begins", _INTEGER, first, last))
        if selection.lasts_beyond is not None:
            must.append(Query.range_query(schema, "ends", _INTEGER, selection.lasts_beyond + 1, None))
        clauses = [(_MUST, Query.const_score_query(query, 0.0)) for query in must]
        if selection.without:
            clauses.append((_NOT, Query.term_set_query(schema, "number", sorted(selection.without))))
        return clauses


def _rows_after(schema: tantivy.Schema, number: int) -> Query:
    return Query.range_query(schema, "number", tantivy.FieldType.Unsigned, number + 1, None)
