"""Which thread a prompt belongs to (THR-2, THR-3): it goes on in one, wakes one, leaves one, or opens one.

A prompt is held against the prompts of every thread, pair by pair, and the mean of the probabilities that the two are
of one thread counts (average linkage, as in `regrouping`): one prompt that is alike by chance draws nothing in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.model.thread import Action, Routing, Thread, ThreadState, Weighed

#: From this mean probability on two groups are of one thread. Chosen on the training part of the talk.
BAND: Final = 0.28
#: Between these a model would be asked about a suspended or archived thread.
BORDERLINE, SURE = 0.18, 0.36
#: Candidates that are logged: those above this, or at least the best few (THR-8).
LOGGED, LOGGED_LEAST = 0.3, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What is to be routed: one prompt.

    Attributes:
        topics: as `subjects` gives them.
        own: the thread that its session is in, if it is in one.
    """

    text: str
    topics: tuple[str, ...]
    at: datetime
    own: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Known:
    """A thread that a prompt may belong to.

    Attributes:
        state: its effective state, which a sweep may not have written yet.
        near: the prompt held against prompts of the thread, a row each: the probability that they are of one thread,
            how alike the exchanges are (NaN where words alone count), and the share of words; empty where none of its
            prompts was looked at.
    """

    thread: Thread
    state: ThreadState
    near: NDArray[np.float32]


def route(item: Item, known: Sequence[Known]) -> Routing:
    """Decide where a prompt goes, without a model.

    Args:
        known: every live thread that may hold it: of its project, and with isolation of its agent.
    """
    found = sorted((_weighed(item, one) for one in known if len(one.near)), key=lambda one: -one.similarity)
    own = next((one for one in found if one.own), None)
    best = found[0] if found else None
    chosen = best if best is not None and best.similarity >= BAND else None
    action: Action = "fork" if own else "new"
    if chosen is not None:
        action = "continue" if chosen.state == "active" else "reactivate"
    return Routing(
        action=action,
        thread_id=chosen.thread_id if chosen else None,
        parent=own.thread_id if own and not chosen else None,
        similarity=best.similarity if best else 0.0,
        weighed=tuple(one for place, one in enumerate(found) if one.similarity > LOGGED or place < LOGGED_LEAST),
        borderline=best is not None and best.state != "active" and BORDERLINE <= best.similarity < SURE,
        reason=_reason(chosen, best, len(known)),
    )


def _weighed(item: Item, one: Known) -> Weighed:
    chance, alike, words = one.near.mean(axis=0, dtype=np.float64).tolist()
    return Weighed(
        thread_id=one.thread.id,
        state=one.state,
        embedding=None if math.isnan(alike) else alike,
        topics=words,
        exact=not set(item.topics).isdisjoint(one.thread.topics),
        own=one.thread.id == item.own,
        similarity=chance,
    )


def _reason(chosen: Weighed | None, best: Weighed | None, count: int) -> str:
    if best is None:
        return "There is no thread yet."
    if chosen is None:
        return f"None of {count} threads is near enough; the nearest has {best.similarity:.2f}."
    whose = "its session's thread" if chosen.own else f"the nearest of {count} threads"
    return f"It is with {whose}, at {chosen.similarity:.2f}."
