"""Searching notes: by the words of their chunks and by what these mean, judged like everything else that is found.

A note is shown once, by its best chunk. Notes are the user's own and belong to every project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from filrouge.app.asking import LONGEST_QUERY, POOL, Mode
from filrouge.app.parts import Parts
from filrouge.clock import to_text
from filrouge.index.lexical import any_of
from filrouge.model.filters import Filters
from filrouge.model.note import CHANNEL, NoteHit, NotesFound
from filrouge.ports import Tx, Vector
from filrouge.recall.bm25 import Collection, bm25
from filrouge.recall.hybrid import OKAPI
from filrouge.recall.judging import Questioned, alone, judged
from filrouge.recall.relevance import shares
from filrouge.recall.weights import ALONE_MEANING, ALONE_WORDS
from filrouge.store.vault import StoredChunk, StoredVault

_ALPHA: Final[Mapping[Mode, float]] = {"text": 0.0, "semantic": 1.0, "hybrid": 0.5}
#: A note stands among what was asked for only where it is as probable as this.
LEAST_BESIDE: Final = 0.5


def search_notes(parts: Parts, tx: Tx, text: str, *, mode: Mode = "hybrid", limit: int = 10) -> NotesFound:
    """The notes for a question, best first; nothing where no vault is named, or it is not there."""
    counts = StoredVault(tx).counts() if parts.noted.looked.is_there else None
    if counts is None or not counts.chunks:
        return NotesFound()
    asked = text[:LONGEST_QUERY]
    vector, notices = parts.meaning.question(asked) if mode != "text" else (None, ())
    search = _Search(parts, tx, asked, vector, counts.chunks)
    hits, known = search.ranked(_ALPHA[mode])
    best = dict[str, NoteHit]()
    for hit in hits:
        best.setdefault(hit.path, hit)
    return NotesFound(hits=tuple(best.values())[:limit], notices=notices, known=known)


class _Search:
    """The chunks for one question, and all that is known of them."""

    def __init__(self, parts: Parts, tx: Tx, text: str, vector: Vector | None, rows: int) -> None:
        self._parts, self._vector, self._rows = parts, vector, rows
        self._terms = parts.analyser.terms(text)
        store = StoredVault(tx)
        self._frequencies = store.frequencies([form for forms in self._terms for form in forms])
        match = any_of(self._terms)
        self._worded = store.best(match, POOL) if match else []
        space = parts.meaning.space
        self._near = parts.noted.nearest(tx, space, vector, POOL) if vector is not None else {}
        found = store.chunks({*self._worded, *self._near})
        self._chunks = {str(one.seq): one for one in found}
        self._tokens = {id_: one.tokens.split() for id_, one in self._chunks.items()}

    def ranked(self, alpha: float) -> tuple[list[NoteHit], float]:
        """The hits, best first, and the probability that anything is known.

        Words count by the share of the question that they are, meaning by how near a chunk comes to the nearest one: a
        few everyday words that a hundred notes have must not outweigh what the question is about.
        """
        alpha = alpha if self._vector is not None else 0.0
        questioned = Questioned(self._terms, self._frequencies, self._rows)
        matched = {id_: questioned.matched(frozenset(tokens)) for id_, tokens in self._tokens.items()}
        words = {id_: questioned.covered(found) if alpha < 1 else 0.0 for id_, found in matched.items()}
        lexical = _of_best(self._lexical()) if alpha < 1 else {}
        meaning = _of_best({str(seq): one.above for seq, one in self._near.items() if str(seq) in self._chunks})
        scores = {id_: (1 - alpha) * words[id_] + alpha * meaning.get(id_, 0.0) for id_ in self._chunks}
        ordered = sorted(
            (id_ for id_, score in scores.items() if score > 0),
            key=lambda id_: (-round(scores[id_], 9), -lexical.get(id_, 0.0), int(id_)),
        )
        space = self._parts.meaning.space
        near = {str(seq): space.calibrated_to_question(one.cosine) for seq, one in self._near.items()}
        parts = shares([ALONE_WORDS * lexical.get(id_, 0.0) + ALONE_MEANING * meaning.get(id_, 0.0) for id_ in ordered])
        signs = [
            alone(questioned, matched[id_], similarity=near.get(id_), share=part)
            for id_, part in zip(ordered, parts, strict=True)
        ]
        by_meaning = self._vector is not None and space.is_measured
        chances, known = judged(questioned, signs, [matched[id_] for id_ in ordered], by_meaning=by_meaning)
        hits = [
            _hit(
                self._chunks[id_],
                bm25_score=lexical.get(id_, 0.0),
                vector_score=meaning.get(id_, 0.0),
                score=scores[id_],
                similarity=near.get(id_),
                coverage=sign.covered,
                relevance=chance,
                boosts=(("words", (1 - alpha) * words[id_]), ("meaning", alpha * meaning.get(id_, 0.0))),
            )
            for id_, sign, chance in zip(ordered, signs, chances, strict=True)
        ]
        return hits, known

    def _lexical(self) -> dict[str, float]:
        lengths = sum(map(len, self._tokens.values()))
        mean = lengths / len(self._tokens) if self._tokens else 0.0
        collection = Collection(rows=self._rows, mean=mean, frequencies=Counter(self._frequencies))
        scores = bm25(self._terms, self._tokens, collection, OKAPI)
        return {id_: score for id_, score in scores.items() if score > 0}


def hit_json(hit: NoteHit) -> dict[str, Any]:
    """A note that was found, in the form of every other result."""
    return {
        "id": hit.path,
        "content": hit.text,
        "channel": CHANNEL,
        "type": "note",
        "role": None,
        "project": None,
        "project_name": "",
        "created_at": to_text(hit.changed),
        **hit.explain(),
    }


def beside(
    parts: Parts,
    tx: Tx,
    text: str,
    found: Sequence[dict[str, Any]],
    *,
    mode: Mode,
    limit: int,
    filters: Filters,
    least: float = LEAST_BESIDE,
) -> tuple[list[dict[str, Any]], NotesFound]:
    """Results with the notes among them that bear on the question: each before the first that is less relevant.

    A question that is narrowed to what was said asks no notes.
    """
    if filters.narrow:
        return list(found), NotesFound()
    notes = search_notes(parts, tx, text, mode=mode, limit=limit)
    bearing = [hit for hit in notes.hits if hit.relevance >= max(least, LEAST_BESIDE)]
    merged = list(found)
    for hit in bearing:
        place = next((n for n, one in enumerate(merged) if one["relevance"] < hit.relevance), len(merged))
        merged.insert(place, hit_json(hit))
    return merged[:limit], notes if bearing else NotesFound()


def _of_best(scores: Mapping[str, float]) -> dict[str, float]:
    """Each score as a share of the best; what is below nought is nothing."""
    best = max(scores.values(), default=0.0)
    return {id_: max(0.0, score) / best for id_, score in scores.items()} if best > 0 else {}


def _hit(stored: StoredChunk, **scores: Any) -> NoteHit:
    chunk = stored.chunk
    return NoteHit(
        path=chunk.path, part=chunk.part, heading=chunk.heading, text=chunk.text, changed=stored.changed, **scores
    )
