"""Extraction over HTTP: what is said is understood at once, and the answer says what of it was learned (API-1)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from filrouge.core.errors import BadInput
from filrouge.extraction.service import Spoken, extract_now
from filrouge.maintenance import health as verbs
from filrouge.providers.models import Operation
from filrouge.providers.spending import dead_letters, extract_status
from filrouge.search.spaces import describe, reindex
from filrouge.server.auth import needs
from filrouge.server.responses import Answer, Body, answers, elsewhere, parts_of, reading
from filrouge.server.routes.memories import action_json
from filrouge.server.routes.turns import MessageBody

# What the routes about models answer: the space in which meaning is compared, and who understands at what cost.


class CalibrationAnswer(Answer):
    """How the cosines of a space are read: anchors of cosine and similarity."""

    origin: Literal["shipped", "sample", "turns"]
    pairs: int
    texts: list[list[float]]
    questions: list[list[float]]


class SpaceCoverage(Answer):
    """How much of the memory is in a space."""

    done: int
    total: int
    share: float


class WantedAnswer(Answer):
    """What the settings ask for; without a space it cannot be had."""

    embedder: str
    space: str | None


class BuildingAnswer(Answer):
    """A space in building."""

    space: str
    model: str
    embedder: str
    done: int
    total: int
    state: Literal["running", "waiting", "failed"]
    attempts: int
    error: str | None


class EmbeddingAnswer(Answer):
    """The current space, the one in building, and what is wanted."""

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
    """Nothing is understood."""

    enabled: Literal[False]


class BudgetAnswer(Answer):
    """Today's cost, and what it may be."""

    calls: int
    tokens: int
    most_tokens: int
    dollars: float
    most_dollars: float | None
    unpriced_entries: int


class UsageAnswer(Answer):
    """What a model cost on a day, by what it was asked for."""

    day: str
    operation: Operation
    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    estimated: int = Field(description="1 where the provider did not count, and the tokens are estimated.")
    dollars: float | None


class WaitingAnswer(Answer):
    """How many jobs wait for a model, and why; without a reason, for their time."""

    reason: str
    n: int


class ExtractStatusAnswer(Answer):
    """Who understands, whether it answers, and what it cost."""

    enabled: Literal[True]
    provider: str
    model: str
    mode: Literal["light", "normal", "heavy", "max"]
    status: str = Field(description="`healthy`, `unhealthy: why`, or `error: what is wrong with the settings`.")
    today: BudgetAnswer
    usage: list[UsageAnswer]
    behind: int
    waiting: list[WaitingAnswer]
    unreadable_answers: int


class LetterAnswer(Answer):
    """An answer of a model that nobody could read."""

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


# The embedding space over HTTP: what recall reads, how much of the memory is in it, and bringing it to another.

embedding_router = APIRouter(tags=["embedding"])
models_router = APIRouter(tags=["models"])
memory_router = APIRouter(tags=["memory"])


class ReindexBody(Body):
    """What to bring the memory to: an embedder's name, or nothing for the one of the settings."""

    model: str | None = None


@embedding_router.get("/embedding", responses=answers(EmbeddingAnswer))
async def embedding_embedding(request: Request) -> dict[str, Any]:
    """The current space with its calibration and coverage, the space in building, and what the settings want."""
    parts = parts_of(request)
    return await reading(request, lambda tx: describe(parts, tx))


@embedding_router.post("/embedding/reindex", status_code=202, responses=answers(EmbeddingAnswer, status=202))
@needs("admin")
async def embedding_begin(request: Request, body: ReindexBody | None = None) -> dict[str, Any]:
    """Begin to build the space of a model beside the current one; answered at once with how it stands."""
    parts, model = parts_of(request), (body.model if body else None) or None
    return await elsewhere(lambda: reindex(parts, model.strip() if model else None))


# The models over HTTP: who understands, whether it answers, what it cost, and its answers that nobody could read.


@models_router.get("/extract/status", responses=answers(ExtractStatusAnswer | NotEnabled))
async def models_status(request: Request) -> dict[str, Any]:
    """Who understands, whether it answers now, what today cost; only `{"enabled": false}` where nothing is."""
    parts = parts_of(request)
    return await elsewhere(lambda: extract_status(parts))


@models_router.get("/extract/dead-letters", responses=answers(list[LetterAnswer]))
async def models_letters(request: Request) -> list[dict[str, Any]]:
    """Answers of models that could not be read, newest first, with the turns that they were about."""
    return await reading(request, dead_letters)


# What the memory holds and what it costs, in figures, over HTTP.


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


class FiguresAnswer(Answer):
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


@memory_router.get("/api/memory/usage", responses=answers(FiguresAnswer, example=_EXAMPLE))
async def usage_usage(request: Request, days: Annotated[int, Query(ge=1, le=366)] = verbs.DAYS) -> dict[str, Any]:
    """Memories by kind, recalls and the tokens they added by day and project, models and their price, bytes."""
    parts = parts_of(request)
    return await reading(request, lambda tx: verbs.usage(parts, tx, days))


_LONGEST = 1_000_000


class ExtractBody(BaseModel):
    """What was said, and where."""

    messages: str | list[str | MessageBody] = Field(
        description="A text of the program's own, or messages with roles, oldest first. Labels in a text (`User:`)"
        " give nobody's words the user's trust.",
    )
    source: str = Field("", max_length=400, description="`agent/project`: through what, and in which project.")
    context: str = Field("", max_length=2000, description="On what occasion; noted, and nothing more.")

    def spoken(self) -> str | list[Spoken]:
        """The messages.

        Raises:
            BadInput: there are none, or too much of them, or one cannot be used.
        """
        if isinstance(self.messages, str):
            texts, found = [self.messages], self.messages
        else:
            texts = [one if isinstance(one, str) else one.content for one in self.messages]
            found = [one if isinstance(one, str) else one.message(place) for place, one in enumerate(self.messages)]
        if not found or (isinstance(found, str) and not found.strip()):
            raise BadInput("There is nothing to understand: messages is empty.")
        if (size := sum(map(len, texts))) > _LONGEST or len(texts) > 1000:
            raise BadInput(f"There are {len(texts)} messages with {size} characters; at most 1000 with {_LONGEST}.")
        return found


class ActionAnswer(Answer):
    """What a decision came to (`action_json`)."""

    action: str
    id: str
    superseded: list[str]
    reason: str
    review: str


class ExtractedAnswer(Answer):
    """Every decision in order, and how many statements were read, stored, replaced and withdrawn."""

    actions: list[ActionAnswer]
    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int


@models_router.post(
    "/memory/extract",
    responses=answers(
        ExtractedAnswer,
        example={
            "actions": [
                {
                    "action": "add",
                    "id": "01k0000000000000000000000a",
                    "superseded": [],
                    "reason": "nothing like it is known",
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
    """Understand messages now. 501 where extraction is switched off; what this source said before is passed over."""
    parts, spoken = parts_of(request), body.spoken()
    done = await elsewhere(lambda: extract_now(parts, spoken, source=body.source, context=body.context))
    return {"actions": [action_json(action) for action in done.actions], **done.to_json()}


ROUTERS = (embedding_router, models_router, memory_router)
