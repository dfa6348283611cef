"""What may be believed of decisions that a model wrote: each is held against what it was shown, and falls alone.

Models invent ids, repeat themselves, decide on facts that nobody stated, and write words that nobody said. `admit`
takes whatever JSON came back and gives decisions that can be carried out, in the order of the facts; what was dropped
and why (EXT-4); and the facts that nobody decided, which the deterministic rule then decides. Why something was dropped
repeats no words of the conversation. A pinned memory changes by the user's hand only: what a model would change of it
is a Conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, cast

from filrouge.model.decision import Add, Conflict, Decision, Delete, Neighbour, Noop, Update
from filrouge.model.memory import Memory, Statement
from filrouge.model.scope import Scope

#: Characters: a memory is one statement, and a reason half a line.
_LONGEST_TEXT: Final = 2000
_LONGEST_REASON: Final = 300
_ACTIONS: Final = ("add", "update", "delete", "noop", "conflict")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """One fact that was put to the model, with the memories that it was shown for it."""

    statement: Statement
    shown: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where and when the facts were said.

    Attributes:
        isolated: an agent may touch only what it learned itself.
    """

    scope: Scope
    at: datetime
    isolated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """A decision that was dropped.

    Attributes:
        place: where it stood in the list.
        fact: the fact that it was about; None where that cannot be told.
    """

    place: int
    fact: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """What became of a list.

    Attributes:
        decisions: by the number of the fact, at most one each, in the order of the facts.
        undecided: the facts without one.
    """

    decisions: Mapping[int, Decision]
    rejected: tuple[Rejected, ...]
    undecided: tuple[int, ...]


class _Malformed(Exception):  # it never leaves this module
    """Why a decision is dropped."""


def admit(raw: object, stated: Sequence[Stated], place: Place, supports: Callable[[Statement], bool]) -> Admitted:
    """What of these decisions can be carried out.

    Args:
        raw: what the model gave: a list of `{"fact": index, "action": "add | update | delete | noop | conflict",
            "id": id or null, "text": text or null, "reason": text}`, or anything else.
        supports: whether the words of a statement prove it (`understand.evidence`); asked of a text that was rewritten.
    """
    listed = cast("list[object]", raw) if isinstance(raw, list) else None
    rejected: list[Rejected] = [] if listed is not None else [Rejected(place=0, fact=None, reason="it is no list")]
    decisions: dict[int, Decision] = {}
    met = _Met(ended=set(), last={})
    for number, one in enumerate(listed or ()):
        fact: int | None = None
        try:
            given = _object(one)
            fact = _fact(given, len(stated))
            if fact in decisions:
                raise _Malformed("the fact is decided already")
            decision = _decision(given, stated[fact], place, supports)
            met.meet(decision, fact)
        except _Malformed as error:
            rejected.append(Rejected(place=number, fact=fact, reason=str(error)))
        else:
            decisions[fact] = decision
    undecided = tuple(number for number in range(len(stated)) if number not in decisions)
    ordered = {number: decisions[number] for number in sorted(decisions)}
    return Admitted(decisions=ordered, rejected=tuple(rejected), undecided=undecided)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Met:
    """What the decisions of a list have in common.

    Attributes:
        ended: the memories that one of them ends.
        last: the last fact that speaks of a memory.
    """

    ended: set[str]
    last: dict[str, int]

    def meet(self, decision: Decision, fact: int) -> None:
        """Refuse a decision that speaks of what another has ended by then, or ends what another speaks of later."""
        ends = isinstance(decision, Update | Delete)
        for id_ in _named(decision):
            if id_ in self.ended:
                raise _Malformed("another decision of this list ends that memory")
            if ends and self.last.get(id_, -1) > fact:
                raise _Malformed("another decision of this list speaks of that memory")
        for id_ in _named(decision):
            self.last[id_] = max(fact, self.last.get(id_, -1))
            if ends:
                self.ended.add(id_)


def _named(decision: Decision) -> tuple[str, ...]:
    match decision:
        case Update(old_ids=ids) | Delete(old_ids=ids):
            return ids
        case Noop(existing_id=id_) | Conflict(existing_id=id_):
            return (id_,)
        case Add():
            return ()


def _decision(
    given: Mapping[object, object], one: Stated, place: Place, supports: Callable[[Statement], bool]
) -> Decision:
    action, reason = _action(given), _reason(given)
    if action == "add":
        return Add(statement=_reworded(given, one.statement, supports), reason=reason)
    memory = _target(given, one, place)
    if action == "noop":
        return Noop(statement=one.statement, existing_id=memory.id, reason=reason)
    if action == "conflict":
        return Conflict(statement=_reworded(given, one.statement, supports), existing_id=memory.id, reason=reason)
    if memory.valid_from > place.at:
        raise _Malformed("that memory is newer than what was said")
    statement = _reworded(given, one.statement, supports) if action == "update" else one.statement
    if memory.pinned:
        reason = f"{reason}, but the memory is pinned"
        return Conflict(statement=statement, existing_id=memory.id, reason=reason)
    if action == "delete":
        return Delete(statement=statement, old_ids=(memory.id,), reason=reason)
    if _same(statement.text, memory.text):
        return Noop(statement=one.statement, existing_id=memory.id, reason=reason)
    if any(_same(statement.text, other.memory.text) for other in one.shown if other.memory.state == "live"):
        raise _Malformed("another memory says that already")
    return Update(statement=statement, old_ids=(memory.id,), reason=reason)


def _object(one: object) -> Mapping[object, object]:
    if not isinstance(one, dict):
        raise _Malformed("it is no object")
    return cast("Mapping[object, object]", one)


def _fact(given: Mapping[object, object], facts: int) -> int:
    number = given.get("fact")
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Malformed("it names no fact")
    if not 0 <= number < facts:
        raise _Malformed("there is no such fact")
    return number


def _action(given: Mapping[object, object]) -> str:
    action = given.get("action")
    plain = action.strip().lower() if isinstance(action, str) else ""
    if plain not in _ACTIONS:
        raise _Malformed("there is no such action")
    return plain


def _reason(given: Mapping[object, object]) -> str:
    reason = given.get("reason")
    plain = " ".join(reason.split()) if isinstance(reason, str) else ""
    return plain[:_LONGEST_REASON].encode("utf-8", "replace").decode() or "the model gives no reason"


def _target(given: Mapping[object, object], one: Stated, place: Place) -> Memory:
    """The memory that a decision names: one that was shown for this fact, live, and of the same place."""
    id_ = given.get("id")
    if not isinstance(id_, str) or not id_:
        raise _Malformed("it names no memory")
    found = next((other.memory for other in one.shown if other.memory.id == id_), None)
    if found is None:
        raise _Malformed("it names a memory that was not shown")
    if found.state != "live":
        raise _Malformed("that memory is not live")
    if not _is_near(found, one.statement, place):
        raise _Malformed("that memory is of another place")
    return found


def _is_near(memory: Memory, statement: Statement, place: Place) -> bool:
    if memory.scope_name != statement.scope or memory.scope.user != place.scope.user:
        return False
    if memory.scope_name == "project" and memory.scope.project != place.scope.project:
        return False
    return not place.isolated or _agent(memory.scope) == _agent(place.scope)


def _agent(scope: Scope) -> str:
    """An agent without an id is known by its channel."""
    return scope.agent or scope.channel


def _reworded(given: Mapping[object, object], statement: Statement, supports: Callable[[Statement], bool]) -> Statement:
    """The statement in the model's words, if it gave any and the evidence proves them."""
    text = given.get("text")
    if text is None:
        return statement
    if not isinstance(text, str) or not text.strip():
        raise _Malformed("its text is empty or no text")
    if len(text) > _LONGEST_TEXT:
        raise _Malformed("its text is too long for one statement")
    plain = text.strip()
    if not _is_written(plain):
        raise _Malformed("its text cannot be written down")
    if plain == statement.text:
        return statement
    reworded = replace(statement, text=plain)
    if not supports(reworded):
        raise _Malformed("its text says what the evidence does not")
    return reworded


def _is_written(text: str) -> bool:
    """JSON can spell halves of characters, which no encoding holds."""
    return text.encode("utf-8", "ignore").decode() == text


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()
