"""What a check of `filrouge doctor` finds, and what a check is: a name, a look, and for safe ones a way to mend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from filrouge.cli.commands.doctoring.scene import Scene

State = Literal["ok", "note", "warn", "fail"]

MEND: Final = "See what `filrouge repair --dry-run` saves, or put the newest backup there: `filrouge restore latest`."
START: Final = "Run `filrouge daemon start`."
INIT: Final = "Run `filrouge init`, or see docs/guides/connect-an-agent.md."


class Verdict(NamedTuple):
    """How one thing stands: `note` is worth knowing and harmless, `warn` wants something done, `fail` is broken."""

    state: State
    cause: str
    remedy: str = ""


class Finding(NamedTuple):
    """A verdict with the name of its check."""

    check: str
    state: State
    cause: str
    remedy: str = ""

    @property
    def is_trouble(self) -> bool:
        """Whether something is to be done."""
        return self.state in ("warn", "fail")

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return self._asdict()


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One entry of the table.

    Attributes:
        name: what it is about, as people read it.
        look: finds out; it changes nothing.
        mend: does what is safe about it and says what it did, a line for each; None where that is for a person.
    """

    name: str
    look: Callable[[Scene], Verdict]
    mend: Callable[[Scene], list[str]] | None = None


def ok(cause: str) -> Verdict:
    """All is well."""
    return Verdict("ok", cause)


def note(cause: str, remedy: str = "") -> Verdict:
    """Worth knowing."""
    return Verdict("note", cause, remedy)


def warn(cause: str, remedy: str) -> Verdict:
    """Something is to be done."""
    return Verdict("warn", cause, remedy)


def fail(cause: str, remedy: str) -> Verdict:
    """Something does not work."""
    return Verdict("fail", cause, remedy)
