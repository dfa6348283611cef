"""Values of sharing with a team: the membership, the policy of a project, and what becomes of a memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from threading import Lock
from typing import Final, Literal, get_args

from msgspec import Struct, field

from filrouge.hub.models import SharedKind

Policy = Literal["off", "ask", "rules-and-decisions", "all-memories"]
"""What is shared of a project on its own: nothing; nothing before the user says so; these kinds; all kinds."""
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
SHARED_KINDS: Final = frozenset[str](get_args(SharedKind))
_KINDS: Final[Mapping[Policy, frozenset[str]]] = {
    "off": frozenset(),
    "ask": SHARED_KINDS,
    "rules-and-decisions": frozenset({"rule", "decision"}),
    "all-memories": SHARED_KINDS,
}

SharedState = Literal["candidate", "queued", "shared", "leaving", "withdrawn", "declined", "refused"]
"""`candidate` waits for the user; `queued` for the hub; `shared` is there; `leaving` is to be removed from there, and
`withdrawn` was; `declined`: the user said no; `refused`: it cannot be shared, for a reason."""
ReceivedState = Literal["held", "known", "ended", "forgetting", "forgotten", "confirmed"]
"""`held`: it is a memory of this home; `known`: the user's own memory says the same; `ended`: it no longer holds;
`forgetting`: it is to be erased here; `forgotten`: it was, and the hub does not know yet; `confirmed`: it knows."""


_COLLEAGUE: Final = " (team)"


def channel_of(author: str) -> str:
    """Return the channel of what a colleague shares."""
    return author + _COLLEAGUE


def author_of(channel: str) -> str:
    """Return the colleague whose channel it is; empty if it is nobody's."""
    return channel.removesuffix(_COLLEAGUE) if channel.endswith(_COLLEAGUE) else ""


class Membership(Struct, frozen=True, kw_only=True):
    """The team of this home.

    Attributes:
        url: where the hub answers.
        name: of the team.
        member: the id of the user as a member of it; empty before the hub said so.
        device: the id of this home among the devices of the team.
        is_admin: whether the user is an admin of the team.
        cursor: the hub's last change that was applied.
        entry: the number of the last journal entry whose memories were considered.
    """

    url: str
    name: str
    member: str
    member_name: str
    device: str
    device_name: str
    joined_at: datetime
    is_admin: bool = False
    cursor: str = ""
    entry: int = 0


class ProjectPolicy(Struct, frozen=True, kw_only=True):
    """What is shared of a project.

    Attributes:
        address: the project's normalised remote, by which the team knows it.
        with_evidence: also share the quote that proves a memory.
        cursor: how far the team's earlier memories of it were read; None = all of them.
    """

    project: str
    address: str
    policy: Policy = "off"
    with_evidence: bool = False
    cursor: str | None = None

    def covers(self, kind: str) -> bool:
        """Return whether the policy shares a kind of memory, or asks for it."""
        return kind in _KINDS[self.policy]


class Shared(Struct, frozen=True, kw_only=True):
    """What became of a memory of this home on its way to the hub.

    Attributes:
        version: the last number that was used for it.
        digest: of the content that the hub has; empty if it has none.
        mark: grows with each decision about the memory, so that a decision during a push is not lost.
    """

    memory: str
    state: SharedState
    version: int = 0
    digest: bytes = b""
    mark: int = 0
    reason: str = ""


class Received(Struct, frozen=True, kw_only=True):
    """A colleague's memory.

    Attributes:
        hub_id: its id on the hub.
        memory: its id in this home; empty if it is not stored here.
        author: the id of the member who shared it.
        supersedes: the id on the hub of the memory that it replaces; empty = none.
        left_over: how much of it was found here after it was forgotten.
    """

    hub_id: str
    memory: str
    author: str
    version: int
    state: ReceivedState
    supersedes: str = ""
    left_over: int = 0


class SyncState(Struct, kw_only=True):
    """How the last exchanges with the hub went. Kept in memory only.

    Attributes:
        at: when the last complete exchange ended.
        asked: when the last exchange began, on the monotonic clock.
        problem: why the last one failed; empty if it did not.
        failures: how many failed in a row.
        exchanging: held during an exchange.
    """

    at: datetime | None = None
    asked: float = 0.0
    problem: str = ""
    failures: int = 0
    exchanging: Lock = field(default_factory=Lock)
