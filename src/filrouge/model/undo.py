"""What an undo would take back and change, as a value that prints itself before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.model.memory import State


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenBack:
    """One decision that is taken back: its number in the journal, and what it was."""

    entry: int
    at: datetime
    actor: str
    action: str
    memory_id: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What becomes of one memory.

    Attributes:
        disabled: whether it is switched off, before and after.
        waits: it waits for review again.
    """

    memory_id: str
    text: str
    before: State
    after: State
    pinned: tuple[bool, bool]
    disabled: tuple[bool, bool] = (False, False)
    waits: bool = False

    @property
    def what(self) -> str:
        """In two words."""
        if self.before != self.after:
            words = {"live": "live again", "binned": "to the bin", "superseded": "superseded again"}
            return words.get(self.after, "to be reviewed")
        if self.pinned[0] != self.pinned[1]:
            return "pinned" if self.pinned[1] else "not pinned"
        if self.disabled[0] != self.disabled[1]:
            return "switched off" if self.disabled[1] else "switched on"
        return "once less said"


@dataclass(frozen=True, kw_only=True, slots=True)
class UndoPlan:
    """An undo with all that it takes along.

    Attributes:
        decisions: the one that was asked for, last; before it the later ones that stand on it, newest first.
        effects: what becomes of each memory, in the order of their ids.
    """

    decisions: tuple[TakenBack, ...]
    effects: tuple[Effect, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The plan, a line at a time."""
        *later, asked = self.decisions
        yield f"Takes back {_line(asked)}"
        if later:
            yield "and what was decided later on the same memories:"
            yield from (f"  {_line(one)}" for one in later)
        yield "Then:"
        yield from (f"  {one.what}: {one.memory_id} {one.text}" for one in self.effects)

    def to_json(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "entry": self.decisions[-1].entry,
            "decisions": [
                {
                    "entry": one.entry,
                    "at": to_text(one.at),
                    "actor": one.actor,
                    "action": one.action,
                    "memory_id": one.memory_id,
                    "reason": one.reason,
                }
                for one in self.decisions
            ],
            "changes": [
                {"id": one.memory_id, "text": one.text, "what": one.what, "before": one.before, "after": one.after}
                for one in self.effects
            ],
        }


def _line(one: TakenBack) -> str:
    reason = f" ({one.reason})" if one.reason else ""
    return f"entry {one.entry}, {one.action} of {one.memory_id}{reason}"
