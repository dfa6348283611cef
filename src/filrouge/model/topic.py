"""A topic: something that was talked about, over one conversation or several, and when.

Threads are topics, and so is what was talked about in conversations of before there were threads. Its moments are
aware; which zone they are in is the choice of whoever shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Timeframe = Literal["today", "week", "month", "all"]
Window = Literal["this_week", "last_week", "this_month", "older"]

#: Days before now at which a window ends; what is older than all of them is in the last window.
CUT_OFFS: tuple[tuple[Window, int], ...] = (("this_week", 7), ("last_week", 14), ("this_month", 30))


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """One subject.

    Attributes:
        id: of its thread, or of the conversation that began it.
        title: a few words, in the user's own.
        summary: where it went since, or empty.
        first, last: when it was spoken of.
        conversations: sessions in which it was.
        threads: the ids of its threads; none where no prompt of it is in one.
        vitality: in [0, 1], 1 = spoken of just now.
        channel: the host of its last conversation.
    """

    id: str
    title: str
    summary: str = ""
    first: datetime
    last: datetime
    conversations: int = 1
    threads: tuple[str, ...] = ()
    vitality: float = 1.0
    channel: str = ""
    project: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """Topics by how long ago they were last spoken of, in each window the latest first."""

    this_week: tuple[Topic, ...] = ()
    last_week: tuple[Topic, ...] = ()
    this_month: tuple[Topic, ...] = ()
    older: tuple[Topic, ...] = ()

    @property
    def windows(self) -> tuple[tuple[Window, tuple[Topic, ...]], ...]:
        """The four windows, latest first."""
        return (
            ("this_week", self.this_week),
            ("last_week", self.last_week),
            ("this_month", self.this_month),
            ("older", self.older),
        )

    @property
    def topics(self) -> tuple[Topic, ...]:
        """All of them, latest first."""
        return tuple(topic for _, window in self.windows for topic in window)


def timeline_of(topics: Sequence[Topic], now: datetime) -> Timeline:
    """Put topics into their windows, latest first; of two that ended together the one begun later is first."""
    windows: dict[Window, list[Topic]] = {"this_week": [], "last_week": [], "this_month": [], "older": []}
    for topic in sorted(topics, key=lambda topic: (topic.last, topic.first), reverse=True):
        age = now - topic.last
        within: Window | None = next((name for name, days in CUT_OFFS if age < timedelta(days=days)), None)
        windows[within or "older"].append(topic)
    return Timeline(**{name: tuple(found) for name, found in windows.items()})
