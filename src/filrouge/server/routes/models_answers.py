"""What the routes about models answer: the space in which meaning is compared, and who understands at what cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from filrouge.providers.models import Operation
from filrouge.server.responses import Answer


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
