"""What is read in from elsewhere: a message or a statement, as the reader of its format tells it.

Readers turn a file into these and know nothing of the store; the daemon takes them in and knows nothing of formats.
They are plain values that travel as JSON.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from filrouge.model.turn import Role, SourceType

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
