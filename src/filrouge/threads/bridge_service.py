"""Bridges by hand: list, make, remove, and the graph that the API answers."""

from __future__ import annotations

from typing import Any, Final

from filrouge.core.choices import REMEDY, refusal
from filrouge.core.clock import new_id, to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.maintenance.health import names_of
from filrouge.runtime.services import Parts
from filrouge.threads.bridge_repository import Bridges, Place, SeenThreads
from filrouge.threads.bridges import LEAST_STRENGTH, MOST, Strength, Tie, key_of, settled
from filrouge.threads.links import live_thread, strength_of, write_changes
from filrouge.threads.models import BRIDGE_KINDS, Bridge, BridgeKind

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
