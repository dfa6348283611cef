"""The context request: the occasion on which a block is built, and the type of a source.

A source is a function from a request (`ContextRequest`) to the candidates it offers. A failing source does not affect
the others.
`ContextRequest` carries what several sources would otherwise look up again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from filrouge.context.models import Candidate
from filrouge.core.clock import Language
from filrouge.core.protocols import Tx
from filrouge.core.settings import Settings
from filrouge.runtime.services import Parts


class ContextRequest(Struct, frozen=True, kw_only=True):
    """A context request.

    Attributes:
        occasion: `start` when a session starts, `prompt` when a prompt was entered.
        opening: for a start: startup, resume, clear, compact or fork; else empty.
        agent: if agents are isolated, the only agent whose memories may be shown; else None.
        compacted: when the session's context was last compacted, as stored text; empty if never.
        folder: the names of the agent's working folder, as the hook sent them.
        prompt: cleaned; empty at a start.
        notices: what a source could not do (no vectors yet, ...); a source that offers less than usual adds a line.
        offered: the candidates offered so far, for sources that depend on what was found.
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
    compacted: str = ""
    folder: tuple[str, ...] = ()
    notices: list[str] = field(default_factory=list[str])
    offered: list[Candidate] = field(default_factory=list[Candidate])


Source = Callable[[Parts, Tx, ContextRequest], Sequence[Candidate]]
"""Offers candidates, including those it would not show. If it raises, it is left out with a notice."""
