"""Embedding spaces: the current one, embedding passes, calibration, reindexing and retokenising.

The setting `embedding_model` names the wanted embedder; the space stored as current is the one recall reads. If no
vectors are stored yet, the wanted space is adopted at once. If the two differ, the current space stays in use with the
embedder that produces it, until a reindex moves the memory to the wanted space. If no embedder produces the current
space, only words are searched, and a notice says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.core.clock import new_id
from filrouge.core.errors import BadConfig, EmbedderUnavailable, FilrougeError, NotFound
from filrouge.core.protocols import Embedder, Tx, Vectors
from filrouge.core.settings import Settings, resolve
from filrouge.providers.calibration import SHORT_TURN, from_turns, measure
from filrouge.providers.embedders import windows
from filrouge.providers.models import Calibration, EmbeddingSpace
from filrouge.runtime.jobs import TOO_MANY_DEATHS, JobResult, Jobs
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.search.models import IndexedTable as WordOwner
from filrouge.search.repository import FullTextIndex, Owner, OwnerKind, Spaces, StoredSpace, StoredVectors
from filrouge.search.retrievers import queue_need_vectors
from filrouge.search.vector_search import (
    UNKNOWN_SPACE,
    Embedders,
    NewIndex,
    UnavailableEmbedder,
    VectorSearch,
    in_passes,
    new_vector_search,
)
from filrouge.threads.repository import ThreadVectors
from filrouge.threads.upkeep import late_vector, queue_vectors_of_threads

_LOG = logging.getLogger(__name__)

#: The dedupe keys of the two long-running jobs; REINDEX exists once, CLEAR once per retirement.
REINDEX, CLEAR = "reindex", "clear_spaces"
#: How the state of an unfinished job is shown.
_STATES = {"running": "running", "queued": "waiting"}


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedEmbedder:
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
    spaces, wish = Spaces(tx), wanted_embedder(embedders, name)
    StoredVectors(tx).drop_unfinished()
    current = spaces.current()
    if wish.space and (current is None or current.id == wish.space.id or not StoredVectors(tx).any(current.id)):
        spaces.declare(wish.space, name)
        spaces.make_current(wish.space.id)
        current = spaces.current()
    if current is None:
        _LOG.warning("no embedder: %s", wish.why)
        return new_vector_search(name, UnavailableEmbedder(UNKNOWN_SPACE, wish.why), None, new_index)
    found = embedders.making(current.id, current.embedder)
    if found is None:
        why = f"The embedder {current.embedder!r} that made {current.id} is not there."
        _LOG.warning("%s", why)
        return new_vector_search(
            current.embedder, UnavailableEmbedder(current.space, why), current.space.calibration, new_index
        )
    made_by, embedder = found
    return new_vector_search(made_by, embedder, current.space.calibration, new_index)


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
    parts.change_vectors(lambda now: now.calibrated_by(calibration) if now.space.id == space_id else now)


def store_or_queue_vectors(
    tx: Tx, meaning: VectorSearch, kind: OwnerKind, owner_id: str, vectors: Vectors | None, at: datetime
) -> None:
    """Store an owner's vectors; if there are none, or the current space changed meanwhile, queue embedding instead."""
    current = Spaces(tx).current()
    if kind == "memory":
        queue_need_vectors(tx, meaning, at)
    if vectors is not None and current is not None and current.id == meaning.space.id:
        StoredVectors(tx).put(kind, owner_id, meaning.space.id, vectors)
    else:
        queue_vectors(tx, kind, owner_id, at)


def queue_vectors(tx: Tx, kind: OwnerKind, owner_id: str, at: datetime) -> None:
    """Queue the job that embeds an owner."""
    Jobs(tx).enqueue(f"index_{kind}", {kind: owner_id}, dedupe=f"index_{kind}:{owner_id}", at=at)


def space_notice(meaning: VectorSearch, wish: WantedEmbedder) -> str:
    """Return what the user should know about the spaces, with the next step; empty if there is no problem."""
    if meaning.is_lost and (wish.space is None or wish.space.id == meaning.space.id):
        return f"Only words are searched: {wish.why or f'the embedder {meaning.name} is not there.'}"
    if meaning.is_lost:
        return f"Only words are searched until `filrouge reindex` brings the memory to {wish.name}."
    if wish.space is None:
        return f"The memory stays with {meaning.name}: {wish.why}"
    if wish.space.id != meaning.space.id:
        return f"The memory stays with {meaning.space.id} until `filrouge reindex` brings it to {wish.space.id}."
    return ""


def describe(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Return the current space with its calibration and coverage, the space being built, and the wanted embedder."""
    meaning = parts.vectors
    wish = wanted_embedder(parts.embedders, wanted_name(tx, parts.home, parts.environ))
    done, total = StoredVectors(tx).coverage(meaning.space.id)
    calibration = meaning.space.calibration
    return {
        "space": meaning.space.id,
        "model": meaning.space.model,
        "embedder": meaning.name,
        "available": not meaning.is_lost,
        "calibration": calibration
        and {
            "origin": calibration.origin,
            "pairs": calibration.pairs,
            "texts": [list(anchor) for anchor in calibration.texts],
            "questions": [list(anchor) for anchor in calibration.questions],
        },
        "coverage": {"done": done, "total": total, "share": round(done / total, 4) if total else 1.0},
        "wanted": {"embedder": wish.name, "space": wish.space and wish.space.id},
        "building": _building(tx, meaning),
        "notice": space_notice(meaning, wish),
    }


def _building(tx: Tx, meaning: VectorSearch) -> dict[str, Any] | None:
    """Return the space being filled in the background: a new one, or the current one if vectors are missing.

    A new space becomes current on disk a moment before recall reads it; until then it still counts as being built.
    """
    job, current = Jobs(tx).get_by_key(REINDEX), Spaces(tx).current()
    taking_over = current is not None and current.id != meaning.space.id
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


# Embedding passes. A pass embeds as many texts as fit the batch size, or a few windows of one long text.
#
# A long text is embedded from its last window to its first, over several jobs, so no job is very long and killing the
# daemon costs one pass. The owner counts as embedded, and becomes visible to the index, once its first window is
# stored. Short texts are embedded together.

#: At most a few seconds with the bundled model, because extraction of captured turns waits that long.
WINDOWS_PER_JOB = 16
#: The limit for short texts together, in characters: about the same number of windows of prose.
_LETTERS_AT_ONCE = 16_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """Some windows of an owner with their vectors.

    Attributes:
        first: the number of the first window; 0 = the owner is complete after this pass.
        whole: these are all windows of the owner.
    """

    owner: Owner
    first: int
    vectors: Vectors
    whole: bool

    def write(self, tx: Tx, space_id: str) -> None:
        """Store the vectors, unless the owner was erased in the meantime."""
        first = None if self.whole else self.first
        if StoredVectors(tx).number(self.owner.kind, self.owner.id) is not None:
            StoredVectors(tx).put(self.owner.kind, self.owner.id, space_id, self.vectors, first=first)

    def show(self, parts: Parts, meaning: VectorSearch) -> None:
        """Add the owner to the vector index, if it is complete."""
        owner, space = self.owner, meaning.space.id
        number = parts.readers.here(lambda tx: StoredVectors(tx).number(owner.kind, owner.id))
        if self.first or number is None:
            return
        found = self.vectors
        if not self.whole:
            stored = parts.readers.here(lambda tx: StoredVectors(tx).of(owner.kind, owner.id, space))
            found = found if stored is None else stored
        index = meaning.memory_index if owner.kind == "memory" else meaning.turn_index
        index.put(owner.id, number, owner.group, found)


def next_passes(parts: Parts, embedder: Embedder, space_id: str, owners: Sequence[Owner]) -> list[Pass | None]:
    """Embed the next windows of the first of these owners, up to the batch size, and of at least one owner.

    Returns:
        For each owner that was processed, in order: its pass, or None if all its windows are stored already.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    wanted = _next_windows(parts, space_id, owners)
    vectors = in_passes(embedder, [piece for _, pieces, _ in wanted for piece in pieces])
    passes, begin = list[Pass | None](), 0
    for owner, (first, pieces, whole) in zip(owners, wanted, strict=False):
        own = vectors[begin : begin + len(pieces)]
        passes.append(Pass(owner=owner, first=first, vectors=own, whole=whole) if pieces else None)
        begin += len(pieces)
    return passes


def _next_windows(parts: Parts, space_id: str, owners: Sequence[Owner]) -> list[tuple[int, list[str], bool]]:
    """Return for the first owners the next windows: number of the first, texts, and whether they are all windows."""
    found, letters = list[tuple[int, list[str], bool]](), 0
    for owner in owners:
        pieces = windows(owner.text)
        stored = parts.readers.here(
            lambda tx, owner=owner: StoredVectors(tx).first_part(owner.kind, owner.id, space_id)
        )
        stop = len(pieces) if stored is None else min(stored, len(pieces))
        first = max(0, stop - WINDOWS_PER_JOB)
        letters += sum(map(len, pieces[first:stop]))
        if found and letters > _LETTERS_AT_ONCE:
            break
        found.append((first, pieces[first:stop], stop - first == len(pieces)))
    return found


# Calibration: a space without a shipped calibration is measured on the bundled sample, and again on the user's own
# turns once there are enough. A calibration shipped with a model is never replaced.


CALIBRATE = "calibrate"
_MOST_TURNS = 800


def queue_calibration(parts: Parts) -> None:
    """Queue calibration of the current space, unless it was shipped with one or was measured on turns already."""
    if not _is_due(parts):
        return
    now = parts.clock.now()
    parts.writer.run(lambda tx: Jobs(tx).enqueue(CALIBRATE, {}, dedupe=CALIBRATE, at=now))
    parts.work_waiting.set()


def calibrate(parts: Parts, _: Mapping[str, Any]) -> JobResult:
    """Job handler: calibrate the current space on the sample, and on the user's turns if there are enough."""
    meaning = parts.vectors
    if _is_due(parts):
        by_sample = measure(meaning.embedder)
        vectors, sessions = parts.readers.here(
            lambda tx: StoredVectors(tx).short_turns(meaning.space.id, longest=SHORT_TURN, limit=_MOST_TURNS)
        )
        found = from_turns(vectors, sessions, by_sample) or by_sample
        if parts.vectors.space.id == meaning.space.id:
            recalibrate(parts, found)
            _LOG.info("%s is calibrated on %s, %d pairs", meaning.space.id, found.origin, found.pairs)
    return JobResult(write=lambda _: None)


def _is_due(parts: Parts) -> bool:
    meaning = parts.vectors
    known = meaning.space.calibration
    return not meaning.is_lost and (known is None or known.origin == "sample")


# Reindexing: a new space is built next to the current one, and replaces it when it is complete.
#
# One job embeds a small batch and requeues itself at the end of the queue, so captures run in between and a restarted
# daemon continues where the last one stopped. The target space is read from the table of spaces each time, not from the
# job, so a request for another model only changes the target. The same job also embeds owners that lack vectors in the
# current space. Texts are never changed.

_KINDS: tuple[OwnerKind, ...] = ("memory", "turn")
_OWNERS_PER_JOB = 32
_MOST_LATE = 64
_ROWS_PER_SWEEP = 2000
_ALL = 1 << 31
_FIXED = ("user file", "environment")


def reindex(parts: Parts, model: str | None = None) -> dict[str, Any]:
    """Start moving the memory to the model of that name, or to the configured one; return the status.

    A given name becomes the setting, unless a file or the environment fixes the setting. If another space is being
    built, that build is abandoned. If the memory is already in the wanted space, only missing vectors are computed.

    Raises:
        BadConfig: there is no such model.
        EmbedderUnavailable: it cannot be used.
    """
    name = model or parts.readers.here(lambda tx: wanted_name(tx, parts.home, parts.environ))
    space = parts.embedders.named(name).space
    to_do = parts.readers.here(lambda tx: _lacks(tx, space.id))

    def write(tx: Tx) -> None:
        now, spaces = parts.clock.now(), Spaces(tx)
        current, building = spaces.current(), spaces.building()
        if model and parts.effective(tx).origins["embedding_model"] not in _FIXED:
            StoredSettings(tx).put({"embedding_model": model}, now)
        spaces.declare(space, name)
        here = current is not None and current.id == space.id
        if building is not None and building.id != space.id:
            spaces.retire(building.id)
            _queue_clearing(parts, tx)
        if not here:
            spaces.begin(space.id)
        if to_do or not here:
            Jobs(tx).enqueue(REINDEX, {}, dedupe=REINDEX, at=now)
            Jobs(tx).make_due(REINDEX, now)

    parts.writer.run(write)
    parts.work_waiting.set()
    return parts.readers.here(lambda tx: describe(parts, tx))


def resume(parts: Parts) -> None:
    """Queue work left from an earlier run: a space being built, missing vectors, vectors of retired spaces."""

    def look(tx: Tx) -> tuple[bool, bool]:
        spaces, current = Spaces(tx), parts.vectors
        known = Jobs(tx).get_by_key(REINDEX)
        more = spaces.building() is not None or (not current.is_lost and _lacks(tx, current.space.id))
        more = more and not (known is not None and known["error"] == TOO_MANY_DEATHS)  # until a reindex is requested
        return more, any(one.state == "retired" and StoredVectors(tx).any(one.id) for one in spaces.all())

    more, litter = parts.readers.here(look)

    def write(tx: Tx) -> None:
        now = parts.clock.now()
        if more:
            Jobs(tx).enqueue(REINDEX, {}, dedupe=REINDEX, at=now)
            Jobs(tx).make_due(REINDEX, now)
        if litter:
            Jobs(tx).enqueue(CLEAR, {}, dedupe=CLEAR, at=now)

    if more or litter:
        parts.writer.run(write)


def reindex_batch(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: embed some owners that lack vectors in the target space; when none is left, make it current."""
    target = parts.readers.here(_target)
    if target is None:
        return JobResult(write=lambda _: None)
    found = parts.embedders.making(target.id, target.embedder)
    if found is None:
        raise EmbedderUnavailable(f"The embedder {target.embedder!r} that makes {target.id} is not there.")
    name, embedder = found
    begun = payload.get("space") == target.id
    kind: OwnerKind = "turn" if begun and payload["kind"] == "turn" else "memory"
    after = int(payload["after"]) if begun else 0
    owners = parts.readers.here(lambda tx: StoredVectors(tx).missing(kind, target.id, _OWNERS_PER_JOB, after=after))
    if owners:
        return _embedded(parts, target, embedder, owners, after)
    if kind == "memory":
        return JobResult(write=lambda _: None, again=lambda: {"space": target.id, "kind": "turn", "after": 0})
    return _switch_space(parts, target, name, embedder)


def clear(_: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: delete the vectors of retired spaces in the next range of the table."""
    begin, rest = payload.get("after") or ("", ""), list[Mapping[str, object] | None]()

    def write(tx: Tx) -> None:
        after = StoredVectors(tx).clear_retired((begin[0], begin[1]), _ROWS_PER_SWEEP)
        rest.append({"after": after} if after else None)
        if after is None:
            ThreadVectors(tx).clear_retired()

    return JobResult(write=write, again=lambda: rest[-1])


def _embedded(parts: Parts, target: StoredSpace, embedder: Embedder, owners: list[Owner], after: int) -> JobResult:
    passes = [one for one in next_passes(parts, embedder, target.id, owners) if one is not None]
    complete = [one.owner.seq for one in passes if not one.first]
    rest: dict[str, object] = {"space": target.id, "kind": owners[0].kind, "after": max([after, *complete])}
    left = list[Mapping[str, object]]()

    def write(tx: Tx) -> None:
        if _is_wanted_still(tx, target):
            for one in passes:
                one.write(tx, target.id)
                if target.state == "current" and one.owner.kind == "turn" and not one.first:
                    late_vector(tx, one.owner.id, target.id)
            left.append(rest)
        else:
            left.append({})  # another space was requested: write nothing, and start with that one

    def show() -> None:
        meaning = parts.vectors
        if left[-1] and meaning.space.id == target.id:
            for one in passes:
                one.show(parts, meaning)

    return JobResult(write=write, afterwards=show, again=lambda: left[-1])


def _switch_space(parts: Parts, target: StoredSpace, name: str, embedder: Embedder) -> JobResult:
    """Make the target space current at the end of the sweep, and queue the few owners added meanwhile.

    A memory with constant writes is never complete at any moment, so less than one batch may be missing.
    """
    newest = parts.readers.here(lambda tx: {kind: StoredVectors(tx).newest(kind) for kind in _KINDS})
    late: list[tuple[OwnerKind, str]] = [
        (owner.kind, owner.id)
        for kind in _KINDS
        for owner in parts.readers.here(lambda tx, kind=kind: StoredVectors(tx).missing(kind, target.id, _MOST_LATE))
    ]
    if len(late) >= _MOST_LATE or (late and target.state == "current"):
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
        for kind in _KINDS:
            since = StoredVectors(tx).missing(kind, target.id, _ALL, after=newest[kind])
            late.extend((kind, owner.id) for owner in since)
        for kind, id_ in dict.fromkeys(late):
            queue_vectors(tx, kind, id_, parts.clock.now())
        queue_vectors_of_threads(tx, parts.clock.now())
        queue_need_vectors(tx, fresh, parts.clock.now())
        _queue_clearing(parts, tx)
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
    parts.embedders.let_go(fresh.embedder)
    _LOG.info("recall reads %s now", fresh.space.id)


def _target(tx: Tx) -> StoredSpace | None:
    return Spaces(tx).building() or Spaces(tx).current()


def _is_wanted_still(tx: Tx, target: StoredSpace) -> bool:
    now = _target(tx)
    return now is not None and (now.id, now.state) == (target.id, target.state)


def _lacks(tx: Tx, space_id: str) -> bool:
    return any(StoredVectors(tx).missing(kind, space_id, 1) for kind in _KINDS)


def _queue_clearing(parts: Parts, tx: Tx) -> None:
    """Queue one clearing sweep per retirement, because a sweep in progress has passed some rows already."""
    now = parts.clock.now()
    Jobs(tx).enqueue(CLEAR, {}, dedupe=f"{CLEAR}:{new_id(now)}", at=now)


# Retokenising: rows indexed by another analyser version are indexed again in the background, in batches.
#
# A batch and the job for the next batch are one transaction, so a kill costs at most one batch. Search keeps working:
# every analyser version indexes words as they are written, so rows not yet processed are found by those.

JOB: Final = "retokenise"
#: A batch reads the whole index once and blocks other writes meanwhile: it is 1/SHARE of the rows, but at least FEWEST.
FEWEST, SHARE = 200, 100
_OWNERS: tuple[WordOwner, ...] = ("memory", "turn")


def queue_stale_words(parts: Parts) -> None:
    """Queue reindexing of memories and turns that another analyser version indexed."""

    def queue(tx: Tx) -> None:
        for owner in _OWNERS:
            if FullTextIndex(tx, parts.analyser, owner).stale(1):
                _LOG.info("the words of every %s are analysed again", owner)
                _next(parts, tx, owner, "start")

    parts.writer.run(queue)


def retokenise(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job handler: reindex one batch."""
    owner: WordOwner = "memory" if payload["owner"] == "memory" else "turn"

    def write(tx: Tx) -> None:
        words = FullTextIndex(tx, parts.analyser, owner)
        rows = words.stale(max(FEWEST, words.totals().rows // SHARE))
        words.renew(rows)
        if rows:
            _next(parts, tx, owner, rows[-1][0])

    return JobResult(write=write)


def _next(parts: Parts, tx: Tx, owner: WordOwner, after: str) -> None:
    Jobs(tx).enqueue(JOB, {"owner": owner}, dedupe=f"{JOB}:{owner}:{after}", at=parts.clock.now())
