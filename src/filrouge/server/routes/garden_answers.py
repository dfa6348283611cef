"""What the routes about the garden and about forgetting answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from filrouge.erasure.models import Deed, How
from filrouge.maintenance.consolidation import Phase, Status
from filrouge.maintenance.models import GardenState, Occasion, StepKind
from filrouge.server.responses import Answer


class DoneAnswer(Answer):
    """How many steps are done, of all."""

    done: int
    total: int


class GardenAnswer(Answer):
    """A run of the garden."""

    id: str
    occasion: Occasion
    state: GardenState
    error: str
    started_at: str
    ended_at: str | None
    counts: dict[StepKind, int]
    steps: DoneAnswer
    totals: dict[str, int]


class EstimateAnswer(Answer):
    """How long a run takes: seconds at the least and at the most."""

    seconds: list[float] = Field(min_length=2, max_length=2)
    from_past_runs: bool


class StepAnswer(Answer):
    """One step of a plan, with the ids that it is about."""

    kind: StepKind
    subject: dict[str, Any]
    told: str


class PlanAnswer(Answer):
    """What a run would do."""

    counts: dict[StepKind, int]
    memories_until: int
    left: int
    estimate: EstimateAnswer
    steps: list[StepAnswer]
    text: str
    question: str


class PlannedAnswer(Answer):
    """A plan, and the run that it became; null where none was begun."""

    garden: GardenAnswer | None
    plan: PlanAnswer


class ProgressPayload(Answer):
    """How far a run is."""

    session_id: str
    current: int
    total: int
    phase: Phase
    status: Status
    consolidated_sessions: int | None = None
    new_items: int | None = None


class ProgressMessage(Answer):
    """A message of a run, as it went over the wire, with its label."""

    type: Literal["ws:memory_progress"]
    payload: ProgressPayload
    label: str


class ProgressAnswer(Answer):
    """A run with its messages; `next` is what to ask for then."""

    garden: GardenAnswer
    messages: list[ProgressMessage]
    next: int


class DoomedRow(Answer):
    """A row that forgetting would touch."""

    table: str
    id: str
    deed: Deed
    how: How
    excerpt: str
    relevance: float | None


class CopyAnswer(Answer):
    """A backup that holds some of it, and how many rows of each table."""

    name: str
    rows: dict[str, int]


Counts = dict[str, dict[Deed, int]]


class ForgetPreview(Answer):
    """Everything that forgetting would touch, and the token for exactly that."""

    token: str
    counts: Counts
    rows: list[DoomedRow]
    shared: list[str]
    rebuilt: list[str]
    backups: list[CopyAnswer]
    notices: list[str]
    not_promised: list[str]


class SearchedAnswer(Answer):
    """What was found when everything was looked through once more."""

    left: dict[str, Any]
    repeated: dict[str, Any]
    inside_other_words: list[str] | None = None
    texts_in_rows: int
    texts_in_files: int
    texts: int


class DeedSeconds(Answer):
    """How long each part of it took."""

    rows: float
    files: float
    backups: float
    search: float


class ReceiptAnswer(Answer):
    """What was forgotten, in counts; what is not there yet is being done."""

    receipt: str
    at: str
    actor: str
    counts: Counts
    rebuilt: list[str]
    not_promised: list[str]
    log_emptied: bool | None = None
    ok: bool | None = None
    files: list[str] | None = None
    backups: list[dict[str, Any]] | None = None
    searched: SearchedAnswer | None = None
    seconds: DeedSeconds | None = None
    signature: str


class KeptReceipt(ReceiptAnswer):
    """A receipt, and whether its signature holds."""

    signature_holds: bool
