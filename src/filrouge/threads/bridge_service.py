"""Bridges between threads: the job that makes them, manual changes, and the graph for the API.

- `tie` is the job `bridge`. It runs shortly after a thread changed, at low priority, so several changes become one run.
  It reads the thread and the other threads of its place, computes candidates (`threads.bridges`), and merges them into
  the bridges as they are at the time of writing. It also deletes expired bridges of the project.
- `follow_merge` moves the bridges of a merged thread.
- `bridges`, `add`, `remove_bridge` and `graph` return response bodies of the API.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from filrouge.core.choices import REMEDY, invalid_choice
from filrouge.core.clock import new_id, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.projects.repository import names_of
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.threads.bridges import (
    ACTIVE_DAYS_KEPT,
    LEAST_STRENGTH,
    MAX_BRIDGES,
    BridgeCandidate,
    Changes,
    DetectionInput,
    Replaced,
    Strength,
    above_baseline,
    key_of,
    other_end,
    propagate,
    redirected,
    settled,
    similarities,
    split_expired,
    strength_at,
    ties_of,
    with_end,
)
from filrouge.threads.models import BRIDGE_KINDS, Bridge, BridgeKind
from filrouge.threads.repository import BridgeInputs, Bridges, Place, ThreadSnapshot

BRIDGE: Final = "bridge"
#: Number of prompts of the thread read for names, and of each other thread for its files; characters read of each.
_READ, _LENGTH = 20, 1000
_READ_OF_OTHERS, _LENGTH_OF_OTHERS = 6, 400
#: Number of other threads whose prompts are read: the most recently active.
_OTHERS_READ: Final = 200
_LINE: Final = 160
#: Maximum number of expired bridges that one job deletes.
_FADED_AT_ONCE: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """A thread at the other end of a bridge.

    Attributes:
        text: its title, and one line about its subject.
        strength: current strength of the bridge.
        outgoing: the bridge points to this thread.
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
    """Queue a review of the bridges of a thread that changed: it grew, or was renamed, merged, split or reactivated."""
    Jobs(tx).enqueue(BRIDGE, {"thread": thread_id}, dedupe=f"{BRIDGE}:{thread_id}", at=parts.clock.now())


def tie(parts: Parts, payload: Payload) -> JobResult:
    """Run the job: compute the candidate bridges of a changed thread and write the result.

    The preparation reads all threads of the project. The write only touches the threads concerned, so it is equally
    fast in a project with thousands of threads.
    """
    space, thread_id = parts.vectors.space, str(payload["thread"])
    seen = parts.readers.here(lambda tx: _look(parts, tx, thread_id, space))
    if seen is None:
        return JobResult(write=lambda _: None)  # deleted, or merged
    thread, place, known, others, replaced = seen
    ties, alike = ties_of(known, others, space, replaced), above_baseline(similarities(known, others, space))
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
        there, _ = split_expired(store.around({thread_id, *near})[0], strength)
        there = [one for one in there if {one.source, one.target} <= beside]
        _settle(store, propagate(thread_id, there, strength=strength, similarity=alike.get), strength, at)
        store.drop(split_expired(store.some(faded), strength)[1])

    return JobResult(write=write)


def _settle(store: Bridges, ties: list[BridgeCandidate], strength: Strength, at: datetime) -> None:
    """Merge candidates into the current bridges, and write the changes."""
    there, removed = store.around({end for one in ties for end in (one.source, one.target)})
    refused = {key_of(one) for one in removed}
    write_changes(store, settled(there, ties, strength=strength, at=at, refused=refused, new_id=new_id))


def _faded(parts: Parts, tx: Tx, place: Place) -> list[str]:
    """Return some expired bridges of the project; later jobs find the rest."""
    oldest = Bridges(tx).oldest(place, _FADED_AT_ONCE)
    return split_expired(oldest, strength_of(parts, tx, place.project))[1]


def follow_merge(parts: Parts, tx: Tx, *, merged: str, into: str) -> None:
    """Move the bridges of a merged thread to the other thread; call it in the transaction of the merge.

    Of two bridges with the same key the stronger is kept, and a bridge between the two threads is deleted. What the
    user removed stays removed. A split only needs `queue_ties` for both threads.
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
    """Return the threads linked to a thread, strongest first, each once; empty if there is no such thread.

    Args:
        agent: with isolation, only threads of this agent; otherwise None.
    """
    thread = BridgeInputs(tx).find(thread_id)
    if thread is None:
        return []
    strength = strength_of(parts, tx, thread.place.project, now)
    there, found = Bridges(tx).around([thread_id])[0], dict[str, Linked]()
    for bridge in sorted(there, key=lambda one: (-strength(one), one.id)):
        other = BridgeInputs(tx).find(other_end(bridge, thread_id))
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
    """Return how many stored bridges have a confidence below 0.5; always 0, since the table forbids them."""
    return Bridges(tx).count()[1]


def _look(
    parts: Parts, tx: Tx, thread_id: str, space: EmbeddingSpace
) -> tuple[ThreadSnapshot, Place, DetectionInput, list[DetectionInput], list[Replaced]] | None:
    thread, store = BridgeInputs(tx).find(thread_id), BridgeInputs(tx)
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


def _known(one: ThreadSnapshot, said: tuple[str, ...]) -> DetectionInput:
    return DetectionInput(
        id=one.id, title=one.title, topics=one.topics, parent=one.parent, vector=one.vector, said=said
    )


def strength_of(parts: Parts, tx: Tx, project: str | None, now: datetime | None = None) -> Strength:
    """Return the function that computes the current strength of a project's bridges."""
    days = Bridges(tx).active_days(project, now or parts.clock.now(), ACTIVE_DAYS_KEPT)
    return partial(strength_at, active_days=days)


def write_changes(store: Bridges, changes: Changes) -> None:
    """Write changes to bridges; deletions come first."""
    store.drop(changes.gone)
    for bridge in changes.kept:
        store.put(bridge)


def live_thread(tx: Tx, thread_id: str) -> ThreadSnapshot:
    """Return a thread that was not merged into another.

    Raises:
        NotFound: no such thread exists, or it was merged.
    """
    found = BridgeInputs(tx).find(thread_id)
    if found is None or found.merged:
        raise NotFound(f"There is no thread {thread_id!r}.", remedy="List all threads: `filrouge graph`.")
    return found


def _is_there(tx: Tx, thread_id: str) -> bool:
    found = BridgeInputs(tx).find(thread_id)
    return found is not None and not found.merged


def _line(thread: ThreadSnapshot) -> str:
    about = thread.summary.strip().splitlines()
    line = about[0] if about else ", ".join(thread.topics[:5])
    return f"{thread.title} — {line}"[:_LINE] if line else thread.title


# Operations of the user, for the API and the command line. Each returns the response body of the matching route.

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
    """Return the live bridges, strongest first; with isolation, without those between different agents.

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
    """Make a bridge by hand: it has confidence 1, does not decay, and evicts a weaker bridge if necessary.

    Raises:
        BadInput: there is no such kind; or the two threads are the same, of different projects, or of isolated agents;
            or one has ten bridges made by the user.
        NotFound: there is no such thread.
    """
    named, why = kind_named(kind), parts.redact(reason.strip())[:_LONGEST_REASON] or "linked by the user"

    def write(tx: Tx) -> str:
        first, second = live_thread(tx, source), live_thread(tx, target)
        if first.id == second.id:
            raise BadInput("A thread cannot be linked to itself.")
        if (first.place.user, first.place.project) != (second.place.user, second.place.project):
            raise BadInput("Threads of different projects cannot be linked.")
        if first.place.agent != second.place.agent and parts.settings(tx).isolation:
            raise BadInput(
                "Threads of different agents cannot be linked while agents are isolated.",
                remedy="Switch that off: `filrouge settings isolation false`.",
            )
        one = BridgeCandidate(source=first.id, target=second.id, kind=named, confidence=1.0, reason=why, made_by="user")
        store = Bridges(tx)
        there, removed = store.around([first.id, second.id])
        store.drop([old.id for old in removed if key_of(old) == key_of(one)])
        strength = strength_of(parts, tx, first.place.project)
        changes = settled(there, [one], strength=strength, at=parts.clock.now(), new_id=new_id)
        if not changes.kept:
            raise BadInput(
                f"One of the two has {MAX_BRIDGES} bridges that you made yourself.",
                remedy="Remove one first: `filrouge bridges --thread ID`, then `filrouge bridges --remove ID`.",
            )
        write_changes(store, changes)
        return changes.kept[0].id

    id_ = parts.writer.run(write)
    return parts.readers.here(lambda tx: _shown(parts, tx, id_))


def remove_bridge(parts: Parts, bridge_id: str) -> dict[str, Any]:
    """Remove a bridge and return it; the rules do not make it again.

    Raises:
        NotFound: no bridge has this id.
    """

    def write(tx: Tx) -> dict[str, Any]:
        was = _shown(parts, tx, bridge_id)
        Bridges(tx).refuse(bridge_id, parts.clock.now())
        return was

    return parts.writer.run(write)


def kind_named(kind: str) -> BridgeKind:
    """Return the bridge kind with this name.

    Raises:
        BadInput: there is none; the message lists the valid kinds.
    """
    for known in BRIDGE_KINDS:
        if known == kind:
            return known
    raise BadInput(invalid_choice("The type of a bridge", kind, BRIDGE_KINDS), remedy=REMEDY)


def bridge_json(bridge: Bridge, row: dict[str, Any], strength: float) -> dict[str, Any]:
    """Return a bridge in the form of the API."""
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


# The graph of threads and bridges, for the API and the command line.


def graph(parts: Parts, tx: Tx, *, project: str | None, everywhere: bool, limit: int) -> dict[str, Any]:
    """Return the most recently active threads and the live bridges between them, of one project or of all."""
    place, names = Place(user=LOCAL_USER, project=project), names_of(tx)
    threads = BridgeInputs(tx).beside(place, "", everywhere=everywhere)[:limit]
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
