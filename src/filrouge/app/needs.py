"""Need vectors of memories: made by one job in the background, and read for a prompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.worker import Outcome
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Seeking, Tx, Vector
from filrouge.store.jobs import Jobs
from filrouge.store.need_vectors import NEEDS, InSetting, NeedVectors

_AT_ONCE: Final = 32
#: Of memories that were stored a moment ago a prompt makes so many itself, some 8 ms each.
_FOR_A_PROMPT: Final = 6


def queue_need_vectors(tx: Tx, meaning: Meaning, at: datetime) -> None:
    """Have the vectors made that memories lack, where the embedder learned what prompts need."""
    if _revision(meaning):
        Jobs(tx).enqueue(NEEDS, {"after": 0}, dedupe=NEEDS, at=at)


def resume_need_vectors(parts: Parts) -> None:
    """Queue what an earlier daemon, or an earlier version, left without."""
    meaning = parts.meaning
    revision = _revision(meaning)
    if revision and parts.readers.here(lambda tx: NeedVectors(tx).missing(revision, 1)):
        parts.writer.run(lambda tx: queue_need_vectors(tx, meaning, parts.clock.now()))


def make_need_vectors(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """The job: make the vectors of some memories that lack them."""
    meaning, after = parts.meaning, int(payload["after"])
    revision = _revision(meaning)
    lacking = (
        parts.readers.here(lambda tx: NeedVectors(tx).missing(revision, _AT_ONCE, after=after)) if revision else []
    )
    if not lacking:
        return Outcome(write=lambda _: None)
    made = parts.readers.here(lambda tx: _made(tx, meaning, [one.id for one in lacking]))
    return Outcome(
        write=lambda tx: NeedVectors(tx).put(revision, made),
        again=lambda: {"after": lacking[-1].seq},
    )


def need_vectors(tx: Tx, meaning: Meaning, ids: Collection[str]) -> dict[str, Vector]:
    """Those of these memories; of a few that lack theirs they are made at once."""
    revision = _revision(meaning)
    found = NeedVectors(tx).some(ids, revision)
    lacking = [id_ for id_ in ids if id_ not in found]
    if 0 < len(lacking) <= _FOR_A_PROMPT:
        found |= {one.memory_id: vector for one, vector in _made(tx, meaning, lacking)}
    return found


def _revision(meaning: Meaning) -> str:
    return meaning.embedder.revision if isinstance(meaning.embedder, Seeking) else ""


def _made(tx: Tx, meaning: Meaning, ids: Collection[str]) -> list[tuple[InSetting, Vector]]:
    given = NeedVectors(tx).settings(ids)
    if not isinstance(meaning.embedder, Seeking) or not given:
        return []
    try:
        vectors = meaning.embedder.sought([(one.before, one.text) for one in given])
    except EmbedderUnavailable:
        return []
    return [] if vectors is None else list(zip(given, vectors, strict=True))
