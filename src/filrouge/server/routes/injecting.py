"""Injection over HTTP: what belongs in front of a prompt or a session's start, and a preview that leaves no trace."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from filrouge.capture.events import Event
from filrouge.capture.programs import place_of
from filrouge.context.service import given_json, log, prepare, preview
from filrouge.core.clock import new_id
from filrouge.runtime.services import Parts
from filrouge.server.access import parts_of, reading, recalling
from filrouge.server.auth import needs
from filrouge.server.responses import Body, answers
from filrouge.server.routes.recall_answers import ContextAnswer, PreviewAnswer

router = APIRouter(tags=["memory"])


class ContextBody(Body):
    """A prompt that is about to be sent to a model."""

    prompt: str
    channel: str = "api"
    session_id: str = ""
    user_id: str | None = Field(None, max_length=200, description="Whose memory is asked; none: this daemon's user.")
    project: str | list[str] = Field(default_factory=list[str], description="A project's name, id, or several aliases.")

    agent_id: str | None = Field(
        None, max_length=200, description="A helper agent that the prompt is for; none for the main one."
    )

    @property
    def names(self) -> list[str]:
        """The names of the project."""
        return [self.project] if isinstance(self.project, str) else self.project


class PreviewBody(ContextBody):
    """A prompt, or a session that starts, and where."""

    prompt: str = ""
    occasion: Literal["prompt", "start"] = "prompt"
    opening: Literal["startup", "resume", "clear", "compact", "fork"] = "startup"
    cwd: str = ""


@router.post("/memory/context", responses=answers(ContextAnswer))
async def context_of(body: ContextBody, request: Request) -> dict[str, Any]:
    """What is put in front of this prompt: the text, and the memories and notes in it."""
    parts = parts_of(request)
    project = await reading(request, lambda tx: place_of(tx, body.names)[1] or "")
    event = _event(parts, body, "prompt", {"text": body.prompt})
    given = await recalling(parts, lambda _: prepare(parts, event, project))
    log(parts, given, delivered=not await request.is_disconnected())
    return given_json(given)


@router.post("/api/memory/context/preview", responses=answers(PreviewAnswer))
@needs("read")
async def preview_of(body: PreviewBody, request: Request) -> dict[str, Any]:
    """What a hook would be given here, with every candidate and why it is in or out; it is not logged."""
    parts = parts_of(request)
    project = await reading(request, lambda tx: place_of(tx, body.names)[1] or "")
    if body.occasion == "start":
        event = _event(parts, body, "session_start", {"source": body.opening}, body.cwd)
    else:
        event = _event(parts, body, "prompt", {"text": body.prompt}, body.cwd)
    return given_json(await recalling(parts, lambda _: preview(parts, event, project)), explained=True)


def _event(
    parts: Parts, body: ContextBody, kind: Literal["session_start", "prompt"], data: dict[str, Any], cwd: str = ""
) -> Event:
    now = parts.clock.now()
    return Event(
        id=new_id(now),
        host=body.channel,
        kind=kind,
        session=body.session_id,
        at=now.timestamp(),
        key="",
        cwd=cwd,
        project=tuple(body.names),
        transcript="",
        agent=body.agent_id or "",
        data=data,
        user=body.user_id or "",
    )
