"""Ties between threads: made a moment after a thread changed, listed, made and removed by hand, and followed.

The job `bridge` reads what there is to see of the thread and of those beside it, weighs the signs, and writes what they
come to; the job stands behind all other work, so several changes in a row are one. What was weighed is held against the
bridges as they are when it is written, so whoever changed them meanwhile is not overruled. The same job takes out what
has faded in the project.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from filrouge.core.clock import new_id
from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts, StoreContext
from filrouge.runtime.worker import Outcome, Payload
from filrouge.threads.bridge_repository import Bridges, Place, Seen, SeenThreads
from filrouge.threads.bridges import (
    LEAST_STRENGTH,
    LONGEST_DAYS,
    Changes,
    Known,
    Replaced,
    Strength,
    Tie,
    beyond_the_usual,
    heard,
    key_of,
    living,
    other_end,
    redirected,
    settled,
    similarities,
    strength_at,
    ties_of,
    with_end,
)
from filrouge.threads.models import BridgeKind

BRIDGE: Final = "bridge"
#: Prompts of the thread that are read for names, and of each other thread for its files; characters of each.
_READ, _LENGTH = 20, 1000
_READ_OF_OTHERS, _LENGTH_OF_OTHERS = 6, 400
#: Other threads whose prompts are read: those that were active last.
_OTHERS_READ: Final = 200
_LINE: Final = 160
#: Faded bridges that one job takes out.
_FADED_AT_ONCE: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """A thread at the other end of a bridge.

    Attributes:
        text: its title, and one line of what it is about.
        strength: of the bridge, now.
        outgoing: the bridge points to it.
    """

    thread_id: str
    title: str
    text: str
    state: str
    kind: BridgeKind
    strength: float
    outgoing: bool
    last_active: datetime


def queue_ties(parts: StoreContext, tx: Tx, thread_id: str) -> None:
    """Have a thread's bridges looked at that changed: it grew, was named, merged into, split or woken."""
    Jobs(tx).enqueue(BRIDGE, {"thread": thread_id}, dedupe=f"{BRIDGE}:{thread_id}", at=parts.clock.now())


def tie(parts: Parts, payload: Payload) -> Outcome:
    """Look at what a changed thread has to do with others, and write what that comes to.

    All of the project is read while this is prepared; what is written looks at the threads concerned alone, so that
    it takes no longer in a project of thousands.
    """
    space, thread_id = parts.meaning.space, str(payload["thread"])
    seen = parts.readers.here(lambda tx: _look(parts, tx, thread_id, space))
    if seen is None:
        return Outcome(write=lambda _: None)  # it is gone, or part of another
    thread, place, known, others, replaced = seen
    ties, alike = ties_of(known, others, space, replaced), beyond_the_usual(similarities(known, others, space))
    beside = {thread_id, *(one.id for one in others)}
    faded = parts.readers.here(lambda tx: _faded(parts, tx, place))

    def write(tx: Tx) -> None:
        store, at = Bridges(tx), min(thread.last_active, parts.clock.now())
        strength = strength_of(parts, tx, place.project)
        ends = {one for tied in ties for one in (tied.source, tied.target)}
        lost = {one for one in {thread_id, *ends} if not _is_there(tx, one)}
        if thread_id in lost:
            return
        _settle(store, [one for one in ties if not {one.source, one.target} & lost], strength, at)
        near = {other_end(one, thread_id) for one in store.around([thread_id])[0]}
        there, _ = living(store.around({thread_id, *near})[0], strength)
        there = [one for one in there if {one.source, one.target} <= beside]
        _settle(store, heard(thread_id, there, strength=strength, similarity=alike.get), strength, at)
        store.drop(living(store.some(faded), strength)[1])

    return Outcome(write=write)


def _settle(store: Bridges, ties: list[Tie], strength: Strength, at: datetime) -> None:
    """Hold signs against the bridges as they are, and write what they come to."""
    there, removed = store.around({end for one in ties for end in (one.source, one.target)})
    refused = {key_of(one) for one in removed}
    write_changes(store, settled(there, ties, strength=strength, at=at, refused=refused, new_id=new_id))


def _faded(parts: Parts, tx: Tx, place: Place) -> list[str]:
    """Bridges of the project that are gone, some of them: the next change of a thread finds the others."""
    oldest = Bridges(tx).oldest(place, _FADED_AT_ONCE)
    return living(oldest, strength_of(parts, tx, place.project))[1]


def follow_merge(parts: Parts, tx: Tx, *, merged: str, into: str) -> None:
    """Let bridges follow where a thread is taken into another: to be called in the transaction of the merge.

    Those of the merged go to the other, of two of a kind the stronger stays, and one between the two goes. What the
    user removed stays removed. A split needs no more than `queue_ties` for both threads.
    """
    store, place = Bridges(tx), live_thread(tx, into).place
    there, removed = store.around([merged, into])
    refused = {key_of(moved): moved for old in removed for moved in (with_end(old, merged, into),)}
    changes = redirected(there, merged, into, strength=strength_of(parts, tx, place.project), refused=refused.keys())
    store.drop([old.id for old in removed])
    write_changes(store, changes)
    taken = {key_of(one) for one in store.around([merged, into])[0]}
    for key, moved in refused.items():
        if key not in taken and moved.source != moved.target:
            store.put(moved)
            store.refuse(moved.id, parts.clock.now())


def linked(parts: Parts, tx: Tx, thread_id: str, now: datetime, *, agent: str | None = None) -> list[Linked]:
    """The threads that a thread is tied to, the most strongly first, each once; where there is no such thread, none.

    Args:
        agent: where agents are isolated, whose threads alone.
    """
    thread = SeenThreads(tx).find(thread_id)
    if thread is None:
        return []
    strength = strength_of(parts, tx, thread.place.project, now)
    there, found = Bridges(tx).around([thread_id])[0], dict[str, Linked]()
    for bridge in sorted(there, key=lambda one: (-strength(one), one.id)):
        other = SeenThreads(tx).find(other_end(bridge, thread_id))
        if strength(bridge) < LEAST_STRENGTH or other is None or other.merged or other.id in found:
            continue
        if agent is not None and agent != other.place.agent:
            continue
        found[other.id] = Linked(
            thread_id=other.id,
            title=other.title,
            text=_line(other),
            state=other.state,
            kind=bridge.kind,
            strength=strength(bridge),
            outgoing=bridge.source == thread_id,
            last_active=other.last_active,
        )
    return list(found.values())


def unsure(tx: Tx) -> int:
    """How many stored bridges are under a confidence of one half: none, for the table refuses them."""
    return Bridges(tx).count()[1]


def _look(
    parts: Parts, tx: Tx, thread_id: str, space: EmbeddingSpace
) -> tuple[Seen, Place, Known, list[Known], list[Replaced]] | None:
    thread, store = SeenThreads(tx).find(thread_id), SeenThreads(tx)
    if thread is None or thread.merged:
        return None
    agent = thread.place.agent if parts.settings(tx).isolation else None
    place = Place(user=thread.place.user, project=thread.place.project, agent=agent)
    beside = store.beside(place, space.id)
    near = [one.id for one in beside[:_OTHERS_READ] if one.id != thread_id]
    said = store.said([thread_id], limit=_READ, length=_LENGTH)
    said |= store.said(near, limit=_READ_OF_OTHERS, length=_LENGTH_OF_OTHERS)
    known = {one.id: _known(one, said.get(one.id, ())) for one in beside}
    replaced = [
        Replaced(
            thread_id=row["thread_id"], text=row["text"], former=row["former"], conflict=bool(row["conflict"])
        )
        for row in store.replaced(thread_id)
        if row["thread_id"] in known
    ]  # fmt: skip
    mine = known.pop(thread_id, None)
    return (thread, place, mine, list(known.values()), replaced) if mine else None


def _known(one: Seen, said: tuple[str, ...]) -> Known:
    return Known(id=one.id, title=one.title, topics=one.topics, parent=one.parent, vector=one.vector, said=said)


def strength_of(parts: Parts, tx: Tx, project: str | None, now: datetime | None = None) -> Strength:
    """How strong bridges of a project are now."""
    days = Bridges(tx).active_days(project, now or parts.clock.now(), LONGEST_DAYS)
    return partial(strength_at, active_days=days)


def write_changes(store: Bridges, changes: Changes) -> None:
    """Write what becomes of bridges; what goes makes room first."""
    store.drop(changes.gone)
    for bridge in changes.kept:
        store.put(bridge)


def live_thread(tx: Tx, thread_id: str) -> Seen:
    """A thread that was not merged into another.

    Raises:
        NotFound: naming the id.
    """
    found = SeenThreads(tx).find(thread_id)
    if found is None or found.merged:
        raise NotFound(f"There is no thread {thread_id!r}.", remedy="List those that are: `filrouge graph`.")
    return found


def _is_there(tx: Tx, thread_id: str) -> bool:
    found = SeenThreads(tx).find(thread_id)
    return found is not None and not found.merged


def _line(thread: Seen) -> str:
    about = thread.summary.strip().splitlines()
    line = about[0] if about else ", ".join(thread.topics[:5])
    return f"{thread.title} — {line}"[:_LINE] if line else thread.title
