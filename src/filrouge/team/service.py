"""Sharing with a team: join and leave, what is shared of a project, what became of it, and the task that does it.

The task asks the hub every two seconds what changed there, and looks more often whether something changed here, which
it pushes at once. If the hub does not answer it tries again after growing pauses; meanwhile everything else works, and
what is to be sent waits.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from filrouge.core.clock import monotonic, new_id, text_or_none, to_text
from filrouge.core.errors import BadInput, FilrougeError, NotFound
from filrouge.core.paths import TEAM_TOKEN, inside, load_secret, store_secret
from filrouge.core.protocols import Tx
from filrouge.erasure.service import erase
from filrouge.hub.client import HubClient
from filrouge.hub.models import Device
from filrouge.memories.models import COLLEAGUE
from filrouge.memories.service import settle
from filrouge.projects.repository import names_of, project_id
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.services import Parts
from filrouge.team import receiving, sharing
from filrouge.team.models import POLICIES, Membership, Policy, ProjectPolicy, Shared, SharedState, SyncState
from filrouge.team.repository import Team

_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.5
_LONGEST_PAUSE: Final = 60.0
_DOUBLINGS: Final = 5
_TIMEOUT: Final = 30.0
#: What a daemon that stops waits for an exchange. The hub may hang, and the next daemon repeats what it did not answer.
_STOP_SECONDS: Final = 1.0
#: Memories that one request may share, or take back.
MAX_CHOSEN: Final = 500
_LISTED: Final = 200
_PROPOSED: Final = "an agent proposes it"

# The task.


def team_watch(parts: Parts) -> PeriodicTask:
    """Return the task that exchanges memories with the hub."""
    return PeriodicTask(
        lambda: _pause(parts.team),
        lambda: _follow(parts),
        name="team",
        failure_message="memories could not be exchanged with the team",
        patience=_STOP_SECONDS,
    )


def _pause(state: SyncState) -> float:
    """Return the seconds until the next look. Devices that lost the same hub come back at different moments."""
    if state.failures:
        return min(_LONGEST_PAUSE, _SECONDS * 2 ** min(state.failures, _DOUBLINGS)) * random.uniform(0.5, 1)  # noqa: S311
    return _LOOK_SECONDS if state.at else _SECONDS


def _follow(parts: Parts) -> None:
    """Exchange memories if something changed here, or the hub was not asked for a while."""
    is_due = monotonic() - parts.team.asked >= _SECONDS - _LOOK_SECONDS / 2
    if is_due or parts.team.failures or parts.readers.here(sharing.has_news):
        synchronise(parts)


def synchronise(parts: Parts) -> None:
    """Exchange memories with the hub once; what went wrong is kept for the status, not raised."""
    hub = _hub(parts)
    if hub is None:
        return
    state = parts.team
    with state.exchanging:
        state.asked = monotonic()
        try:
            changed = sharing.consider_changes(parts)
            sharing.push(parts, hub)
            receiving.pull(parts, hub)
            if changed or state.failures or state.at is None:
                receiving.settle_conflicts(parts, hub)
        except FilrougeError as error:
            state.problem, state.failures = f"{error.message} {error.remedy}".strip(), state.failures + 1
            return
        state.at, state.problem, state.failures = parts.clock.now(), "", 0


def _hub(parts: Parts) -> HubClient | None:
    membership = parts.readers.here(lambda tx: Team(tx).membership())
    token = load_secret(parts.home, TEAM_TOKEN) if membership else ""
    return HubClient(membership.url, token, timeout=_TIMEOUT) if membership and token else None


# Membership.


def join(parts: Parts, url: str, token: str, *, device_name: str = "") -> dict[str, Any]:
    """Join the team that the token belongs to, and return the status. Nothing is shared before a policy says so.

    Args:
        url: where the hub answers.
        token: the secret of a member's token.
        device_name: how colleagues tell this machine from others; empty = its host name.

    Raises:
        BadInput: this home has a team already, or the address or token is malformed.
        HubUnavailable: no hub answers there.
        Unauthorized: the token is not valid.
    """
    if (present := parts.readers.here(lambda tx: Team(tx).membership())) is not None:
        raise BadInput(f"This home belongs to the team {present.name}.", remedy="Leave it with `filrouge team leave`.")
    hub = HubClient(url, token, timeout=_TIMEOUT)
    told, now = hub.status(), parts.clock.now()
    device = Device(device=new_id(now), name=(device_name or socket.gethostname() or "device")[:100])
    hub.join(device)
    store_secret(parts.home, TEAM_TOKEN, token)

    def write(tx: Tx) -> None:
        membership = Membership(
            url=url.rstrip("/"),
            name=told["tenant"],
            member=told["member_id"],
            member_name=told["member"],
            device=device.device,
            device_name=device.name,
            joined_at=now,
            is_admin="admin" in told["scopes"],
            entry=Team(tx).last_entry(),
        )
        team = Team(tx)
        team.join(membership)
        for policy in team.policies().values():  # all changes are read from the first on, so nothing is to catch up
            team.put_policy(replace(policy, cursor=None))

    parts.writer.run(write)
    return status(parts)


def leave(parts: Parts) -> dict[str, Any]:
    """Leave the team: what colleagues shared is erased here; what the user shared stays with the team.

    Raises:
        NotFound: this home has no team.
    """
    with parts.team.exchanging:
        membership = _membership(parts)
        theirs = parts.readers.here(lambda tx: Team(tx).held())

        def write(tx: Tx) -> None:
            Team(tx).unlink(theirs)
            Team(tx).leave()

        parts.writer.run(write)
        with suppress(FileNotFoundError):
            os.unlink(inside(parts.home, TEAM_TOKEN))
        if theirs:
            erase(parts, theirs, actor=COLLEAGUE)
        parts.team.at, parts.team.problem, parts.team.failures = None, "", 0
    return {"left": membership.name, "erased": len(theirs)}


def _membership(parts: Parts) -> Membership:
    membership = parts.readers.here(lambda tx: Team(tx).membership())
    if membership is None:
        raise NotFound("This home belongs to no team.", remedy="Join one with `filrouge team join URL`.")
    return membership


def status(parts: Parts) -> dict[str, Any]:
    """Return the team, what is shared of each project, what became of it, and how the last exchange went."""

    def read(tx: Tx) -> dict[str, Any]:
        team = Team(tx)
        membership = team.membership()
        if membership is None:
            return {"joined": False}
        counts, names = team.counts(), names_of(tx)
        return {
            "joined": True,
            "team": membership.name,
            "member": membership.member_name,
            "url": membership.url,
            "device": membership.device_name,
            "is_admin": membership.is_admin,
            "joined_at": to_text(membership.joined_at),
            "synchronised_at": text_or_none(parts.team.at),
            "problem": parts.team.problem,
            "projects": [
                {
                    "project": id_,
                    "name": names[id_],
                    "address": policy.address,
                    "policy": policy.policy,
                    "with_evidence": policy.with_evidence,
                }
                for id_, policy in sorted(team.policies().items(), key=lambda item: names[item[0]].casefold())
            ],
            "shared": counts.get("shared", 0),
            "queued": counts.get("queued", 0) + counts.get("leaving", 0),
            "candidates": counts.get("candidate", 0),
            "refused": counts.get("refused", 0),
            "received": counts.get("received_held", 0),
        }

    return parts.readers.here(read)


# What is shared.


def set_policy(parts: Parts, names: Sequence[str], policy: str, *, with_evidence: bool | None = None) -> dict[str, Any]:
    """Say what is shared of a project from now on, and of what is known of it already; return the status.

    What was shared under an earlier policy stays shared; what waits because of it, and is not covered now, is not sent.

    Args:
        names: names of the project.
        policy: one of `POLICIES`.
        with_evidence: also share the quotes that prove memories; None = as before.

    Raises:
        BadInput: the policy is unknown, or the project has no remote.
        NotFound: this home has no team, or there is no such project.
    """
    _membership(parts)
    chosen: Policy | None = next((one for one in POLICIES if one == policy), None)
    if chosen is None:
        raise BadInput(f"There is no policy {policy!r}.", remedy=f"It is one of: {', '.join(POLICIES)}.")

    def write(tx: Tx) -> None:
        team = Team(tx)
        before = _policy_of(tx, names)
        evidence = before.with_evidence if with_evidence is None else with_evidence
        team.put_policy(replace(before, policy=chosen, with_evidence=evidence))
        sharing.reconsider(parts, tx, before.project, again=evidence != before.with_evidence)

    parts.writer.run(write)
    return status(parts)


def _policy_of(tx: Tx, names: Sequence[str]) -> ProjectPolicy:
    id_ = project_id(tx, names)
    policy = Team(tx).policies().get(id_ or "")
    if policy is None:
        raise BadInput(
            "This project has no remote by which the team could know it.",
            remedy="Add one with `git remote add origin ADDRESS`, and work in it once.",
        )
    return policy


def share(parts: Parts, memory_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Share these memories, whatever the policy of their project says; return what becomes of each.

    Raises:
        NotFound: this home has no team, or no memory has one of these ids.
        BadInput: a memory cannot be shared; the message says why. None is shared then.
    """
    _membership(parts)

    def write(tx: Tx) -> None:
        team = Team(tx)
        for shared in _sharable(parts, tx, memory_ids):
            team.put_shared(replace(shared, state="queued", reason=sharing.BY_HAND), parts.clock.now())

    parts.writer.run(write)
    return chosen(parts, memory_ids)


def propose(parts: Parts, memory_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Have memories wait until the user shares or declines them; return what becomes of each.

    An agent may do this and no more: it repeats what it reads, and sharing sends memories to other people. A memory
    that the user declined stays so, and one that is shared already too.

    Raises:
        NotFound: this home has no team, or no memory has one of these ids.
        BadInput: a memory cannot be shared; the message says why. None is proposed then.
    """
    _membership(parts)

    def write(tx: Tx) -> None:
        team = Team(tx)
        for shared in _sharable(parts, tx, memory_ids):
            if not team.shared([shared.memory]):
                team.put_shared(replace(shared, state="candidate", reason=_PROPOSED), parts.clock.now())

    parts.writer.run(write)
    return chosen(parts, memory_ids)


def _sharable(parts: Parts, tx: Tx, memory_ids: Sequence[str]) -> list[Shared]:
    """Return what is known of these memories on their way to the team, after a check that each can be shared.

    Raises:
        NotFound: no memory has one of these ids.
        BadInput: a memory cannot be shared; the message says why.
    """
    team, policies = Team(tx), Team(tx).policies()
    before = team.shared(memory_ids)
    for id_ in dict.fromkeys(memory_ids):
        memory = parts.memories(tx).get(id_)
        reason = sharing.why_not(memory, policies.get(memory.scope.project or ""))
        if not reason and not sharing.is_live(memory):
            reason = "it no longer holds" if memory.state != "live" else "it is switched off"
        if not reason and team.received_as([id_]):
            reason = "a colleague shares it already"
        if not reason and id_ in before and before[id_].state in ("leaving", "withdrawn"):
            reason = "it was taken back, which is for good; state it anew to share it"
        if reason:
            raise BadInput(f"Memory {id_} is not shared: {reason}.", remedy=f"See `filrouge why {id_}`.")
    return [before.get(id_) or Shared(memory=id_, state="candidate") for id_ in dict.fromkeys(memory_ids)]


def unshare(parts: Parts, memory_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Take these memories back: the hub and the devices of colleagues erase them, and here they stay.

    That is for good. One that was not sent yet is declined, and shared only if the user says so.

    Raises:
        NotFound: this home has no team, or no memory has one of these ids.
        BadInput: a memory was not shared from here.
    """
    _membership(parts)

    def write(tx: Tx) -> None:
        team = Team(tx)
        before, received = team.shared(memory_ids), team.received_as(memory_ids)
        for id_ in dict.fromkeys(memory_ids):
            if id_ in received:
                raise BadInput(f"Memory {id_} was not shared from here.", remedy="Take it back where it was said.")
            shared = before.get(id_) or Shared(memory=parts.memories(tx).get(id_).id, state="declined")
            if shared.state != "withdrawn":
                state = "leaving" if shared.version else "declined"
                team.put_shared(replace(shared, state=state, reason=""), parts.clock.now())

    parts.writer.run(write)
    return chosen(parts, memory_ids)


def accept(parts: Parts, memory_ids: Sequence[str]) -> int:
    """Accept rules of the team for everybody, as an admin of it; those that wait here are accepted here, too.

    Returns:
        The number of rules that were accepted now; the others were before.

    Raises:
        NotFound: this home has no team, or no memory has one of these ids.
        BadInput: a memory is no rule, or the team does not have it. None is accepted then.
        Forbidden: the user is no admin of the team.
        HubUnavailable: the hub does not answer.
    """
    _membership(parts)
    hub_ids = parts.readers.here(lambda tx: _rules_at_hub(parts, tx, memory_ids))
    hub = _hub(parts)
    if hub is None:
        raise NotFound("The token of this home is missing.", remedy="Leave with `filrouge team leave`, and join again.")
    accepted = hub.accept(hub_ids)
    for id_ in dict.fromkeys(memory_ids):
        with suppress(NotFound, BadInput):  # it does not wait here
            settle(parts, id_, "accept")
    return sum(accepted.values())


def _rules_at_hub(parts: Parts, tx: Tx, memory_ids: Sequence[str]) -> list[str]:
    """Return the ids of rules on the hub.

    Raises:
        NotFound: no memory has one of these ids.
        BadInput: a memory is no rule, or the team does not have it.
    """
    received, shared = Team(tx).received_as(memory_ids), Team(tx).shared(memory_ids)
    for id_ in dict.fromkeys(memory_ids):
        reason = "it is no rule" if parts.memories(tx).get(id_).kind != "rule" else ""
        if not reason and id_ not in received and (id_ not in shared or shared[id_].state != "shared"):
            reason = "the team does not have it"
        if reason:
            told = f"Memory {id_} is not accepted for the team: {reason}."
            raise BadInput(told, remedy=f"See `filrouge why {id_}`.")
    return [received[id_].hub_id if id_ in received else id_ for id_ in dict.fromkeys(memory_ids)]


def chosen(parts: Parts, memory_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return these memories with what became of them, in their order; those that were never considered are left out."""
    ids = list(dict.fromkeys(memory_ids))
    return parts.readers.here(lambda tx: _listed(parts, tx, [*filter(None, map(Team(tx).shared(ids).get, ids))]))


def listed(parts: Parts, state: SharedState = "candidate") -> list[dict[str, Any]]:
    """Return the memories in a state, the oldest change first: what waits for the user, is shared, or was refused.

    Raises:
        NotFound: this home has no team.
    """
    _membership(parts)
    return parts.readers.here(lambda tx: _listed(parts, tx, Team(tx).in_state(state, _LISTED)))


def _listed(parts: Parts, tx: Tx, found: Sequence[Shared]) -> list[dict[str, Any]]:
    memories, names = parts.memories(tx).some([shared.memory for shared in found]), names_of(tx)
    return [
        {
            "id": shared.memory,
            "state": shared.state,
            "reason": shared.reason,
            "kind": memory.kind,
            "text": memory.text,
            "language": memory.language,
            "project": names.get(memory.scope.project or "", ""),
        }
        for shared in found
        if (memory := memories.get(shared.memory))
    ]
