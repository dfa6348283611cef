"""Our own export as a format: one JSON document that can be read in again, or a table for a spreadsheet.

The document is `{"filrouge_export": 1, "version", "exported_at", "projects", "messages", "memories", "threads"}`, in
that order, because a memory cites messages: who reads it from the top never meets an id that is still to come. A row
has the names of the store. What is derived (vectors, words, summaries of sessions, bridges) is not in it, nor is
anything of settings, keys and logs.

In a table, a cell that a spreadsheet would take for a formula is led by an apostrophe (CWE-1236), and control
characters are shown. In JSON they are escapes, so that a document printed to a terminal does not drive it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from filrouge.clock import to_text
from filrouge.control_characters import in_json, visible
from filrouge.model.memory import SUMS, Evidence, Kind, Memory, Sentiment, Span
from filrouge.model.scope import Scope, ScopeName
from filrouge.model.turn import Role, SourceType, Turn

VERSION: Final = 1
MARK: Final = "filrouge_export"
Table = Literal["projects", "messages", "memories", "threads"]
TABLES: Final[tuple[Table, ...]] = ("projects", "messages", "memories", "threads")
Rows = Iterable[Mapping[str, Any]]
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_PLACED: Final = frozenset({"user_id", "project_id", "agent", "channel", "session_id", "branch"})
_NOT_OF_A_MEMORY: Final = frozenset({*_PLACED, "scope", "evidence"})
_Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z_-]+$")]
_Moment = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), le=datetime(9000, 1, 1, tzinfo=UTC))]
_Name = Annotated[str, Field(max_length=4096)]


class _Row(BaseModel):
    """A row of an export; what a later version adds is passed over."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class ProjectRow(_Row):
    """A project with every name that it is known by."""

    id: Annotated[str, Field(min_length=1, max_length=4096)]
    name: _Name
    aliases: list[_Name] = Field(default_factory=list[str], max_length=1000)


class MessageRow(_Row):
    """A turn."""

    id: _Id
    key: _Name
    host: _Name
    session_id: _Name
    user_id: _Name
    project_id: _Name | None
    agent: _Name
    channel: _Name
    role: Role
    source: SourceType
    text: str
    trust: int = Field(ge=0, le=3)
    at: _Moment
    skipped: _Name
    branch: _Name = ""

    def turn(self) -> Turn:
        """The value it stands for."""
        scope = _scope_of(self)
        return Turn(
            id=self.id,
            key=self.key,
            scope=scope,
            host=self.host,
            role=self.role,
            source=self.source,
            text=self.text,
            at=self.at,
            trust=self.trust,
            skipped=self.skipped,
        )


class EvidenceRow(_Row):
    """The words of a message that prove a memory."""

    turn_id: _Id
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class AnyMemoryRow(_Row):
    """A memory of any kind with its life; what waits for review is not exported."""

    id: _Id
    user_id: _Name
    scope: ScopeName
    project_id: _Name | None
    agent: _Name
    channel: _Name
    session_id: _Name
    kind: Kind
    text: str = Field(min_length=1)
    subject: _Name
    key: _Name | None
    value: str | None
    confidence: float = Field(ge=0.0, le=1.0)
    sentiment: Sentiment
    timeframe: _Name
    trust: int = Field(ge=0, le=3)
    state: Literal["live", "superseded", "binned"]
    created_at: _Moment
    valid_from: _Moment
    valid_to: _Moment | None
    supersedes: _Id | None
    superseded_by: _Id | None
    previous_text: str | None
    pinned: bool
    disabled: bool
    mention_count: int = Field(ge=1, le=1_000_000)
    last_mention: _Moment | None
    made_by: _Name
    prompt_version: _Name
    branch: _Name = ""
    evidence: list[EvidenceRow] = Field(default_factory=list[EvidenceRow], max_length=10_000)

    def memory(self) -> Memory:
        """The value it stands for."""
        row = self.model_dump(include=set(AnyMemoryRow.model_fields) - _NOT_OF_A_MEMORY)
        scope = _scope_of(self)
        cited = [Evidence(turn_id=one.turn_id, span=Span(start=one.start, end=one.end)) for one in self.evidence]
        return Memory(**row, scope=scope, scope_name=self.scope, evidence=tuple(cited))


class MemoryRow(AnyMemoryRow):
    """A memory that is no summary and no concept."""

    @field_validator("kind")
    @classmethod
    def _no_sum(cls, kind: Kind) -> Kind:
        if kind in SUMS:
            raise ValueError("summaries and concepts are made anew")
        return kind


def _scope_of(row: MessageRow | AnyMemoryRow) -> Scope:
    return Scope(
        user=row.user_id,
        project=row.project_id,
        agent=row.agent,
        channel=row.channel,
        session=row.session_id,
        branch=row.branch,
    )


def message_row(turn: Turn) -> dict[str, Any]:
    """A turn as a row."""
    return {
        "id": turn.id,
        "key": turn.key,
        "host": turn.host,
        **_scope(turn.scope),
        "role": turn.role,
        "source": turn.source,
        "text": turn.text,
        "trust": turn.trust,
        "at": to_text(turn.at),
        "skipped": turn.skipped,
    }


def memory_row(memory: Memory) -> dict[str, Any]:
    """A memory as a row."""
    return {
        "id": memory.id,
        "scope": memory.scope_name,
        **_scope(memory.scope),
        **{name: getattr(memory, name) for name in _PLAIN},
        **{name: _when(getattr(memory, name)) for name in _MOMENTS},
        "evidence": [{"turn_id": one.turn_id, "start": one.span.start, "end": one.span.end} for one in memory.evidence],
    }


def parsed(row: object, model: type[BaseModel]) -> Any:
    """A row as the value that it must be.

    Raises:
        ValueError: naming the first field that does not fit; its content is not repeated.
    """
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the row'}: {first['msg']}") from None


def document(head: Mapping[str, Any], tables: Mapping[Table, Rows]) -> Iterator[str]:
    """The JSON document, piece by piece."""
    yield in_json(json.dumps({MARK: VERSION, **head}, ensure_ascii=False))[:-1]
    for name, rows in tables.items():
        yield f', "{name}": ['
        for place, row in enumerate(rows):
            yield ("," if place else "") + "\n" + in_json(json.dumps(row, ensure_ascii=False))
        yield "]"
    yield "}\n"


def spreadsheet(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """A table in CSV (RFC 4180), line by line, with the names of its columns first."""
    yield _line(columns)
    for row in rows:
        yield _line([_cell(row.get(name)) for name in columns])


def _line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()


def _cell(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else in_json(json.dumps(value, ensure_ascii=False))
    return visible(f"'{value}" if value.lstrip(" ").startswith(_FORMULA) else value)


def _scope(scope: Scope) -> dict[str, Any]:
    return {
        "user_id": scope.user,
        "project_id": scope.project,
        "agent": scope.agent,
        "channel": scope.channel,
        "session_id": scope.session,
        "branch": scope.branch,
    }


def _when(at: datetime | None) -> str | None:
    return to_text(at) if at else None


_PLAIN: Final = (
    "kind", "text", "subject", "key", "value", "confidence", "sentiment", "timeframe", "trust", "state", "supersedes",
    "superseded_by", "previous_text", "pinned", "disabled", "mention_count", "made_by", "prompt_version",
)  # fmt: skip
_MOMENTS: Final = ("created_at", "valid_from", "valid_to", "last_mention")
COLUMNS: Final[Mapping[Table, Sequence[str]]] = {
    "projects": ("id", "name", "aliases"),
    "messages": (
        "id", "at", "channel", "session_id", "user_id", "project_id", "agent", "role", "source", "text", "trust",
        "branch",
    ),
    "memories": (
        "id", "kind", "text", "key", "value", "state", "scope", "user_id", "project_id", "agent", "channel",
        "session_id", "subject", "confidence", "trust", "created_at", "valid_from", "valid_to", "supersedes",
        "superseded_by", "pinned", "disabled", "mention_count", "branch",
    ),
    "threads": (
        "id", "title", "state", "summary", "topics", "user_id", "project_id", "channel", "weight", "opened_at",
        "last_active",
    ),
}  # fmt: skip
