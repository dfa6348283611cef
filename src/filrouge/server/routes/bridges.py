"""Bridges over HTTP: listed, made and removed by hand, and drawn with their threads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from filrouge.core.protocols import Tx
from filrouge.maintenance.health import project_id
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.paging import Cursor, PageLimit, paged
from filrouge.server.responses import Body, answers
from filrouge.server.routes.threads_answers import BridgeAnswer, GraphAnswer
from filrouge.server.validation import BridgeId, ThreadId
from filrouge.threads import bridge_service
from filrouge.threads.bridge_service import graph as graph_found
from filrouge.threads.graph import graph_of, to_dot, to_svg

router = APIRouter(tags=["bridges"])
Names = Annotated[list[str] | None, Query(description="Names of the project; none = all.")]
_TYPES = {"dot": "text/vnd.graphviz", "svg": "image/svg+xml"}
#: A picture that somebody wrote the titles of neither runs nor fetches anything, wherever it is opened.
_HARMLESS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class BridgeBody(Body):
    """Two threads to be tied: an id each, the kind, and the reason if there is one."""

    source: ThreadId
    target: ThreadId
    type: str = "relates_to"
    reason: str = Field("", max_length=200)


@router.get("/api/memory/bridges", responses=answers(list[BridgeAnswer]))
async def bridges(
    request: Request,
    response: Response,
    thread: Annotated[ThreadId | None, Query(description="Only those of this thread: its id.")] = None,
    kind: Annotated[str | None, Query(alias="type", description="Only this: extends, depends_on, ...")] = None,
    project: Names = None,
    limit: PageLimit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """The live bridges, the strongest first."""
    parts = parts_of(request)

    def find(tx: Tx) -> list[dict[str, Any]]:
        place = project_id(tx, project or [])
        return bridge_service.bridges(parts, tx, project=place, everywhere=not project, thread_id=thread, kind=kind)

    return paged(request, response, await reading(request, find), limit=limit, cursor=cursor, by="strength")


@router.post("/api/memory/bridges", status_code=201, responses=answers(BridgeAnswer, status=201))
async def add(body: BridgeBody, request: Request) -> dict[str, Any]:
    """Tie two threads; the bridge."""
    parts = parts_of(request)
    return await elsewhere(
        lambda: bridge_service.add(parts, source=body.source, target=body.target, kind=body.type, reason=body.reason)
    )


@router.delete("/api/memory/bridges/{bridge_id}", responses=answers(BridgeAnswer))
async def remove(bridge_id: BridgeId, request: Request) -> dict[str, Any]:
    """Remove a bridge for good; what it was."""
    parts = parts_of(request)
    return await elsewhere(lambda: bridge_service.remove(parts, bridge_id))


@router.get(
    "/api/memory/graph",
    responses={
        200: {
            "model": GraphAnswer,
            "content": {name: {"schema": {"type": "string"}} for name in _TYPES.values()},
        }
    },
)
async def graph(
    request: Request,
    form: Annotated[Literal["json", "dot", "svg"], Query(alias="format")] = "json",
    project: Names = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Threads, those that were active last.")] = 100,
) -> Response:
    """Threads and bridges: `threads` and `bridges` as JSON, Graphviz' DOT, or a picture."""
    parts = parts_of(request)

    def read(tx: Tx) -> dict[str, Any]:
        place = project_id(tx, project or [])
        return graph_found(parts, tx, project=place, everywhere=not project, limit=limit)

    found = await reading(request, read)
    if form == "json":
        return JSONResponse(found)
    text = await elsewhere(lambda: (to_dot if form == "dot" else to_svg)(graph_of(found)))
    return Response(text, media_type=_TYPES[form], headers=_HARMLESS)
