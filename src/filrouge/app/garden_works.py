"""How the steps of the garden are done: each is prepared outside any transaction, and writes in one.

Fading is no work: how lively a memory is follows from when it was met (`garden.decay`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.app import understanding
from filrouge.app.analysis import keep
from filrouge.app.digests import read_new
from filrouge.app.follow import to_be_analysed
from filrouge.app.garden_looking import equal_concepts, without_vectors
from filrouge.app.parts import Parts
from filrouge.app.passes import next_passes
from filrouge.app.retaining import begin_retention, is_due
from filrouge.app.thread_upkeep import late_vector
from filrouge.app.understanding import group_of
from filrouge.extraction.profile import profile
from filrouge.garden.consolidate import is_same_concept, may_be_one, rank
from filrouge.garden.plan import Step
from filrouge.model.garden import StepKind
from filrouge.model.memory import Memory
from filrouge.model.scope import Scope
from filrouge.model.turn import TRUST_AGENT
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses, Session
from filrouge.store.jobs import Jobs
from filrouge.store.memories import Origin
from filrouge.store.merging import Merging
from filrouge.store.reviews import Reviews
from filrouge.store.turns import Turns
from filrouge.store.vectors import Owner, StoredVectors

About = Mapping[str, Any]
Counts = Mapping[str, int]
"""What a step came to, by name; those of a run are summed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """What a step wants written.

    Attributes:
        write: writes it, and says what it came to; None = there is more of it, and the step is taken up again.
        afterwards: done once it is on disk.
    """

    write: Callable[[Tx], Counts | None]
    afterwards: Callable[[], None] = lambda: None


Finder = Callable[[Parts, Tx], Sequence[Step]]
Doer = Callable[[Parts, About], Effects]


def read_session(parts: Parts, subject: About) -> Effects:
    """Read what is new in a session: its summary, its concepts, and when they were spoken of."""
    found = read_new(parts, Session(host=subject["host"], id=subject["session"]))
    if found is None:
        return Effects(write=lambda _: {})
    material, analysis = found
    return Effects(write=lambda tx: {"sessions": 1, "new_items": keep(parts, tx, material, analysis)})


def read_preferences(parts: Parts, subject: About) -> Effects:
    """Read what the user stated in a session and nothing was ever made of, as it is read when it comes."""
    session = Session(host=subject["host"], id=subject["session"])
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    own = [turn for turn in turns if to_be_analysed(turn)]
    wanted = parts.readers.here(lambda tx: Turns(tx, parts.analyser).proving_nothing([turn.id for turn in own]))
    readings = [_without_retractions(one) for one in understanding.read(parts, [t for t in own if t.id in wanted])]
    readings = [one for one in readings if one.considered]
    done = list[Any]()

    def write(tx: Tx) -> Counts:
        still = Turns(tx, parts.analyser).proving_nothing([one.turn.id for one in readings])
        fresh: understanding.Fresh = {}
        for one in readings:
            if one.turn.id in still:
                done.extend(understanding.settle(parts, tx, one, fresh))
        _queue_brief(parts, tx, bool(done))
        return {"new_items": sum(action.name in ("add", "update") for action, _ in done)}

    def afterwards() -> None:
        if readings:
            understanding.reflect(parts, readings[0].meaning, done)

    return Effects(write=write, afterwards=afterwards)


def merge_concepts(parts: Parts, subject: About) -> Effects:
    """Let a concept go into another."""
    return _merging(parts, subject, is_same_concept, "merged_concepts")


def merge_memories(parts: Parts, subject: About) -> Effects:
    """Let a memory go into another that says the same."""
    return _merging(parts, subject, may_be_one, "merged_memories")


def ask_about(parts: Parts, subject: About) -> Effects:
    """Put two memories that cannot both hold before the user."""

    def write(tx: Tx) -> Counts:
        known = parts.memories(tx).some([subject["newer"]])
        if subject["newer"] not in known:
            return {}
        origin = _gardeners(parts, known[subject["newer"]])
        asked = Reviews(tx, parts.analyser).contest(subject["newer"], subject["older"], origin, subject["reason"])
        return {"contradictions": int(asked)}

    return Effects(write=write)


def make_vectors(parts: Parts, subject: About) -> Effects:
    """Make the vectors of some texts; of long ones some windows at a time.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    meaning = parts.meaning
    owners = parts.readers.here(lambda tx: _owners(parts, tx, subject, meaning.space.id))
    passes = next_passes(parts, meaning.embedder, meaning.space.id, owners) if owners else []
    made = [one for one in passes if one is not None]
    is_more = len(passes) < len(owners) or any(one.first for one in made)

    def write(tx: Tx) -> Counts | None:
        for one in made:
            one.write(tx, meaning.space.id)
            if one.owner.kind == "turn" and not one.first:
                late_vector(tx, one.owner.id, meaning.space.id)
        lacking = _owners(parts, tx, subject, meaning.space.id)
        return None if is_more and lacking else {"vectors": len(subject["ids"]) - len(lacking)}

    def show() -> None:
        for one in made:
            one.show(parts, meaning)

    return Effects(write=write, afterwards=show)


def _merging(parts: Parts, subject: About, may: Callable[[Memory, Memory], bool], counted: str) -> Effects:
    kept_id, gone_id = str(subject["kept"]), str(subject["gone"])

    def write(tx: Tx) -> Counts:
        known = parts.memories(tx).some([kept_id, gone_id])
        if len(known) < 2 or not may(known[kept_id], known[gone_id]):
            return {}
        kept, gone = known[kept_id], known[gone_id]
        if gone.pinned or rank(gone) < rank(kept):
            return {}  # the user has had a hand in it since the plan was made
        merged = Merging(tx, parts.analyser).merge(kept_id, gone_id, _gardeners(parts, gone), "they say the same")
        _queue_brief(parts, tx, merged)
        return {counted: int(merged)}

    return Effects(write=write, afterwards=lambda: _leave_index(parts, gone_id))


def _leave_index(parts: Parts, memory_id: str) -> None:
    known = parts.readers.here(lambda tx: parts.memories(tx).some([memory_id]))
    if memory_id not in known or known[memory_id].state != "live":
        parts.meaning.memory_index.remove(memory_id)


def _owners(parts: Parts, tx: Tx, subject: About, space_id: str) -> list[Owner]:
    """Those texts of a batch that are there and lack vectors."""
    ids = [str(id_) for id_ in subject["ids"]]
    if subject["owner"] == "turn":
        owners = [
            Owner(kind="turn", id=one.id, seq=0, group=one.scope.project or "", text=one.text)
            for one in parts.turns(tx).get(ids)
        ]
    else:
        live = [one for one in parts.memories(tx).some(ids).values() if one.state == "live"]
        owners = [Owner(kind="memory", id=one.id, seq=0, group=group_of(one), text=one.text) for one in live]
    return [one for one in owners if StoredVectors(tx).first_part(one.kind, one.id, space_id) != 0]


def _without_retractions(reading: understanding.Reading) -> understanding.Reading:
    """Without what only takes something back: that was done when it was said, and the user may have brought it back."""
    kept = [one for one in reading.considered if not profile(one.statement.text).retracts]
    return replace(reading, considered=tuple(kept))


def _gardeners(parts: Parts, memory: Memory) -> Origin:
    """Where a change comes from that the garden makes: it says nothing itself, so it has no trust to give."""
    scope = Scope(user=memory.scope.user, project=memory.scope.project, channel="garden")
    return Origin(scope=scope, trust=TRUST_AGENT, at=parts.clock.now(), made_by="garden", actor="garden")


def _queue_brief(parts: Parts, tx: Tx, wanted: bool) -> None:
    if wanted:
        work: dict[str, object] = {"project": None, "everywhere": True}
        Jobs(tx).enqueue("brief", work, dedupe="brief:everywhere", at=parts.clock.now())


def passing(parts: Parts, tx: Tx) -> Sequence[Step]:
    """One step where there is anything whose time is over."""
    return [Step(kind="retention", subject={})] if is_due(parts, tx) else []


def let_pass(parts: Parts, _: About) -> Effects:
    """Have it taken out, by a job of its own behind all other work."""
    return Effects(write=lambda tx: {"retentions": int(begin_retention(parts, tx))})


FINDERS: Final[tuple[Finder, ...]] = (equal_concepts, without_vectors, passing)
DOERS: Final[Mapping[StepKind, Doer]] = {
    "sessions": read_session,
    "concepts": merge_concepts,
    "preferences": read_preferences,
    "duplicates": merge_memories,
    "contradictions": ask_about,
    "retention": let_pass,
    "vectors": make_vectors,
}
