"""Topics and timeline over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from filrouge.core.dates import Language
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.server.access import parts_of, reading
from filrouge.server.responses import answers
from filrouge.server.routes.threads_answers import TimelineAnswer, TopicsAnswer
from filrouge.threads.models import Timeframe
from filrouge.threads.topics import (
    get_conversation_timeline,
    language_of,
    list_discussed_topics,
    timeline_json,
    topics_json,
)

router = APIRouter(tags=["topics"])
Agent = Annotated[str | None, Query(description="Only what was said to this agent: its id, or its channel.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/api/memory/topics", responses=answers(TopicsAnswer))
async def topics(
    request: Request,
    timeframe: Timeframe = "week",
    limit: Limit = 50,
    min_mention_count: Annotated[int, Query(ge=1)] = 1,
    agent_id: Agent = None,
    user_id: str = LOCAL_USER,
) -> dict[str, Any]:
    """The topics of a time, latest first; `nothing_known` says outright that there are none."""
    parts = parts_of(request)

    def find(tx: Tx) -> dict[str, Any]:
        found = list_discussed_topics(parts, tx, user_id, timeframe, limit, min_mention_count, agent_id)
        return topics_json(found, timeframe)

    return await reading(request, find)


@router.get("/api/memory/timeline", responses=answers(TimelineAnswer))
async def timeline(
    request: Request,
    limit: Limit = 120,
    agent_id: Agent = None,
    user_id: str = LOCAL_USER,
    language: Language | None = None,
) -> dict[str, Any]:
    """The latest topics by how long ago they were last spoken of, with their text in `language`."""
    parts = parts_of(request)

    def find(tx: Tx) -> dict[str, Any]:
        found = get_conversation_timeline(parts, tx, user_id, limit, agent_id)
        return timeline_json(found, language or language_of(parts, tx))

    return await reading(request, find)
