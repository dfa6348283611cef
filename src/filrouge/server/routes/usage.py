"""What the memory holds and what it costs, in figures, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from filrouge.maintenance import health as verbs
from filrouge.server.access import parts_of, reading
from filrouge.server.responses import Answer, answers

router = APIRouter(tags=["memory"])


class RecallDay(Answer):
    """Recalls of one day in one project: `delivered` to an agent, `late` (the agent had gone on before) or `empty`.

    `answered` counts the delivered ones that held memories, and not only notes.
    """

    day: str
    project: str | None
    project_name: str
    recalls: int
    delivered: int
    late: int
    empty: int
    answered: int
    memories: int
    tokens: int


class ProjectCost(Answer):
    """What recall added in a project, and how many different memories of those are still believed."""

    project: str | None
    project_name: str
    recalls: int
    tokens: int
    useful_memories: int
    tokens_per_useful_memory: float | None


class ChannelDay(Answer):
    """Tokens that recall added for one agent on one day; Filrouge counts them, by its own estimate."""

    day: str
    channel: str
    recalls: int
    tokens: int


class ModelDay(Answer):
    """What a model was asked for on one day; `dollars` is null where its price is not known."""

    day: str
    operation: str
    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    estimated: int
    dollars: float | None


class UsageAnswer(Answer):
    """The figures."""

    days: int
    memories: dict[str, int]
    messages: int
    threads: dict[str, int]
    bridges: int
    recalls: list[RecallDay]
    projects: list[ProjectCost]
    recall_tokens: list[ChannelDay]
    models: list[ModelDay]
    dollars: float
    bytes: dict[str, int]


_EXAMPLE: dict[str, Any] = {
    "days": 30,
    "memories": {"decision": 41, "fact": 12, "rule": 3},
    "messages": 1204,
    "threads": {"active": 5, "suspended": 17, "archived": 2},
    "bridges": 31,
    "recalls": [
        {
            "day": "2026-05-02", "project": "origin:forge.example/ana/shop", "project_name": "shop", "recalls": 24,
            "delivered": 9, "late": 1, "empty": 14, "answered": 9, "memories": 14, "tokens": 610,
        }
    ],
    "projects": [
        {
            "project": "origin:forge.example/ana/shop", "project_name": "shop", "recalls": 24, "tokens": 610,
            "useful_memories": 8, "tokens_per_useful_memory": 76.3,
        }
    ],
    "recall_tokens": [{"day": "2026-05-02", "channel": "claude-code", "recalls": 9, "tokens": 610}],
    "models": [
        {
            "day": "2026-05-02", "operation": "extract", "provider": "anthropic", "model": "claude-haiku", "calls": 4,
            "input_tokens": 5200, "output_tokens": 640, "estimated": 0, "dollars": 0.0084,
        }
    ],
    "dollars": 0.0084,
    "bytes": {"database": 8120000, "words": 0, "backups": 2310000},
}  # fmt: skip


@router.get("/api/memory/usage", responses=answers(UsageAnswer, example=_EXAMPLE))
async def usage(request: Request, days: Annotated[int, Query(ge=1, le=366)] = verbs.DAYS) -> dict[str, Any]:
    """Memories by kind, recalls and the tokens they added by day and project, models and their price, bytes."""
    parts = parts_of(request)
    return await reading(request, lambda tx: verbs.usage(parts, tx, days))
