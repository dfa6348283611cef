"""Understand one turn: what it states, what that changes, written in one transaction.

The words are embedded first, outside the transaction. Inside it, each statement is compared with what is
believed at that moment, so that two statements of one turn see each other, and the decision is applied with
its journal entry and its vector. The index in memory follows after the commit; it can be rebuilt at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from filrouge.app.arms import arm
from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.spaces import keep_vectors
from filrouge.embed.windows import windows
from filrouge.model.decision import Neighbour
from filrouge.model.filters import EVERYTHING
from filrouge.model.memory import Memory, Statement
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vectors
from filrouge.store.memories import Action, Origin
from filrouge.store.shares import Place
from filrouge.understand.decide import decide, retrieval_terms
from filrouge.understand.evidence import supported
from filrouge.understand.heuristics import extract

_NEIGHBOURS_BY_WORDS = 20
_NEIGHBOURS_BY_MEANING = 20
#: Windows that somebody may be kept waiting for: one or two seconds of the bundled model.
_MOST_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a turn states, with the vectors of each statement and what they were made with."""

    turn: Turn
    meaning: Meaning
    statements: tuple[Statement, ...]
    vectors: tuple[Vectors | None, ...]


def read(parts: Parts, turn: Turn) -> Reading:
    """Extract a turn's statements and embed them; nothing is written."""
    statements = () if turn.skipped else extract(turn)
    return reading_of(parts.meaning, turn, statements)


def reading_of(meaning: Meaning, turn: Turn, statements: tuple[Statement, ...]) -> Reading:
    """Embed the statements of a turn."""
    vectors = tuple(vectors_at_once(meaning, statement.text) for statement in statements)
    return Reading(turn=turn, meaning=meaning, statements=statements, vectors=vectors)


def vectors_at_once(meaning: Meaning, text: str) -> Vectors | None:
    """The vectors of a text, or None where the embedder is down or the text so long that a job does it, in passes."""
    pieces = windows(text)
    return meaning.passages(pieces) if len(pieces) <= _MOST_AT_ONCE else None


def settle(parts: Parts, tx: Tx, reading: Reading) -> list[tuple[Action, Vectors | None]]:
    """Decide on every statement and apply it, in the caller's transaction."""
    turn = reading.turn
    origin = Origin(scope=turn.scope, trust=turn.trust, at=turn.at, turn_id=turn.id)
    done: list[tuple[Action, Vectors | None]] = []
    fresh: dict[str, Vectors] = {}
    for statement, vectors in zip(reading.statements, reading.vectors, strict=True):
        store = parts.memories(tx)
        if not supported(statement, turn.text):
            done.append((store.quarantine(statement, origin, "its words are not in the turn"), None))
            continue
        neighbours = _neighbours(parts, tx, reading, statement, vectors, fresh)
        action = store.apply(decide(statement, neighbours), origin)
        if action.name in ("add", "update"):
            keep_vectors(tx, reading.meaning, "memory", action.memory_id, vectors, parts.clock.now())
            fresh |= {action.memory_id: vectors} if vectors is not None else {}
        done.append((action, vectors))
    return done


def reflect(parts: Parts, meaning: Meaning, done: Sequence[tuple[Action, Vectors | None]]) -> None:
    """Bring the index in memory up to what was committed."""
    for action, vectors in done:
        for closed in action.closed:
            meaning.memory_index.remove(closed)
            parts.meaning.memory_index.remove(closed)  # another, if the space was left meanwhile
        if action.name in ("add", "update") and vectors is not None:
            memory = parts.readers.here(lambda tx, id_=action.memory_id: parts.memories(tx).get(id_))
            meaning.memory_index.put(memory.id, group_of(memory), vectors)


def group_of(memory: Memory) -> str:
    """The group that a memory is searched in: its project, or its user."""
    return f"user:{memory.scope.user}" if memory.scope_name == "user" else memory.scope.project or ""


def _neighbours(
    parts: Parts,
    tx: Tx,
    reading: Reading,
    statement: Statement,
    vectors: Vectors | None,
    fresh: Mapping[str, Vectors],
) -> list[Neighbour]:
    """The live memories of the same scope that are near by words or by meaning."""
    turn = reading.turn
    similarity = _similarities(reading, statement, vectors, fresh)
    store = parts.memories(tx)
    terms = parts.analyser.terms(" ".join([statement.text, *retrieval_terms(statement)]))
    place = Place(project=turn.scope.project, user=turn.scope.user, everywhere=False)
    by_words = arm(parts, tx, "memory", place, EVERYTHING, terms).by_words(_NEIGHBOURS_BY_WORDS)
    known = store.some(list({**by_words, **similarity}))
    found = {id_: known[id_] for id_ in {**by_words, **similarity} if id_ in known}
    return [
        Neighbour(memory=memory, similarity=similarity.get(memory.id, 0.0))
        for memory in sorted(found.values(), key=lambda m: -similarity.get(m.id, 0.0))
        if memory.state == "live" and memory.scope_name == statement.scope
    ]


def _similarities(
    reading: Reading, statement: Statement, vectors: Vectors | None, fresh: Mapping[str, Vectors]
) -> dict[str, float]:
    if vectors is None:
        return {}
    scope, space = reading.turn.scope, reading.meaning.space
    group = f"user:{scope.user}" if statement.scope == "user" else scope.project or ""
    near = reading.meaning.memory_index.nearest(vectors[0], _NEIGHBOURS_BY_MEANING, frozenset({group}))
    found = {one.owner_id: space.calibrated(one.cosine) for one in near}
    return found | {id_: space.calibrated(float((other @ vectors[0]).max())) for id_, other in fresh.items()}
