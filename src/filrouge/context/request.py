"""The moment at which something goes in front of a model, and what a source of it is.

A source is a function from a moment to the pieces that it offers; each fails alone. `Moment` carries what several of
them would otherwise find out again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from filrouge.context.models import Piece
from filrouge.core.clock import Language
from filrouge.core.protocols import Tx
from filrouge.core.settings import Settings
from filrouge.runtime.services import Parts


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Where and when.

    Attributes:
        occasion: a session starts, or a prompt was typed.
        opening: of a start: startup, resume, clear, compact or fork; else empty.
        agent: where agents are isolated, whose memory alone may be shown.
        folder: the names of the folder that the agent works in, as the hook sent them.
        prompt: cleaned; empty at a start.
        notices: what a source could not do (no vectors yet, ...); a source that has less to offer adds a line.
        offered: by the sources that were asked before, for one that goes by what was found.
    """

    occasion: Literal["start", "prompt"]
    host: str
    session: str
    project: str | None
    user: str
    agent: str | None
    prompt: str
    opening: str
    settings: Settings
    language: Language
    now: datetime
    folder: tuple[str, ...] = ()
    notices: list[str] = field(default_factory=list[str])
    offered: list[Piece] = field(default_factory=list[Piece])


Source = Callable[[Parts, Tx, Moment], Sequence[Piece]]
"""Offers pieces, those it would not show included. May raise: it is left out then, with a notice."""
