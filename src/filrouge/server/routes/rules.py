"""Rules over HTTP: the standing instructions with their source; add, edit, switch off and on, remove."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from filrouge.core.errors import BadInput
from filrouge.core.scope import ScopeName
from filrouge.memories import service
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.paging import Cursor, PageLimit, paged
from filrouge.server.responses import Body, answers
from filrouge.server.routes.memory import Names, Narrowed, action_json
from filrouge.server.routes.memory_answers import ActionAnswer, RuleAnswer
from filrouge.server.validation import MemoryId

router = APIRouter(tags=["rules"])


class RuleBody(Body):
    """A rule in the user's own words."""

    text: str
    project: list[str] = Field(default_factory=list[str])
    scope: ScopeName = "project"


class ChangeBody(Body):
    """What becomes of a rule: other words, or off and on."""

    text: str | None = None
    enabled: bool | None = None


@router.get("/api/memory/rules", responses=answers(list[RuleAnswer]))
async def all_rules(
    request: Request,
    response: Response,
    filters: Narrowed,
    project: Names = None,
    history: bool = False,
    limit: PageLimit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """The rules, or those that stood at `as_of`, newest first, each with its source and whether it stands, waits or is
    disabled; all projects unless one is named."""
    if history and filters.narrow:
        raise BadInput("`history` shows every state and goes with no filter.", remedy="Use `as_of` for a moment.")
    parts = parts_of(request)
    found = await reading(
        request, lambda tx: service.listed(parts, tx, project or [], history=history, filters=filters)
    )
    return paged(request, response, found, limit=limit, cursor=cursor, by="created_at")


@router.post("/api/memory/rules", status_code=201, responses=answers(RuleAnswer, status=201))
async def add_rule(body: RuleBody, request: Request) -> dict[str, Any]:
    """Add a rule; answers it as it is listed, with what waits because of it."""
    parts = parts_of(request)
    action = await elsewhere(lambda: service.add(parts, body.text, names=body.project, scope=body.scope))
    return await _as_listed(request, action.memory_id)


@router.patch("/api/memory/rules/{rule_id}", responses=answers(RuleAnswer))
async def change_rule(rule_id: MemoryId, body: ChangeBody, request: Request) -> dict[str, Any]:
    """Edit a rule, or switch it off or on; answers it as it is listed then. Edited it has another id."""
    if body.text is None and body.enabled is None:
        raise BadInput("There is nothing to change.", remedy="Give `text`, `enabled`, or both.")
    parts = parts_of(request)

    def change() -> str:
        id_ = rule_id if body.text is None else service.edit(parts, rule_id, body.text)
        if body.enabled is not None:
            service.switch(parts, id_, enabled=body.enabled)
        return id_

    return await _as_listed(request, await elsewhere(change))


@router.delete("/api/memory/rules/{rule_id}", responses=answers(ActionAnswer))
async def remove_rule(rule_id: MemoryId, request: Request) -> dict[str, Any]:
    """Put a rule into the bin."""
    parts = parts_of(request)
    return action_json(await elsewhere(lambda: service.remove(parts, rule_id)))


async def _as_listed(request: Request, rule_id: str) -> dict[str, Any]:
    parts = parts_of(request)
    return await reading(request, lambda tx: service.one_rule(parts, tx, rule_id))
