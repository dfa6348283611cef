"""Decisions without a model: Add, Update, Delete, Noop or Conflict.

The profile of a statement is compared with those of nearby memories. Questions, in this order: Does the statement only
retract something? Does a memory hold its key? Does a memory already say it? Does it name the old value of a memory?
Does it choose what a memory rejects? Is it a newer value of the same subject, or a newer version of the same fact? Does
it deny a memory? If every answer is no, the statement is new. A memory of another scope or entity is never changed.
Only the user changes a pinned memory, so what would change one becomes a Conflict.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from filrouge.extraction.profile import (
    Profile,
    contradicts_choice,
    find_denied,
    gives_other_measures,
    names_other_value,
    newer_value,
    newer_version_of,
    profile,
    same_words,
)
from filrouge.extraction.reading import are_differently_numbered, says_change
from filrouge.extraction.vocabulary import content, fold, tokens, variants
from filrouge.memories.models import Add, Conflict, Decision, Delete, Memory, Neighbour, Noop, Span, Statement, Update

#: Minimum calibrated similarity of a restatement.
MIN_SAME_SIMILARITY: Final = 0.88
_MIN_OVERLAP: Final = 0.8
_MIN_CONTAINED: Final = 0.85
_MAX_TERMS: Final = 24
#: Words before an old value that show that it was in use.
_BEFORE_OLD_VALUE: Final = (
    r"\b(?:uses?|using|used|utilis\w+|chose|chosen|picked|with|on|in|at|under|port|via|sur|en|sous|avec|chez|par|est|sont|is|are|s'appelle"
    r"|called|named|usa|usamos) "
)


#: The checks that a caller of `decide` may skip, in order.
Check = Literal["restated", "old value", "rejected choice", "newer value", "newer version", "denial"]


def decide(
    statement: Statement, neighbours: Sequence[Neighbour], *, skip_checks: frozenset[Check] = frozenset()
) -> Decision:
    """Return the decision on `statement`, given the live memories near it."""
    nearby = [n for n in neighbours if n.memory.state == "live" and n.memory.scope_name == statement.scope]
    nearby = list({n.memory.id: n for n in nearby}.values())
    mine = profile(statement.text)
    if statement.is_correction and mine.retracts and statement.corrects:
        return _decide_retraction(statement, nearby)
    if statement.key and (by_key := _decide_by_key(statement, nearby)):
        return by_key
    restated_memory = next(
        (n for n in sorted(nearby, key=lambda n: -n.similarity) if _restates(statement, mine, n)), None
    )
    if not statement.is_correction:
        nearby = [n for n in nearby if not are_differently_numbered(statement.text, n.memory.text)]
    replaced, reason = _find_replaced(statement, mine, [n.memory for n in nearby], skip_checks)
    if restated_memory and "restated" not in skip_checks:
        replaced = [memory for memory in replaced if _is_newer_than_mention(memory, restated_memory.memory)]
        if not replaced:
            return Noop(statement=statement, existing_id=restated_memory.memory.id, reason="already known")
        replaced, reason = [restated_memory.memory, *replaced], f"restated: {reason}"
    if not replaced and "newer version" not in skip_checks:
        replaced, reason = newer_version_of(statement, nearby), "a newer version of the same fact"
    if not replaced:
        denied = None if "denial" in skip_checks else find_denied(statement, nearby)
        if denied:
            return Conflict(statement=statement, existing_id=denied.id, reason="one denies what the other states")
        return Add(statement=statement, reason="no similar memory")
    pinned = next((memory for memory in replaced if memory.pinned), None)
    if pinned:
        return Conflict(statement=statement, existing_id=pinned.id, reason=f"{reason}, but the memory is pinned")
    return Update(statement=statement, old_ids=tuple(memory.id for memory in replaced), reason=reason)


def statement_of(memory: Memory) -> Statement:
    """Return a memory as a statement, to compare it with other memories.

    Key, value and correction are left out, because they change decisions; a caller that needs them adds them.
    """
    return Statement(
        kind=memory.kind,
        text=memory.text,
        span=Span(start=0, end=0),
        scope=memory.scope_name,
        subject=memory.subject,
        confidence=memory.confidence,
        timeframe=memory.timeframe,
    )


def retrieval_terms(statement: Statement) -> tuple[str, ...]:
    """Return extra search terms for the store: old values, the subject in every language, and current values."""
    terms: dict[str, None] = {}
    for old in statement.corrects:
        terms.update(dict.fromkeys([old, *tokens(fold(old))]))
    for word in [*statement.subject.split(), *sorted(profile(statement.text).entity)]:
        terms.update(dict.fromkeys(variants(word)))
    for value in profile(statement.text).current_values:
        terms[value.text] = None
    return tuple(term for term in terms if len(term) > 1)[:_MAX_TERMS]


def _decide_retraction(statement: Statement, nearby: list[Neighbour]) -> Decision:
    retracted_words = {word for old in statement.corrects for word in content(old)}
    found = [n.memory for n in nearby if retracted_words and _has_words(profile(n.memory.text), retracted_words)]
    pinned = next((memory for memory in found if memory.pinned), None)
    if pinned:
        return Conflict(statement=statement, existing_id=pinned.id, reason="retracted, but the memory is pinned")
    return Delete(statement=statement, old_ids=tuple(m.id for m in found), reason="retracted by the user")


def _has_words(theirs: Profile, words: set[str]) -> bool:
    """Return whether a memory has all wanted words, or all but one of three or more."""
    missing = sum(word not in theirs.words for word in words)
    return missing == 0 or (len(words) >= 3 and missing == 1)


def _decide_by_key(statement: Statement, nearby: list[Neighbour]) -> Decision | None:
    """Return the decision for a keyed fact, which is unique by key: Noop for the same value, otherwise Update."""
    existing = next((n.memory for n in nearby if n.memory.key == statement.key), None)
    if existing is None:
        return None
    if fold(existing.value or "").split() == fold(statement.value or "").split():
        return Noop(statement=statement, existing_id=existing.id, reason=f"{statement.key} is known")
    if existing.pinned:
        return Conflict(
            statement=statement, existing_id=existing.id, reason=f"another {statement.key}, but it is pinned"
        )
    return Update(statement=statement, old_ids=(existing.id,), reason=f"a newer {statement.key}")


def _restates(statement: Statement, mine: Profile, neighbour: Neighbour) -> bool:
    """Return whether the memory already says what the statement says."""
    memory = neighbour.memory
    if same_words(statement.text, memory.text):
        return True
    if gives_other_measures(statement.text, memory.text):
        return False
    theirs = profile(memory.text)
    if mine.rejects - theirs.rejects and not (mine.rejects <= set(theirs.words)):
        return False
    if (
        bool(mine.negated) != bool(theirs.negated)
        or mine.current_texts & theirs.rejects
        or theirs.current_texts & mine.rejects
    ):
        return False
    same_values = mine.current_texts == theirs.current_texts
    if same_values and (neighbour.similarity >= MIN_SAME_SIMILARITY or _word_jaccard(mine, theirs) >= _MIN_OVERLAP):
        return True
    if mine.entity != theirs.entity and not (
        _covered_share(theirs, mine) >= _MIN_CONTAINED and mine.entity <= set(theirs.words)
    ):
        return False
    if not mine.current_texts <= theirs.current_texts:
        return False
    if _covered_share(theirs, mine) >= _MIN_CONTAINED and mine.words.total() >= 3:
        return True
    return (
        bool(mine.entity and mine.named and mine.current_texts)
        and _has_all_value_kinds(mine, theirs)
        and _count_new_words(mine, theirs) <= 2
    )


def _is_newer_than_mention(memory: Memory, restated_memory: Memory) -> bool:
    """Return whether `memory` is newer than the last mention of `restated_memory`; a restatement then replaces it."""
    return memory.id != restated_memory.id and memory.valid_from > (
        restated_memory.last_mention or restated_memory.valid_from
    )


def _word_jaccard(first: Profile, second: Profile) -> float:
    """Return the share of the words of both texts that they have in common."""
    union = (first.words | second.words).total()
    return (first.words & second.words).total() / union if union else 0.0


def _covered_share(text: Profile, part: Profile) -> float:
    """Return the share of the words of `part` that `text` also has."""
    total = part.words.total()
    return (part.words & text.words).total() / total if total else 0.0


def _count_new_words(mine: Profile, theirs: Profile) -> int:
    return sum(1 for word in mine.words if word not in theirs.words)


def _has_all_value_kinds(mine: Profile, theirs: Profile) -> bool:
    """Return whether every kind of value in `mine` also occurs in `theirs`."""
    return {v.kind for v in mine.current_values} <= {v.kind for v in theirs.current_values}


def _find_replaced(
    statement: Statement, mine: Profile, nearby: list[Memory], skip_checks: frozenset[Check]
) -> tuple[list[Memory], str]:
    """Return the memories that the statement replaces, and the reason."""
    holding_old_value = [memory for memory in nearby if _names_its_old_value(statement, mine, memory)]
    if "old value" not in skip_checks and holding_old_value and (selected := _select_entity(mine, holding_old_value)):
        return selected, "it names the outdated value"
    swapped = [memory for memory in nearby if contradicts_choice(mine, profile(memory.text))]
    if swapped and "rejected choice" not in skip_checks:
        return swapped, "it chooses the rejected option"
    if "newer value" in skip_checks:
        return [], ""
    announced = statement.is_correction and not says_change(fold(statement.text))
    newer = [
        m
        for m in nearby
        if newer_value(mine, profile(m.text), corrects=statement.is_correction)
        or (announced and names_other_value(mine, profile(m.text)))
    ]
    if mine.entity:
        return newer, "a newer value of the same subject"
    newer = [memory for memory in newer if _have_same_subject(mine, profile(memory.text))]
    return (newer, "a newer value of the same subject") if len(newer) == 1 else ([], "")


def _have_same_subject(mine: Profile, theirs: Profile) -> bool:
    """Return whether two texts share a word besides their values, or one of them has only values."""
    my_words, their_words = ({word for word in side.words if word not in side.current_texts} for side in (mine, theirs))
    return not my_words or not their_words or bool(my_words & their_words)


def _names_its_old_value(statement: Statement, mine: Profile, memory: Memory) -> bool:
    """Return whether the memory holds a value that the statement calls outdated, for the same subject."""
    theirs = profile(memory.text)
    if not statement.is_correction:
        # "We deploy to Fly, not Heroku": the contrast is enough if the entity is the same.
        return (
            bool(mine.rejects & theirs.current_texts and mine.current_texts and mine.entity)
            and mine.entity == theirs.entity
        )
    old = [set(content(phrase)) or {fold(phrase)} for phrase in (*statement.corrects, *mine.rejects)]
    old = [words - mine.entity or words for words in old]
    if not any(
        words and words <= set(theirs.words) | theirs.current_texts and not words <= theirs.rejects for words in old
    ):
        return False
    if all(words <= mine.entity for words in old):
        return theirs.named and bool(mine.entity & theirs.entity)
    if mine.entity & (theirs.entity or frozenset(theirs.words)):
        return True
    return not mine.named and (
        memory.kind == "decision" or any(_is_chosen(memory.text, phrase) for phrase in mine.rejects)
    )


def _is_chosen(text: str, old: str) -> bool:
    """Return whether the text says that `old` was used, run on or picked, rather than only mentions it."""
    return re.search(_BEFORE_OLD_VALUE + r"(?:[\w'-]+ ){0,1}`?" + re.escape(old), fold(text)) is not None


def _select_entity(mine: Profile, holding_old_value: list[Memory]) -> list[Memory]:
    """Return which of these memories the correction means, if they are about several entities.

    Memories that share the entity of the correction are preferred, then those that have no entity.
    """
    sharing = [memory for memory in holding_old_value if mine.entity & set(profile(memory.text).words)]
    if sharing and mine.named:
        return sharing
    entities = {profile(memory.text).entity for memory in holding_old_value}
    if len(entities) <= 1:
        return holding_old_value
    general = [memory for memory in holding_old_value if not profile(memory.text).entity]
    return sharing or general
