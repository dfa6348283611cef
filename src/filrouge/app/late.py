"""Late: what becomes of a statement that arrives after something that was said later.

Hooks are missed and their spool is read in the morning, a transcript is read when the session is long over, a model
reads what the rules read at once. So a statement is held against two groups: what was said before it, as ever; and what
was said after it, with the roles changed: would that have replaced this, had both come in their order? Then this is
history at once, and ends, as it would have, what it replaces itself. In whatever order dated statements arrive, the
same are believed in the end. A retraction that was heard before what it takes back is not seen: nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from filrouge.app.parts import Parts
from filrouge.extraction.decide import decide
from filrouge.extraction.heuristics import extract
from filrouge.extraction.reading import says_change
from filrouge.extraction.vocabulary import fold
from filrouge.model.decision import Conflict, Decision, Neighbour, Noop, Update
from filrouge.model.memory import Evidence, Memory, Span, Statement
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.lives import Lives


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """What was said after a statement: the memory, and when and how it was said then."""

    memory: Memory
    statement: Statement
    at: datetime
    similarity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Overtaken:
    """A statement that something said later makes history, or says again, or disputes.

    Attributes:
        decision: made of the later statement, with the earlier one as its only neighbour.
    """

    by: Later
    decision: Update | Noop | Conflict


def said_later(parts: Parts, tx: Tx, near: Sequence[Neighbour], turn: Turn) -> list[Later]:
    """What was said after a turn, of these memories and those that they replaced; the first to be said first."""
    heads = {one.memory.id: one.similarity for one in near if (one.memory.last_mention or turn.at) > turn.at}
    if not heads:
        return []
    kin = Lives(tx).kin(heads)
    chain = [id_ for id_, one in kin.items() if one.life.state in ("live", "superseded")]
    known = parts.memories(tx).known(sorted(chain))
    cited = {one.turn_id for memory in known for one in memory.evidence}
    turns = {one.id: one for one in parts.turns(tx).get(sorted(cited))}
    found = [
        Later(memory=memory, statement=stated, at=at, similarity=heads.get(memory.id, max(heads.values())))
        for memory in known
        for at, stated in _sayings(memory, turns)
        if at > turn.at
    ]
    return sorted(found, key=lambda one: (one.at, one.memory.id))


def overtaken(statement: Statement, turn: Turn, later: Sequence[Later]) -> Overtaken | None:
    """The first of what was said later that would have found this statement worth a word."""
    memory = _memory(statement, turn)
    for one in later:
        decision: Decision = decide(one.statement, [Neighbour(memory=memory, similarity=one.similarity)])
        if isinstance(decision, Update | Noop) or (isinstance(decision, Conflict) and one.memory.state == "live"):
            return Overtaken(by=one, decision=decision)
    return None


def _memory(statement: Statement, turn: Turn) -> Memory:
    """The memory that a statement would be, had it been heard in time."""
    return Memory(
        id=turn.id,
        scope=turn.scope,
        scope_name=statement.scope,
        kind=statement.kind,
        text=statement.text,
        trust=turn.trust,
        created_at=turn.at,
        valid_from=turn.at,
        subject=statement.subject,
        key=statement.key,
        value=statement.value,
        confidence=statement.confidence,
    )


def _sayings(memory: Memory, turns: Mapping[str, Turn]) -> list[tuple[datetime, Statement]]:
    """When and how a memory was said; what no turn proves was said when it began."""
    found = [(turns[one.turn_id].at, _stated(memory, one, turns[one.turn_id])) for one in _proving(memory, turns)]
    return found or [(memory.valid_from, _told(memory))]


def _proving(memory: Memory, turns: Mapping[str, Turn]) -> list[Evidence]:
    return [one for one in memory.evidence if one.turn_id in turns]


def _stated(memory: Memory, evidence: Evidence, turn: Turn) -> Statement:
    """What the words of a turn state; a memory keeps less of it than they say."""
    return next((one for one in extract(turn) if one.span == evidence.span), _told(memory))


def _told(memory: Memory) -> Statement:
    return Statement(
        kind=memory.kind,
        text=memory.text,
        span=Span(start=0, end=0),
        scope=memory.scope_name,
        subject=memory.subject,
        key=memory.key,
        value=memory.value,
        is_correction=says_change(fold(memory.text)),
        confidence=memory.confidence,
    )
