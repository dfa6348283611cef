"""Searching threads: by the words of title, summary, topics and prompts, and by what all of it means.

A project has tens to thousands of threads, so all that pass the filters are scored, archived ones too, and nothing is
looked up by an index of its own. Words are weighed by BM25 among these threads; the question is held against a
thread's vector as a prompt would be, above the ground of the user's talk where there is one. Both are stretched to
[0, 1] over the threads and mixed by alpha, as in every hybrid query. A thread that has no word of the question and is
no nearer to it than two unrelated texts are to each other is not found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from filrouge.app import report
from filrouge.app.asking import LONGEST_QUERY, Mode
from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.thread_report import Status, thread_json, threads_now
from filrouge.errors import BadInput
from filrouge.model.filters import Filters
from filrouge.model.scope import LOCAL_USER
from filrouge.model.thread import Thread
from filrouge.ports import Tx
from filrouge.providers.embedders import windows
from filrouge.recall.bm25 import Collection, bm25_of_counts
from filrouge.recall.hybrid import OKAPI, fused
from filrouge.store.thread_traces import ThreadVectors, ThreadWords
from filrouge.store.threads import Threads
from filrouge.threads.vectors import prompt_vector

_ALPHA: Final[Mapping[Mode, float]] = {"text": 0.0, "semantic": 1.0, "hybrid": 0.5}


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadHit:
    """A thread that was found.

    Attributes:
        score: what the order is by, in [0, 1]; it compares within one search alone.
        bm25_score, vector_score: what words and meaning give it, each stretched over the threads of the search.
        similarity: of the question and the thread, 0 = as two unrelated texts, 1 = the same; None without vectors.
        words: those of the question that it has.
        asked: how many the question has.
    """

    thread: Thread
    score: float
    bm25_score: float
    vector_score: float
    similarity: float | None
    words: tuple[str, ...]
    asked: int

    @property
    def why(self) -> str:
        """Why it was found, in one line."""
        has = f"{len(self.words)} of {self.asked} words: {', '.join(self.words)}" if self.words else "none of the words"
        return has if self.similarity is None else f"{has}; similarity {self.similarity:.2f}"

    def explain(self) -> dict[str, Any]:
        """Each part of the score."""
        return {
            "score": round(self.score, 4),
            "bm25_score": round(self.bm25_score, 4),
            "vector_score": round(self.vector_score, 4),
            "similarity": None if self.similarity is None else round(self.similarity, 4),
            "words": list(self.words),
            "why": self.why,
        }


def search_threads(
    parts: Parts,
    tx: Tx,
    text: str,
    names: Sequence[str] = (),
    *,
    mode: Mode = "hybrid",
    status: Status = "all",
    limit: int = 10,
    filters: Filters | None = None,
) -> list[ThreadHit]:
    """Threads for a question, the best first.

    Args:
        names: the project's; none means all projects.
        status: only threads in this state.
        filters: `user`, `agent` and `channel` of who opened them; `since` and `until`: something was said in them then.

    Raises:
        BadInput: another filter is given, which threads cannot pass.
        NotFound: there is no such project.
    """
    with parts.meters.thread_search():
        return _searched(parts, tx, text, names, mode, status, limit, filters or Filters())


def _searched(
    parts: Parts, tx: Tx, text: str, names: Sequence[str], mode: Mode, status: Status, limit: int, filters: Filters
) -> list[ThreadHit]:
    _refuse(filters)
    meaning, asked = parts.meaning, text[:LONGEST_QUERY]
    found = _passing(parts, tx, names, status, filters)
    terms = parts.analyser.terms(asked)
    has = _words(parts, tx, found, [form for forms in terms for form in forms])
    lexical = dict.fromkeys(has.counts, 0.0)
    if mode != "semantic":
        lexical = bm25_of_counts(terms, has.counts, has.lengths, has.collection, OKAPI)
    near = _similarities(parts, tx, meaning, asked, found) if mode != "text" else {}
    alpha = _ALPHA[mode] if near else 0.0
    by_id = {one.id: one for one in found}
    best = [one for one in fused(lexical, near, alpha=alpha) if lexical[one.id] > 0.0 or near.get(one.id, 0.0) > 0.0]
    return [
        ThreadHit(
            thread=by_id[one.id],
            score=one.score,
            bm25_score=one.bm25_score,
            vector_score=one.vector_score,
            similarity=near.get(one.id),
            words=tuple(forms[0] for forms in terms if any(form in has.counts[one.id] for form in forms)),
            asked=len(terms),
        )
        for one in best[:limit]
    ]


def found_threads(
    parts: Parts,
    tx: Tx,
    text: str,
    names: Sequence[str],
    *,
    mode: Mode,
    status: Status,
    limit: int,
    filters: Filters,
) -> list[dict[str, Any]]:
    """The same as the API answers it: each as `threads` lists it, with its type and its score."""
    known, now = report.names_of(tx), parts.clock.now()
    hits = search_threads(parts, tx, text, names, mode=mode, status=status, limit=limit, filters=filters)
    return [
        {"type": "thread", "content": one.thread.title} | thread_json(one.thread, known, now) | one.explain()
        for one in hits
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Worded:
    """How often the asked words are in each thread, and how many words each has."""

    counts: Mapping[str, Counter[str]]
    lengths: Mapping[str, int]

    @property
    def collection(self) -> Collection:
        having = Counter(form for own in self.counts.values() for form in own)
        return Collection(
            rows=len(self.counts),
            mean=sum(self.lengths.values()) / len(self.lengths) if self.lengths else 0.0,
            frequencies=having,
        )


def _refuse(filters: Filters) -> None:
    others = {
        "kind": filters.kinds, "as_of": filters.as_of, "trust": filters.trust, "role": filters.role,
        "thread": filters.thread, "branch": filters.branch,
    }  # fmt: skip
    given = next((name for name, value in others.items() if value), None)
    if given is not None:
        raise BadInput(
            f"Threads have no {given}.", remedy="They are narrowed by project, status, agent, channel, since and until."
        )


def _passing(parts: Parts, tx: Tx, names: Sequence[str], status: Status, filters: Filters) -> list[Thread]:
    """The threads of a place that pass the filters, the latest first."""
    found = threads_now(
        parts,
        tx,
        user=filters.user or LOCAL_USER,
        project=report.project_id(tx, names),
        everywhere=not names,
        agent=filters.agent,
        status=status,
    )
    if filters.channel is not None:
        found = [one for one in found if one.channel == filters.channel]
    if filters.since or filters.until:
        spoken = Threads(tx).spoken_between([one.id for one in found], filters.since, filters.until)
        found = [one for one in found if one.id in spoken]
    return found


def _words(parts: Parts, tx: Tx, threads: Iterable[Thread], forms: Sequence[str]) -> _Worded:
    """The asked words in what threads are called and in their prompts."""
    counts, lengths = dict[str, Counter[str]](), dict[str, int]()
    asked = set(forms)
    for one in threads:
        tokens = parts.analyser.tokens("\n".join((one.title, one.summary, *one.topics))).split()
        counts[one.id] = Counter(token for token in tokens if token in asked)
        lengths[one.id] = len(tokens)
    said = ThreadWords(tx)
    for thread_id, length in said.lengths(list(counts)).items():
        lengths[thread_id] += length
    for thread_id, own in said.counts(list(counts), forms).items():
        counts[thread_id].update(own)
    return _Worded(counts=counts, lengths=lengths)


def _similarities(parts: Parts, tx: Tx, meaning: Meaning, text: str, threads: Sequence[Thread]) -> dict[str, float]:
    """How near the question is to each thread that has a vector; nothing where there is no model."""
    vectors = ThreadVectors(tx).some([one.id for one in threads], meaning.space.id)
    asked = prompt_vector(meaning.passages(windows(text))) if vectors else None
    if asked is None:
        return {}
    ground = parts.grounds.of(tx, meaning, threads[0].user)  # all are one user's
    matrix = np.stack(list(vectors.values()))
    if ground is None:
        near = [meaning.space.calibrated(float(cosine)) for cosine in matrix @ asked]
    else:
        near = (ground.off(matrix) @ ground.off(asked[None, :])[0]).tolist()
    return dict(zip(vectors, near, strict=True))
