"""The vault over HTTP: how it stands. Its notes are found by the routes that search."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from filrouge.app.vault import described
from filrouge.server.access import parts_of, reading
from filrouge.server.answers import Answer, answers

router = APIRouter(tags=["notes"])


class FixedNote(Answer):
    """A note that is always brought."""

    path: str
    found: bool = Field(description="False for one that is not in the vault; it is passed over.")


class NoteTrouble(Answer):
    """What could not be read."""

    path: str
    trouble: str


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


@router.get("/api/memory/notes", responses=answers(NotesAnswer))
async def vault(request: Request) -> dict[str, Any]:
    """How the vault stands."""
    parts = parts_of(request)
    return await reading(request, lambda tx: described(parts, tx))
