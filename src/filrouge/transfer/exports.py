"""Export formats: one JSON document, CSV tables, and a full export as JSON Lines (https://jsonlines.org).

The JSON document is `{"filrouge_export": 1, "version", "exported_at", "projects", "messages", "memories",
"threads"}`, in that order, because memories cite messages: a reader never meets an id before its row. Rows use the
store's field names. Derived data (vectors, tokens, session summaries, bridges), settings, keys and logs are left out.
A full export has these rows and everything around them. Rows are validated on import; times stay as they are.

Cells that a spreadsheet would take for a formula are prefixed with an apostrophe (CWE-1236). Control characters are
shown in tables and escaped in JSON, so that an export printed to a terminal cannot control it.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, cast

from msgspec import UNSET, MsgspecError, Struct, UnsetType, convert, to_builtins
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from filrouge.capture.models import Role, SourceType, Turn
from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import BadInput
from filrouge.core.scope import Scope, ScopeName
from filrouge.core.text import in_json, visible
from filrouge.extraction.models import Analysis
from filrouge.memories.models import SUMS, Evidence, Kind, Memory, Sentiment, Span, plain_values
from filrouge.threads.models import Action, BridgeBy, BridgeKind, Point, ThreadCandidate, ThreadState, TitleBy

# The JSON document and CSV tables.

VERSION: Final = 1
HEADER_KEY: Final = "filrouge_export"
ExportTable = Literal["projects", "messages", "memories", "threads"]
Rows = Iterable[Mapping[str, Any]]
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_SCOPE_FIELDS: Final = frozenset({"user_id", "project_id", "agent", "channel", "session_id", "branch"})
_DERIVED_FIELDS: Final = frozenset({*_SCOPE_FIELDS, "scope", "evidence"})
_Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z_-]+$")]
_Moment = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), le=datetime(9000, 1, 1, tzinfo=UTC))]
_Name = Annotated[str, Field(max_length=4096)]


class _Row(BaseModel):
    """A row of an export; unknown fields of later versions are ignored."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class ProjectRow(_Row):
    """A project with all its names."""

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
        """The row as a `Turn`."""
        scope = Scope.from_row(vars(self))
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
    """The span of a message that proves a memory."""

    turn_id: _Id
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class BaseMemoryRow(_Row):
    """A memory of any kind with its lifecycle. Memories waiting for review are not exported."""

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
    language: _Name = ""
    evidence: list[EvidenceRow] = Field(default_factory=list[EvidenceRow], max_length=10_000)

    def memory(self) -> Memory:
        """The row as a `Memory`."""
        row = self.model_dump(include=set(BaseMemoryRow.model_fields) - _DERIVED_FIELDS)
        scope = Scope.from_row(vars(self))
        cited = [Evidence(turn_id=span.turn_id, span=Span(start=span.start, end=span.end)) for span in self.evidence]
        return Memory(**row, scope=scope, scope_name=self.scope, evidence=tuple(cited))


class StatementRow(BaseMemoryRow):
    """A memory that is neither a summary nor a concept."""

    @field_validator("kind")
    @classmethod
    def _refuse_sum(cls, kind: Kind) -> Kind:
        if kind in SUMS:
            raise ValueError("summaries and concepts cannot be imported; they are recomputed")
        return kind


def message_row(turn: Turn) -> dict[str, Any]:
    """A turn as a row."""
    return {
        **{name: getattr(turn, name) for name in ("id", "key", "host")},
        **turn.scope.row(),
        **{name: getattr(turn, name) for name in ("role", "source", "text", "trust")},
        "at": to_text(turn.at),
        "skipped": turn.skipped,
    }


def memory_row(memory: Memory) -> dict[str, Any]:
    """A memory as a row."""
    return {
        "scope": memory.scope_name,
        **memory.scope.row(),
        **{name: value for name, value in plain_values(memory).items() if name not in _NOT_EXPORTED},
        "evidence": [
            {"turn_id": evidence.turn_id, "start": evidence.span.start, "end": evidence.span.end}
            for evidence in memory.evidence
        ],
    }


def validate_row(row: object, model: type[BaseModel]) -> Any:
    """A row validated against a model.

    Raises:
        ValueError: names the first invalid field without quoting its content.
    """
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the row'}: {first['msg']}") from None


def document(head: Mapping[str, Any], tables: Mapping[ExportTable, Rows]) -> Iterator[str]:
    """The JSON document, in chunks."""
    yield in_json(json.dumps({HEADER_KEY: VERSION, **head}, ensure_ascii=False))[:-1]
    for name, rows in tables.items():
        yield f', "{name}": ['
        for index, row in enumerate(rows):
            yield ("," if index else "") + "\n" + in_json(json.dumps(row, ensure_ascii=False))
        yield "]"
    yield "}\n"


def spreadsheet(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """A table as CSV (RFC 4180), line by line, with a header line."""
    yield _table_line(columns)
    for row in rows:
        yield _table_line([_cell(row.get(name)) for name in columns])


def _table_line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


def _cell(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else in_json(json.dumps(value, ensure_ascii=False))
    return visible(f"'{value}" if value.lstrip(" ").startswith(_FORMULA) else value)


#: Uses are counted again in the database that imports the memory.
_NOT_EXPORTED: Final = frozenset({"uses", "last_used"})
COLUMNS: Final[Mapping[ExportTable, Sequence[str]]] = {
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


# A full export: JSON Lines, one row per line, so that neither side holds more than one row in memory.
#
# The first line announces the content: `{"filrouge_export": 1, "form": "jsonl", "version", "exported_at", "counts"}`,
# with the counts at the start of the export. Each further line is a row with the name of its table. Rows come after the
# rows they refer to; only a memory may refer to a later one, so such references are repeated as `links`. The last line
# counts the rows written. A file without it was cut off, but everything before the cut is valid.

END_KEY: Final = "filrouge_export_end"
FORM: Final = "jsonl"
FULL_TABLES: Final = (
    "projects", "threads", "messages", "memories", "links", "bridges", "sessions", "syntheses", "readings", "days",
)  # fmt: skip


def json_lines(head: Mapping[str, Any], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """The export, line by line.

    Args:
        head: the fields of the first line.
        rows: pairs of table name and row.
    """
    counts = Counter[str]()
    yield _json_line({**head, "form": FORM})
    for table, row in rows:
        counts[table] += 1
        yield _json_line({"table": table, **row})
    yield _json_line({END_KEY: head[HEADER_KEY], "counts": {name: counts[name] for name in FULL_TABLES}})


class JsonLinesReader:
    """Reads an export line by line and collects its problems.

    Attributes:
        head: the first line.
        problems: line number (from 1) and problem of each bad line; the rows of all other lines are yielded.
        is_complete: True once the last line was read.
    """

    def __init__(self, head: Mapping[str, Any], lines: Iterable[bytes]) -> None:
        self.head = head
        self.problems: list[tuple[int, str]] = []
        self.is_complete = False
        self._lines = lines
        self._counts = Counter[str]()
        self._unreadable = 0
        self._number = 1

    def rows(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Line number, table name and row of each valid line."""
        for number, line in enumerate(self._lines, start=2):
            self._number = number
            if not line.strip():
                continue
            if self.is_complete or (row := self._row(line)) is None:
                self._unreadable += 1
                self.problems.append(
                    (self._number, "data after the end line" if self.is_complete else _line_problem(line))
                )
            elif END_KEY in row:
                self._end(row)
            elif (table := row.pop("table", None)) in FULL_TABLES:
                self._counts[str(table)] += 1
                yield self._number, str(table), row
            # unknown tables of later versions are ignored
        if not self.is_complete:
            what = f"the file was cut off after line {self._number}; the rows before it are complete"
            self.problems.append((self._number, what))

    @staticmethod
    def _row(line: bytes) -> dict[str, Any] | None:
        try:
            found: object = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None

    def _end(self, row: Mapping[str, Any]) -> None:
        self.is_complete = True
        counts: Any = row.get("counts")
        written_counts = cast("dict[str, Any]", counts) if isinstance(counts, dict) else {}
        table_counts = {name: count for name in FULL_TABLES if isinstance(count := written_counts.get(name), int)}
        missing = sum(max(0, count - self._counts[name]) for name, count in table_counts.items()) - self._unreadable
        if missing > 0:
            self.problems.append((self._number, f"{missing} of the rows that were written are missing"))


def parse_header(line: bytes) -> dict[str, Any] | None:
    """The first line of a full export, decoded; None if this is another kind of file."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    head = cast("dict[str, Any]", found)
    return head if HEADER_KEY in head and head.get("form") == FORM else None


def open_export(line: bytes, rest: Iterable[bytes], version: int) -> JsonLinesReader | None:
    """A reader for the full export that begins with this line; None if this is another kind of file.

    Raises:
        BadInput: the export has an unsupported version.
    """
    head = parse_header(line)
    if head is None:
        return None
    if head[HEADER_KEY] != version:
        raise BadInput(f"This export has the version {head[HEADER_KEY]!r}, and {version} can be read.")
    return JsonLinesReader(head, rest)


def _line_problem(line: bytes) -> str:
    return "not a complete row" if line.endswith(b"\n") else "incomplete row: the file ends within this line"


def _json_line(row: Mapping[str, Any]) -> str:
    return in_json(json.dumps(row, ensure_ascii=False)) + "\n"


# Rows of a full export. Times are validated and kept as stored; unknown fields of later versions are ignored.


def _time(text: str) -> str:
    try:
        return to_text(from_text(text))
    except OverflowError as error:
        raise ValueError("not a valid date") from error


def _validated_json(type_: Any) -> AfterValidator:
    """A validator for a JSON value with this shape; it drops other fields and returns the stored form."""

    @cache
    def build_adapter() -> TypeAdapter[Any]:
        return TypeAdapter[Any](type_)

    def validate(value: Any) -> Any:
        adapter = build_adapter()
        stored = adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True)
        json.dumps(stored, allow_nan=False)
        return stored

    return AfterValidator(validate)


def _valid_values(type_: Any) -> AfterValidator:
    """A validator for a JSON value of this `msgspec` type; it drops other fields and returns the stored form."""

    def validate(value: Any) -> Any:
        try:
            stored = to_builtins(convert(value, type_))
        except MsgspecError as error:
            raise ValueError(str(error)) from error
        json.dumps(stored, allow_nan=False)
        return stored

    return AfterValidator(validate)


_Time = Annotated[str, Field(max_length=64), AfterValidator(_time)]


class _FullRow(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, defer_build=True)


class _Drift(_FullRow):
    turn_id: _Id
    at: _Time
    similarity: float
    became: _Id


class _Work(Struct, frozen=True, kw_only=True):
    state: list[Point] | UnsetType = UNSET
    decisions: list[Point] | UnsetType = UNSET
    questions: list[Point] | UnsetType = UNSET
    files: list[str] | UnsetType = UNSET
    error: Point | UnsetType | None = UNSET


class ThreadRow(_FullRow):
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
    drifts: Annotated[list[dict[str, Any]], _validated_json(list[_Drift])]


class PlacedRow(_FullRow):
    """The thread in which a message was placed."""

    thread_id: _Id
    at: _Time
    topics: list[_Name]


class DecisionRow(_FullRow):
    """Why a message was placed in a thread."""

    at: _Time
    action: Action
    thread_id: _Id
    parent_id: _Id | None
    similarity: float
    reason: str
    borderline: bool
    model: _Name
    actor: _Name
    weighed: Annotated[list[dict[str, Any]], _valid_values(list[ThreadCandidate])]


class FullMessageRow(MessageRow):
    """A message with its key in the transcript and its place in a thread."""

    transcript_key: _Name | None = None
    placed: PlacedRow | None = None
    decisions: list[DecisionRow] = Field(default_factory=list[DecisionRow], max_length=10_000)


class MentionRow(_FullRow):
    """A session that mentions a concept."""

    host: _Name
    session_id: _Name
    first_at: _Time
    last_at: _Time


class FullMemoryRow(BaseMemoryRow):
    """A memory of any kind with its counters."""

    first_mention: _Time
    last_used: _Time | None
    uses: int = Field(ge=0, le=1_000_000_000)
    mentions: list[MentionRow] = Field(default_factory=list[MentionRow], max_length=100_000)


class LinkRow(_FullRow):
    """A memory that refers to a later one."""

    id: _Id
    supersedes: _Id | None
    superseded_by: _Id | None


class BridgeRow(_FullRow):
    """A link between two threads; `removed_at` is set if the user removed it."""

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


class SessionRow(_FullRow):
    """The analysis of a session up to the message `until`."""

    host: _Name
    session_id: _Name
    analysis: Annotated[dict[str, Any], _valid_values(Analysis)]
    episode_id: _Id | None
    analysed_at: _Time
    until: _Id | None


class SynthesisRow(_FullRow):
    """Where the work of a session stood at the message `until`."""

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
    content: Annotated[dict[str, Any], _valid_values(_Work)]
    made_by: _Name
    until: _Id | None


class ReadingRow(_FullRow):
    """The message up to which a model has read a session."""

    host: _Name
    session_id: _Name
    at: _Time
    until: _Id | None


class DayRow(_FullRow):
    """A day on which a project was worked on."""

    project_id: _Name
    day: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]


MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "projects": ProjectRow, "threads": ThreadRow, "messages": FullMessageRow, "memories": FullMemoryRow,
    "links": LinkRow, "bridges": BridgeRow, "sessions": SessionRow, "syntheses": SynthesisRow, "readings": ReadingRow,
    "days": DayRow,
}  # fmt: skip
