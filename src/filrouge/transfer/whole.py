"""The rows of a whole export: what `exported` has, and everything around it. Times are checked and kept as they are
stored, and what a later version adds is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from filrouge.clock import from_text, to_text
from filrouge.model.analysis import Analysis
from filrouge.model.bridge import BridgeBy, BridgeKind
from filrouge.model.synthesis import Point
from filrouge.model.thread import Action, ThreadState, TitleBy, Weighed
from filrouge.transfer.exported import AnyMemoryRow, MessageRow, ProjectRow


def _time(text: str) -> str:
    try:
        return to_text(from_text(text))
    except OverflowError as error:
        raise ValueError("no moment of the calendar") from error


def _like(shape: Any) -> AfterValidator:
    """A value of JSON that has this shape and no more, as it is stored."""

    @cache
    def built() -> TypeAdapter[Any]:
        return TypeAdapter[Any](shape)

    def checked(value: Any) -> Any:
        adapter = built()
        kept = adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True)
        json.dumps(kept, allow_nan=False)
        return kept

    return AfterValidator(checked)


_Time = Annotated[str, Field(max_length=64), AfterValidator(_time)]
_Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z_-]+$")]
_Name = Annotated[str, Field(max_length=4096)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, defer_build=True)


class _Drift(_Row):
    turn_id: _Id
    at: _Time
    similarity: float
    became: _Id


class _Work(_Row):
    state: list[Point] = []
    decisions: list[Point] = []
    questions: list[Point] = []
    files: list[str] = []
    error: Point | None = None


class ThreadRow(_Row):
    """A thread."""

    id: _Id
    user_id: _Name
    project_id: _Name | None
    agent: _Name
    channel: _Name
    title: _Name
    title_by: TitleBy
    summary: str
    topics: list[_Name]
    state: ThreadState
    origin: _Name
    parent_id: _Id | None
    merged_into: _Id | None
    weight: float = Field(ge=0.0, le=1000.0)
    opened_at: _Time
    last_active: _Time
    suspended_at: _Time | None
    drifts: Annotated[list[dict[str, Any]], _like(list[_Drift])]


class PlacedRow(_Row):
    """In which thread a message is."""

    thread_id: _Id
    at: _Time
    topics: list[_Name]


class DecisionRow(_Row):
    """Why it is there."""

    at: _Time
    action: Action
    thread_id: _Id
    parent_id: _Id | None
    similarity: float
    reason: str
    borderline: bool
    model: _Name
    actor: _Name
    weighed: Annotated[list[dict[str, Any]], _like(list[Weighed])]


class WholeMessageRow(MessageRow):
    """A message, with how its transcript calls it and where it was placed."""

    transcript_key: _Name | None = None
    placed: PlacedRow | None = None
    decisions: list[DecisionRow] = Field(default_factory=list[DecisionRow], max_length=10_000)


class MentionRow(_Row):
    """A session that speaks of a concept."""

    host: _Name
    session_id: _Name
    first_at: _Time
    last_at: _Time


class WholeMemoryRow(AnyMemoryRow):
    """A memory of any kind, with what is counted of it."""

    first_mention: _Time
    last_used: _Time | None
    uses: int = Field(ge=0, le=1_000_000_000)
    mentions: list[MentionRow] = Field(default_factory=list[MentionRow], max_length=100_000)


class LinkRow(_Row):
    """A memory that names a later one."""

    id: _Id
    supersedes: _Id | None
    superseded_by: _Id | None


class BridgeRow(_Row):
    """A tie between two threads; `removed_at` for one that the user does not want."""

    id: _Id
    source_id: _Id
    target_id: _Id
    kind: BridgeKind
    reason: str
    confidence: float = Field(ge=0.5, le=1.0)
    depth: int = Field(ge=0, le=100)
    made_by: BridgeBy
    created_at: _Time
    reinforced_at: _Time
    removed_at: _Time | None


class SessionRow(_Row):
    """What was read in a session, up to the message `until`."""

    host: _Name
    session_id: _Name
    analysis: Annotated[dict[str, Any], _like(Analysis)]
    episode_id: _Id | None
    analysed_at: _Time
    until: _Id | None


class SynthesisRow(_Row):
    """Where the work of a session stood, as of the message `until`."""

    id: _Id
    user_id: _Name
    project_id: _Name | None
    agent: _Name
    channel: _Name
    host: _Name
    session_id: _Name
    thread_id: _Id | None
    occasion: Literal["pre_compact", "post_compact", "session_end", "quiet"]
    at: _Time
    content: Annotated[dict[str, Any], _like(_Work)]
    made_by: _Name
    until: _Id | None


class ReadingRow(_Row):
    """Up to which message a model has read a session."""

    host: _Name
    session_id: _Name
    at: _Time
    until: _Id | None


class DayRow(_Row):
    """A day on which a project was worked on."""

    project_id: _Name
    day: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]


MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "projects": ProjectRow, "threads": ThreadRow, "messages": WholeMessageRow, "memories": WholeMemoryRow,
    "links": LinkRow, "bridges": BridgeRow, "sessions": SessionRow, "syntheses": SynthesisRow, "readings": ReadingRow,
    "days": DayRow,
}  # fmt: skip
