"""A transcript record: one message as a host's own file tells it.

Hooks give the words as they are said; the transcript is read later and fills what the hooks missed. Both
tell of the same message, so a record carries every name by which it can be recognised. Records are plain
values without any I/O; `hosts.transcripts` makes them.
"""

from __future__ import annotations

from typing import NamedTuple

from filrouge.model.turn import Role, SourceType


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
