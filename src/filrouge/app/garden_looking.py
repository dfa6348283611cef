"""What there is to do in the garden: sessions that were not read, concepts and memories that are one, contradictions,
texts without vectors.

Memories are compared with their nearest once, when they are new: a run goes on behind the last one that an earlier run
compared, so many at a time. Two that a user set apart again, or was asked about, are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.app.arms import arm
from filrouge.app.believed import nearest_beliefs
from filrouge.app.parts import Parts
from filrouge.app.understanding import group_of
from filrouge.garden.consolidate import concept_key, contradiction, is_same, is_same_concept, rank
from filrouge.garden.plan import Step
from filrouge.model.filters import EVERYTHING
from filrouge.model.garden import StepKind
from filrouge.model.memory import Memory
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses
from filrouge.store.memory_rows import memory_from_row
from filrouge.store.merging import Merging
from filrouge.store.shares import Place
from filrouge.store.vectors import OwnerKind, StoredVectors

#: Of one run: sessions, and memories that are compared with others.
MOST_SESSIONS, MOST_COMPARED = 2000, 1000
#: Of a memory that is compared.
_NEAREST: Final = 6
#: Texts of one batch of vectors, and texts of one run; the reindex does what is more.
_OWNERS, _MOST_OWNERS = 16, 1600
_LONGEST_TOLD: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What came of comparing memories.

    Attributes:
        until: the number of the last that was compared.
        left: how many are left for another run.
    """

    steps: tuple[Step, ...]
    until: int
    left: int


def unread_sessions(parts: Parts, tx: Tx) -> tuple[list[Step], int]:
    """Two steps for each session that is to be read: what it was about, and what the user stated in it; and how many
    sessions are left for another run."""
    if parts.settings(tx).extract_provider == "off":
        return [], 0
    found = Analyses(tx, parts.analyser).unread()
    subjects = [{"host": one.host, "session": one.id} for one in found[:MOST_SESSIONS]]
    steps = [Step(kind=kind, subject=one) for kind in ("sessions", "preferences") for one in subjects]
    return steps, len(found) - len(subjects)


def equal_concepts(parts: Parts, tx: Tx) -> list[Step]:
    """A step for each concept that another one of its project is as well."""
    beside: dict[tuple[str, str | None, frozenset[str]], list[Memory]] = {}
    for row in tx.all("memories.live_concepts"):
        one = memory_from_row(row)
        beside.setdefault((one.scope.user, one.scope.project, concept_key(one.text)), []).append(one)
    merging, steps = Merging(tx, parts.analyser), list[Step]()
    for group in beside.values():
        kept = min(group, key=rank)
        for gone in group:
            if is_same_concept(kept, gone) and not gone.pinned and not merging.was_merged(kept.id, gone.id):
                steps.append(_merge("concepts", kept, gone))
    return steps


def compared(parts: Parts, tx: Tx, after: int, *, most: int = MOST_COMPARED) -> Compared:
    """Compare the memories behind a number, so many of them, with those that are nearest to them; none while the index
    is being filled, because nobody would be near."""
    if not parts.meaning.ready.is_set():
        return Compared(steps=(), until=after, left=0)
    rows = tx.all("memories.compared", {"after": after, "limit": most})
    mine = [str(row["id"]) for row in rows]
    near = _near(parts, tx, mine)
    ids = list(dict.fromkeys([*mine, *(other for others in near.values() for other in others)]))
    known = {one.id: one for one in parts.memories(tx).known(ids)}
    isolated = parts.settings(tx).isolation
    same, against = dict[str, set[str]](), list[tuple[Memory, Memory, str]]()
    seen = set[frozenset[str]]()
    for id_ in mine:
        for other, similarity in near[id_].items():
            pair = frozenset((id_, other))
            if len(pair) < 2 or pair in seen or other not in known:
                continue
            seen.add(pair)
            one, two = known[id_], known[other]
            if isolated and _agent(one) != _agent(two):
                continue
            if is_same(one, two, similarity):
                same.setdefault(id_, set()).add(other)
                same.setdefault(other, set()).add(id_)
            elif (found := contradiction(one, two, similarity)) is not None:
                against.append(found)
    merged = _merged(parts, tx, same, known)
    gone = {str(step.subject["gone"]) for step in merged}
    open_ = [one for one in against if gone.isdisjoint((one[0].id, one[1].id)) and _is_open(tx, one[0])]
    asked = {one[0].id: one for one in reversed(open_)}  # of one memory one question, about the nearest
    steps = (*merged, *(_contradiction(*one) for one in reversed(asked.values())))
    until = max((int(row["seq"]) for row in rows), default=after)
    left = tx.one("memories.not_compared", {"after": until}) or {"n": 0}
    return Compared(steps=steps, until=until, left=int(left["n"]))


def without_vectors(parts: Parts, tx: Tx) -> list[Step]:
    """A step for each batch of texts that lack vectors in the current space."""
    if parts.meaning.is_lost:
        return []
    kinds: tuple[OwnerKind, ...] = ("memory", "turn")
    steps: list[Step] = []
    for kind in kinds:
        ids = [one.id for one in StoredVectors(tx).missing(kind, parts.meaning.space.id, _MOST_OWNERS)]
        batches = [ids[place : place + _OWNERS] for place in range(0, len(ids), _OWNERS)]
        steps += [Step(kind="vectors", subject={"owner": kind, "ids": batch}) for batch in batches]
    return steps


def _near(parts: Parts, tx: Tx, ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of each memory the nearest with their calibrated similarity; of one without vectors those that share words."""
    meaning = parts.meaning
    memories = parts.memories(tx).some(ids)
    vectors = StoredVectors(tx).some("memory", ids, meaning.space.id)
    found: dict[str, dict[str, float]] = {}
    for id_ in ids:
        memory = memories[id_]
        if id_ in vectors:
            groups = frozenset({group_of(memory)})
            cosines = nearest_beliefs(tx, meaning.memory_index, vectors[id_][0], _NEAREST + 1, groups)
            found[id_] = {other: meaning.space.calibrated(cosine) for other, cosine in cosines.items() if other != id_}
        else:
            place = Place(project=memory.scope.project, user=memory.scope.user, everywhere=False)
            words = arm(parts, tx, "memory", place, EVERYTHING, parts.analyser.terms(memory.text))
            found[id_] = {other: 0.0 for other in words.by_words(_NEAREST + 1) if other != id_}
    return found


def _merged(parts: Parts, tx: Tx, same: Mapping[str, set[str]], known: Mapping[str, Memory]) -> list[Step]:
    """Who goes into whom: each goes once, into one that stays, and only where those two say the same."""
    merging, gone, steps = Merging(tx, parts.analyser), set[str](), list[Step]()
    for kept in sorted((known[id_] for id_ in same), key=rank):
        if kept.id in gone:
            continue
        for other in sorted((known[id_] for id_ in same[kept.id]), key=rank):
            goes = rank(other) > rank(kept) and not other.pinned and other.id not in gone
            if goes and not merging.was_merged(kept.id, other.id):
                gone.add(other.id)
                steps.append(_merge("duplicates", kept, other))
    return steps


def _merge(kind: StepKind, kept: Memory, gone: Memory) -> Step:
    told = f"{_short(gone.text)} → {_short(kept.text)}"
    return Step(kind=kind, subject={"kept": kept.id, "gone": gone.id}, told=told)


def _contradiction(newer: Memory, older: Memory, reason: str) -> Step:
    told = f"{_short(older.text)} ↔ {_short(newer.text)}"
    return Step(kind="contradictions", subject={"newer": newer.id, "older": older.id, "reason": reason}, told=told)


def _is_open(tx: Tx, newer: Memory) -> bool:
    """True for a memory that the user was never asked about."""
    return tx.one("reviews.get", {"memory_id": newer.id}) is None


def _agent(memory: Memory) -> str:
    return memory.scope.agent or memory.scope.channel


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= _LONGEST_TOLD else f"“{line[:_LONGEST_TOLD].rstrip()}…”"
