"""Embedding spaces: the current one, embedding passes, calibration, reindexing and retokenising.

The setting `embedding_model` names the wanted embedder; the space stored as current is the one recall reads. If no
vectors are stored yet, the wanted space is adopted at once. If the two differ, the current space stays in use with the
embedder that produces it, until a reindex moves the memory to the wanted space. If no embedder produces the current
space, only words are searched, and a notice says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadConfig, EmbedderUnavailable, FilrougeError, NotFound
from filrouge.core.protocols import Embedder, Tx, Vectors
from filrouge.core.rows import number_of
from filrouge.core.settings import Settings, resolve
from filrouge.providers.calibration import SHORT_TURN, from_turns, measure
from filrouge.providers.embedders import windows
from filrouge.providers.models import Calibration, EmbeddingSpace
from filrouge.runtime.executors import ReaderPool
from filrouge.runtime.jobs import TOO_MANY_DEATHS, JobResult, Jobs
from filrouge.runtime.services import Parts, StoreContext, StoredSettings
from filrouge.search.models import IndexedTable as WordOwner
from filrouge.search.repository import FullTextIndex, Owner, OwnerKind, Spaces, StoredSpace, StoredVectors
from filrouge.search.retrievers import queue_need_vectors
from filrouge.search.vector_search import (
    UNKNOWN_SPACE,
    Embedders,
    NewIndex,
    UnavailableEmbedder,
    VectorSearch,
    embed_in_batches,
    new_vector_search,
)
from filrouge.threads.repository import ThreadVectors
from filrouge.threads.upkeep import queue_thread_vectors, update_vector_for_prompt

_LOG = logging.getLogger(__name__)

#: The dedupe keys of the two long-running jobs; REINDEX exists once, CLEAR once per retirement.
REINDEX, CLEAR = "reindex", "clear_spaces"
#: How the state of an unfinished job is shown.
_STATES = {"running": "running", "queued": "waiting"}


class WantedEmbedder(Struct, frozen=True, kw_only=True):
    """The embedder that the settings request.

    Attributes:
        space: None if the embedder is unavailable; `why` then gives the reason.
    """

    name: str
    space: EmbeddingSpace | None
    why: str = ""


def wanted_name(tx: Tx, home: str, environ: Mapping[str, str]) -> str:
    """Return the name of the embedder that the settings request."""
    stored = StoredSettings(tx).all()
    try:
        effective = resolve(stored, home=home, environ=environ)
    except BadConfig:  # an unreadable settings file is reported elsewhere
        return str(environ.get("FILROUGE_EMBEDDING_MODEL") or stored.get("embedding_model") or _DEFAULT)
    provider = environ.get("FILROUGE_EMBED_PROVIDER", "").strip()
    if provider and effective.origins["embedding_model"] != "environment":
        return provider
    return effective.settings.embedding_model


_DEFAULT = Settings().embedding_model


def wanted_embedder(embedders: Embedders, name: str) -> WantedEmbedder:
    """Return the wanted embedder with its space, or the reason why it is unavailable."""
    try:
        return WantedEmbedder(name=name, space=embedders.named(name).space)
    except FilrougeError as error:
        return WantedEmbedder(name=name, space=None, why=f"{error.message} {error.remedy}".strip())


def initial_vector_search(tx: Tx, embedders: Embedders, name: str, new_index: NewIndex) -> VectorSearch:
    """Return the vector search to start with; if no vectors are stored yet, the wanted space becomes current."""
    spaces, requested = Spaces(tx), wanted_embedder(embedders, name)
    StoredVectors(tx).drop_unfinished()
    current = spaces.current()
    if requested.space and (
        current is None or current.id == requested.space.id or not StoredVectors(tx).any(current.id)
    ):
        spaces.declare(requested.space, name)
        spaces.make_current(requested.space.id)
        current = spaces.current()
    if current is None:
        _LOG.warning("no embedder: %s", requested.why)
        return new_vector_search(name, UnavailableEmbedder(UNKNOWN_SPACE, requested.why), None, new_index)
    found = embedders.for_space(current.id, current.embedder)
    if found is None:
        why = f"The embedder {current.embedder!r} of the space {current.id} is not available."
        _LOG.warning("%s", why)
        return new_vector_search(
            current.embedder, UnavailableEmbedder(current.space, why), current.space.calibration, new_index
        )
    found_name, embedder = found
    return new_vector_search(found_name, embedder, current.space.calibration, new_index)


def recalibrate(parts: Parts, calibration: Calibration) -> None:
    """Store a measured calibration for the current space, and use it for its cosines from now on.

    Raises:
        NotFound: no embedder was ever adopted.
    """

    def write(tx: Tx) -> str:
        current = Spaces(tx).current()
        if current is None:
            raise NotFound("There is no embedding space yet.", remedy="Set `embedding_model` to one that exists.")
        Spaces(tx).set_calibration(current.id, calibration)
        return current.id

    space_id = parts.writer.run(write)
    parts.change_vectors(lambda now: now.with_calibration(calibration) if now.space.id == space_id else now)


def store_or_queue_vectors(
    tx: Tx, vectors: VectorSearch, kind: OwnerKind, owner_id: str, owner_vectors: Vectors | None, at: datetime
) -> None:
    """Store an owner's vectors; if there are none, or the current space changed meanwhile, queue embedding instead."""
    current = Spaces(tx).current()
    if kind == "memory":
        queue_need_vectors(tx, vectors, at)
    if owner_vectors is not None and current is not None and current.id == vectors.space.id:
        StoredVectors(tx).put(kind, owner_id, vectors.space.id, owner_vectors)
    else:
        queue_vectors(tx, kind, owner_id, at)


def queue_vectors(tx: Tx, kind: OwnerKind, owner_id: str, at: datetime) -> None:
    """Queue the job that embeds an owner."""
    Jobs(tx).enqueue(f"index_{kind}", {kind: owner_id}, dedupe=f"index_{kind}:{owner_id}", at=at)


def space_notice(vectors: VectorSearch, requested: WantedEmbedder) -> str:
    """Return what the user should know about the spaces, with the next step; empty if there is no problem."""
    if vectors.is_lost and (requested.space is None or requested.space.id == vectors.space.id):
        return f"Only words are searched: {requested.why or f'the embedder {vectors.name} is not available.'}"
    if vectors.is_lost:
        return f"Only words are searched until `filrouge reindex` brings the memory to {requested.name}."
    if requested.space is None:
        return f"The memory stays with {vectors.name}: {requested.why}"
    if requested.space.id != vectors.space.id:
        return f"The memory stays with {vectors.space.id} until `filrouge reindex` brings it to {requested.space.id}."
    return ""


def coverage(parts: Parts, tx: Tx) -> tuple[int, int]:
    """Return how many memories and turns have vectors in the current space, and how many should."""
    space, vectors = parts.vectors.space.id, StoredVectors(tx)
    mark = space, vectors.size(space), number_of(tx, "turns.count"), parts.memories(tx).counts()
    return parts.counts.get("coverage", mark, lambda: vectors.coverage(space))


def describe(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Return the current space with its calibration and coverage, the space being built, and the wanted embedder."""
    vectors = parts.vectors
    requested = wanted_embedder(parts.embedders, wanted_name(tx, parts.home, parts.environ))
    done, total = coverage(parts, tx)
    calibration = vectors.space.calibration
    return {
        "space": vectors.space.id,
        "model": vectors.space.model,
        "embedder": vectors.name,
        "available": not vectors.is_lost,
        "calibration": calibration
        and {
            "origin": calibration.origin,
            "pairs": calibration.pairs,
            "texts": [list(anchor) for anchor in calibration.texts],
            "questions": [list(anchor) for anchor in calibration.questions],
        },
        "coverage": {"done": done, "total": total, "share": round(done / total, 4) if total else 1.0},
        "wanted": {"embedder": requested.name, "space": requested.space and requested.space.id},
        "building": _building(tx, vectors),
        "notice": space_notice(vectors, requested),
    }


def _building(tx: Tx, vectors: VectorSearch) -> dict[str, Any] | None:
    """Return the space being filled in the background: a new one, or the current one if vectors are missing.

    A new space becomes current on disk a moment before recall reads it; until then it still counts as being built.
    """
    job, current = Jobs(tx).get_by_key(REINDEX), Spaces(tx).current()
    taking_over = current is not None and current.id != vectors.space.id
    target = Spaces(tx).building() or (current if job or taking_over else None)
    if target is None:
        return None
    done, total = StoredVectors(tx).coverage(target.id)
    return {
        "space": target.id,
        "model": target.space.model,
        "embedder": target.embedder,
        "done": done,
        "total": total,
        "state": _STATES.get(job["state"], "failed") if job else "running" if taking_over else "waiting",
        "attempts": job["attempts"] if job else 0,
        "error": job["error"] if job else "",
    }


# Embedding in passes. A pass embeds as many texts as fit the batch size, or a few windows of one long text.
#
# A long text is embedded from its last window to its first, over several jobs, so no job is very long and killing the
# daemon costs one pass. The owner counts as embedded, and becomes visible to the index, once its first window is
# stored. Short texts are embedded together.

#: At most a few seconds with the bundled model, because extraction of captured turns waits that long.
WINDOWS_PER_JOB = 16
#: The limit for short texts together, in characters: about the same number of windows of prose.
_CHARACTERS_PER_JOB = 16_000


class EmbeddedWindows(Struct, frozen=True, kw_only=True):
    """Some windows of an owner with their vectors.

    Attributes:
        first: the number of the first window; 0 = the owner is complete after this pass.
        is_all: these are all windows of the owner.
    """

    owner: Owner
    first: int
    vectors: Vectors
    is_all: bool

    def write(self, tx: Tx, space_id: str) -> None:
        """Store the vectors, unless the owner was erased in the meantime."""
        first = None if self.is_all else self.first
        if StoredVectors(tx).number(self.owner.kind, self.owner.id) is not None:
            StoredVectors(tx).put(self.owner.kind, self.owner.id, space_id, self.vectors, first=first)

    def add_to_index(self, parts: Parts, vectors: VectorSearch) -> None:
        """Add the owner to the vector index, if it is complete."""
        owner, space = self.owner, vectors.space.id
        number = parts.readers.here(lambda tx: StoredVectors(tx).number(owner.kind, owner.id))
        if self.first or number is None:
            return
        found = self.vectors
        if not self.is_all:
            stored = parts.readers.here(lambda tx: StoredVectors(tx).of(owner.kind, owner.id, space))
            found = found if stored is None else stored
        index = vectors.memory_index if owner.kind == "memory" else vectors.turn_index
        index.put(owner.id, number, owner.group, found)


def embed_next_windows(
    readers: ReaderPool, embedder: Embedder, space_id: str, owners: Sequence[Owner]
) -> list[EmbeddedWindows | None]:
    """Embed the next windows of the first of these owners, up to the batch size, and of at least one owner.

    Returns:
        For each owner that was processed, in order: its pass, or None if all its windows are stored already.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    batch = _next_windows(readers, space_id, owners)
    vectors = embed_in_batches(embedder, [text for _, texts, _ in batch for text in texts])
    passes, begin = list[EmbeddedWindows | None](), 0
    for owner, (first, texts, is_all) in zip(owners, batch, strict=False):
        owner_vectors = vectors[begin : begin + len(texts)]
        passes.append(
            EmbeddedWindows(owner=owner, first=first, vectors=owner_vectors, is_all=is_all) if texts else None
        )
        begin += len(texts)
    return passes


def _next_windows(readers: ReaderPool, space_id: str, owners: Sequence[Owner]) -> list[tuple[int, list[str], bool]]:
    """Return for the first owners the next windows: number of the first, texts, and whether they are all windows."""
    found, characters = list[tuple[int, list[str], bool]](), 0
    for owner in owners:
        texts = windows(owner.text)
        stored = readers.here(lambda tx, owner=owner: StoredVectors(tx).first_part(owner.kind, owner.id, space_id))
        stop = len(texts) if stored is None else min(stored, len(texts))
        first = max(0, stop - WINDOWS_PER_JOB)
        characters += sum(map(len, texts[first:stop]))
        if found and characters > _CHARACTERS_PER_JOB:
            break
        found.append((first, texts[first:stop], stop - first == len(texts)))
    return found


# Calibration: a space without a shipped calibration is measured on the bundled sample, and again on the user's own
# turns once there are enough. A calibration shipped with a model is never replaced.


CALIBRATE = "calibrate"
_MAX_TURNS = 800


def queue_calibration(parts: Parts) -> None:
    """Queue calibration of the current space, unless it was shipped with one or was measured on turns already."""
    if not _is_due(parts):
        return
    now = parts.clock.now()
    parts.writer.run(lambda tx: Jobs(tx).enqueue(CALIBRATE, {}, dedupe=CALIBRATE, at=now))
    parts.work_waiting.set()


def calibrate(parts: Parts, _: Mapping[str, Any]) -> JobResult:
    """Job handler: calibrate the current space on the sample, and on the user's turns if there are enough."""
    vectors = parts.vectors
    if _is_due(parts):
        by_sample = measure(vectors.embedder)
        turn_vectors, sessions = parts.readers.here(
            lambda tx: StoredVectors(tx).short_turns(vectors.space.id, max_characters=SHORT_TURN, limit=_MAX_TURNS)
        )
        calibration = from_turns(turn_vectors, sessions, by_sample) or by_sample
        if parts.vectors.space.id == vectors.space.id:
            recalibrate(parts, calibration)
            _LOG.info("%s is calibrated on %s, %d pairs", vectors.space.id, calibration.origin, calibration.pairs)
    return JobResult(write=lambda _: None)


def _is_due(parts: Parts) -> bool:
    vectors = parts.vectors
    calibration = vectors.space.calibration
    return not vectors.is_lost and (calibration is None or calibration.origin == "sample")


# Reindexing: a new space is built next to the current one, and replaces it when it is complete.
#
# One job embeds a small batch and requeues itself at the end of the queue, so captures run in between and a restarted
# daemon continues where the last one stopped. The target space is read from the table of spaces each time, not from the
# job, so a request for another model only changes the target. The same job also embeds owners that lack vectors in the
# current space. Texts are never changed.

_OWNER_KINDS: tuple[OwnerKind, ...] = ("memory", "turn")
_OWNERS_PER_JOB = 32
_MAX_MISSING = 64
_ROWS_PER_SWEEP = 2000
_ALL = 1 << 31
_FIXED_ORIGINS = ("user file", "environment")


def reindex(parts: Parts, model: str | None = None) -> dict[str, Any]:
    """Start moving the memory to the model with this name, or to the configured one; return the status.

    A given name becomes the setting, unless a file or the environment fixes the setting. If another space is being
    built, that build is abandoned. If the memory is already in the wanted space, only missing vectors are computed.

    Raises:
        BadConfig: there is no such model.
        EmbedderUnavailable: it cannot be used.
    """
    name = model or parts.readers.here(lambda tx: wanted_name(tx, parts.home, parts.environ))
    space = parts.embedders.named(name).space
    is_incomplete = parts.readers.here(lambda tx: _lacks(tx, space.id))

    def write(tx: Tx) -> dict[str, Any]:
        now, spaces = parts.clock.now(), Spaces(tx)
        current, building = spaces.current(), spaces.building()
        if model and parts.effective(tx).origins["embedding_model"] not in _FIXED_ORIGINS:
            StoredSettings(tx).put({"embedding_model": model}, now)
        spaces.declare(space, name)
        is_current = current is not None and current.id == space.id
        if building is not None and building.id != space.id:
            spaces.retire(building.id)
            _queue_clearing(parts.clock, tx)
        if not is_current:
            spaces.begin(space.id)
        if is_incomplete or not is_current:
            Jobs(tx).enqueue(REINDEX, {}, dedupe=REINDEX, at=now)
            Jobs(tx).make_due(REINDEX, now)
        return describe(parts, tx)  # what was begun here, however soon it is done

    status = parts.writer.run(write)
    parts.work_waiting.set()
    return status


def resume(parts: Parts) -> None:
    """Queue work left from an earlier run: a space being built, missing vectors, vectors of retired spaces."""

    def read(tx: Tx) -> tuple[bool, bool]:
        spaces, current = Spaces(tx), parts.vectors
        job = Jobs(tx).get_by_key(REINDEX)
        more = spaces.building() is not None or (not current.is_lost and _lacks(tx, current.space.id))
        more = more and not (job is not None and job["error"] == TOO_MANY_DEATHS)  # until a reindex is requested
        return more, any(space.state == "retired" and StoredVectors(tx).any(space.id) for space in spaces.all())

    more, has_retired_vectors = parts.readers.here(read)

    def write(tx: Tx) -> None:
        now = parts.clock.now()
        if more:
            Jobs(tx).enqueue(REINDEX, {}, dedupe=REINDEX, at=now)
            Jobs(tx).make_due(REINDEX, now)
        if has_retired_vectors:
            Jobs(tx).enqueue(CLEAR, {}, dedupe=CLEAR, at=now)

    if more or has_retired_vectors:
        parts.writer.run(write)


def reindex_batch(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: embed some owners that lack vectors in the target space; when none is left, make it current."""
    target = parts.readers.here(_target)
    if target is None:
        return JobResult(write=lambda _: None)
    found = parts.embedders.for_space(target.id, target.embedder)
    if found is None:
        raise EmbedderUnavailable(f"The embedder {target.embedder!r} of the space {target.id} is not available.")
    name, embedder = found
    is_same_target = payload.get("space") == target.id
    kind: OwnerKind = "turn" if is_same_target and payload["kind"] == "turn" else "memory"
    after = int(payload["after"]) if is_same_target else 0
    owners = parts.readers.here(lambda tx: StoredVectors(tx).missing(kind, target.id, _OWNERS_PER_JOB, after=after))
    if owners:
        return _embed_batch(parts, target, embedder, owners, after)
    if kind == "memory":
        return JobResult(write=lambda _: None, again=lambda: {"space": target.id, "kind": "turn", "after": 0})
    return _switch_space(parts, target, name, embedder)


def clear(_: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: delete the vectors of retired spaces in the next range of the table."""
    begin, next_payloads = payload.get("after") or ("", ""), list[Mapping[str, object] | None]()

    def write(tx: Tx) -> None:
        after = StoredVectors(tx).clear_retired((begin[0], begin[1]), _ROWS_PER_SWEEP)
        next_payloads.append({"after": after} if after else None)
        if after is None:
            ThreadVectors(tx).clear_retired()

    return JobResult(write=write, again=lambda: next_payloads[-1])


def _embed_batch(parts: Parts, target: StoredSpace, embedder: Embedder, owners: list[Owner], after: int) -> JobResult:
    passes = [done for done in embed_next_windows(parts.readers, embedder, target.id, owners) if done is not None]
    complete = [done.owner.seq for done in passes if not done.first]
    next_payload: dict[str, object] = {"space": target.id, "kind": owners[0].kind, "after": max([after, *complete])}
    next_payloads = list[Mapping[str, object]]()

    def write(tx: Tx) -> None:
        if _is_wanted_still(tx, target):
            for done in passes:
                done.write(tx, target.id)
                if target.state == "current" and done.owner.kind == "turn" and not done.first:
                    update_vector_for_prompt(tx, done.owner.id, target.id)
            next_payloads.append(next_payload)
        else:
            next_payloads.append({})  # another space was requested: write nothing, and start with that one

    def add_to_index() -> None:
        vectors = parts.vectors
        if next_payloads[-1] and vectors.space.id == target.id:
            for done in passes:
                done.add_to_index(parts, vectors)

    return JobResult(write=write, afterwards=add_to_index, again=lambda: next_payloads[-1])


def _switch_space(parts: Parts, target: StoredSpace, name: str, embedder: Embedder) -> JobResult:
    """Make the target space current at the end of the sweep, and queue the few owners added meanwhile.

    A memory with constant writes is never complete at any moment, so less than one batch may be missing.
    """
    newest = parts.readers.here(lambda tx: {kind: StoredVectors(tx).newest(kind) for kind in _OWNER_KINDS})
    missing: list[tuple[OwnerKind, str]] = [
        (owner.kind, owner.id)
        for kind in _OWNER_KINDS
        for owner in parts.readers.here(lambda tx, kind=kind: StoredVectors(tx).missing(kind, target.id, _MAX_MISSING))
    ]
    if len(missing) >= _MAX_MISSING or (missing and target.state == "current"):
        return JobResult(write=lambda _: None, again=dict)
    if target.state == "current":
        return JobResult(write=lambda _: None)
    fresh = new_vector_search(name, embedder, target.space.calibration, parts.new_index)
    parts.readers.here(lambda tx: fresh.fill(tx, parts.stopping))
    if not fresh.ready.is_set():
        return JobResult(write=lambda _: None, again=dict)
    swapped = list[bool]()

    def write(tx: Tx) -> None:
        swapped.append(_is_wanted_still(tx, target))
        if not swapped[-1]:
            return
        Spaces(tx).make_current(target.id)
        for kind in _OWNER_KINDS:
            since = StoredVectors(tx).missing(kind, target.id, _ALL, after=newest[kind])
            missing.extend((kind, owner.id) for owner in since)
        for kind, id_ in dict.fromkeys(missing):
            queue_vectors(tx, kind, id_, parts.clock.now())
        queue_thread_vectors(tx, parts.clock.now())
        queue_need_vectors(tx, fresh, parts.clock.now())
        _queue_clearing(parts.clock, tx)
        if fresh.space.calibration is None:
            Jobs(tx).enqueue(CALIBRATE, {}, dedupe=CALIBRATE, at=parts.clock.now())

    return JobResult(
        write=write,
        afterwards=lambda: _swap(parts, fresh) if swapped[-1] else None,
        again=lambda: None if swapped[-1] else {},
    )


def _swap(parts: Parts, fresh: VectorSearch) -> None:
    parts.change_vectors(lambda _: fresh)
    # Memories superseded while the new indexes were filled were removed from the old index only.
    for ended in parts.readers.here(lambda tx: StoredVectors(tx).ended_memories(fresh.space.id)):
        fresh.memory_index.remove(ended)
    parts.embedders.close_others(fresh.embedder)
    _LOG.info("recall reads %s now", fresh.space.id)


def _target(tx: Tx) -> StoredSpace | None:
    return Spaces(tx).building() or Spaces(tx).current()


def _is_wanted_still(tx: Tx, target: StoredSpace) -> bool:
    now = _target(tx)
    return now is not None and (now.id, now.state) == (target.id, target.state)


def _lacks(tx: Tx, space_id: str) -> bool:
    return any(StoredVectors(tx).missing(kind, space_id, 1) for kind in _OWNER_KINDS)


def _queue_clearing(clock: Clock, tx: Tx) -> None:
    """Queue one clearing sweep per retirement, because a sweep in progress has passed some rows already."""
    now = clock.now()
    Jobs(tx).enqueue(CLEAR, {}, dedupe=f"{CLEAR}:{new_id(now)}", at=now)


# Retokenising: rows indexed by another analyser version are indexed again in the background, in batches.
#
# A batch and the job for the next batch are one transaction, so a kill costs at most one batch. Search keeps working:
# every analyser version indexes words as they are written, so rows not yet processed are found by those.

JOB: Final = "retokenise"
#: A batch reads the whole index once and blocks other writes meanwhile: it is 1/BATCHES of the rows, but at least
#: MIN_BATCH.
MIN_BATCH, BATCHES = 200, 100
_OWNERS: tuple[WordOwner, ...] = ("memory", "turn")


def queue_stale_words(parts: Parts) -> None:
    """Queue reindexing of memories and turns that another analyser version indexed."""

    def queue(tx: Tx) -> None:
        for owner in _OWNERS:
            if FullTextIndex(tx, parts.analyser, owner).stale(1):
                _LOG.info("the words of every %s are analysed again", owner)
                _queue_batch(parts.clock, tx, owner, "start")

    parts.writer.run(queue)


def retokenise(parts: StoreContext, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: reindex one batch."""
    owner: WordOwner = "memory" if payload["owner"] == "memory" else "turn"

    def write(tx: Tx) -> None:
        words = FullTextIndex(tx, parts.analyser, owner)
        rows = words.stale(max(MIN_BATCH, words.totals().rows // BATCHES))
        words.renew(rows)
        if rows:
            _queue_batch(parts.clock, tx, owner, rows[-1][0])

    return JobResult(write=write)


def _queue_batch(clock: Clock, tx: Tx, owner: WordOwner, after: str) -> None:
    Jobs(tx).enqueue(JOB, {"owner": owner}, dedupe=f"{JOB}:{owner}:{after}", at=clock.now())
