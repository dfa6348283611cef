"""Reindexing: a new space is built beside the one that recall reads, and takes its place when it is complete.

It is one job in the outbox that does a little and goes to the end of the queue again, so captures go between and a
killed daemon goes on where it stopped. What to build is read from the table of spaces each time, not from the job: a
request for another model changes the target and nothing else. The same job gives their vectors to those that lack
them in the current space. Texts are never touched.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from filrouge.app.calibrating import CALIBRATE
from filrouge.app.meaning import Meaning, meaning_of
from filrouge.app.needs import queue_need_vectors
from filrouge.app.parts import Parts
from filrouge.app.passes import next_passes
from filrouge.app.spaces import CLEAR, REINDEX, describe, queue_vectors, wanted_name
from filrouge.app.thread_upkeep import late_vector, queue_vectors_of_threads
from filrouge.app.worker import Outcome
from filrouge.clock import new_id
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Embedder, Tx
from filrouge.store.jobs import DEADLY, Jobs
from filrouge.store.settings import StoredSettings
from filrouge.store.thread_traces import ThreadVectors
from filrouge.store.vectors import Owner, OwnerKind, Spaces, StoredSpace, StoredVectors

_LOG = logging.getLogger(__name__)
_KINDS: tuple[OwnerKind, ...] = ("memory", "turn")
_OWNERS_PER_JOB = 32
_MOST_LATE = 64
_ROWS_PER_SWEEP = 2000
_ALL = 1 << 31
_FIXED = ("user file", "environment")


def reindex(parts: Parts, model: str | None = None) -> dict[str, Any]:
    """Begin to bring the memory to the model of that name, or to the one of the settings; answers how it stands.

    A name that is given becomes the setting, unless a file or the environment fixes that. Where another space is in
    building it is given up. Where the memory is in the wanted space already, only what is missing is made.

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
            Jobs(tx).hurry(REINDEX, now)

    parts.writer.run(write)
    parts.work_waiting.set()
    return parts.readers.here(lambda tx: describe(parts, tx))


def resume(parts: Parts) -> None:
    """Queue what an earlier daemon left: a space in building, texts without vectors, vectors of retired spaces."""

    def look(tx: Tx) -> tuple[bool, bool]:
        spaces, current = Spaces(tx), parts.meaning
        known = Jobs(tx).known_as(REINDEX)
        more = spaces.building() is not None or (not current.is_lost and _lacks(tx, current.space.id))
        more = more and not (known is not None and known["error"] == DEADLY)  # until somebody asks for it
        return more, any(one.state == "retired" and StoredVectors(tx).any(one.id) for one in spaces.all())

    more, litter = parts.readers.here(look)

    def write(tx: Tx) -> None:
        now = parts.clock.now()
        if more:
            Jobs(tx).enqueue(REINDEX, {}, dedupe=REINDEX, at=now)
            Jobs(tx).hurry(REINDEX, now)
        if litter:
            Jobs(tx).enqueue(CLEAR, {}, dedupe=CLEAR, at=now)

    if more or litter:
        parts.writer.run(write)


def embed_more(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """The job: embed some of those that lack vectors in the target space, and put it in place when none does."""
    target = parts.readers.here(_target)
    if target is None:
        return Outcome(write=lambda _: None)
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
        return Outcome(write=lambda _: None, again=lambda: {"space": target.id, "kind": "turn", "after": 0})
    return _completed(parts, target, name, embedder)


def clear(_: Parts, payload: Mapping[str, Any]) -> Outcome:
    """The job: take the vectors of retired spaces out of the next stretch of the table."""
    begin, rest = payload.get("after") or ("", ""), list[Mapping[str, object] | None]()

    def write(tx: Tx) -> None:
        after = StoredVectors(tx).clear_retired((begin[0], begin[1]), _ROWS_PER_SWEEP)
        rest.append({"after": after} if after else None)
        if after is None:
            ThreadVectors(tx).clear_retired()

    return Outcome(write=write, again=lambda: rest[-1])


def _embedded(parts: Parts, target: StoredSpace, embedder: Embedder, owners: list[Owner], after: int) -> Outcome:
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
            left.append({})  # somebody asked for another space: nothing is written, and that one is begun

    def show() -> None:
        meaning = parts.meaning
        if left[-1] and meaning.space.id == target.id:
            for one in passes:
                one.show(parts, meaning)

    return Outcome(write=write, afterwards=show, again=lambda: left[-1])


def _completed(parts: Parts, target: StoredSpace, name: str, embedder: Embedder) -> Outcome:
    """The sweep is at its end: put the space in place, and queue the few that came up meanwhile.

    A memory that is written to all the time is never complete for a moment, so one batch may be missing.
    """
    newest = parts.readers.here(lambda tx: {kind: StoredVectors(tx).newest(kind) for kind in _KINDS})
    late: list[tuple[OwnerKind, str]] = [
        (owner.kind, owner.id)
        for kind in _KINDS
        for owner in parts.readers.here(lambda tx, kind=kind: StoredVectors(tx).missing(kind, target.id, _MOST_LATE))
    ]
    if len(late) >= _MOST_LATE or (late and target.state == "current"):
        return Outcome(write=lambda _: None, again=dict)
    if target.state == "current":
        return Outcome(write=lambda _: None)
    fresh = meaning_of(name, embedder, target.space.calibration, parts.new_index)
    parts.readers.here(lambda tx: fresh.fill(tx, parts.leaving))
    if not fresh.ready.is_set():
        return Outcome(write=lambda _: None, again=dict)
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

    return Outcome(
        write=write,
        afterwards=lambda: _swap(parts, fresh) if swapped[-1] else None,
        again=lambda: None if swapped[-1] else {},
    )


def _swap(parts: Parts, fresh: Meaning) -> None:
    parts.change_meaning(lambda _: fresh)
    # What was superseded while the indexes were filled left the old one only.
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
    """Each retirement has a sweep of its own: one that is under way has passed some rows already."""
    now = parts.clock.now()
    Jobs(tx).enqueue(CLEAR, {}, dedupe=f"{CLEAR}:{new_id(now)}", at=now)
