"""Bridges by hand: list, make, remove, and the graph that the API answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from filrouge.core.clock import new_id, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.core.settings import REMEDY, refusal
from filrouge.maintenance.health import names_of
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.jobs import Jobs, Outcome, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.threads.bridges import (
    LEAST_STRENGTH,
    LONGEST_DAYS,
    MOST,
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
from filrouge.threads.models import BRIDGE_KINDS, Bridge, BridgeKind
from filrouge.threads.repository import Bridges, Place, Seen, SeenThreads

# Ties between threads: made a moment after a thread changed, listed, made and removed by hand, and followed.
#
# The job `bridge` reads what there is to see of the thread and of those beside it, weighs the signs, and writes what
# they come to; the job stands behind all other work, so several changes in a row are one. What was weighed is held
# against the bridges as they are when it is written, so whoever changed them meanwhile is not overruled. The same job
# takes out what has faded in the project.

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


# Bridges by hand: listed, made and removed, as the API and the command line do it.
#
# Every answer has the body of the route of the same meaning.

_LONGEST_REASON: Final = 200


def bridges(
    parts: Parts,
    tx: Tx,
    *,
    project: str | None = None,
    everywhere: bool = True,
    thread_id: str | None = None,
    kind: str | None = None,
) -> list[dict[str, Any]]:
    """The live bridges, the strongest first; where agents are isolated, none from one's thread to another's.

    Raises:
        BadInput: there is no such kind.
        NotFound: there is no such thread.
    """
    if kind is not None:
        kind_named(kind)
    if thread_id is not None:
        live_thread(tx, thread_id)
    rows = Bridges(tx).shown(
        user=LOCAL_USER,
        project=project,
        everywhere=everywhere,
        thread_id=thread_id,
        kind=kind,
        isolated=parts.settings(tx).isolation,
    )
    weigh = dict[str | None, Strength]()
    found = list[dict[str, Any]]()
    for bridge, row in rows:
        where = row["project_id"]
        if where not in weigh:
            weigh[where] = strength_of(parts, tx, where)
        weight = weigh[where](bridge)
        if weight >= LEAST_STRENGTH:
            found.append(bridge_json(bridge, row, weight))
    return sorted(found, key=lambda one: (-one["strength"], one["id"]))


def add(parts: Parts, *, source: str, target: str, kind: str, reason: str = "") -> dict[str, Any]:
    """Tie two threads by hand: that is certain, does not fade, and makes room for itself.

    Raises:
        BadInput: there is no such kind, or the two are one, are of different projects or of agents that are isolated,
            or one has ten of the user's.
        NotFound: there is no such thread.
    """
    named, why = kind_named(kind), parts.redact(reason.strip())[:_LONGEST_REASON] or "tied by hand"

    def write(tx: Tx) -> str:
        first, second = live_thread(tx, source), live_thread(tx, target)
        if first.id == second.id:
            raise BadInput("A thread cannot be tied to itself.")
        if (first.place.user, first.place.project) != (second.place.user, second.place.project):
            raise BadInput("Threads of two projects cannot be tied: nothing crosses projects.")
        if first.place.agent != second.place.agent and parts.settings(tx).isolation:
            raise BadInput(
                "Threads of two agents cannot be tied while agents are isolated.",
                remedy="Switch that off: `filrouge settings isolation false`.",
            )
        one = Tie(source=first.id, target=second.id, kind=named, confidence=1.0, reason=why, made_by="user")
        store = Bridges(tx)
        there, removed = store.around([first.id, second.id])
        store.drop([old.id for old in removed if key_of(old) == key_of(one)])
        strength = strength_of(parts, tx, first.place.project)
        changes = settled(there, [one], strength=strength, at=parts.clock.now(), new_id=new_id)
        if not changes.kept:
            raise BadInput(
                f"One of the two has {MOST} bridges that you made yourself.",
                remedy="Remove one first: `filrouge bridges --thread ID`, then `filrouge bridges --remove ID`.",
            )
        write_changes(store, changes)
        return changes.kept[0].id

    id_ = parts.writer.run(write)
    return parts.readers.here(lambda tx: _shown(parts, tx, id_))


def remove(parts: Parts, bridge_id: str) -> dict[str, Any]:
    """Remove a bridge; the rules do not make it again. Answers what it was.

    Raises:
        NotFound: naming the id.
    """

    def write(tx: Tx) -> dict[str, Any]:
        was = _shown(parts, tx, bridge_id)
        Bridges(tx).refuse(bridge_id, parts.clock.now())
        return was

    return parts.writer.run(write)


def kind_named(kind: str) -> BridgeKind:
    """The kind of this name.

    Raises:
        BadInput: there is none; with those that there are.
    """
    for known in BRIDGE_KINDS:
        if known == kind:
            return known
    raise BadInput(refusal("The type of a bridge", kind, BRIDGE_KINDS), remedy=REMEDY)


def bridge_json(bridge: Bridge, row: dict[str, Any], strength: float) -> dict[str, Any]:
    """A bridge as the API answers it."""
    return {
        "id": bridge.id,
        "source": bridge.source,
        "source_title": row["source_title"],
        "target": bridge.target,
        "target_title": row["target_title"],
        "type": bridge.kind,
        "confidence": round(bridge.confidence, 4),
        "strength": round(strength, 4),
        "reason": bridge.reason,
        "made_by": bridge.made_by,
        "depth": bridge.depth,
        "project": row["project_id"],
        "created_at": to_text(bridge.created_at),
        "reinforced_at": to_text(bridge.reinforced_at),
    }


def _shown(parts: Parts, tx: Tx, bridge_id: str) -> dict[str, Any]:
    bridge = Bridges(tx).get(bridge_id)
    rows = Bridges(tx).shown(user=LOCAL_USER, thread_id=bridge.source, kind=bridge.kind)
    row = next(row for one, row in rows if one.id == bridge_id)
    return bridge_json(bridge, row, strength_of(parts, tx, row["project_id"])(bridge))


# The graph of threads and their bridges, as the API answers it and the command line draws it.


def graph(parts: Parts, tx: Tx, *, project: str | None, everywhere: bool, limit: int) -> dict[str, Any]:
    """`threads` (those active last) and the live `bridges` between them, of a project or of all."""
    place, names = Place(user=LOCAL_USER, project=project), names_of(tx)
    threads = SeenThreads(tx).beside(place, "", everywhere=everywhere)[:limit]
    there = {one.id for one in threads}
    return {
        "project": project,
        "project_name": names.get(project or "", ""),
        "threads": [
            {
                "id": one.id,
                "title": one.title,
                "state": one.state,
                "topics": list(one.topics),
                "project": one.place.project,
                "project_name": names.get(one.place.project or "", ""),
                "last_active": to_text(one.last_active),
            }
            for one in threads
        ],
        "bridges": [
            one
            for one in bridges(parts, tx, project=project, everywhere=everywhere)
            if {one["source"], one["target"]} <= there
        ],
    }
