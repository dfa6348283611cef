"""What was said of a session before its turns were in threads, divided among those they came into.

Prompts are placed a moment after they are stored, and a session may be compacted within that moment. What stands of it
then is of no thread yet. It is not read anew for that, since much of it may rest on turns that are long ago: each of
its points goes where its turn went.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from filrouge.clock import new_id
from filrouge.model.synthesis import Point, Synthesis
from filrouge.threads.synthesis import MOST_DECISIONS, MOST_FILES


def cited(former: Sequence[Synthesis]) -> set[str]:
    """The turns on which what is of no thread yet rests."""
    return {point.turn_id for one in former if one.thread_id is None for point in _points(one)}


def divided(former: Sequence[Synthesis], threads: Mapping[str, str]) -> list[Synthesis]:
    """The syntheses of a session, those of no thread yet by the threads of their turns.

    Args:
        threads: of the turns that are in one; what rests on others stays as it is.
    """
    found: dict[str | None, Synthesis] = {one.thread_id: one for one in former if one.thread_id is not None}
    for one in (one for one in former if one.thread_id is None):
        homes = list(dict.fromkeys(threads.get(point.turn_id) for point in _points(one))) or [None]
        for home in homes:
            part = _part(one, home, threads, main=home == homes[0])
            found[home] = _both(part, found[home]) if home in found else part
    return list(found.values())


def without(one: Synthesis, turns: Collection[str]) -> Synthesis:
    """A synthesis without what rests on these turns: they are about to be read again."""
    return replace(
        one,
        state=_but(one.state, turns),
        decisions=_but(one.decisions, turns),
        questions=_but(one.questions, turns),
        error=None if one.error and one.error.turn_id in turns else one.error,
    )


def _points(one: Synthesis) -> list[Point]:
    return [*one.state, *one.decisions, *one.questions, *([one.error] if one.error else [])]


def _part(one: Synthesis, home: str | None, threads: Mapping[str, str], *, main: bool) -> Synthesis:
    """What of a synthesis belongs to a thread; the files go with its first point."""

    def own(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(point for point in points if threads.get(point.turn_id) == home)

    return replace(
        one,
        id=one.id if main else new_id(one.at),
        thread_id=home,
        state=own(one.state),
        decisions=own(one.decisions),
        questions=own(one.questions),
        files=one.files if main else (),
        error=next(iter(own([one.error] if one.error else [])), None),
    )


def _both(newer: Synthesis, older: Synthesis) -> Synthesis:
    return replace(
        older,
        at=max(newer.at, older.at),
        state=newer.state or older.state,
        decisions=tuple(dict.fromkeys([*newer.decisions, *older.decisions]))[:MOST_DECISIONS],
        questions=tuple(dict.fromkeys([*newer.questions, *older.questions])),
        files=tuple(dict.fromkeys([*newer.files, *older.files]))[:MOST_FILES],
        error=newer.error or older.error,
    )


def _but(points: Sequence[Point], turns: Collection[str]) -> tuple[Point, ...]:
    return tuple(point for point in points if point.turn_id not in turns)
