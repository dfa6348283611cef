"""What becomes of the hub's changes in this home.

A colleague's memory becomes a memory of the project, with the author's name as its channel and the trust of an agent's
words: it is found like any other, and ends nothing that the user said or pinned. Where it contradicts the user's own
words, the review queue asks; a colleague's rule waits there until the user accepts it, or an admin of the team does for
everybody. A memory of a project that this home does not know is left at the hub, and fetched once somebody works in
that project here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, Turn
from filrouge.context.hook_files import write_briefs
from filrouge.core.errors import BadInput, Busy, NotFound
from filrouge.core.paths import DATABASE
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.scope import Scope
from filrouge.erasure.service import ForgetRequest, forget_at_once
from filrouge.extraction.decide import decide
from filrouge.extraction.understanding import PendingVectors, embed_inline, neighbours, update_index
from filrouge.hub.client import HubClient
from filrouge.hub.models import Change, Keep, Page, Receipt, Version
from filrouge.hub.models import Conflict as HubConflict
from filrouge.memories.models import (
    COLLEAGUE,
    Add,
    Conflict,
    Decision,
    Memory,
    Neighbour,
    Noop,
    Span,
    Statement,
    Update,
)
from filrouge.memories.repository import Action, Origin, Reviews, UserChanges
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors, store_or_queue_vectors
from filrouge.search.vector_search import VectorSearch
from filrouge.team.models import Membership, ProjectPolicy, Received, ReceivedState, channel_of
from filrouge.team.repository import Team

#: Changes that are applied in one transaction, so that a prompt's write does not wait long.
_PAGE: Final = 50
#: Memories that are erased together.
_FORGOTTEN_AT_ONCE: Final = 200
_FORGOTTEN: Final[frozenset[ReceivedState]] = frozenset({"forgetting", "forgotten", "confirmed"})

# Reading the changes.


def pull(parts: Parts, hub: HubClient) -> None:
    """Apply everything that the hub has to say, erase what was forgotten there, and confirm it.

    Raises:
        HubUnavailable: the hub does not answer.
        FilrougeError: it refuses.
    """
    _catch_up(parts, hub)
    while (membership := parts.readers.here(lambda tx: Team(tx).membership())) is not None:
        page = hub.changes(after=membership.cursor, limit=_PAGE, device=membership.device)
        if page.changes:
            _apply_page(parts, membership, page, None)
        if page.complete:
            break
    _forget_here(parts)
    _confirm(parts, hub)


def _catch_up(parts: Parts, hub: HubClient) -> None:
    """Read the team's earlier memories of the projects that are new here.

    The hub names its projects, not this home: one that the team does not share is none of its business. What the team
    shares of it later comes with all other changes.
    """
    new = [one for one in parts.readers.here(lambda tx: Team(tx).policies()).values() if one.cursor is not None]
    shared = set(hub.projects()) if new else set[str]()
    unknown = [policy.project for policy in new if policy.address not in shared]

    def write(tx: Tx) -> None:
        for project in unknown:
            Team(tx).caught_up(project, None)

    if unknown:
        parts.writer.run(write)
    for policy in new:
        if policy.address in shared:
            _catch_up_with(parts, hub, policy)


def _catch_up_with(parts: Parts, hub: HubClient, policy: ProjectPolicy) -> None:
    cursor = policy.cursor or ""
    while (membership := parts.readers.here(lambda tx: Team(tx).membership())) is not None:
        page = hub.changes(after=cursor, limit=_PAGE, device=None, project=policy.address)
        cursor = page.cursor
        _apply_page(parts, membership, page, policy.project)
        if page.complete:
            break


class _Arrival(Struct, frozen=True, kw_only=True):
    """A version with the project that it belongs to here, and the vectors of its text."""

    change: Change
    content: Version
    text: str
    project: str
    vectors: Vectors | None


def _apply_page(parts: Parts, membership: Membership, page: Page, project: str | None) -> None:
    """Apply a page of changes, and record in the same transaction that it was read.

    Args:
        project: the page has the earlier memories of this project; None = all changes.
    """
    vectors = parts.vectors
    arrivals = _arrivals(parts, vectors, page.changes)
    applied = list[tuple[Action, Vectors | None]]()
    projects = {arrival.project for arrival in arrivals.values()}

    def write(tx: Tx) -> None:
        applied.clear()
        pending: PendingVectors = {}
        for number, change in enumerate(page.changes):
            if change.type == "tombstone":
                _bury(parts, tx, membership, change)
            elif change.conflict is not None:
                applied.extend(_apply_settlement(parts, tx, change.conflict))
            elif number in arrivals:
                applied.extend(_apply_version(parts, tx, membership, vectors, arrivals[number], pending))
        if project is None:
            Team(tx).advance(cursor=page.cursor)
        else:
            Team(tx).caught_up(project, None if page.complete else page.cursor)

    parts.writer.run(write)
    update_index(parts, vectors, applied)
    for touched in projects:
        write_briefs(parts, touched, everywhere=False)
    parts.work_waiting.set()


def _arrivals(parts: Parts, vectors: VectorSearch, changes: Sequence[Change]) -> dict[int, _Arrival]:
    """Return the versions of projects that are known here, by their number in the page."""
    projects = parts.readers.here(lambda tx: {one.address: id_ for id_, one in Team(tx).policies().items()})
    wanted = {
        number: change.content
        for number, change in enumerate(changes)
        if change.content is not None and change.content.project in projects
    }
    texts = {number: parts.redact(content.text) for number, content in wanted.items()}
    embedded = dict(zip(texts, embed_inline(vectors, list(texts.values())), strict=True))
    return {
        number: _Arrival(
            change=changes[number],
            content=content,
            text=texts[number],
            project=projects[content.project],
            vectors=embedded[number],
        )
        for number, content in wanted.items()
    }


# A version.


def _apply_version(
    parts: Parts, tx: Tx, membership: Membership, vectors: VectorSearch, arrival: _Arrival, pending: PendingVectors
) -> list[tuple[Action, Vectors | None]]:
    team, change, content = Team(tx), arrival.change, arrival.content
    known = team.received([change.memory]).get(change.memory)
    if known is not None and change.accepted_by:
        _accept_waiting(parts, tx, vectors, arrival, pending, known)
    if known is not None and (known.version >= change.version or known.state in _FORGOTTEN):
        return []
    if known is None and change.author == membership.member and team.shared([change.memory]):
        return []  # it left from here
    if content.state == "ended":
        return _end(parts, tx, arrival, known)
    if known is not None and known.state != "ended":
        team.put_received(replace(known, version=change.version))
        return []
    if known is not None and known.memory:
        return _revive(parts, tx, arrival, known)
    state, memory, action = _store(parts, tx, membership, vectors, arrival, pending)
    team.put_received(
        Received(
            hub_id=change.memory,
            memory=memory,
            author=change.author,
            version=change.version,
            state=state,
            supersedes=content.supersedes or "",
        )
    )
    if action is None:
        return []
    if action.name in ("add", "update"):
        store_or_queue_vectors(tx, vectors, "memory", memory, arrival.vectors, parts.clock.now())
        if arrival.vectors is not None:
            pending[memory] = (arrival.project, arrival.vectors)
    return [(action, arrival.vectors)]


def _store(
    parts: Parts, tx: Tx, membership: Membership, vectors: VectorSearch, arrival: _Arrival, pending: PendingVectors
) -> tuple[ReceivedState, str, Action | None]:
    """Store a version as a memory; return what became of it, the memory's id, and the decision."""
    store, content = parts.memories(tx), arrival.content
    statement, origin = _statement(arrival), _origin(arrival, is_own=arrival.change.author == membership.member)
    as_turn = _as_turn(arrival)
    if parts.tombstones.refuses(tx, as_turn, as_turn.at):
        return "known", "", None  # the user forgot these words for good
    decision = _decision(parts, tx, vectors, arrival, pending)
    if isinstance(decision, Noop):
        return "known", "", None
    if content.kind == "rule" and origin.trust < TRUST_PROMPT:
        # An accepted rule counts as the user's; until then it is shown to no model.
        accepted, by = replace(origin, trust=TRUST_PROMPT), arrival.change.accepted_by
        if by and isinstance(decision, Add):
            action = store.add(statement, accepted, f"{by} accepted it for the team")
            return "held", action.memory_id, action
        action = store.quarantine(statement, accepted, f"{arrival.change.author_name} shares this rule with the team")
        return "held", action.review, None
    replaced = _replaced(parts, tx, content)
    if replaced is not None:
        return _store_replacing(parts, tx, arrival, statement, origin, replaced)
    successor = _successor(parts, tx, arrival.change.memory)
    if successor is not None:
        return _store_late(parts, tx, statement, origin, "a colleague replaced it", successor)
    match decision:
        case Update(old_ids=(against, *_), reason=reason) | Conflict(existing_id=against, reason=reason):
            return _store_against(parts, tx, statement, origin, reason, store.get(against))
        case _:
            action = store.add(statement, origin, f"{arrival.change.author_name} shares it with the team")
            return "held", action.memory_id, action


def _decision(parts: Parts, tx: Tx, vectors: VectorSearch, arrival: _Arrival, pending: PendingVectors) -> Decision:
    """Decide on a version beside the user's own memories."""
    statement = _statement(arrival)
    near = neighbours(parts, tx, _as_turn(arrival), vectors, statement, arrival.vectors, pending)
    return decide(statement, _own(tx, near))


def _accept_waiting(
    parts: Parts, tx: Tx, vectors: VectorSearch, arrival: _Arrival, pending: PendingVectors, known: Received
) -> None:
    """An admin accepted a rule for everybody: it waits no longer, unless it contradicts the user's own words.

    What the user decided about it stays.
    """
    memory = parts.memories(tx).some([known.memory]).get(known.memory)
    if memory is None or memory.state != "quarantined" or arrival.content.state == "ended":
        return
    reviews = Reviews(tx, parts.analyser)
    is_rule = reviews.get(memory.id).kind == "quarantine"
    if is_rule and isinstance(_decision(parts, tx, vectors, arrival, pending), Add):
        now = parts.clock.now()
        reviews.settle(memory.id, "accept", replace(_origin(arrival, is_own=False), at=now))
        queue_vectors(tx, "memory", memory.id, now)


def _statement(arrival: _Arrival) -> Statement:
    content = arrival.content
    return Statement(
        # What a colleague says of themselves is a fact about them, not what the user prefers or plans.
        kind="fact" if content.kind in ("preference", "intent") else content.kind,
        text=arrival.text,
        span=Span(start=0, end=len(arrival.text)),
        scope="project",
        confidence=content.confidence,
    )


def _origin(arrival: _Arrival, *, is_own: bool) -> Origin:
    """Return where a version comes from: the user's own, from another device, keeps its agent and its trust."""
    channel = arrival.content.host or "unknown" if is_own else channel_of(arrival.change.author_name)
    return Origin(
        scope=Scope(project=arrival.project, channel=channel),
        trust=TRUST_PROMPT if is_own else TRUST_AGENT,
        at=arrival.content.valid_from,
        made_by="sync" if is_own else COLLEAGUE,
        actor=COLLEAGUE,
    )


def _replaced(parts: Parts, tx: Tx, content: Version) -> Memory | None:
    """Return the memory of this home that a version says it replaces, or None."""
    if content.supersedes is None:
        return None
    received = Team(tx).received([content.supersedes]).get(content.supersedes)
    here = received.memory if received is not None else content.supersedes
    return parts.memories(tx).some([here]).get(here)


def _store_replacing(
    parts: Parts, tx: Tx, arrival: _Arrival, statement: Statement, origin: Origin, replaced: Memory
) -> tuple[ReceivedState, str, Action | None]:
    """Store a correction: it replaces a colleague's memory, and is held against the user's own."""
    store = parts.memories(tx)
    reason = f"{arrival.change.author_name} corrected it"
    current = _last_version(parts, tx, replaced)
    is_theirs = bool(Team(tx).received_as([current.id]))
    if current.state != "live" or (is_theirs and current.id != replaced.id):
        # It was ended here, or two colleagues corrected it: both corrections stay.
        action = store.add(statement, origin, reason)
        return "held", action.memory_id, action
    return _store_in_place_of(parts, tx, statement, origin, reason, current, is_theirs=is_theirs)


def _last_version(parts: Parts, tx: Tx, memory: Memory) -> Memory:
    """Return the memory that holds in place of this one now."""
    store, seen = parts.memories(tx), {memory.id}
    while memory.superseded_by and memory.superseded_by not in seen:
        seen.add(memory.superseded_by)
        memory = store.get(memory.superseded_by)
    return memory


def _successor(parts: Parts, tx: Tx, hub_id: str) -> Memory | None:
    """Return a live memory here that says it replaces one that arrives only now."""
    ids = [one.memory for one in Team(tx).superseding(hub_id) if one.memory]
    return next((memory for memory in parts.memories(tx).some(ids).values() if memory.state == "live"), None)


def _as_turn(arrival: _Arrival) -> Turn:
    """Return a version as if it had been said here."""
    return Turn(
        id="",
        key="",
        scope=Scope(project=arrival.project),
        host="",
        role="user",
        source="prompt",
        text=arrival.text,
        at=arrival.content.valid_from,
        trust=TRUST_AGENT,
    )


def _own(tx: Tx, near: Sequence[Neighbour]) -> list[Neighbour]:
    """Return the user's own memories among these; those of colleagues are their authors' to replace."""
    theirs = Team(tx).received_as([neighbour.memory.id for neighbour in near])
    return [neighbour for neighbour in near if neighbour.memory.id not in theirs]


def _store_against(
    parts: Parts, tx: Tx, statement: Statement, origin: Origin, reason: str, own: Memory
) -> tuple[ReceivedState, str, Action | None]:
    """Store a statement that contradicts the user's own: as history if the user spoke later, else for review."""
    if own.valid_from > origin.at:
        return _store_late(parts, tx, statement, origin, reason, own)
    return _store_in_place_of(parts, tx, statement, origin, reason, own, is_theirs=False)


def _store_in_place_of(
    parts: Parts, tx: Tx, statement: Statement, origin: Origin, reason: str, old: Memory, *, is_theirs: bool
) -> tuple[ReceivedState, str, Action | None]:
    """Replace a colleague's memory, or the user's by what they said on another device; else leave it to the user."""
    store = parts.memories(tx)
    if is_theirs or origin.trust >= TRUST_PROMPT:
        action = store.apply(Update(statement=statement, old_ids=(old.id,), reason=reason), origin)
        if not action.review:
            return "held", action.memory_id, action
    else:
        action = store.apply(Conflict(statement=statement, existing_id=old.id, reason=reason), origin)
    return "held", action.review, None


def _store_late(
    parts: Parts, tx: Tx, statement: Statement, origin: Origin, reason: str, by: Memory
) -> tuple[ReceivedState, str, Action | None]:
    """Store a statement as history: another memory holds in its place."""
    action = parts.memories(tx).put_late(statement, origin, reason, by=by, at=max(by.valid_from, origin.at))
    return "held", action.history, action


def _end(parts: Parts, tx: Tx, arrival: _Arrival, known: Received | None) -> list[tuple[Action, Vectors | None]]:
    """A memory no longer holds: its author ended it. What the user ended here stays as the user decided."""
    change = arrival.change
    ended = known or Received(hub_id=change.memory, memory="", author=change.author, version=0, state="ended")
    memory = parts.memories(tx).some([ended.memory]).get(ended.memory) if ended.memory else None
    was_ended_here = memory is not None and memory.state not in ("live", "quarantined")
    state = ended.state if was_ended_here else "ended"
    Team(tx).put_received(replace(ended, version=change.version, state=state))
    origin = replace(_origin(arrival, is_own=False), at=parts.clock.now())
    if memory is None or was_ended_here:
        return []
    if memory.state == "quarantined":
        review = Reviews(tx, parts.analyser).get(memory.id)
        Reviews(tx, parts.analyser).settle(memory.id, "old" if review.kind == "conflict" else "dismiss", origin)
        return []
    reason = f"{change.author_name} ended it"
    return [(parts.memories(tx).bin(memory.id, origin, reason), None)]


def _revive(parts: Parts, tx: Tx, arrival: _Arrival, known: Received) -> list[tuple[Action, Vectors | None]]:
    """A memory holds again: its author restored it."""
    Team(tx).put_received(replace(known, version=arrival.change.version, state="held"))
    origin = replace(_origin(arrival, is_own=False), at=parts.clock.now())
    with suppress(BadInput, NotFound):  # something else holds in its place, or the user forgot it
        UserChanges(tx, parts.analyser).restore(known.memory, origin)
        queue_vectors(tx, "memory", known.memory, origin.at)
    return []


# Conflicts: two members corrected the same memory. Each author has the other's correction in the review queue, and
# what one of them decides there is told to the hub; everybody else has both until then.


def settle_conflicts(parts: Parts, hub: HubClient) -> None:
    """Tell the hub what the user decided about conflicts with their own corrections.

    Raises:
        HubUnavailable: the hub does not answer.
        FilrougeError: it refuses.
    """
    for conflict in hub.conflicts():
        keep: Keep | None = parts.readers.here(lambda tx, conflict=conflict: _decided(parts, tx, conflict))
        if keep is not None:
            with suppress(Busy):  # somebody else was first
                hub.settle(conflict.conflict, keep)


def _decided(parts: Parts, tx: Tx, conflict: HubConflict) -> Keep | None:
    """Return which memory of a conflict the user keeps; None if it is not the user's, or not decided."""
    team, sides = Team(tx), (conflict.first, conflict.second)
    own, theirs = team.shared(sides), team.received(sides)
    if len(own) != 1 or len(theirs) != 1:
        return None
    here = [id_ if id_ in own else theirs[id_].memory for id_ in sides]
    memories = parts.memories(tx).some(here)
    states = [memories[id_].state if id_ in memories else "binned" for id_ in here]
    if "quarantined" in states:
        return None
    match [state == "live" for state in states]:
        case [True, True]:
            return "both"
        case [True, False]:
            return "first"
        case [False, True]:
            return "second"
        case _:
            return None


def _apply_settlement(parts: Parts, tx: Tx, conflict: HubConflict) -> list[tuple[Action, Vectors | None]]:
    """End the correction that was not kept, if it is a colleague's; the user's own is theirs to end."""
    if conflict.keep not in ("first", "second"):
        return []
    loser = conflict.second if conflict.keep == "first" else conflict.first
    known = Team(tx).received([loser]).get(loser)
    memory = parts.memories(tx).some([known.memory]).get(known.memory) if known else None
    if memory is None or memory.state != "live":
        return []
    origin = Origin(scope=memory.scope, trust=memory.trust, at=parts.clock.now(), made_by=COLLEAGUE, actor=COLLEAGUE)
    return [(parts.memories(tx).bin(memory.id, origin, "the team kept another correction"), None)]


# Forgetting.


def _bury(parts: Parts, tx: Tx, membership: Membership, change: Change) -> None:
    """Note that a memory is to be erased here.

    The user's own words are erased if the user forgot them on another device, and stay if somebody else did.
    """
    team = Team(tx)
    own = team.shared([change.memory]).get(change.memory)
    if own is not None and own.state in ("leaving", "withdrawn"):  # the user took it back
        team.put_received(_buried(change, state="forgotten"))
        return
    if own is not None:
        is_asked = change.by == membership.member
        reason = "" if is_asked else "it was forgotten for the team; your own memory stays until you forget it"
        team.put_shared(replace(own, state="withdrawn", digest=b"", reason=reason), parts.clock.now())
        left_over = len(parts.memories(tx).some([own.memory]))
        buried = _buried(change, state="forgotten", left_over=left_over)
        team.put_received(replace(_buried(change, state="forgetting"), memory=own.memory) if is_asked else buried)
        return
    known = team.received([change.memory]).get(change.memory)
    if known is None or not known.memory:
        team.put_received(_buried(change, state="forgotten"))
    elif known.state not in ("forgotten", "confirmed"):
        team.put_received(replace(known, version=change.version, state="forgetting"))


def _buried(change: Change, *, state: ReceivedState, left_over: int = 0) -> Received:
    return Received(
        hub_id=change.memory,
        memory="",
        author=change.author,
        version=change.version,
        state=state,
        left_over=left_over,
    )


def _forget_here(parts: Parts) -> None:
    """Erase what was forgotten on the hub, with everything that quotes it, and note what was left.

    It counts as forgotten once the write-ahead log is empty too, which a long read can delay.
    """
    while buried := parts.readers.here(lambda tx: Team(tx).received_in("forgetting", _FORGOTTEN_AT_ONCE)):
        ids = [one.memory for one in buried]
        parts.writer.run(lambda tx, ids=ids: Team(tx).unlink(ids))
        present = parts.readers.here(lambda tx, ids=ids: list(parts.memories(tx).some(ids)))
        found = _erase(parts, present) if present else 0
        is_log_empty = parts.writer.checkpoint()
        done = [
            replace(one, left_over=one.left_over + found, state="forgotten" if is_log_empty else "forgetting")
            for one in buried
        ]

        def write(tx: Tx, done: Collection[Received] = done) -> None:
            for one in done:
                Team(tx).put_received(one)

        parts.writer.run(write)
        if not is_log_empty:
            break


def _erase(parts: Parts, ids: Sequence[str]) -> int:
    """Forget memories; return in how many kinds of rows and in how many files something of them was left."""
    _, receipt = forget_at_once(parts, ForgetRequest(ids=tuple(ids)), actor=COLLEAGUE)
    left: Mapping[str, Any] = receipt.content["searched"]["left"]
    files = [name for name in left.get("files", ()) if name != f"{DATABASE}-wal"]
    return len(left.keys() - {"files"}) + len(files)


def _confirm(parts: Parts, hub: HubClient) -> None:
    """Tell the hub what was found of what this home erased."""
    membership = parts.readers.here(lambda tx: Team(tx).membership())
    while membership and (done := parts.readers.here(lambda tx: Team(tx).received_in("forgotten", _FORGOTTEN_AT_ONCE))):
        hub.confirm(membership.device, [Receipt(memory=one.hub_id, left_over=one.left_over) for one in done])

        def write(tx: Tx, done: Collection[Received] = done) -> None:
            for one in done:
                Team(tx).put_received(replace(one, state="confirmed"))

        parts.writer.run(write)
