"""Bridges between threads: the job that makes them, manual changes, and the graph for the API.

- `update_bridges` is the job `bridge`. It runs shortly after a thread changed, at low priority, so several changes
  become one run. It reads the thread and the other threads of its scope, computes candidates (`threads.bridges`), and
  merges them into the bridges as they are at the time of writing. It also deletes expired bridges of the project.
- `follow_merge` moves the bridges of a merged thread.
- `list_bridges`, `add_bridge`, `remove_bridge` and `get_graph` return response bodies of the API.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec import Struct

from filrouge.core.choices import REMEDY, invalid_choice
from filrouge.core.clock import Clock, new_id, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.projects.repository import names_of
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime.executors import Writer
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.threads.bridges import (
    MAX_ACTIVE_DAYS,
    MAX_BRIDGES,
    MIN_STRENGTH,
    BridgeCandidate,
    Changes,
    DetectionInput,
    Replacement,
    Strength,
    above_baseline,
    find_candidates,
    key_of,
    merge_candidates,
    move_end,
    other_end,
    propagate,
    redirect_bridges,
    similarities,
    split_expired,
    strength_at,
)
from filrouge.threads.models import BRIDGE_KINDS, Bridge, BridgeKind
from filrouge.threads.repository import BridgeInputs, Bridges, ThreadScope, ThreadSnapshot

BRIDGE: Final = "bridge"
#: Number of prompts of the thread read for names, and of each other thread for its files; characters read of each.
_MAX_PROMPTS, _MAX_PROMPT_CHARS = 20, 1000
_MAX_PROMPTS_OF_OTHERS, _MAX_PROMPT_CHARS_OF_OTHERS = 6, 400
#: Number of other threads whose prompts are read: the most recently active.
_MAX_OTHERS_READ: Final = 200
_MAX_LINE_CHARS: Final = 160
#: Maximum number of expired bridges that one job deletes.
_MAX_EXPIRED_PER_JOB: Final = 500


class LinkedThread(Struct, frozen=True, kw_only=True):
    """A thread at the other end of a bridge.

    Attributes:
        text: its title, and one line about its subject.
        state: state of the thread.
        kind: kind of the bridge.
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


def queue_bridges(parts: StoreContext, tx: Tx, thread_id: str) -> None:
    """Queue a review of the bridges of a thread that changed: it grew, or was renamed, merged, split or reactivated."""
    Jobs(tx).enqueue(BRIDGE, {"thread": thread_id}, dedupe=f"{BRIDGE}:{thread_id}", at=parts.clock.now())


def update_bridges(parts: Parts, payload: Payload) -> JobResult:
    """Run the job: compute the candidate bridges of a changed thread and write the result.

    The preparation reads all threads of the project. The write only touches the threads concerned, so it is equally
    fast in a project with thousands of threads.
    """
    space, thread_id = parts.vectors.space, str(payload["thread"])
    inputs = parts.readers.here(lambda tx: _read_inputs(parts, tx, thread_id, space))
    if inputs is None:
        return JobResult(write=lambda _: None)  # deleted, or merged
    thread, scope, detection_input, others, replaced = inputs
    candidates, similar = (
        find_candidates(detection_input, others, space, replaced),
        above_baseline(similarities(detection_input, others, space)),
    )
    thread_ids = {thread_id, *(other.id for other in others)}
    expired_ids = parts.readers.here(lambda tx: _find_expired(parts.clock, tx, scope))

    def write(tx: Tx) -> None:
        store, confirmed_at = Bridges(tx), min(thread.last_active, parts.clock.now())
        strength = strength_of(parts.clock, tx, scope.project)
        ends = {end for candidate in candidates for end in (candidate.source, candidate.target)}
        missing = {end for end in {thread_id, *ends} if not _is_live(tx, end)}
        if thread_id in missing:
            return
        _merge_into_stored(
            store,
            [candidate for candidate in candidates if not {candidate.source, candidate.target} & missing],
            strength,
            confirmed_at,
        )
        neighbours = {other_end(bridge, thread_id) for bridge in store.of_threads([thread_id])[0]}
        live, _ = split_expired(store.of_threads({thread_id, *neighbours})[0], strength)
        live = [bridge for bridge in live if {bridge.source, bridge.target} <= thread_ids]
        _merge_into_stored(
            store, propagate(thread_id, live, strength=strength, similarity=similar.get), strength, confirmed_at
        )
        store.drop(split_expired(store.some(expired_ids), strength)[1])

    return JobResult(write=write)


def _merge_into_stored(store: Bridges, candidates: list[BridgeCandidate], strength: Strength, at: datetime) -> None:
    """Merge candidates into the current bridges, and write the changes."""
    bridges, removed = store.of_threads(
        {end for candidate in candidates for end in (candidate.source, candidate.target)}
    )
    refused_keys = {key_of(bridge) for bridge in removed}
    write_changes(
        store, merge_candidates(bridges, candidates, strength=strength, at=at, refused=refused_keys, new_id=new_id)
    )


def _find_expired(clock: Clock, tx: Tx, scope: ThreadScope) -> list[str]:
    """Return some expired bridges of the project; later jobs find the rest."""
    oldest = Bridges(tx).oldest(scope, _MAX_EXPIRED_PER_JOB)
    return split_expired(oldest, strength_of(clock, tx, scope.project))[1]


def follow_merge(clock: Clock, tx: Tx, *, merged: str, into: str) -> None:
    """Move the bridges of a merged thread to the other thread; call it in the transaction of the merge.

    Of two bridges with the same key the stronger is kept, and a bridge between the two threads is deleted. What the
    user removed stays removed. A split only needs `queue_bridges` for both threads.
    """
    store, scope = Bridges(tx), get_live_thread(tx, into).scope
    bridges, removed = store.of_threads([merged, into])
    refused = {key_of(moved): moved for old in removed for moved in (move_end(old, merged, into),)}
    changes = redirect_bridges(
        bridges, merged, into, strength=strength_of(clock, tx, scope.project), refused=refused.keys()
    )
    store.drop([old.id for old in removed])
    write_changes(store, changes)
    taken = {key_of(bridge) for bridge in store.of_threads([merged, into])[0]}
    for key, moved in refused.items():
        if key not in taken and moved.source != moved.target:
            store.put(moved)
            store.refuse(moved.id, clock.now())


def linked_threads(
    clock: Clock, tx: Tx, thread_id: str, now: datetime, *, agent: str | None = None
) -> list[LinkedThread]:
    """Return the threads linked to a thread, strongest first, each once; empty if there is no such thread.

    Args:
        agent: with isolation, only threads of this agent; otherwise None.
    """
    thread = BridgeInputs(tx).find(thread_id)
    if thread is None:
        return []
    strength = strength_of(clock, tx, thread.scope.project, now)
    bridges, found = Bridges(tx).of_threads([thread_id])[0], dict[str, LinkedThread]()
    for bridge in sorted(bridges, key=lambda bridge: (-strength(bridge), bridge.id)):
        other = BridgeInputs(tx).find(other_end(bridge, thread_id))
        if strength(bridge) < MIN_STRENGTH or other is None or other.merged or other.id in found:
            continue
        if agent is not None and agent != other.scope.agent:
            continue
        found[other.id] = LinkedThread(
            thread_id=other.id,
            title=other.title,
            text=_describe(other),
            state=other.state,
            kind=bridge.kind,
            strength=strength(bridge),
            outgoing=bridge.source == thread_id,
            last_active=other.last_active,
        )
    return list(found.values())


def count_unsure_bridges(tx: Tx) -> int:
    """Return how many stored bridges have a confidence below 0.5; always 0, since the table forbids them."""
    return Bridges(tx).count()[1]


def _read_inputs(
    parts: StoreContext, tx: Tx, thread_id: str, space: EmbeddingSpace
) -> tuple[ThreadSnapshot, ThreadScope, DetectionInput, list[DetectionInput], list[Replacement]] | None:
    thread, store = BridgeInputs(tx).find(thread_id), BridgeInputs(tx)
    if thread is None or thread.merged:
        return None
    agent = thread.scope.agent if parts.settings(tx).isolation else None
    scope = ThreadScope(user=thread.scope.user, project=thread.scope.project, agent=agent)
    snapshots = store.in_scope(scope, space.id)
    other_ids = [snapshot.id for snapshot in snapshots[:_MAX_OTHERS_READ] if snapshot.id != thread_id]
    prompts = store.newest_prompts([thread_id], limit=_MAX_PROMPTS, length=_MAX_PROMPT_CHARS)
    prompts |= store.newest_prompts(other_ids, limit=_MAX_PROMPTS_OF_OTHERS, length=_MAX_PROMPT_CHARS_OF_OTHERS)
    inputs = {snapshot.id: _detection_input(snapshot, prompts.get(snapshot.id, ())) for snapshot in snapshots}
    replaced = [
        Replacement(
            thread_id=row["thread_id"], text=row["text"], former=row["former"], conflict=bool(row["conflict"])
        )
        for row in store.replacements(thread_id)
        if row["thread_id"] in inputs
    ]  # fmt: skip
    own_input = inputs.pop(thread_id, None)
    return (thread, scope, own_input, list(inputs.values()), replaced) if own_input else None


def _detection_input(snapshot: ThreadSnapshot, prompts: tuple[str, ...]) -> DetectionInput:
    return DetectionInput(
        id=snapshot.id,
        title=snapshot.title,
        topics=snapshot.topics,
        parent=snapshot.parent,
        vector=snapshot.vector,
        prompts=prompts,
    )


def strength_of(clock: Clock, tx: Tx, project: str | None, now: datetime | None = None) -> Strength:
    """Return the function that computes the current strength of a project's bridges."""
    days = Bridges(tx).active_days(project, now or clock.now(), MAX_ACTIVE_DAYS)
    return partial(strength_at, active_days=days)


def write_changes(store: Bridges, changes: Changes) -> None:
    """Write changes to bridges; deletions come first."""
    store.drop(changes.deleted)
    for bridge in changes.stored:
        store.put(bridge)


def get_live_thread(tx: Tx, thread_id: str) -> ThreadSnapshot:
    """Return a thread that was not merged into another.

    Raises:
        NotFound: no such thread exists, or it was merged.
    """
    found = BridgeInputs(tx).find(thread_id)
    if found is None or found.merged:
        raise NotFound(f"There is no thread {thread_id!r}.", remedy="List all threads: `filrouge graph`.")
    return found


def _is_live(tx: Tx, thread_id: str) -> bool:
    found = BridgeInputs(tx).find(thread_id)
    return found is not None and not found.merged


def _describe(thread: ThreadSnapshot) -> str:
    about = thread.summary.strip().splitlines()
    line = about[0] if about else ", ".join(thread.topics[:5])
    return f"{thread.title} — {line}"[:_MAX_LINE_CHARS] if line else thread.title


# Operations of the user, for the API and the command line. Each returns the response body of the matching route.

_MAX_REASON_CHARS: Final = 200


def list_bridges(
    parts: StoreContext,
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
        parse_kind(kind)
    if thread_id is not None:
        get_live_thread(tx, thread_id)
    rows = Bridges(tx).list_with_titles(
        user=LOCAL_USER,
        project=project,
        everywhere=everywhere,
        thread_id=thread_id,
        kind=kind,
        isolated=parts.settings(tx).isolation,
    )
    strength_by_project = dict[str | None, Strength]()
    found = list[dict[str, Any]]()
    for bridge, row in rows:
        project_id = row["project_id"]
        if project_id not in strength_by_project:
            strength_by_project[project_id] = strength_of(parts.clock, tx, project_id)
        current_strength = strength_by_project[project_id](bridge)
        if current_strength >= MIN_STRENGTH:
            found.append(bridge_json(bridge, row, current_strength))
    return sorted(found, key=lambda bridge_row: (-bridge_row["strength"], bridge_row["id"]))


def add_bridge(parts: Parts, *, source: str, target: str, kind: str, reason: str = "") -> dict[str, Any]:
    """Make a bridge by hand: it has confidence 1, does not decay, and evicts a weaker bridge if necessary.

    Raises:
        BadInput: there is no such kind; or the two threads are the same, of different projects, or of isolated agents;
            or one has ten bridges made by the user.
        NotFound: there is no such thread.
    """
    bridge_kind, text = parse_kind(kind), parts.redact(reason.strip())[:_MAX_REASON_CHARS] or "linked by the user"

    def write(tx: Tx) -> str:
        first, second = get_live_thread(tx, source), get_live_thread(tx, target)
        if first.id == second.id:
            raise BadInput("A thread cannot be linked to itself.")
        if (first.scope.user, first.scope.project) != (second.scope.user, second.scope.project):
            raise BadInput("Threads of different projects cannot be linked.")
        if first.scope.agent != second.scope.agent and parts.settings(tx).isolation:
            raise BadInput(
                "Threads of different agents cannot be linked while agents are isolated.",
                remedy="Switch that off: `filrouge settings isolation false`.",
            )
        candidate = BridgeCandidate(
            source=first.id, target=second.id, kind=bridge_kind, confidence=1.0, reason=text, made_by="user"
        )
        store = Bridges(tx)
        bridges, removed = store.of_threads([first.id, second.id])
        store.drop([old.id for old in removed if key_of(old) == key_of(candidate)])
        strength = strength_of(parts.clock, tx, first.scope.project)
        changes = merge_candidates(bridges, [candidate], strength=strength, at=parts.clock.now(), new_id=new_id)
        if not changes.stored:
            raise BadInput(
                f"One of the two has {MAX_BRIDGES} bridges that you made yourself.",
                remedy="Remove one first: `filrouge bridges --thread ID`, then `filrouge bridges --remove ID`.",
            )
        write_changes(store, changes)
        return changes.stored[0].id

    id_ = parts.writer.run(write)
    return parts.readers.here(lambda tx: _get_bridge_json(parts.clock, tx, id_))


def remove_bridge(clock: Clock, writer: Writer, bridge_id: str) -> dict[str, Any]:
    """Remove a bridge and return it; the rules do not make it again.

    Raises:
        NotFound: no bridge has this id.
    """

    def write(tx: Tx) -> dict[str, Any]:
        body = _get_bridge_json(clock, tx, bridge_id)
        Bridges(tx).refuse(bridge_id, clock.now())
        return body

    return writer.run(write)


def parse_kind(kind: str) -> BridgeKind:
    """Return the bridge kind with this name.

    Raises:
        BadInput: there is none; the message lists the valid kinds.
    """
    for candidate_kind in BRIDGE_KINDS:
        if candidate_kind == kind:
            return candidate_kind
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


def _get_bridge_json(clock: Clock, tx: Tx, bridge_id: str) -> dict[str, Any]:
    bridge = Bridges(tx).get(bridge_id)
    rows = Bridges(tx).list_with_titles(user=LOCAL_USER, thread_id=bridge.source, kind=bridge.kind)
    row = next(row for stored, row in rows if stored.id == bridge_id)
    return bridge_json(bridge, row, strength_of(clock, tx, row["project_id"])(bridge))


# The graph of threads and bridges, for the API and the command line.


def get_graph(
    parts: StoreContext, tx: Tx, *, project: str | None, everywhere: bool, limit: int, thread_id: str | None = None
) -> dict[str, Any]:
    """Return the most recently active threads and the live bridges between them, of one project or of all.

    Args:
        thread_id: only this thread and the threads that a bridge connects with it, strongest first.

    Raises:
        NotFound: there is no such thread.
    """
    scope, names, inputs = ThreadScope(user=LOCAL_USER, project=project), names_of(tx), BridgeInputs(tx)
    if thread_id is None:
        threads = inputs.in_scope(scope, "", everywhere=everywhere)[:limit]
        bridges = list_bridges(parts, tx, project=project, everywhere=everywhere)
    else:
        threads, bridges = _neighbourhood(parts, tx, thread_id, limit)
    thread_ids = {thread.id for thread in threads}
    return {
        "project": project,
        "project_name": names.get(project or "", ""),
        "threads": [
            {
                "id": thread.id,
                "title": thread.title,
                "state": thread.state,
                "topics": list(thread.topics),
                "project": thread.scope.project,
                "project_name": names.get(thread.scope.project or "", ""),
                "last_active": to_text(thread.last_active),
            }
            for thread in threads
        ],
        "bridges": [bridge for bridge in bridges if {bridge["source"], bridge["target"]} <= thread_ids],
    }


def _neighbourhood(
    parts: StoreContext, tx: Tx, thread_id: str, limit: int
) -> tuple[list[ThreadSnapshot], list[dict[str, Any]]]:
    """Return a thread with the threads bridged with it, and every bridge of these threads, each once."""
    own = list_bridges(parts, tx, thread_id=thread_id)
    ends = dict.fromkeys([thread_id, *(end for bridge in own for end in (bridge["source"], bridge["target"]))])
    threads = [get_live_thread(tx, end) for end in list(ends)[:limit]]
    bridges = {bridge["id"]: bridge for thread in threads for bridge in list_bridges(parts, tx, thread_id=thread.id)}
    return threads, list(bridges.values())
