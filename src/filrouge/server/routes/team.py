"""HTTP routes for sharing with a team: join, leave, policies, what is shared, and what waits for the user."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from filrouge.server.admission import requires
from filrouge.server.middleware import MemoryId
from filrouge.server.responses import Answer, Body, in_thread, parts_of, response_model
from filrouge.team import service
from filrouge.team.models import Policy, SharedState

router = APIRouter(tags=["team"])
_PATH = "/api/team"
Ids = Annotated[list[MemoryId], Field(min_length=1, max_length=service.MAX_CHOSEN, description="Ids of memories.")]


class TeamProject(Answer):
    """What is shared of a project."""

    project: str
    name: str
    address: str = Field(description="The normalised remote, by which the team knows the project.")
    policy: Policy
    with_evidence: bool = Field(description="Whether the quotes that prove memories are shared too.")


class TeamAnswer(Answer):
    """The team of this home. Without one, `joined` alone."""

    joined: bool
    team: str = ""
    member: str = Field("", description="The user's name in the team.")
    url: str = Field("", description="Where the hub answers.")
    device: str = ""
    is_admin: bool = Field(False, description="Whether the user is an admin of the team.")
    joined_at: str = ""
    synchronised_at: str | None = Field(None, description="The end of the last complete exchange since the start.")
    problem: str = Field("", description="Why the last exchange failed; empty if it did not.")
    projects: list[TeamProject] = Field(default_factory=list[TeamProject])
    shared: int = Field(0, ge=0, description="Memories that the hub has from here.")
    queued: int = Field(0, ge=0, description="Memories that are to be sent, or removed there.")
    candidates: int = Field(0, ge=0, description="Memories that wait for the user to share them.")
    refused: int = Field(0, ge=0, description="Memories that cannot be shared.")
    received: int = Field(0, ge=0, description="Memories of colleagues in this home.")


class TeamMemory(Answer):
    """A memory on its way to the team."""

    id: str
    state: SharedState
    reason: str
    kind: str
    text: str
    language: str
    project: str


class AcceptedAnswer(Answer):
    """How many rules were accepted for everybody now; the others were before."""

    accepted: int = Field(ge=0)


class LeftAnswer(Answer):
    """The team that this home left, and how many memories of colleagues were erased here."""

    left: str
    erased: int = Field(ge=0)


class JoinTeam(Body):
    """The hub to join, with a member's token."""

    url: str = Field(max_length=500, description="Where the hub answers.")
    token: str = Field(max_length=500, description="The secret of a member's token.")
    device: str = Field("", max_length=100, description="A name for this machine; empty = its host name.")


class PolicyBody(Body):
    """What is shared of a project from now on."""

    project: str | list[str] = Field(description="A project: its id, alias or short name, or several aliases.")
    policy: str = Field(description="off, ask, rules-and-decisions or all-memories.")
    with_evidence: bool | None = Field(
        None, description="Whether the quotes that prove memories are shared too; null = as before."
    )


class Chosen(Body):
    """Memories to share, to take back, or to accept."""

    ids: Ids


_EXAMPLE = {"joined": True, "team": "acme", "member": "Ana", "url": "https://hub.acme.example", "device": "laptop"}


@router.get(_PATH, responses=response_model(TeamAnswer, example=_EXAMPLE))
async def team_status(request: Request) -> dict[str, Any]:
    """Return the team of this home, what is shared, and how the last exchange with the hub went."""
    parts = parts_of(request)
    return await in_thread(lambda: service.status(parts))


@router.post(f"{_PATH}/join", responses=response_model(TeamAnswer))
@requires("admin")
async def team_join(body: JoinTeam, request: Request) -> dict[str, Any]:
    """Join the team that a token belongs to. Nothing is shared before a policy says so."""
    parts = parts_of(request)
    return await in_thread(lambda: service.join(parts, body.url, body.token, device_name=body.device))


@router.post(f"{_PATH}/leave", responses=response_model(LeftAnswer))
@requires("admin")
async def team_leave(request: Request) -> dict[str, Any]:
    """Leave the team: what colleagues shared is erased here; what the user shared stays with the team."""
    parts = parts_of(request)
    return await in_thread(lambda: service.leave(parts))


@router.put(f"{_PATH}/policy", responses=response_model(TeamAnswer))
@requires("admin")
async def team_policy(body: PolicyBody, request: Request) -> dict[str, Any]:
    """Say what is shared of a project: `off`, `ask`, `rules-and-decisions` or `all-memories`."""
    parts = parts_of(request)
    names = [body.project] if isinstance(body.project, str) else body.project
    return await in_thread(lambda: service.set_policy(parts, names, body.policy, with_evidence=body.with_evidence))


@router.get(f"{_PATH}/memories", responses=response_model(list[TeamMemory]))
async def team_memories(
    request: Request,
    state: Annotated[SharedState, Query(description="`candidate`: those that wait for the user.")] = "candidate",
) -> list[dict[str, Any]]:
    """List memories on their way to the team, at most 200, the oldest change first."""
    parts = parts_of(request)
    return await in_thread(lambda: service.listed(parts, state))


@router.post(f"{_PATH}/share", responses=response_model(list[TeamMemory]))
@requires("admin")
async def team_share(body: Chosen, request: Request) -> list[dict[str, Any]]:
    """Share memories, whatever the policy of their project says."""
    parts = parts_of(request)
    return await in_thread(lambda: service.share(parts, body.ids))


@router.post(f"{_PATH}/unshare", responses=response_model(list[TeamMemory]))
@requires("admin")
async def team_unshare(body: Chosen, request: Request) -> list[dict[str, Any]]:
    """Take memories back for good, or decline those that wait: colleagues lose them, and they stay here."""
    parts = parts_of(request)
    return await in_thread(lambda: service.unshare(parts, body.ids))


@router.post(f"{_PATH}/accept", responses=response_model(AcceptedAnswer))
@requires("admin")
async def team_accept(body: Chosen, request: Request) -> dict[str, int]:
    """Accept rules for everybody in the team, as an admin of it: their agents are told without asking them."""
    parts = parts_of(request)
    return {"accepted": await in_thread(lambda: service.accept(parts, body.ids))}


@router.post(f"{_PATH}/synchronise", responses=response_model(TeamAnswer))
async def team_synchronise(request: Request) -> dict[str, Any]:
    """Exchange memories with the hub now, and return the status."""
    parts = parts_of(request)

    def work() -> dict[str, Any]:
        service.synchronise(parts)
        return service.status(parts)

    return await in_thread(work)
