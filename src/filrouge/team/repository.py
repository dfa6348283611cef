"""Rows of sharing with a team: the membership, policies, the outbox, and the memories of colleagues."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Tx
from filrouge.core.rows import fields_of, number_of, pick_columns
from filrouge.team.models import Membership, ProjectPolicy, Received, ReceivedState, Shared, SharedState

ORIGIN: Final = "origin:"
_MEMBERSHIP: Final = ("url", "name", "member", "member_name", "device", "device_name", "cursor", "entry")
_OF_JOINING: Final = (*_MEMBERSHIP, "is_admin")
_SHARED: Final = ("memory", "state", "version", "digest", "mark", "reason")
_RECEIVED: Final = ("hub_id", "memory", "author", "version", "state", "supersedes", "left_over")


class Team:
    """The tables of one home's membership."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def membership(self) -> Membership | None:
        """Return the team of this home, or None."""
        row = self._tx.one("team.get")
        if row is None:
            return None
        return Membership(
            **pick_columns(row, _MEMBERSHIP), is_admin=bool(row["is_admin"]), joined_at=from_text(row["joined_at"])
        )

    def join(self, membership: Membership) -> None:
        """Store the team. What an earlier team left behind is removed."""
        self.leave()
        self._tx.run("team.join", fields_of(membership, _OF_JOINING) | {"joined_at": to_text(membership.joined_at)})

    def leave(self) -> None:
        """Remove everything about the team. Memories of colleagues are not touched."""
        for statement in ("team.leave", "team.leave_projects", "team.leave_shared", "team.leave_received"):
            self._tx.run(statement)

    def advance(self, *, cursor: str | None = None, entry: int | None = None) -> None:
        """Record how far the hub's changes, or this home's journal, were read."""
        self._tx.run("team.advance", {"cursor": cursor, "entry": entry})

    def changed_since(self, entry: int, limit: int) -> tuple[list[str], int]:
        """Return the memories that journal entries after this one touch, and the number of the last entry read."""
        rows = self._tx.all("team.touched", {"entry": entry, "limit": limit})
        return list(dict.fromkeys(row["memory_id"] for row in rows)), max((row["seq"] for row in rows), default=entry)

    def last_entry(self) -> int:
        """Return the number of the last journal entry."""
        return number_of(self._tx, "team.last_entry")

    # Policies.

    def policies(self) -> dict[str, ProjectPolicy]:
        """Return the projects that the team can know, by id: those with a remote."""
        return {row["project_id"]: _policy(row) for row in self._tx.all("team.policies")}

    def put_policy(self, policy: ProjectPolicy) -> None:
        """Store what is shared of a project."""
        row = fields_of(policy, ("policy", "with_evidence", "cursor"))
        self._tx.run("team.policy", row | {"project_id": policy.project})

    def caught_up(self, project: str, cursor: str | None) -> None:
        """Record how far the team's earlier memories of a project were read; None = all of them."""
        self._tx.run("team.caught_up", {"project_id": project, "cursor": cursor})

    def memories_of(self, project: str) -> list[str]:
        """Return the live memories of a project that can be shared, oldest first."""
        return [row["id"] for row in self._tx.all("team.of_project", {"project_id": project})]

    # What this home shares.

    def shared(self, ids: Collection[str]) -> dict[str, Shared]:
        """Return what became of these memories, by id; those that were never considered are left out."""
        rows = self._tx.all("team.shared", {"ids": json.dumps(list(ids))})
        return {row["memory_id"]: _shared(row) for row in rows}

    def in_state(self, state: SharedState, limit: int) -> list[Shared]:
        """Return memories in a state, the oldest change first."""
        return [_shared(row) for row in self._tx.all("team.in_state", {"state": state, "limit": limit})]

    def put_shared(self, shared: Shared, at: datetime) -> None:
        """Store what becomes of a memory. It grows the mark, so that an answer to an earlier push changes no state."""
        self._tx.run("team.share", fields_of(shared, _SHARED) | {"at": to_text(at)})

    def answered(self, shared: Shared, at: datetime) -> None:
        """Store the hub's answer to a push; the state stays if it was changed in the meantime."""
        self._tx.run("team.answered", fields_of(shared, _SHARED) | {"at": to_text(at)})

    def drop_shared(self, ids: Collection[str]) -> None:
        """Remove what is known of these memories."""
        self._tx.run("team.unshare", {"ids": json.dumps(list(ids))})

    def counts(self) -> dict[str, int]:
        """Return the number of memories by what became of them; colleagues' with the prefix `received_`."""
        return {row["state"]: row["n"] for row in self._tx.all("team.counts")}

    def candidates(self) -> int:
        """Return the number of memories that wait for the user to share them."""
        return number_of(self._tx, "team.candidates")

    # What colleagues share.

    def received(self, hub_ids: Collection[str]) -> dict[str, Received]:
        """Return what is known of these memories of the hub, by id."""
        rows = self._tx.all("team.received", {"ids": json.dumps(list(hub_ids))})
        return {row["hub_id"]: _received(row) for row in rows}

    def received_as(self, memory_ids: Collection[str]) -> dict[str, Received]:
        """Return the colleagues' memories among those of this home, by their id in it."""
        rows = self._tx.all("team.received_as", {"ids": json.dumps(list(memory_ids))})
        return {row["memory_id"]: _received(row) for row in rows}

    def superseding(self, hub_id: str) -> list[Received]:
        """Return the memories that say they replace this one."""
        return [_received(row) for row in self._tx.all("team.superseding", {"hub_id": hub_id})]

    def received_in(self, state: ReceivedState, limit: int) -> list[Received]:
        """Return colleagues' memories in a state."""
        return [_received(row) for row in self._tx.all("team.received_in", {"state": state, "limit": limit})]

    def put_received(self, received: Received) -> None:
        """Store what became of a colleague's memory."""
        self._tx.run("team.receive", fields_of(received, _RECEIVED))

    def held(self) -> list[str]:
        """Return the colleagues' memories that are stored in this home, by their id in it."""
        return [row["memory_id"] for row in self._tx.all("team.held")]

    def unlink(self, memory_ids: Collection[str]) -> None:
        """Cut these memories off from their versions, so that forgetting them leaves corrections by others alone."""
        self._tx.run("team.unlink", {"ids": json.dumps(list(memory_ids))})


def _policy(row: Mapping[str, Any]) -> ProjectPolicy:
    return ProjectPolicy(
        project=row["project_id"],
        address=row["alias"].removeprefix(ORIGIN),
        policy=row["policy"],
        with_evidence=bool(row["with_evidence"]),
        cursor=row["cursor"],
    )


def _shared(row: Mapping[str, Any]) -> Shared:
    return Shared(
        memory=row["memory_id"],
        digest=row["digest"] or b"",
        **pick_columns(row, ("state", "version", "mark", "reason")),
    )


def _received(row: Mapping[str, Any]) -> Received:
    return Received(
        memory=row["memory_id"],
        **pick_columns(row, ("hub_id", "author", "version", "state", "supersedes", "left_over")),
    )
