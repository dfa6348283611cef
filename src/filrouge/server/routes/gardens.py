"""The garden over HTTP: what a run would do, beginning one, and how far it is."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from filrouge.maintenance import garden_service
from filrouge.maintenance.garden_repository import Gardens
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.responses import Body, answers
from filrouge.server.routes.garden_answers import GardenAnswer, PlannedAnswer, ProgressAnswer
from filrouge.server.validation import GardenId

router = APIRouter(tags=["garden"])


class GardenBody(Body):
    """Whether the plan is only to be shown."""

    dry_run: bool = False


@router.post("/api/memory/gardens", responses=answers(PlannedAnswer) | answers(PlannedAnswer, status=202))
async def begin(request: Request, response: Response, body: GardenBody | None = None) -> dict[str, Any]:
    """Plan a run and begin it, answered at once (202); where there is nothing to do, or for a dry run, the plan (200).
    409 while one is at work."""
    parts = parts_of(request)
    language = await elsewhere(partial(garden_service.language_shown, parts))
    if body is not None and body.dry_run:
        found = await elsewhere(lambda: garden_service.plan(parts))
        return {"garden": None, "plan": found.to_json(language)}
    begun = await elsewhere(lambda: garden_service.begin(parts))
    garden_id = begun.garden_id
    if garden_id is None:
        return {"garden": None, "plan": begun.plan.to_json(language)}
    response.status_code = 202
    garden = await reading(request, lambda tx: garden_service.described(tx, Gardens(tx).get(garden_id)))
    return {"garden": garden, "plan": begun.plan.to_json(language)}


@router.get("/api/memory/gardens", responses=answers(list[GardenAnswer]))
async def gardens(request: Request, limit: Annotated[int, Query(ge=1, le=200)] = 20) -> list[dict[str, Any]]:
    """The latest runs, the newest first."""
    return await reading(request, lambda tx: [garden_service.described(tx, one) for one in Gardens(tx).newest(limit)])


@router.get("/api/memory/gardens/{garden_id}", responses=answers(GardenAnswer))
async def garden(request: Request, garden_id: GardenId) -> dict[str, Any]:
    """One run: how far it is, and what it came to so far."""
    return await reading(request, lambda tx: garden_service.described(tx, Gardens(tx).get(garden_id)))


@router.get("/api/memory/gardens/{garden_id}/progress", responses=answers(ProgressAnswer))
async def progress(request: Request, garden_id: GardenId, after: Annotated[int, Query(ge=0)] = 0) -> dict[str, Any]:
    """The messages of a run behind the first `after`, as they went over the wire, each with its label; `next` is what
    to ask for then."""
    parts = parts_of(request)
    return await reading(request, lambda tx: garden_service.progress(parts, tx, garden_id, after))
