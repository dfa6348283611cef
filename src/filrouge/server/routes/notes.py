"""The vault over HTTP: how it stands. Its notes are found by the routes that search."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from filrouge.notes.service import described
from filrouge.server.responses import Answer, answers, parts_of, reading

router = APIRouter(tags=["notes"])


class FixedNote(Answer):
    """A note that is always brought."""

    path: str
    found: bool = Field(description="False for one that is not in the vault; it is passed over.")


class NoteTrouble(Answer):
    """What could not be read."""

    path: str
    trouble: str


class PageTrouble(Answer):
    """A line or a page that is left as it stands."""

    path: str
    memory_id: str = Field(description="The memory of the line; empty where it is about a page.")
    trouble: str = Field(description="Why, and what to do about it.")


class WrittenAnswer(Answer):
    """The pages that what is known is written into."""

    folder: str = Field(description="Empty where nothing is written into the vault.")
    problem: str = Field(description="Why nothing can be written.")
    pages: int
    memories: int
    troubles: list[PageTrouble]


class NotesAnswer(Answer):
    """The vault: what is indexed, what is brought into prompts, what could not be read."""

    folder: str = Field(description="Empty where no vault is named.")
    enabled: bool = Field(description="Whether notes are brought into prompts.")
    is_there: bool = Field(description="False while the vault cannot be read; then nothing of it is shown.")
    problem: str = Field(description="Why it cannot be read.")
    looked_at: str | None
    notes: int
    chunks: int
    embedded: int = Field(description="Of the chunks, those that are found by meaning already.")
    waiting: int = Field(description="Notes that are still to be read.")
    tag: str
    tagged: list[str] = Field(description="Notes that the tag brings, the latest first.")
    fixed: list[FixedNote]
    troubles: list[NoteTrouble]
    written: WrittenAnswer


@router.get("/api/memory/notes", responses=answers(NotesAnswer))
async def notes_vault(request: Request) -> dict[str, Any]:
    """How the vault stands."""
    parts = parts_of(request)
    return await reading(request, lambda tx: described(parts, tx))


@router.post("/api/memory/notes/anew", responses=answers(NotesAnswer))
async def notes_anew(request: Request) -> dict[str, Any]:
    """Have pages and lines written again that were removed from the vault; answers how it stands before that."""
    parts = parts_of(request)
    parts.noted.anew.set()
    return await reading(request, lambda tx: described(parts, tx))
