"""Export and import over HTTP: everything that is known, to take along and to bring back."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from filrouge.core.errors import BadInput
from filrouge.server.access import elsewhere, parts_of
from filrouge.server.auth import needs
from filrouge.server.responses import Answer, answers
from filrouge.transfer.service import Format, What, exported, import_any

router = APIRouter(tags=["transfer"])
#: Bytes of one import; a larger export is read in piece by piece, as `filrouge import` does.
LARGEST: Final = 32 * 1024 * 1024
_TYPES: Final = {"json": "application/json", "csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class RowsAnswer(Answer):
    """What became of the rows of a table: new, here already, forgotten here, not to be read."""

    added: int
    present: int
    forgotten: int
    bad: int


class RowsBeside(Answer):
    """What became of the rows that a whole export alone has."""

    threads: RowsAnswer
    links: RowsAnswer
    bridges: RowsAnswer
    sessions: RowsAnswer
    syntheses: RowsAnswer
    readings: RowsAnswer
    days: RowsAnswer


class ProblemOfRow(Answer):
    """What is wrong with a row, and its place in its table."""

    table: str
    place: int
    problem: str


class ImportedAnswer(Answer):
    """What became of an export; `beside`: what a whole one has beside messages and memories."""

    projects: RowsAnswer
    messages: RowsAnswer
    memories: RowsAnswer
    beside: RowsBeside
    threads_passed_over: int
    problems: list[ProblemOfRow]


_NONE = {"added": 0, "present": 0, "forgotten": 0, "bad": 0}


@router.get(
    "/api/memory/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"application/json": {"schema": {"type": "object"}}, "text/csv": {}, "application/x-ndjson": {}}
        }
    },
)
async def export(
    request: Request, form: Annotated[Format, Query(alias="format")] = "json", what: What | None = None
) -> StreamingResponse:
    """Everything that is known, or one table of it, as a stream: messages, memories with their history, threads. No
    settings, keys, logs or vectors; nothing that waits for review. As `jsonl`, a row a line, with all that surrounds
    them: what is in which thread and why, bridges, concepts, analyses, where work stood."""
    parts = parts_of(request)
    headers = {"Content-Disposition": f'attachment; filename="filrouge-{what or "export"}.{form}"'}
    return StreamingResponse(exported(parts, form, what), media_type=_TYPES[form], headers=headers)


@router.post(
    "/api/memory/import",
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}},
    responses=answers(
        ImportedAnswer,
        example={
            "projects": {**_NONE, "present": 1},
            "messages": {**_NONE, "added": 12},
            "memories": {**_NONE, "added": 3},
            "beside": dict.fromkeys(RowsBeside.model_fields, _NONE),
            "threads_passed_over": 1,
            "problems": [],
        },
    ),
)
@needs("admin")
async def import_(request: Request, trusted: bool = False) -> dict[str, Any]:
    """Read a JSON export in, or a piece of a whole one (`form` is `jsonl`, and lists of rows by table); what is here
    already is left as it is. Without `trusted` it is an observation: no rule, no preference, no core fact. With it, the
    caller vouches that it is their own, and it is again what it was."""
    parts = parts_of(request)
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > LARGEST:
            raise BadInput(f"An import has at most {LARGEST} bytes.", remedy="`filrouge import` reads a larger one.")
    try:
        given = await asyncio.to_thread(json.loads, bytes(raw))
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is no JSON.", remedy="`filrouge export` writes what can be read in.") from error
    done = await elsewhere(lambda: import_any(parts, given, trusted=trusted))
    return done.to_json()
