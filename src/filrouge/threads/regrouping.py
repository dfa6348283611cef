"""Which prompts of a project belong together, decided again when more is known than at the moment they came.

A prompt is placed before its reply is there. When its session has fallen silent, and when others have come, the same
probabilities say more. So all prompts are grouped anew, the likeliest two first, until no two groups are likely enough
(average linkage), and a prompt may leave a thread as well as join one.

Threads keep their ids: a group goes on as the thread that most of it was in. It is stable: a grouping is only taken
where it is better than what is there, so that doing it twice changes nothing. What a user named, moved, split or
merged stays where it is. What a model said of a prompt and a thread holds: the prompt stays with the thread's
beginning, or is never brought together with that thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from filrouge.model.thread import Routing, Thread
from filrouge.threads.grouping import Labels, Near, labels, settled
from filrouge.threads.routing import BAND

#: Prompts that are worth it, the newest: time and room grow with their square.
MOST: Final = 1000
#: Nothing brings prompts together that a user holds in two threads.
_NEVER: Final = -1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A prompt that is in a thread.

    Attributes:
        id: of the turn.
        is_held: a user put it where it is; so it is as well where a user named the thread.
        belongs: a model said that it goes on with this thread.
        apart: threads that it does not belong to, as a model said.
    """

    id: str
    thread: Thread
    is_held: bool = False
    belongs: bool = False
    apart: frozenset[str] = frozenset()

    @property
    def stays(self) -> bool:
        """It is where a user wants it."""
        return self.is_held or self.thread.title_by == "user"


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouping:
    """Prompts that go elsewhere together.

    Attributes:
        units: their ids, of one thread or of several.
        into: the thread that takes them, which keeps prompts of its own; None = one that is to be opened for these.
        routing: for the log: `join`, or `fork` where a thread is to be opened; `parent` is then the thread that most of
            them were in.
    """

    units: tuple[str, ...]
    into: str | None
    routing: Routing


def regroup(units: Sequence[Unit], chances: Near) -> tuple[Regrouping, ...]:
    """The moves that bring together what belongs together; in which order they are made is all the same.

    Done to its own result it gives none.

    Args:
        units: prompts of one user and project (with isolation: one agent), in the order in which they were said.
        chances: the probability that two are of one thread, shape (n, n).
    """
    if len(units) < 2:
        return ()
    above = (chances - np.float32(BAND)).astype(np.float32)
    np.fill_diagonal(above, 0.0)
    _hold(above, units)
    now = labels([one.thread.id for one in units])
    return tuple(_moves(units, settled(above, now, _bound(units)), chances))


def _bound(units: Sequence[Unit]) -> Labels:
    """What is never parted: what a user holds in a thread, and a thread's beginning with what a model said goes on."""
    first: dict[str, int] = {}
    for place, one in enumerate(units):
        first.setdefault(one.thread.id, place)
    leads = [first[one.thread.id] if one.belongs and not one.stays else place for place, one in enumerate(units)]
    return labels([units[place].thread.id if units[place].stays else place for place in leads])


def _hold(above: Near, units: Sequence[Unit]) -> None:
    """What a user holds in two threads never comes together, nor what a model says does not belong together."""
    held = [place for place, one in enumerate(units) if one.stays]
    threads = labels([units[place].thread.id for place in held])
    apart = threads[:, None] != threads[None, :]
    above[np.ix_(held, held)] = np.where(apart, _NEVER, above[np.ix_(held, held)])
    for place, one in enumerate(units):
        if strange := one.apart - {one.thread.id}:
            others = [other for other, it in enumerate(units) if it.thread.id in strange]
            above[place, others] = above[others, place] = _NEVER


def _moves(units: Sequence[Unit], groups: Labels, chances: Near) -> Iterable[Regrouping]:
    """What has to move, where each group goes on as the thread that most of it was in, of equal ones the oldest."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(groups.tolist()):
        members[group].append(place)
    threads = {one.thread.id: one.thread for one in units}
    claims = [
        (not any(units[place].stays for place in places if units[place].thread.id == id_), -count, threads[id_], group)
        for group, places in members.items()
        for id_, count in Counter(units[place].thread.id for place in places).items()
    ]
    goes_on: dict[int, str] = {}
    for _, _, thread, group in sorted(claims, key=lambda one: (one[0], one[1], one[2].opened_at, one[2].id, one[3])):
        if group not in goes_on and thread.id not in goes_on.values():
            goes_on[group] = thread.id
    for group, places in members.items():
        into = goes_on.get(group)
        moving = [place for place in places if units[place].thread.id != into]
        if moving:
            yield _regrouping(units, moving, places, into, chances)


def _regrouping(
    units: Sequence[Unit], moving: Sequence[int], group: Sequence[int], into: str | None, chances: Near
) -> Regrouping:
    [(former, _)] = Counter(units[place].thread.id for place in moving).most_common(1)
    staying = [place for place in group if place not in set(moving)] or list(group)
    similarity = min(1.0, max(0.0, float(chances[np.ix_(moving, staying)].mean())))
    nearer = "what is there" if into else "each other"
    return Regrouping(
        units=tuple(units[place].id for place in moving),
        into=into,
        routing=Routing(
            action="join" if into else "fork",
            thread_id=into,
            parent=None if into else former,
            similarity=similarity,
            weighed=(),
            reason=f"With all that was said since, it is nearer to {nearer} than to the rest, at {similarity:.2f}.",
        ),
    )
