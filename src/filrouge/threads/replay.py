"""Replay: a thread as it was at a moment, from when its prompts came.

Weights and states follow from use and from time alone, so the life of a thread can be lived again up to any moment.
What a user did by hand to a state (archive, reopen) is not among the prompts and is not replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from filrouge.model.thread import Thread
from filrouge.threads.lifecycle import moved, sweep


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
