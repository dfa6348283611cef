"""Whether a text says anything new, over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from filrouge.app.novel import novelty
from filrouge.server.access import elsewhere, parts_of
from filrouge.server.answers import Answer, answers
from filrouge.server.scopes import needs

router = APIRouter(tags=["memory"])


class NovelBody(BaseModel):
    """A text, and how near something must come to mean the same."""

    text: str = Field(max_length=20_000)
    threshold: float = Field(0.88, ge=0.0, le=1.0)
    project: str | list[str] = Field(default_factory=list[str], description="A project's name, id, or several aliases.")
    user_id: str | None = None


class NearAnswer(Answer):
    """The memory that comes nearest."""

    id: str
    content: str
    similarity: float


class NovelAnswer(Answer):
    """Whether the text is new."""

    novel: bool
    nearest: NearAnswer | None


@router.post(
    "/memory/novel",
    responses=answers(
        NovelAnswer,
        example={
            "novel": False,
            "nearest": {
                "id": "01k0000000000000000000000a",
                "content": "Production listens on port 9443.",
                "similarity": 0.97,
            },
        },
    ),
)
@needs("read")
async def is_novel(body: NovelBody, request: Request) -> dict[str, Any]:
    """Say whether no memory means the same as this text, and which comes nearest."""
    parts = parts_of(request)
    names = [body.project] if isinstance(body.project, str) else body.project
    found = await elsewhere(lambda: novelty(parts, body.text, threshold=body.threshold, names=names))
    return found.to_json()
