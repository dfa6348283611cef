"""Captured values: turns, transcript records, and imported messages and statements."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from filrouge.core.scope import Scope

# Turns.

Role = Literal["user", "assistant", "tool"]
SourceType = Literal["prompt", "reply", "file_read", "file_write", "task", "fetch", "command", "summary"]

#: Trust follows origin and never rises by merging: typed to Filrouge by the user, the user's prompt, the agent's words,
#: and everything that came through a tool or from elsewhere.
TRUST_TYPED, TRUST_PROMPT, TRUST_AGENT, TRUST_TOOL = 3, 2, 1, 0

#: Names that hosts give their tools, in lower case without underscores.
_FILE_READS = frozenset({"read", "notebookread", "view", "readfile", "readmanyfiles"})
_FILE_WRITES = frozenset(
    {
        "write", "edit", "multiedit", "notebookedit", "applypatch", "writefile", "replace", "editfiles", "createfile",
        "replacestringinfile", "multireplacestringinfile", "inserteditintofile", "strreplace",
    }
)  # fmt: skip
_TASKS = frozenset({"task", "agent", "runsubagent", "sessionsspawn"})
_FETCHES = frozenset({"webfetch", "websearch", "googlewebsearch", "fetchwebpage", "fetch"})
#: Filrouge's own tools, as an agent names the tools of an MCP server; their answers are memory already. Hosts prefix
#: the server's name in many ways; a host that omits it writes `MCP:`.
_OWN_TOOL = re.compile(
    r"(?i)(?:mcp_+)?[\w-]*filrouge[\w-]*[_-]memory_[a-z]+|mcp:memory_(?:search|get|add|update|forget|context|team)"
)


class Turn(Struct, frozen=True, kw_only=True):
    """One message of a conversation, verbatim, from an event or a transcript.

    Memories are derived from turns and cite them by id and character span, so a turn's text never changes after it is
    stored. `key` makes a turn unique within its session, however often it is read.
    """

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
    """Return the source type of a tool's result; an unknown tool counts as a command."""
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
    """Return True for a tool that Filrouge itself offers; its results are not captured."""
    return bool(_OWN_TOOL.fullmatch(tool))


# Transcript records.


class TranscriptRecord(NamedTuple):
    """One message from a host's own transcript, without what the host injected.

    Hooks report messages as they are said. The daemon reads the transcript later and adds what the hooks missed. A
    record has every id by which the same message can be recognised. `hosts.transcripts` makes records.

    Attributes:
        key: the host's id of the record, the same at every reading: a uuid, or a position in the file.
        at: seconds since 1970; 0.0 if the file does not say.
        prompt_key: the key of the prompt this message belongs to, as in the hook's event; empty if unknown.
        call_id: the host's id of the tool call whose result this is; empty for other messages.
        cwd: the directory the agent worked in; empty if the file does not say.
        branch: the git branch that was checked out there; empty if the file does not say.
    """

    key: str
    role: Role
    source: SourceType
    text: str
    at: float
    prompt_key: str
    call_id: str
    cwd: str = ""
    branch: str = ""


# Imported data. Readers of file formats return these values, which are sent as JSON; the daemon stores them.

#: Maximum characters of one imported text; a longer text is a paste or a picture, and is cut.
MAX_IMPORT_CHARACTERS: Final = 1_000_000
#: Maximum messages delivered at once.
IMPORT_BATCH: Final = 500
ImportedKind = Literal["fact", "decision", "preference", "intent", "constraint", "note", "rule"]


class ImportedTurn(NamedTuple):
    """One imported message of a conversation."""

    session: str
    key: str
    """The same at every reading; unique within its session, or everywhere if it is 32 characters or longer."""
    role: Role
    source: SourceType
    text: str
    at: float = 0.0
    """Seconds since 1970; 0.0 if unknown."""
    call_id: str = ""
    """The id of the tool call whose result this is, or empty."""
    project: tuple[str, ...] = ()
    """The names of its project, strongest first."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that is sent."""
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
        """Return the form that is sent."""
        return self._asdict() | {"project": list(self.project)}


class ImportProblem(NamedTuple):
    """A part of a file that could not be read; the rest is imported."""

    place: str
    problem: str


ImportItem = ImportedTurn | ImportedMemory | ImportProblem
