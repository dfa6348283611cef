"""What somebody says to Filrouge itself, as an event: outside of every agent's session, at this moment."""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.clock import Clock, new_id
from filrouge.model.event import Event, EventKind


def said_now(clock: Clock, kind: EventKind, text: str, *, names: Sequence[str], host: str, key: str = "") -> Event:
    """The event of a text.

    Args:
        names: of its project, strongest first; none = outside every project.
        host: the program through which it came.
        key: what it is recognised by when it comes again; empty = by nothing.
    """
    now = clock.now()
    return Event(
        id=new_id(now),
        host=host,
        kind=kind,
        session="",
        at=now.timestamp(),
        key=key,
        cwd="",
        project=tuple(names),
        transcript="",
        agent="",
        data={"text": text},
    )
