"""When two things that are known are one, and which of them stays; when they cannot both hold.

The rules are those by which a new statement meets what is known (`extraction.decide`), asked both ways and of two that
are live already. Merging is the more careful of the two: a wrong merge hides what was true, a missed one leaves a
repetition. So two memories are one only where each already says what the other says, with the same numbers, names and
values, and either in the same words or in words that mean nearly the same (`bench/merging.py` measures what that lets
through). A contradiction is only put before the user.

Nothing crosses a project, a user or a scope. Rules are left alone, and what is pinned is never merged away.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.extraction.decide import SAME, Rule, decide
from filrouge.extraction.profile import profile, same_words, version
from filrouge.extraction.vocabulary import content, fold
from filrouge.model.decision import Conflict, Neighbour, Noop, Update
from filrouge.model.memory import SUMS, Memory, Span, Statement

_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")


def may_be_one(one: Memory, other: Memory) -> bool:
    """True for two live memories of one place and kind that nobody set apart: no rules, and at most one is pinned."""
    if one.id == other.id or not _of_one_place(one, other) or one.kind != other.kind or one.kind == "rule":
        return False
    if (one.pinned and other.pinned) or one.disabled or other.disabled:
        return False
    keys = {one.key, other.key} - {None}
    return len(keys) < 2 and not one.timeframe and not other.timeframe


def is_same(one: Memory, other: Memory, similarity: float) -> bool:
    """True where two memories that may be one say the same.

    Args:
        similarity: calibrated, of their texts; 0.0 where it is not known.
    """
    if not may_be_one(one, other):
        return False
    if same_words(one.text, other.text):
        return one.value == other.value or None in (one.value, other.value)
    if similarity < SAME or not _same_values(one, other):
        return False
    return _says_no_more(one, other, similarity) and _says_no_more(other, one, similarity)


def rank(memory: Memory) -> tuple[bool, bool, int, int, str]:
    """Who stays comes first: the pinned; a core fact; what is trusted more; what was said more often; the older."""
    return not memory.pinned, memory.key is None, -memory.trust, -memory.mention_count, memory.id


def kept_of(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Which of two stays, then which goes."""
    first, second = sorted((one, other), key=rank)
    return first, second


def contradiction(one: Memory, other: Memory, similarity: float) -> tuple[Memory, Memory, str] | None:
    """The newer, the older and why they cannot both hold; None where they can, as far as rules can tell."""
    if not _of_one_place(one, other) or "rule" in (one.kind, other.kind) or one.kind in SUMS or other.kind in SUMS:
        return None
    older, newer = sorted((one, other), key=lambda memory: (memory.valid_from, memory.id))
    if {cited.turn_id for cited in older.evidence} & {cited.turn_id for cited in newer.evidence}:
        return None  # who says both in one breath means both
    found = decide(stated(newer), [Neighbour(memory=older, similarity=similarity)], without=_unsure(newer, older))
    match found:
        case Update(reason=reason) | Conflict(reason=reason):
            return newer, older, reason
        case _:
            return None


def concept_key(text: str) -> frozenset[str]:
    """What makes two concepts one: their content words, bridged between languages, without plurals and order."""
    return frozenset(content(text))


def is_same_concept(one: Memory, other: Memory) -> bool:
    """True for two concepts of one place that are spelt or said in another way."""
    if one.id == other.id or not one.kind == other.kind == "concept" or not _of_one_place(one, other):
        return False
    key = concept_key(one.text)
    return bool(key) and key == concept_key(other.text)


def stated(memory: Memory) -> Statement:
    """What a memory says, as a statement that is about to be compared."""
    return Statement(
        kind=memory.kind,
        text=memory.text,
        span=Span(start=0, end=0),
        scope=memory.scope_name,
        subject=memory.subject,
        confidence=memory.confidence,
        timeframe=memory.timeframe,
    )


def _of_one_place(one: Memory, other: Memory) -> bool:
    live = one.state == other.state == "live" and "note" not in (one.kind, other.kind)  # files, which nobody merges
    same_project = one.scope.project == other.scope.project or one.scope_name == "user"
    return live and one.scope_name == other.scope_name and one.scope.user == other.scope.user and same_project


def _unsure(newer: Memory, older: Memory) -> frozenset[Rule]:
    """The rules that do not suffice to ask a person: of two that name nothing, or name different things."""
    mine, theirs = profile(newer.text).entity, profile(older.text).entity
    if not mine:
        return frozenset({"newer value"})
    apart = theirs and not (mine <= theirs or theirs <= mine)
    return frozenset({"newer version"}) if apart else frozenset()


def _says_no_more(mine: Memory, theirs: Memory, similarity: float) -> bool:
    return isinstance(decide(stated(mine), [Neighbour(memory=theirs, similarity=similarity)]), Noop)


def _same_values(one: Memory, other: Memory) -> bool:
    """True where no number, name, value or denial tells the two apart."""
    mine, theirs = profile(one.text), profile(other.text)
    if (mine.held, mine.rejects, bool(mine.negated)) != (theirs.held, theirs.rejects, bool(theirs.negated)):
        return False
    if set(_NUMBER.findall(fold(one.text))) != set(_NUMBER.findall(fold(other.text))):
        return False
    return version(one.text).names == version(other.text).names and one.sentiment == other.sentiment
