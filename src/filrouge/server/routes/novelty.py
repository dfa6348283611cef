"""New or known, and every memory there is: what a program asks before it tells."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.maintenance import health
from filrouge.memories import reports
from filrouge.memories.novelty import LONGEST, THRESHOLD, is_novel
from filrouge.search.word_repository import Place, Share
from filrouge.server.access import elsewhere, parts_of, reading
from filrouge.server.auth import needs
from filrouge.server.paging import Cursor, behind, link_next
from filrouge.server.responses import Answer, answers
from filrouge.server.routes.memory import Names, Narrowed
from filrouge.server.routes.memory_answers import MemoryAnswer

router = APIRouter(tags=["memory"])


class NovelBody(BaseModel):
    """A text, and where it would be remembered."""

    text: str = Field(max_length=LONGEST)
    threshold: float = Field(THRESHOLD, ge=0.0, le=1.0)
    project: str | list[str] = Field(default_factory=list[str])
    user_id: str | None = Field(None, max_length=200)


class NearestAnswer(Answer):
    """A memory, and how similar it is: 0 = unrelated, 1 = the same."""

    id: str
    content: str
    similarity: float


class NovelAnswer(Answer):
    """Whether a text is new, and the memory that is nearest to it."""

    novel: bool
    nearest: NearestAnswer | None


@router.post(
    "/memory/novel",
    responses=answers(
        NovelAnswer,
        example={
            "novel": False,
            "nearest": {
                "id": "01k0000000000000000000000a",
                "content": "Production listens on port 8443.",
                "similarity": 0.94,
            },
        },
    ),
)
@needs("read")
async def novel(body: NovelBody, request: Request) -> dict[str, Any]:
    """Does no live memory of the project, or of the user, say this?"""
    parts = parts_of(request)
    names = [body.project] if isinstance(body.project, str) else body.project
    user = body.user_id or LOCAL_USER
    found = await elsewhere(lambda: is_novel(parts, body.text, body.threshold, names=names, user=user))
    near = found.nearest
    nearest = near and {"id": near.id, "content": near.text, "similarity": round(found.similarity, 4)}
    return {"novel": found.novel, "nearest": nearest}


@router.get("/api/memory/memories", responses=answers(list[MemoryAnswer]))
async def memories(
    request: Request,
    response: Response,
    filters: Narrowed,
    project: Names = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """Memories of every kind, rules too, that are believed now or were at `as_of`, newest first; all projects unless
    one is named."""
    parts, skip = parts_of(request), behind(cursor) or 0

    def find(tx: Tx) -> tuple[list[dict[str, Any]], int | None]:
        place = Place(project=health.project_id(tx, project or []), user=LOCAL_USER, everywhere=not project)
        ids = Share(tx, "memory", place, filters).newest_first
        names, now = health.names_of(tx), parts.clock.now()
        found = parts.memories(tx).known(ids[skip : skip + limit])
        rows = [reports.memory_json(one, names, now) for one in found]
        return rows, skip + limit if len(ids) > skip + limit else None

    rows, following = await reading(request, find)
    link_next(request, response, following)
    return rows
