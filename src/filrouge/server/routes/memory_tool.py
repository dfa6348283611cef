"""Anthropic's memory tool over HTTP: one command, and the text that the model reads."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from filrouge.memories.files import LONGEST_FILE, run
from filrouge.memories.models import LONGEST_PATH
from filrouge.server.access import elsewhere, parts_of
from filrouge.server.responses import Answer, answers

router = APIRouter(tags=["memory tool"])


class CommandBody(BaseModel):
    """A command as the tool sends it, and the project whose files are meant."""

    model_config = ConfigDict(extra="ignore")

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str | None = Field(None, max_length=LONGEST_PATH)
    view_range: list[int] | None = Field(None, max_length=2)
    file_text: str | None = Field(None, max_length=LONGEST_FILE)
    old_str: str | None = Field(None, max_length=LONGEST_FILE)
    new_str: str | None = Field(None, max_length=LONGEST_FILE)
    insert_line: int | None = None
    insert_text: str | None = Field(None, max_length=LONGEST_FILE)
    old_path: str | None = Field(None, max_length=LONGEST_PATH)
    new_path: str | None = Field(None, max_length=LONGEST_PATH)
    project: list[str] = Field(default_factory=list[str], max_length=20)


class CommandAnswer(Answer):
    """What the model reads."""

    content: str


_EXAMPLE = {"content": "File created successfully at: /memories/progress.md"}


@router.post("/memory/tool", responses=answers(CommandAnswer, example=_EXAMPLE))
async def memory_tool(body: CommandBody, request: Request) -> dict[str, Any]:
    """Carry out one command of the memory tool; what it refuses is an error whose `detail` is for the model."""
    parts = parts_of(request)
    command = body.model_dump(exclude_none=True, exclude={"project"})
    return {"content": await elsewhere(lambda: run(parts, command, names=body.project))}
