"""HTTP routes for the embedding space, language models, usage, and immediate extraction (API-1)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from filrouge.core.errors import BadInput
from filrouge.extraction.service import TextOrMessage, extract_now
from filrouge.maintenance import health
from filrouge.providers.models import Operation
from filrouge.providers.spending import dead_letters, extract_status
from filrouge.search.spaces import describe, reindex
from filrouge.server.admission import requires
from filrouge.server.responses import Answer, Body, in_thread, parts_of, read_in_tx, response_model
from filrouge.server.routes.memories import ActionAnswer, action_json
from filrouge.server.routes.turns import MessageBody

# Response models of the embedding space and the language models.


class CalibrationAnswer(Answer):
    """How cosines of a space map to similarities: pairs of cosine and similarity."""

    origin: Literal["shipped", "sample", "turns"]
    pairs: int
    texts: list[list[float]]
    questions: list[list[float]]


class SpaceCoverage(Answer):
    """How much of the memory has vectors in a space."""

    done: int
    total: int
    share: float


class WantedAnswer(Answer):
    """The space that the settings require; `space` is null if it is not available."""

    embedder: str
    space: str | None


class BuildingAnswer(Answer):
    """A space that is being built."""

    space: str
    model: str
    embedder: str
    done: int
    total: int
    state: Literal["running", "waiting", "failed"]
    attempts: int
    error: str | None


class EmbeddingAnswer(Answer):
    """The current embedding space, the one being built, and the one that the settings require."""

    space: str
    model: str
    embedder: str
    available: bool
    calibration: CalibrationAnswer | None
    coverage: SpaceCoverage
    wanted: WantedAnswer
    building: BuildingAnswer | None
    notice: str


class NotEnabled(Answer):
    """Extraction is switched off."""

    enabled: Literal[False]


class BudgetAnswer(Answer):
    """Today's cost and its limits."""

    calls: int
    tokens: int
    most_tokens: int
    dollars: float
    most_dollars: float | None
    unpriced_entries: int


class ModelDay(Answer):
    """The use of a model on one day, by operation; `dollars` is null if its price is unknown."""

    day: str
    operation: Operation
    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    estimated: int = Field(description="1 if the tokens are estimated, because the provider did not count them.")
    dollars: float | None


class WaitingAnswer(Answer):
    """The number of jobs that wait for a model, and why; without a reason, they wait for their scheduled time."""

    reason: str
    n: int


class ExtractStatusAnswer(Answer):
    """The extraction model, whether it responds, and its cost."""

    enabled: Literal[True]
    provider: str
    model: str
    mode: Literal["light", "normal", "heavy", "max"]
    status: str = Field(description="`healthy`, `unhealthy: why`, or `error: what is wrong with the settings`.")
    today: BudgetAnswer
    usage: list[ModelDay]
    behind: int
    waiting: list[WaitingAnswer]
    unreadable_answers: int


class LetterAnswer(Answer):
    """A model's answer that could not be parsed."""

    id: str
    tenant: str
    at: str
    host: str
    session_id: str
    operation: str
    prompt_version: str
    reason: str
    turns: str
    answer: str


# The embedding space: describe it, and build another.

embedding_router = APIRouter(tags=["embedding"])
models_router = APIRouter(tags=["models"])
memory_router = APIRouter(tags=["memory"])


class ReindexBody(Body):
    """The embedder to build a space for; without a name, the one of the settings."""

    model: str | None = None


@embedding_router.get("/embedding", responses=response_model(EmbeddingAnswer))
async def embedding_embedding(request: Request) -> dict[str, Any]:
    """Return the embedding spaces. These are the current one with calibration and coverage, the one being built, and
    the one that the settings require."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: describe(parts, tx))


@embedding_router.post("/embedding/reindex", status_code=202, responses=response_model(EmbeddingAnswer, status=202))
@requires("admin")
async def embedding_begin(request: Request, body: ReindexBody | None = None) -> dict[str, Any]:
    """Start building the space of a model beside the current one. The answer comes at once with the progress."""
    parts, model = parts_of(request), (body.model if body else None) or None
    return await in_thread(lambda: reindex(parts, model.strip() if model else None))


# The language models: status, cost, and unreadable answers.


@models_router.get("/extract/status", responses=response_model(ExtractStatusAnswer | NotEnabled))
async def models_status(request: Request) -> dict[str, Any]:
    """Return the extraction model, whether it responds, and today's cost. `{"enabled": false}` if it is switched
    off."""
    parts = parts_of(request)
    return await in_thread(lambda: extract_status(parts))


@models_router.get("/extract/dead-letters", responses=response_model(list[LetterAnswer]))
async def models_letters(request: Request) -> list[dict[str, Any]]:
    """List model answers that could not be parsed, newest first, with their turns."""
    return await read_in_tx(request, dead_letters)


# Usage figures.


class RecallDay(Answer):
    """Recalls of one day in one project: `delivered` to an agent, `late` (the agent had already continued) or `empty`.

    `answered` counts the delivered recalls that contained memories, not only notes.
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
    """What recall added in a project, and how many distinct memories of those are still current."""

    project: str | None
    project_name: str
    recalls: int
    tokens: int
    useful_memories: int
    tokens_per_useful_memory: float | None


class ChannelDay(Answer):
    """Tokens that recall added for one agent on one day; Filrouge estimates the count itself."""

    day: str
    channel: str
    recalls: int
    tokens: int


class FiguresAnswer(Answer):
    """All figures."""

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


@memory_router.get("/api/memory/usage", responses=response_model(FiguresAnswer, example=_EXAMPLE))
async def usage_usage(request: Request, days: Annotated[int, Query(ge=1, le=366)] = health.DAYS) -> dict[str, Any]:
    """Return usage figures. They cover memories by kind, recalls and their tokens by day and project, model costs and
    disk usage."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: health.usage(parts, tx, days))


class ActivityDay(Answer):
    """What happened on one day, in this machine's time zone."""

    day: str
    prompts: int = Field(ge=0, description="Prompts that were captured.")
    memories: int = Field(ge=0, description="Memories that were learned, whatever became of them later.")
    recalls: int = Field(ge=0)
    delivered: int = Field(ge=0, description="Recalls that gave an agent something.")
    late: int = Field(ge=0, description="Recalls that found something after the agent had already continued.")
    empty: int = Field(ge=0, description="Recalls that found nothing worth adding.")
    tokens: int = Field(ge=0, description="Tokens that the delivered recalls added to prompts.")


@memory_router.get("/api/memory/activity", responses=response_model(list[ActivityDay]))
async def usage_activity(request: Request, days: Annotated[int, Query(ge=1, le=366)] = 366) -> list[dict[str, Any]]:
    """Return what was captured, learned and recalled on each of the last days, oldest first, today included."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: health.activity(parts.clock, tx, days))


_MAX_CHARS = 1_000_000


class ExtractBody(BaseModel):
    """What was said, and its source."""

    messages: str | list[str | MessageBody] = Field(
        description="A text of the program's own, or messages with roles, oldest first. Labels in a text (`User:`)"
        " give nobody's words the user's trust.",
    )
    source: str = Field("", max_length=400, description="`agent/project`: the agent, and the project it is about.")
    context: str = Field(
        "", max_length=2000, description="The occasion; it is recorded, and nothing is extracted from it."
    )

    def to_messages(self) -> str | list[TextOrMessage]:
        """Return the messages.

        Raises:
            BadInput: there are no messages, there are too many, or one is invalid.
        """
        if isinstance(self.messages, str):
            texts, found = [self.messages], self.messages
        else:
            texts = [item if isinstance(item, str) else item.content for item in self.messages]
            found = [
                item if isinstance(item, str) else item.to_message(index) for index, item in enumerate(self.messages)
            ]
        if not found or (isinstance(found, str) and not found.strip()):
            raise BadInput("There is nothing to extract: messages is empty.")
        if (size := sum(map(len, texts))) > _MAX_CHARS or len(texts) > 1000:
            raise BadInput(f"There are {len(texts)} messages with {size} characters; at most 1000 with {_MAX_CHARS}.")
        return found


class ExtractedAnswer(Answer):
    """Every decision in order, and the number of statements that were read, stored, replaced and withdrawn."""

    actions: list[ActionAnswer]
    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int


@models_router.post(
    "/memory/extract",
    responses=response_model(
        ExtractedAnswer,
        example={
            "actions": [
                {
                    "action": "add",
                    "id": "01k0000000000000000000000a",
                    "superseded": [],
                    "reason": "no similar memory",
                    "review": "",
                }
            ],
            "extracted_count": 1,
            "stored_count": 1,
            "updated_count": 0,
            "deleted_count": 0,
        },
    ),
)
async def extracting_extract(body: ExtractBody, request: Request) -> dict[str, Any]:
    """Extract memories from messages now. 501 if extraction is switched off. Messages that this source sent before are
    skipped."""
    parts, messages = parts_of(request), body.to_messages()
    done = await in_thread(lambda: extract_now(parts, messages, source=body.source, context=body.context))
    return {"actions": [action_json(action) for action in done.actions], **done.to_json()}


ROUTERS = (embedding_router, models_router, memory_router)
