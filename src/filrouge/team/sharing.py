"""What leaves this home: which memories are shared, in what form, and pushing them to the hub.

The journal is the outbox. Every change of a memory writes a journal entry in its transaction, and `consider_changes`
reads the entries after the last one it saw, so a crash loses nothing. The table `team_shared` says what became of each
memory; a push sends what differs from what the hub has, and repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_PROMPT
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.extraction.sentences import require_no_secret
from filrouge.hub.client import HubClient
from filrouge.hub.models import MAX_TEXT_CHARS, PushAnswer, Version, encoded_vector
from filrouge.memories.models import Memory
from filrouge.memories.reports import quotes
from filrouge.runtime.services import Parts
from filrouge.search.repository import StoredVectors
from filrouge.team.models import SHARED_KINDS, ProjectPolicy, Shared
from filrouge.team.repository import Team

#: Journal entries that are considered in one transaction.
_ENTRIES: Final = 500
#: Memories in one push: even the longest stay below the size that a hub accepts.
_AT_ONCE: Final = 50
_MAX_EVIDENCE_CHARS: Final = 4_000
#: Removals in one request.
_MAX_FORGOTTEN: Final = 500

#: Why a memory is shared that no policy covers.
BY_HAND: Final = "you chose it"

# Which memories leave.


def consider_changes(parts: Parts) -> bool:
    """Queue the memories that changed since the last time, as the policies of their projects say.

    Returns:
        True if any changed.
    """
    changed = False
    while parts.readers.here(has_news):
        parts.writer.run_patient(lambda tx: _consider_next(parts, tx))
        changed = True
    return changed


def has_news(tx: Tx) -> bool:
    """Return whether a memory changed since the last time."""
    membership = Team(tx).membership()
    return membership is not None and bool(Team(tx).changed_since(membership.entry, 1)[0])


def _consider_next(parts: Parts, tx: Tx) -> None:
    team = Team(tx)
    membership = team.membership()
    if membership is None:
        return
    ids, entry = team.changed_since(membership.entry, _ENTRIES)
    consider(parts, tx, ids)
    team.advance(entry=entry)


def reconsider(parts: Parts, tx: Tx, project: str, *, again: bool) -> None:
    """Apply a new policy to what is known of a project: what the earlier one queued, and the hub may lack, stays here.

    What was shared stays shared, and what the user chose by hand is sent.

    Args:
        again: what the hub has is sent again: its quotes go with it now, or no longer do.
    """
    team, now = Team(tx), parts.clock.now()
    policy, memories = team.policies()[project], team.memories_of(project)
    kinds = {memory.id: memory.kind for memory in parts.memories(tx).some(memories).values()}
    known = team.shared(memories)
    for shared in known.values():
        is_unsent = shared.state == "queued" and not shared.digest and shared.reason != BY_HAND
        if shared.state == "candidate" or (is_unsent and not shared.version):
            team.drop_shared([shared.memory])
        elif is_unsent and (policy.policy == "ask" or not policy.covers(kinds[shared.memory])):
            team.put_shared(replace(shared, state="leaving"), now)  # an answer of the hub may have been lost
    consider(parts, tx, [id_ for id_ in memories if again or id_ not in known or known[id_].state != "shared"])


def consider(parts: Parts, tx: Tx, ids: Collection[str]) -> None:
    """Queue these memories if a policy shares them, or if they were shared before and changed."""
    team, now = Team(tx), parts.clock.now()
    membership = team.membership()
    policies, memories = team.policies(), parts.memories(tx).some(list(ids))
    before, received = team.shared(ids), team.received_as(ids)
    for id_ in ids:
        memory, shared, arrived = memories.get(id_), before.get(id_), received.get(id_)
        if arrived is not None:
            # What the user shared from another device is theirs to forget on this one.
            if memory is None and membership and arrived.author == membership.member and arrived.state == "held":
                team.put_shared(Shared(memory=arrived.hub_id, state="leaving", version=arrived.version), now)
        elif shared is None:
            if memory is not None and (new := _as_policy_says(memory, policies)):
                team.put_shared(new, now)
        elif memory is None:
            _forgotten_here(parts, team, shared)
        elif shared.state in ("shared", "queued"):
            team.put_shared(replace(shared, state="queued"), now)
        elif shared.state == "candidate" and not is_live(memory):
            team.drop_shared([id_])


def _as_policy_says(memory: Memory, policies: dict[str, ProjectPolicy]) -> Shared | None:
    policy = policies.get(memory.scope.project or "")
    if policy is None or why_not(memory, policy) or not is_live(memory) or not policy.covers(memory.kind):
        return None
    # An agent repeats what it reads, so its words wait for the user under every policy.
    is_asked = policy.policy == "ask" or memory.trust < TRUST_PROMPT
    return Shared(memory=memory.id, state="candidate" if is_asked else "queued")


def _forgotten_here(parts: Parts, team: Team, shared: Shared) -> None:
    """The user forgot a memory for good: it has to leave the hub as well."""
    if shared.version and shared.state != "withdrawn":
        team.put_shared(replace(shared, state="leaving"), parts.clock.now())
    else:
        team.drop_shared([shared.memory])


def is_live(memory: Memory) -> bool:
    """Return whether a memory counts for colleagues."""
    return memory.state == "live" and not memory.disabled


def why_not(memory: Memory, policy: ProjectPolicy | None) -> str:
    """Return why a memory can never be shared; empty if it can."""
    if memory.scope_name != "project":
        return "it is about you, not about a project"
    if policy is None:
        return "its project has no remote by which the team could know it"
    if memory.kind not in SHARED_KINDS:
        return f"a memory of the kind {memory.kind} is not shared"
    if len(memory.text) > MAX_TEXT_CHARS:
        return f"it has more than {MAX_TEXT_CHARS} characters"
    return ""


# In what form.


class _Outgoing(Struct, frozen=True, kw_only=True):
    """A memory with what the hub gets of it; without a version it is refused for the reason."""

    shared: Shared
    version: Version | None
    reason: str = ""


def _outgoing(parts: Parts, tx: Tx, queued: Sequence[Shared]) -> list[_Outgoing]:
    team = Team(tx)
    policies, memories = team.policies(), parts.memories(tx).known([shared.memory for shared in queued])
    by_id = {memory.id: memory for memory in memories}
    return [_prepared(parts, tx, shared, by_id[shared.memory], policies) for shared in queued if shared.memory in by_id]


def _prepared(parts: Parts, tx: Tx, shared: Shared, memory: Memory, policies: dict[str, ProjectPolicy]) -> _Outgoing:
    policy = policies.get(memory.scope.project or "")
    reason = why_not(memory, policy)
    if reason or policy is None:
        return _Outgoing(shared=shared, version=None, reason=reason)
    try:
        text = require_no_secret(parts.redact(memory.text))
        evidence = require_no_secret(parts.redact(_quote(parts, tx, memory))) if policy.with_evidence else ""
    except BadInput:
        return _Outgoing(shared=shared, version=None, reason="it holds a secret")
    vectors = StoredVectors(tx).of("memory", memory.id, parts.vectors.space.id)
    version = Version(
        memory=memory.id,
        version=shared.version + 1,
        state="live" if is_live(memory) else "ended",
        host=memory.scope.channel[:100],
        project=policy.address,
        kind=memory.kind,  # pyright: ignore[reportArgumentType]  (checked by `why_not`)
        text=text,
        language=memory.language,
        evidence=evidence[:_MAX_EVIDENCE_CHARS],
        confidence=memory.confidence,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        supersedes=_predecessor(tx, memory),
        # A long text has several vectors, one for each part.
        space=parts.vectors.space.id if vectors is not None and len(vectors) == 1 else "",
        vector=encoded_vector(vectors[0]) if vectors is not None and len(vectors) == 1 else "",
    )
    return _Outgoing(shared=shared, version=version)


def _quote(parts: Parts, tx: Tx, memory: Memory) -> str:
    return " … ".join(quote["text"] for quote in quotes(parts, tx, memory))


def _predecessor(tx: Tx, memory: Memory) -> str | None:
    """Return the id on the hub of the memory that this one replaced, if the team knows it."""
    if memory.supersedes is None:
        return None
    team = Team(tx)
    received = team.received_as([memory.supersedes]).get(memory.supersedes)
    if received is not None:
        return received.hub_id
    own = team.shared([memory.supersedes]).get(memory.supersedes)
    return memory.supersedes if own is not None and own.version else None


# Pushing.


def push(parts: Parts, hub: HubClient) -> None:
    """Send what is queued, and remove from the hub what is leaving.

    Raises:
        HubUnavailable: the hub does not answer.
        FilrougeError: it refuses.
    """
    while queued := parts.readers.here(lambda tx: Team(tx).in_state("queued", _AT_ONCE)):
        _push_some(parts, hub, queued)
    while leaving := parts.readers.here(lambda tx: Team(tx).in_state("leaving", _MAX_FORGOTTEN)):
        unknown = _remove(hub, [shared.memory for shared in leaving])
        parts.writer.run(lambda tx, left=leaving, unknown=unknown: _left(parts, tx, left, unknown))


def _push_some(parts: Parts, hub: HubClient, queued: Sequence[Shared]) -> None:
    outgoing = parts.readers.here(lambda tx: _outgoing(parts, tx, queued))
    to_send = [
        (one.shared, one.version) for one in outgoing if one.version and _digest(one.version) != one.shared.digest
    ]
    sent = {shared.memory for shared, _ in to_send}
    settled = [
        replace(one.shared, state="shared" if one.version else "refused", reason=one.reason)
        for one in outgoing
        if one.shared.memory not in sent
    ]
    present = {one.shared.memory for one in outgoing}
    gone = [shared for shared in queued if shared.memory not in present]

    def claim(tx: Tx) -> list[tuple[Shared, Version]]:
        """Use up the numbers before they are sent: an answer that gets lost must not let another version have one."""
        team, now = Team(tx), parts.clock.now()
        current = team.shared([shared.memory for shared in queued])
        for shared in settled:
            team.answered(shared, now)
        for shared in gone:
            _forgotten_here(parts, team, shared)
        claimed = [
            (replace(shared, version=version.version), version)
            for shared, version in to_send
            if current.get(shared.memory) == shared  # the user may have taken it back since it was read
        ]
        for shared, _ in claimed:
            team.answered(shared, now)
        return claimed

    claimed = parts.writer.run(claim)
    if not claimed:
        return
    answers = hub.push([version for _, version in claimed])
    results = [_result(shared, version, answer) for (shared, version), answer in zip(claimed, answers, strict=True)]

    def write(tx: Tx) -> None:
        for result in results:
            Team(tx).answered(result, parts.clock.now())

    parts.writer.run(write)


def _digest(version: Version) -> bytes:
    """Return the digest of what a version says; the number is not part of it."""
    return version.model_copy(update={"version": 1}).digest()


def _result(shared: Shared, version: Version, answer: PushAnswer) -> Shared:
    match answer.outcome:
        case "accepted" | "duplicate":
            return replace(shared, state="shared", digest=_digest(version), reason="")
        case "conflict":  # an older copy of this home: the hub has seen later numbers
            return replace(shared, state="queued", version=max(answer.latest, shared.version))
        case "refused":
            return replace(shared, state="refused", reason=answer.reason)


def _remove(hub: HubClient, ids: Sequence[str]) -> set[str]:
    """Remove memories from the hub; return those that never arrived there."""
    try:
        hub.forget(ids)
    except NotFound:
        return set[str]().union(*(_remove(hub, [id_]) for id_ in ids)) if len(ids) > 1 else set(ids)
    return set()


def _left(parts: Parts, tx: Tx, leaving: Sequence[Shared], unknown: Collection[str]) -> None:
    """Record that memories are no longer on the hub, or never were; none is shared again on its own."""
    team = Team(tx)
    here = parts.memories(tx).some([shared.memory for shared in leaving])
    for shared in leaving:
        if shared.memory in here:
            state = "declined" if shared.memory in unknown else "withdrawn"
            team.answered(replace(shared, state=state, digest=b""), parts.clock.now())
        else:
            team.drop_shared([shared.memory])
