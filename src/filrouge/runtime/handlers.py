"""Job names and what they do.

read_turns   an event → its turns, and the jobs that follow from them
reconcile    a host's transcript → the turns that no hook reported
analyse      a user's turn → memories
digest       a session that ended, was compacted or fell silent → its summary and concepts
bridge       a thread that changed → its ties to other threads
regroup      a project whose sessions fell silent → its threads as the whole of what was said has them
synthesise   the same → where its work stands
recount      what the rules made of that → the same as a model sees it
brief        what changed in a project → what its sessions are told where no daemon runs
reconsider   where a prompt is that the rules were not sure of → the same as a model sees it
entitle      the name of a thread → a better one by a model
extract      what a model has not read of a conversation → memories
index_turn   a turn → vectors
thread       a prompt → its place in a thread, and that of what followed it
thread_vectors  threads that lack a vector in the current space → their vectors
thread_earlier  prompts of before there were threads → their places, batch by batch
index_memory a memory that was stored while the embedder was down, or that is long → vectors
need_vectors memories that lack the vector under which a prompt finds what it needs → these vectors
reindex      those that lack vectors in the space that is current or in building → vectors, and the new space in place
empty_log    what was forgotten and may still be in the write-ahead log → nothing
clear_spaces vectors of retired spaces → nothing
calibrate    a space that brought no calibration → how its cosines are read
retain       what is old → nothing
garden       the next step of a run of the garden, again and again until none is left
backfill     messages that were read in from elsewhere → what follows from them, a few at a time
retokenise   rows that another analyser indexed → their words, batch by batch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from filrouge.capture.event_repository import Events
from filrouge.capture.events import Event
from filrouge.capture.intake import turns_of
from filrouge.capture.service import BACKFILL, backfill, follow, reconcile
from filrouge.context.hook_files import write_briefs
from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.erasure.service import EMPTY_LOG, empty_log
from filrouge.extraction import understanding
from filrouge.extraction.repository import Session
from filrouge.extraction.schedule import EXTRACT, queue_last_reading
from filrouge.extraction.service import extract
from filrouge.extraction.sessions import AFTER_TRANSCRIPT_SECONDS, digest, queue_digest
from filrouge.maintenance.garden_service import GARDEN, tend
from filrouge.maintenance.retention import RETAIN, retain
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.runtime.worker import Handler, Outcome, Payload, alone
from filrouge.search.nearest_memories import make_need_vectors, queue_need_vectors
from filrouge.search.reindexing import CALIBRATE, Pass, calibrate, clear, embed_more, next_passes, retokenise
from filrouge.search.spaces import CLEAR, REINDEX
from filrouge.search.vector_repository import NEEDS, Owner
from filrouge.search.vector_search import Meaning
from filrouge.threads.links import BRIDGE, tie
from filrouge.threads.placing import (
    EARLIER,
    REGROUP,
    THREAD,
    TOGETHER,
    entitle,
    place,
    place_earlier,
    queue_regrouping,
    reconsider,
    regrouping,
)
from filrouge.threads.synthesis_service import RECOUNT, SYNTHESISE, follow_event, recount, synthesise
from filrouge.threads.upkeep import ENTITLE, RECONSIDER, VECTORS, late_vector, make_vectors

#: So many short jobs share a commit. The last of them is done well within a lease.
_TOGETHER: Final = 64
#: Characters of a text that is analysed before it is written.
_LONG: Final = 10_000


def read_turns(parts: Parts, payloads: Sequence[Payload]) -> list[Outcome]:
    """Turn events into turns."""
    found = parts.readers.here(lambda tx: [Events(tx).get(payload["event"]) for payload in payloads])
    for payload, event in zip(payloads, found, strict=True):
        if event is None:
            raise NotFound(f"Event {payload['event']} is gone.")
    return [_turns_read(parts, *event) for event in found if event is not None]


def _turns_read(parts: Parts, event: Event, project: str) -> Outcome:
    turns = turns_of(event, project)
    # Before the writing lane is taken: of a long text this takes longer than others should wait.
    tokens = {turn.id: parts.analyser.tokens(turn.text) for turn in turns if len(turn.text) > _LONG}

    def write(tx: Tx) -> None:
        added = [turn for turn in turns if parts.turns(tx).add(turn, tokens.get(turn.id))]
        analysed = follow(parts, tx, added)
        queue_last_reading(parts, tx, event)
        follow_event(parts, tx, event, transcript_seconds=AFTER_TRANSCRIPT_SECONDS)
        if event.kind in ("pre_compact", "session_end"):
            # The transcript is read a moment later, and may hold the last words.
            delay = AFTER_TRANSCRIPT_SECONDS if event.transcript else 0.0
            queue_digest(parts, tx, Session(host=event.host, id=event.session), delay=delay)
            queue_regrouping(parts, tx, event.user or LOCAL_USER, project or None, delay=delay)
        if not turns:
            Events(tx).settle(event.id, "skipped", "it marks a moment and says nothing")
        elif not added:
            Events(tx).settle(event.id, "skipped", "its turns were stored before")
        elif not analysed:
            Events(tx).settle(event.id, "done")

    return Outcome(write=write)


def analyse(parts: Parts, payloads: Sequence[Payload]) -> list[Outcome]:
    """Turn the user's turns into memories."""
    turns = parts.readers.here(lambda tx: parts.turns(tx).get([payload["turn"] for payload in payloads]))
    known = {turn.id for turn in turns}
    for payload in payloads:
        if payload["turn"] not in known:
            raise NotFound(f"Turn {payload['turn']} is gone.")
    fresh: understanding.Fresh = {}
    stated, agreed = understanding.read(parts, turns), understanding.read_agreements(parts, turns)
    return [_analysed(parts, *pair, fresh) for pair in zip(stated, agreed, strict=True)]


def _analysed(
    parts: Parts, stated: understanding.Reading, agreed: understanding.Reading | None, fresh: understanding.Fresh
) -> Outcome:
    turn, done = stated.turn, list[Any]()
    readings = [stated] if agreed is None else [agreed, stated]

    def write(tx: Tx) -> None:
        done[:] = [one for reading in readings for one in understanding.settle(parts, tx, reading, fresh)]
        if done:
            everywhere = any(one.statement.scope == "user" for one in stated.considered)
            place: dict[str, object] = {"project": turn.scope.project, "everywhere": everywhere}
            name = "brief:everywhere" if everywhere else f"brief:{turn.scope.project}"
            Jobs(tx).enqueue("brief", place, dedupe=name, at=parts.clock.now())
        if turn.event_id:
            Events(tx).settle(turn.event_id, "done")

    return Outcome(write=write, afterwards=lambda: understanding.reflect(parts, stated.meaning, done))


def brief(parts: Parts, payload: Payload) -> Outcome:
    """Bring the briefs up to date."""
    write_briefs(parts, payload["project"], everywhere=payload["everywhere"])
    return Outcome(write=lambda _: None)


def index_turn(parts: Parts, payloads: Sequence[Payload]) -> list[Outcome]:
    """Embed turns, window by window."""
    ids = [str(payload["turn"]) for payload in payloads]
    turns = parts.readers.here(lambda tx: parts.turns(tx).get(ids))
    owners = [Owner(kind="turn", id=one.id, seq=0, group=one.scope.project or "", text=one.text) for one in turns]
    return _index(parts, payloads, ids, owners)


def index_memory(parts: Parts, payloads: Sequence[Payload]) -> list[Outcome]:
    """Embed memories, window by window."""
    ids = [str(payload["memory"]) for payload in payloads]
    found = parts.readers.here(lambda tx: parts.memories(tx).some(ids))
    live = [found[id_] for id_ in ids if id_ in found and found[id_].state == "live"]
    owners = [Owner(kind="memory", id=one.id, seq=0, group=understanding.group_of(one), text=one.text) for one in live]
    return _index(parts, payloads, ids, owners)


def _index(parts: Parts, payloads: Sequence[Payload], ids: Sequence[str], owners: Sequence[Owner]) -> list[Outcome]:
    """What to write for the first of these jobs; those whose owner is gone, or has its vectors, have nothing to do."""
    meaning = parts.meaning
    # Where nobody makes the space, trying again is of no use: a reindex finds what lacks vectors.
    todo = list[Owner]() if meaning.is_lost else owners
    passes = next_passes(parts, meaning.embedder, meaning.space.id, todo) if todo else []
    made = {owner.id: one for owner, one in zip(todo, passes, strict=False)}
    later = {owner.id for owner in todo} - made.keys()
    stop = next((place for place, id_ in enumerate(ids) if id_ in later), len(ids))
    return [_indexed(parts, meaning, payloads[place], made.get(ids[place])) for place in range(stop)]


def _indexed(parts: Parts, meaning: Meaning, payload: Payload, done: Pass | None) -> Outcome:
    if done is None:
        return Outcome(write=lambda _: None)

    def write(tx: Tx) -> None:
        done.write(tx, meaning.space.id)
        if done.owner.kind == "memory":
            queue_need_vectors(tx, meaning, parts.clock.now())
        if not done.first and done.owner.kind == "turn":
            late_vector(tx, done.owner.id, meaning.space.id)

    return Outcome(
        write=write,
        afterwards=lambda: done.show(parts, meaning),
        again=lambda: payload if done.first else None,
    )


HANDLERS: Mapping[str, Handler] = {
    "read_turns": Handler(prepare=read_turns, most=_TOGETHER),
    "reconcile": alone(reconcile),
    "analyse": Handler(prepare=analyse, most=_TOGETHER),
    "brief": alone(brief),
    EXTRACT: alone(extract),
    "digest": alone(digest),
    BRIDGE: alone(tie),
    REGROUP: alone(regrouping),
    SYNTHESISE: alone(synthesise),
    RECOUNT: alone(recount),
    RECONSIDER: alone(reconsider),
    ENTITLE: alone(entitle),
    "index_turn": Handler(prepare=index_turn, most=_TOGETHER),
    "index_memory": Handler(prepare=index_memory, most=_TOGETHER),
    THREAD: Handler(prepare=place, most=TOGETHER),
    EARLIER: alone(place_earlier),
    VECTORS: alone(make_vectors),
    GARDEN: alone(tend),
    "retokenise": alone(retokenise),
    REINDEX: alone(embed_more),
    CLEAR: alone(clear),
    CALIBRATE: alone(calibrate),
    RETAIN: alone(retain),
    NEEDS: alone(make_need_vectors),
    EMPTY_LOG: alone(empty_log),
    BACKFILL: alone(backfill),
}
