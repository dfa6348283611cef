"""Which parts of a project's threads belong together, decided again when more is known than at the first prompt.

A prompt is placed the moment it is said; when its session has fallen silent, and when others have come, the same
similarities say more. So all parts are grouped anew, the nearest two first, until none are near enough (average
linkage), and a part may leave a thread as well as join one. From every similarity goes a share of how near both its
ends are to their own nearest (local scaling), so that one band holds where all talk is alike and where none is, for
ten sessions and for a thousand. The very same topic counts no extra here: it is often *recipe plan*.

Threads keep their ids: a group goes on as the thread that most of it was in. It is stable: a grouping is only taken
where it is better than what is there, so that doing it twice changes nothing. What a user named, moved, split or
merged stays where it is. What a model said of a prompt and a thread holds for the part that the prompt is in: it stays
with the thread's beginning, or is never brought together with that thread.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from filrouge.model.thread import Routing, Thread
from filrouge.threads.ground import Ground
from filrouge.threads.grouping import Labels, Near, labels, scaled_by_neighbours, settled
from filrouge.threads.weighing import EMBEDDING, TOPICS, Part, roots

#: Above this, after scaling, two groups are one. Fitted by bench/threads.py.
BAND: Final = 0.03
#: Parts that are worth it, the newest: time and room grow with their square, 0.7 s and 0.1 GB with these.
MOST: Final = 2000
#: Nothing brings parts together that a user holds in two threads.
_NEVER: Final = -1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What was said of one thread in one session; it moves as a whole.

    Attributes:
        id: the caller's name for it, unique among the units: of the thread and the session.
        thread: the thread that it is in.
        part: as `vectors.by_session` makes it.
        is_held: a user put it where it is; so it is as well where a user named the thread.
        belongs: a model said that it goes on with this thread.
        apart: threads that it does not belong to, as a model said.
    """

    id: str
    thread: Thread
    part: Part
    is_held: bool = False
    belongs: bool = False
    apart: frozenset[str] = frozenset()

    @property
    def stays(self) -> bool:
        """It is where a user wants it."""
        return self.is_held or self.thread.title_by == "user"


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouping:
    """Units that go elsewhere together.

    Attributes:
        units: their ids, of one thread or of several.
        into: the thread that takes them, which keeps units of its own; None = one that is to be opened for these.
        routing: for the log: `join`, or `fork` where a thread is to be opened; `parent` is then the thread that most of
            them were in.
    """

    units: tuple[str, ...]
    into: str | None
    routing: Routing


def regroup(units: Sequence[Unit], ground: Ground | None, *, band: float = BAND) -> tuple[Regrouping, ...]:
    """The moves that bring together what belongs together; in which order they are made is all the same.

    Done to its own result it gives none. Without a ground there is nothing that the band was fitted for, and none.

    Args:
        units: every part of every thread, whatever its state, of one user and project (with isolation: one agent); at
            most the newest `MOST`.
        ground: of the user's prompts in this space.
    """
    if ground is None or len(units) < 2:
        return ()
    near = _near([one.part for one in units], ground)
    above = scaled_by_neighbours(near) - np.float32(band)
    _hold(above, units)
    now = labels([one.thread.id for one in units])
    now = settled(above, now, _bound(units))
    return tuple(_moves(units, now, near))


def _near(parts: Sequence[Part], ground: Ground) -> Near:
    """How near every two parts are, shape (n, n), 0 to itself; topics stand in where there are no vectors."""
    shared = _shared(parts)
    near = shared * np.float32(EMBEDDING + TOPICS)
    there = [place for place, one in enumerate(parts) if one.vector is not None]
    if there:
        vectors = ground.off(np.stack([one.vector for one in parts if one.vector is not None]))
        near[np.ix_(there, there)] = EMBEDDING * (vectors @ vectors.T) + TOPICS * shared[np.ix_(there, there)]
    np.fill_diagonal(near, 0.0)
    return near


def _shared(parts: Sequence[Part]) -> Near:
    """What every two parts share of their topics' words, as `weighing` has it, word by word: few have a rare one."""
    words = [roots(one.topics) for one in parts]
    having: defaultdict[str, list[int]] = defaultdict(list)
    for place, own in enumerate(words):
        for word in own:
            having[word].append(place)
    weights = {word: math.log(1.0 + len(parts) / len(places)) for word, places in having.items()}
    lengths = np.sqrt([sum(weights[word] ** 2 for word in own) or 1.0 for own in words]).astype(np.float32)
    table = np.zeros((len(parts), len(parts)), dtype=np.float32)
    for word, places in having.items():
        if len(places) > 1:
            table[np.ix_(places, places)] += weights[word] ** 2
    table /= lengths[:, None]
    table /= lengths[None, :]
    return table


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


def _moves(units: Sequence[Unit], groups: Labels, near: Near) -> Iterable[Regrouping]:
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
            yield _regrouping(units, moving, places, into, near)


def _regrouping(
    units: Sequence[Unit], moving: Sequence[int], group: Sequence[int], into: str | None, near: Near
) -> Regrouping:
    [(former, _)] = Counter(units[place].thread.id for place in moving).most_common(1)
    staying = [place for place in group if place not in set(moving)] or list(group)
    similarity = min(1.0, max(0.0, float(near[np.ix_(moving, staying)].mean())))
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
