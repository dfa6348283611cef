"""The memories nearest to a text, and the need vectors of memories.

One background job computes need vectors; retrieval for a prompt reads them. A need vector is what prompts that need the
memory are matched against.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import PromptEmbedder, Tx, Vector, VectorIndex
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.services import Parts
from filrouge.search.vector_repository import NEED_VECTORS_JOB, MissingNeedVector, NeedVectors, StatementInContext
from filrouge.search.vector_search import VectorSearch

_AT_ONCE: Final = 32
#: How many missing need vectors of new memories a prompt computes itself, at about 8 ms each.
_FOR_A_PROMPT: Final = 6


def queue_need_vectors(tx: Tx, meaning: VectorSearch, at: datetime) -> None:
    """Queue the job that computes missing need vectors, if the embedder has a model for what prompts need."""
    if _revision(meaning):
        Jobs(tx).enqueue(NEED_VECTORS_JOB, {"after": 0}, dedupe=NEED_VECTORS_JOB, at=at)


def resume_need_vectors(parts: Parts) -> None:
    """Queue need vectors that an earlier run or an earlier version of the daemon left missing."""
    meaning = parts.meaning
    revision = _revision(meaning)
    if revision and parts.readers.here(lambda tx: NeedVectors(tx).missing(revision, 1)):
        parts.writer.run(lambda tx: queue_need_vectors(tx, meaning, parts.clock.now()))


def make_need_vectors(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: compute need vectors for some of the memories that lack them."""
    meaning, after = parts.meaning, int(payload["after"])
    revision = _revision(meaning)

    def look(tx: Tx) -> tuple[list[MissingNeedVector], list[StatementInContext]]:
        lacking = NeedVectors(tx).missing(revision, _AT_ONCE, after=after) if revision else []
        return lacking, NeedVectors(tx).settings([one.id for one in lacking])

    lacking, given = parts.readers.here(look)
    if not lacking:
        return JobResult(write=lambda _: None)
    made = _made(meaning, given)
    return JobResult(
        write=lambda tx: NeedVectors(tx).put(revision, made),
        again=lambda: {"after": lacking[-1].seq},
    )


def need_vectors(tx: Tx, meaning: VectorSearch, ids: Collection[str]) -> dict[str, Vector]:
    """Return the need vectors of these memories; if only a few are missing, compute those immediately."""
    revision = _revision(meaning)
    found = NeedVectors(tx).some(ids, revision)
    lacking = [id_ for id_ in ids if id_ not in found]
    if 0 < len(lacking) <= _FOR_A_PROMPT:
        found |= {one.memory_id: vector for one, vector in _made(meaning, NeedVectors(tx).settings(lacking))}
    return found


def _revision(meaning: VectorSearch) -> str:
    return meaning.embedder.revision if isinstance(meaning.embedder, PromptEmbedder) else ""


def _made(meaning: VectorSearch, given: Sequence[StatementInContext]) -> list[tuple[StatementInContext, Vector]]:
    """Return the need vectors of memories; an empty list if the embedder is unavailable."""
    if not isinstance(meaning.embedder, PromptEmbedder) or not given:
        return []
    try:
        vectors = meaning.embedder.sought([(one.before, one.text) for one in given])
    except EmbedderUnavailable:
        return []
    return [] if vectors is None else list(zip(given, vectors, strict=True))


# Nearest memories, without summaries (kinds in `SUMS`). Summaries repeat other memories and would take their places.
# They have vectors for queries that request their kind (`search.retrievers`).

#: Factor by which the search is widened when too few results remain.
_WIDER: Final = 4


def nearest_live_memories(
    tx: Tx, index: VectorIndex, vector: Vector, limit: int, groups: frozenset[str] | None
) -> dict[str, float]:
    """Return the nearest memories in these groups with their cosines, best first, by id; None = all groups."""
    asked = limit
    while True:
        near = index.nearest(vector, asked, groups)
        sums = {row["id"] for row in tx.all("memories.sums", {"ids": json.dumps([one.owner_id for one in near])})}
        kept = {one.owner_id: one.cosine for one in near if one.owner_id not in sums}
        if len(kept) >= limit or len(near) < asked:
            return dict(list(kept.items())[:limit])
        asked *= _WIDER
