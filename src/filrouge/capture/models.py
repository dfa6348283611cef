"""What was captured: turns of a conversation, records of a host's transcript, and messages read in from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from filrouge.core.scope import Scope

# A turn: one message of a conversation, verbatim, as read from an event or a transcript.
#
# Turns are the raw truth. Facts are derived from them and cite them by id and character span, so a turn's text never
# changes after it is stored.

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


# A transcript record: one message as a host's own file tells it.
#
# Hooks give the words as they are said; the transcript is read later and fills what the hooks missed. Both tell of
# the same message, so a record carries every name by which it can be recognised. Records are plain values without any
# I/O; `hosts.transcripts` makes them.


class TranscriptRecord(NamedTuple):
    """One message of a transcript, already freed of what the host injected."""

    key: str
    """The host's own id of the record, the same at every reading: a uuid, or a place in the file."""
    role: Role
    source: SourceType
    text: str
    at: float
    """Seconds since 1970; 0.0 where the file does not tell."""
    prompt_key: str
    """The key of the prompt this message belongs to, as the hook's event names it, or empty."""
    call_id: str
    """The host's id of the tool call whose result this is, or empty."""
    cwd: str = ""
    """The directory the agent worked in, where the file tells."""
    branch: str = ""
    """The git branch that was checked out there, where the file tells."""


# What is read in from elsewhere: a message or a statement, as the reader of its format tells it.
#
# Readers turn a file into these and know nothing of the store; the daemon takes them in and knows nothing of formats.
# They are plain values that travel as JSON.

#: Characters of one text that are read in; what is longer is a paste or a picture, and is cut.
LONGEST: Final = 1_000_000
#: Messages that are handed over at once.
TOGETHER: Final = 500
ImportedKind = Literal["fact", "decision", "preference", "intent", "constraint", "note", "rule"]


class ImportedTurn(NamedTuple):
    """One message of a conversation."""

    session: str
    key: str
    """The same at every reading; unique within its session, or everywhere if it is 32 characters or longer."""
    role: Role
    source: SourceType
    text: str
    at: float = 0.0
    """Seconds since 1970; 0.0 where nobody knows."""
    call_id: str = ""
    """The id of the tool call whose result this is, or empty."""
    project: tuple[str, ...] = ()
    """The names of its project, strongest first."""

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        return self._asdict() | {"project": list(self.project)}


class ImportedMemory(NamedTuple):
    """One statement that another program kept."""

    key: str
    """The same at every reading, unique among what its format holds."""
    text: str
    kind: ImportedKind = "fact"
    at: float = 0.0
    place: str = ""
    """Where it stands: a file with its line, or the id of a row."""
    subject: str = ""
    project: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        return self._asdict() | {"project": list(self.project)}


class Trouble(NamedTuple):
    """Something of a file that could not be read; the rest goes on."""

    place: str
    problem: str


Item = ImportedTurn | ImportedMemory | Trouble
