"""HTTP routes for the vault, the user's folder of notes; the search routes search it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from filrouge.notes.service import preview_note, vault_status
from filrouge.server.responses import Answer, parts_of, read_in_tx, response_model

router = APIRouter(tags=["notes"])


class FixedNote(Answer):
    """A note that is always included."""

    path: str
    found: bool = Field(description="False if it is not in the vault; then it is skipped.")


class NoteTrouble(Answer):
    """A note that could not be read."""

    path: str
    trouble: str


class PageTrouble(Answer):
    """A line or page that was left unchanged."""

    path: str
    memory_id: str = Field(description="The memory of the line; empty if the problem concerns a page.")
    trouble: str = Field(description="Why, and what to do about it.")


class WrittenAnswer(Answer):
    """The pages that Filrouge writes memories into."""

    folder: str = Field(description="Empty if nothing is written into the vault.")
    problem: str = Field(description="Why nothing can be written.")
    pages: int
    memories: int
    troubles: list[PageTrouble]


class NotesAnswer(Answer):
    """The vault: what is indexed, what is included in prompts, and what could not be read."""

    folder: str = Field(description="Empty if no vault is configured.")
    enabled: bool = Field(description="Whether notes are included in prompts.")
    is_there: bool = Field(description="False while the vault cannot be read; then no note is shown.")
    problem: str = Field(description="Why it cannot be read.")
    looked_at: str | None
    notes: int
    chunks: int
    embedded: int = Field(description="The chunks that already have vectors.")
    waiting: int = Field(description="Notes that are not indexed yet.")
    tag: str
    tagged: list[str] = Field(description="Notes that have the tag, latest first.")
    fixed: list[FixedNote]
    troubles: list[NoteTrouble]
    written: WrittenAnswer


class NoteChunk(Answer):
    """A part of a note, with the headings above it."""

    part: int = Field(ge=0)
    heading: str
    text: str


class NotePreviewAnswer(Answer):
    """A note as it is indexed: without secrets, and without what was forgotten."""

    path: str
    title: str
    changed_at: str
    tags: list[str]
    chunks: list[NoteChunk] = Field(description="Its first 200 parts.")


@router.get("/api/memory/notes", responses=response_model(NotesAnswer))
async def notes_vault(request: Request) -> dict[str, Any]:
    """Return the state of the vault."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: vault_status(parts, tx))


@router.post("/api/memory/notes/anew", responses=response_model(NotesAnswer))
async def notes_anew(request: Request) -> dict[str, Any]:
    """Write pages and lines again that were removed from the vault. The answer is the vault's state before that."""
    parts = parts_of(request)
    parts.vault.anew.set()
    return await read_in_tx(request, lambda tx: vault_status(parts, tx))


@router.get("/api/memory/notes/preview", responses=response_model(NotePreviewAnswer))
async def notes_preview(
    request: Request, path: Annotated[str, Query(max_length=4096, description="Within the vault, as it is listed.")]
) -> dict[str, Any]:
    """Return what is read of one note: its tags, and its parts as searches find them. 404 for a path that is not in
    the index; no file is opened."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: preview_note(parts, tx, path))
