"""The life of a thread: which moves are legal, what it weighs, what a sweep does, and how it was at a moment.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from filrouge.core.errors import BadInput
from filrouge.threads.models import Thread, ThreadState

# The life of a thread: which moves are legal, what it weighs, and what a sweep does with it.
#
# A thread that nobody comes back to loses half its weight every day and a half. Below a tenth it is suspended, and so
# are the lightest ones when more are active than the mode allows; after three days suspended it is archived. Nothing
# is ever deleted here, and every state leads back to `active`, except from a thread that another one took in.

Act = Literal["use", "reactivate", "reopen", "suspend", "archive", "merge"]
"""`use`: a turn goes on in it; `reactivate`: a turn wakes it; `reopen`: a hand does; `merge`: another takes it in."""

MOVES: Final[Mapping[tuple[ThreadState, Act], ThreadState]] = {
    ("active", "use"): "active",
    ("active", "suspend"): "suspended",
    ("active", "archive"): "archived",
    ("active", "merge"): "archived",
    ("suspended", "reactivate"): "active",
    ("suspended", "reopen"): "active",
    ("suspended", "archive"): "archived",
    ("suspended", "merge"): "archived",
    ("archived", "reactivate"): "active",
    ("archived", "reopen"): "active",
    ("archived", "merge"): "archived",
}

HALF_LIFE: Final = timedelta(days=1.5)
SUSPENDED_BELOW: Final = 0.1
ARCHIVED_AFTER: Final = timedelta(hours=72)
#: What a use adds, and what a thread weighs at least when it is woken: with a tenth alone it would be suspended again
#: within the day.
USE, WOKEN = 0.1, 0.5
#: How many threads of a project may be active.
CAPS: Final[Mapping[str, int]] = {"light": 15, "normal": 50, "heavy": 100, "max": 200}


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One move of a sweep; `at` is when it was due, which may be long ago."""

    thread_id: str
    act: Act
    at: datetime


def weight_at(thread: Thread, now: datetime) -> float:
    """What a thread weighs now, in [0, 1]."""
    return thread.weight * 0.5 ** (max(now - thread.last_active, timedelta()) / HALF_LIFE)


def moved(thread: Thread, act: Act, at: datetime) -> Thread:
    """The thread after an act.

    Raises:
        BadInput: a thread in this state cannot do that.
    """
    state = MOVES.get((thread.state, act)) if thread.merged_into is None else None
    if state is None:
        legal = ", ".join(known for (state, known) in MOVES if state == thread.state)
        if thread.merged_into is not None:
            raise BadInput(
                f"Thread {thread.id} was merged, so there is no {act!r} for it.",
                remedy=f"Its turns are in thread {thread.merged_into}.",
            )
        raise BadInput(
            f"Thread {thread.id} is {thread.state}, and {act!r} is no move from there.", remedy=f"Legal: {legal}."
        )
    match act:
        case "use":
            return replace(
                thread, weight=min(1.0, weight_at(thread, at) + USE), last_active=max(at, thread.last_active)
            )
        case "reactivate" | "reopen":
            weight = max(WOKEN, min(1.0, weight_at(thread, at) + USE))
            return replace(
                thread, state=state, weight=weight, last_active=max(at, thread.last_active), suspended_at=None
            )
        case "suspend":
            return replace(thread, state=state, suspended_at=at)
        case "archive" | "merge":
            return replace(thread, state=state, suspended_at=None)


def sweep(threads: Iterable[Thread], now: datetime, mode: str = "normal") -> tuple[Move, ...]:
    """What is due for these threads of one project, in an order in which it can be done.

    What weighs too little was due when it did, so that a machine that was off for weeks catches up in one sweep. Over
    the cap the lightest go, of equal weight those that were used longest ago.

    Args:
        mode: `light`, `normal`, `heavy` or `max`.
    """
    moves: list[Move] = []
    staying: list[Thread] = []
    for thread in threads:
        if thread.merged_into is not None:
            continue
        since = thread.suspended_at or thread.last_active
        if thread.state == "active":
            if weight_at(thread, now) >= SUSPENDED_BELOW:
                staying.append(thread)
                continue
            since = _weighs_too_little(thread)
            moves.append(Move(thread_id=thread.id, act="suspend", at=since))
        if thread.state != "archived" and now - since >= ARCHIVED_AFTER:
            moves.append(Move(thread_id=thread.id, act="archive", at=since + ARCHIVED_AFTER))
    moves += [Move(thread_id=one.id, act="suspend", at=now) for one in _over(staying, now, CAPS[mode])]
    return tuple(moves)


def _weighs_too_little(thread: Thread) -> datetime:
    """The moment at which it falls below `SUSPENDED_BELOW`."""
    if thread.weight <= SUSPENDED_BELOW:
        return thread.last_active
    return thread.last_active + HALF_LIFE * math.log2(thread.weight / SUSPENDED_BELOW)


def _over(active: Sequence[Thread], now: datetime, cap: int) -> list[Thread]:
    lightest = sorted(active, key=lambda one: (weight_at(one, now), one.last_active, one.id))
    return lightest[: max(0, len(active) - cap)]


# Replay: a thread as it was at a moment, from when its prompts came.
#
# Weights and states follow from use and from time alone, so the life of a thread can be lived again up to any moment.
# What a user did by hand to a state (archive, reopen) is not among the prompts and is not replayed.


def as_it_was(thread: Thread, prompts: Sequence[datetime], moment: datetime) -> Thread:
    """The thread at a moment; its names are those of now.

    Args:
        prompts: when those came that were in it then, at least one.
        moment: not before the first of them.
    """
    first, *later = sorted(prompts)
    lived = replace(
        thread, state="active", weight=1.0, opened_at=first, last_active=first, suspended_at=None, merged_into=None
    )
    for at in later:
        lived = _swept(lived, at)
        lived = moved(lived, "use" if lived.state == "active" else "reactivate", at)
    return replace(_swept(lived, moment), turns=len(prompts))


def _swept(thread: Thread, now: datetime) -> Thread:
    for move in sweep([thread], now):
        thread = moved(thread, move.act, move.at)
    return thread
