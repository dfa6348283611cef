"""HTTP routes for export and import.

An export is a stream of everything that is known. An import reads an export, or pages of messages and statements from
other programs; marks record how far each transcript file was read.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from filrouge.capture.models import (
    IMPORT_BATCH,
    MAX_IMPORT_CHARACTERS,
    ImportedKind,
    ImportedMemory,
    ImportedTurn,
    Role,
    SourceType,
)
from filrouge.core.errors import BadInput
from filrouge.server.admission import requires
from filrouge.server.responses import Answer, Body, in_thread, parts_of, read_in_tx, response_model
from filrouge.transfer.service import (
    Contents,
    ExportFormat,
    ImportPage,
    TranscriptMark,
    export,
    import_document,
    import_page,
    marks,
)

# Export and import of Filrouge's own format.

router = APIRouter(tags=["transfer"])
#: Maximum bytes of one import; `filrouge import` sends a larger export in pieces.
MAX_IMPORT_BYTES: Final = 32 * 1024 * 1024
_MEDIA_TYPES: Final = {"json": "application/json", "csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class RowsAnswer(Answer):
    """The number of a table's rows that are new, already present, forgotten here, or unreadable."""

    added: int
    present: int
    forgotten: int
    bad: int


class RowsBeside(Answer):
    """The results for the tables that only a complete export contains."""

    threads: RowsAnswer
    links: RowsAnswer
    bridges: RowsAnswer
    sessions: RowsAnswer
    syntheses: RowsAnswer
    readings: RowsAnswer
    days: RowsAnswer


class ProblemOfRow(Answer):
    """A problem with a row, and the row's position in its table."""

    table: str
    place: int
    problem: str


class ImportedAnswer(Answer):
    """The result of an import; `beside` covers what a complete export contains besides messages and memories."""

    projects: RowsAnswer
    messages: RowsAnswer
    memories: RowsAnswer
    beside: RowsBeside
    threads_passed_over: int
    problems: list[ProblemOfRow]


_NO_ROWS = {"added": 0, "present": 0, "forgotten": 0, "bad": 0}


@router.get(
    "/api/memory/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"application/json": {"schema": {"type": "object"}}, "text/csv": {}, "application/x-ndjson": {}}
        }
    },
)
async def exporting_export(
    request: Request, form: Annotated[ExportFormat, Query(alias="format")] = "json", what: Contents | None = None
) -> StreamingResponse:
    """Export everything that is known, or one table of it, as a stream. It contains messages, memories with their
    history, and threads. It contains no settings, keys, logs or vectors, and nothing that waits for review. The format
    `jsonl` has one row per line and adds the turns of each thread with the reasons, bridges, concepts, analyses and the
    state of work."""
    parts = parts_of(request)
    headers = {"Content-Disposition": f'attachment; filename="filrouge-{what or "export"}.{form}"'}
    return StreamingResponse(export(parts, form, what), media_type=_MEDIA_TYPES[form], headers=headers)


@router.post(
    "/api/memory/import",
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}},
    responses=response_model(
        ImportedAnswer,
        example={
            "projects": {**_NO_ROWS, "present": 1},
            "messages": {**_NO_ROWS, "added": 12},
            "memories": {**_NO_ROWS, "added": 3},
            "beside": dict.fromkeys(RowsBeside.model_fields, _NO_ROWS),
            "threads_passed_over": 1,
            "problems": [],
        },
    ),
)
@requires("admin")
async def exporting_import_(request: Request, trusted: bool = False) -> dict[str, Any]:
    """Import a JSON export, or a piece of a complete one (`form` is `jsonl`, with lists of rows by table). Rows that
    exist already are left unchanged. Without `trusted` the rows count as observations and create no rule, preference or
    core fact. With it, the caller vouches that the export is their own, and everything is restored as it was."""
    parts = parts_of(request)
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > MAX_IMPORT_BYTES:
            raise BadInput(
                f"An import has at most {MAX_IMPORT_BYTES} bytes.", remedy="Import a larger one with `filrouge import`."
            )
    try:
        document = await asyncio.to_thread(json.loads, bytes(raw))
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is not JSON.", remedy="Send what `filrouge export` writes.") from error
    done = await in_thread(lambda: import_document(parts, document, trusted=trusted))
    return done.to_json()


_Name = Annotated[str, Field(max_length=4096)]
_Source = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
_Seconds = Annotated[float, Field(ge=0, le=1e12)]
_MAX_OFFSET: Final = 2**53


class _ImportedBody(Body):
    """The fields that messages and statements share."""

    key: str = Field(min_length=1, max_length=4096)
    text: str = Field(max_length=MAX_IMPORT_CHARACTERS)
    at: _Seconds = 0.0
    project: list[_Name] = Field(default_factory=list[str], max_length=20)


class TurnBody(_ImportedBody):
    """One message. `key` is the same in every import; `at` is in seconds since 1970, 0 if unknown."""

    session: str = Field(min_length=1, max_length=4096)
    role: Role
    source: SourceType
    call_id: _Name = ""

    def to_turn(self) -> ImportedTurn:
        """Return the message as an import value."""
        return ImportedTurn(**self.model_dump(exclude={"project"}), project=tuple(self.project))


class MemoryBody(_ImportedBody):
    """One statement from another program; `place` is its location there."""

    kind: ImportedKind = "fact"
    place: _Name = ""
    subject: _Name = ""

    def to_memory(self) -> ImportedMemory:
        """Return the statement as an import value."""
        return ImportedMemory(**self.model_dump(exclude={"project"}), project=tuple(self.project))


class MarkBody(Body):
    """How far a transcript file has been read after this page."""

    path: str = Field(min_length=1, max_length=4096)
    session: _Name
    offset: int = Field(ge=0, le=_MAX_OFFSET)
    skipped_long: int = Field(default=0, ge=0, le=1_000_000)


class PageBody(Body):
    """A page of an import from the agent or program `source`."""

    source: _Source
    trusted: bool = False
    turns: list[TurnBody] = Field(default_factory=list[TurnBody], max_length=IMPORT_BATCH)
    memories: list[MemoryBody] = Field(default_factory=list[MemoryBody], max_length=IMPORT_BATCH)
    mark: MarkBody | None = None


class CountsAnswer(Answer):
    """The number of messages or statements that are new, newly vouched for, already present, forgotten here, or in a
    project that is switched off."""

    added: int
    vouched: int
    present: int
    forgotten: int
    off: int


class ReadInAnswer(Answer):
    """The result of a page."""

    turns: CountsAnswer
    memories: CountsAnswer


class MarksAnswer(Answer):
    """How far each transcript of an agent has been read, in bytes, by path."""

    source: Literal["claude-code", "codex"]
    offsets: dict[str, int]


@router.post("/api/memory/imports", responses=response_model(ReadInAnswer))
@requires("admin")
async def imports_take(request: Request, body: PageBody) -> dict[str, Any]:
    """Import a page of a history, an export or another program's memories. The answer comes once it is on disk. Rows
    that exist already, also from hooks, are not added again. Without `trusted` they count as observations and create no
    rule, preference or instruction. Extraction runs after all other work."""
    parts = parts_of(request)
    page = ImportPage(
        source=body.source,
        trusted=body.trusted,
        turns=[turn.to_turn() for turn in body.turns],
        memories=[memory.to_memory() for memory in body.memories],
        mark=TranscriptMark(**body.mark.model_dump()) if body.mark else None,
    )
    done = await in_thread(lambda: import_page(parts, page))
    return done.to_json()


@router.get("/api/memory/imports", responses=response_model(MarksAnswer))
@requires("admin")
async def imports_offsets(
    request: Request, source: Annotated[Literal["claude-code", "codex"], Query()] = "claude-code"
) -> dict[str, Any]:
    """Report how far each transcript file of an agent has been read, by hooks or by an import."""
    found = await read_in_tx(request, lambda tx: marks(tx, source))
    return {"source": source, "offsets": found}
