"""A turn: one message of a conversation, verbatim, as read from an event or a transcript.

Turns are the raw truth. Facts are derived from them and cite them by id and character span, so a turn's
text never changes after it is stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from filrouge.model.scope import Scope

Role = Literal["user", "assistant", "tool"]
SourceType = Literal["prompt", "reply", "file_read", "file_write", "task", "fetch", "command", "summary"]

#: Trust follows origin and never rises by being merged: the user's own hand, the user's prompt,
#: the agent's words, and everything that came through a tool or from elsewhere.
TRUST_TYPED, TRUST_PROMPT, TRUST_AGENT, TRUST_TOOL = 3, 2, 1, 0

#: What hosts call their tools; capitals and underlines aside.
_FILE_READS = frozenset({"read", "notebookread", "view", "readfile", "readmanyfiles"})
_FILE_WRITES = frozenset(
    {
        "write", "edit", "multiedit", "notebookedit", "applypatch", "writefile", "replace", "editfiles", "createfile",
        "replacestringinfile", "multireplacestringinfile", "inserteditintofile", "strreplace",
    }
)  # fmt: skip
_TASKS = frozenset({"task", "agent", "runsubagent", "sessionsspawn"})
_FETCHES = frozenset({"webfetch", "websearch", "googlewebsearch", "fetchwebpage", "fetch"})
#: Filrouge's own tools, as an agent names those of an MCP server: what they answer is memory already. Hosts put the
#: server's name in front in many ways; one that leaves it out has an `MCP:` there.
_OWN_TOOL = re.compile(
    r"(?i)(?:mcp_+)?[\w-]*filrouge[\w-]*[_-]memory_[a-z]+|mcp:memory_(?:search|get|add|update|forget|context)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One message. `key` makes it unique within its session, however often it is read."""

    id: str
    key: str
    scope: Scope
    host: str
    role: Role
    source: SourceType
    text: str
    at: datetime
    trust: int
    event_id: str = ""
    skipped: str = ""
    """Why extraction passes this turn over, or empty."""


def source_of_tool(tool: str) -> SourceType:
    """The source type of a tool's result; a tool nobody knows counts as a command."""
    name = tool.replace("_", "").lower()
    if name in _FILE_READS:
        return "file_read"
    if name in _FILE_WRITES:
        return "file_write"
    if name in _TASKS:
        return "task"
    if name in _FETCHES:
        return "fetch"
    return "command"


def is_own_tool(tool: str) -> bool:
    """Whether a tool is one that Filrouge itself offers, so that its results are not captured."""
    return bool(_OWN_TOOL.fullmatch(tool))
