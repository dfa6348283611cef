"""Ask a model what a stretch of a conversation teaches (EXT-1, EXT-2).

Each fact comes with a quote; it is found again in its turn, or it does not count. What the user quoted or pasted
proves nothing (`own_words`). Only the user's own words make a
rule, a preference, an intent or a constraint (RULE-3); what the agent says is an observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from filrouge.model.answers import NamedEntity, SessionShape, StatedFact, read_items, schema_of, text_of, texts_of
from filrouge.model.asking import Ask, Completion
from filrouge.model.memory import LEAST_TO_KEEP, Kind, Span, Statement
from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.ports import Prompts
from filrouge.understand.answers import Thought, asked
from filrouge.understand.evidence import locate
from filrouge.understand.own_words import own_words
from filrouge.understand.transcript import quoted, rendered

_LONGEST_FACT: Final = 600
_MOST_FACTS: Final = 40
_NOWHERE: Final = Span(start=0, end=0)
_USERS_ALONE: Final = frozenset({"rule", "preference", "intent", "constraint"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A fact that a model read, with the turn that its span stands in."""

    statement: Statement
    turn: Turn
    quote: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """What a model read in a stretch of a conversation.

    Attributes:
        candidates: facts whose quotes were found.
        unfounded: facts whose quotes were not, each with the reason.
        misshapen: what was wrong with items that were no facts at all.
    """

    candidates: tuple[Candidate, ...]
    unfounded: tuple[tuple[Candidate, str], ...]
    misshapen: tuple[str, ...]
    summary: str
    intent: str
    implicit: str
    concepts: tuple[str, ...]
    entities: tuple[NamedEntity, ...]
    questions: tuple[str, ...]
    by: Completion
    prompt_version: str


def extraction(
    turns: Sequence[Turn], prompts: Prompts, language: str, most_tokens: int, before: str = ""
) -> Thought[Extraction]:
    """Ask what these turns teach; `before` is what the conversation came to so far."""
    prompt = prompts("extract", language)
    ask = Ask(
        operation="extract",
        prompt=prompt,
        text=f"{quoted('before', before)}\n\n{rendered(turns)}" if before else rendered(turns),
        schema=schema_of(SessionShape),
        most_tokens=most_tokens,
    )
    answer, by = yield from asked(ask, prompts("repair", language), _facts_listed)
    stated, misshapen = read_items(StatedFact, answer, "facts")
    entities, _ = read_items(NamedEntity, answer, "entities")
    founded: list[Candidate] = []
    unfounded: list[tuple[Candidate, str]] = []
    for fact in stated[:_MOST_FACTS]:
        found = _found(fact, turns)
        if isinstance(found, Candidate):
            founded.append(found)
        elif found:
            unfounded.append(found)
    return Extraction(
        candidates=tuple(founded),
        unfounded=tuple(unfounded),
        misshapen=tuple(misshapen),
        summary=text_of(answer, "summary"),
        intent=text_of(answer, "intent"),
        implicit=text_of(answer, "implicit"),
        concepts=texts_of(answer, "concepts"),
        entities=tuple(entity for entity in entities if entity.name),
        questions=texts_of(answer, "questions"),
        by=by,
        prompt_version=prompt.version,
    )


def _facts_listed(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(answer.get("facts"), list):
        raise ValueError("it has no list `facts`")
    return answer


def _found(fact: StatedFact, turns: Sequence[Turn]) -> Candidate | tuple[Candidate, str] | None:
    """The fact with its span; or with what is missing; None where it is not worth keeping."""
    if not fact.text or len(fact.text) > _LONGEST_FACT or fact.confidence < LEAST_TO_KEEP:
        return None
    cited = turns[fact.turn - 1] if 1 <= fact.turn <= len(turns) else None
    # Models miscount: the turn that holds the quote is the one that was meant.
    order = [turn for turn in (cited, *reversed(turns)) if turn is not None and turn.role != "tool"]
    place = next(((turn, span) for turn in order if (span := locate(fact.quote, citable(turn)))), None)
    if place is None and any(locate(fact.quote, turn.text) for turn in order):
        return None  # the user quoted or pasted it
    if place is None:
        turn = order[0] if order else turns[0]
        return _candidate(fact, turn, Statement(kind="fact", text=fact.text, span=_NOWHERE)), "its quote is nowhere"
    turn, span = place
    kind: Kind = fact.kind
    if kind in _USERS_ALONE and turn.trust < TRUST_PROMPT:
        kind = "fact"
    keyed = turn.trust >= TRUST_PROMPT and fact.key and fact.value
    statement = Statement(
        kind=kind,
        text=fact.text,
        span=span,
        scope=fact.scope if turn.trust >= TRUST_PROMPT else "project",
        subject=" ".join(fact.topic.lower().split()[:6]),
        key=fact.key if keyed else None,
        value=fact.value if keyed else None,
        confidence=fact.confidence,
        sentiment=fact.sentiment,
        timeframe=fact.timeframe,
    )
    return _candidate(fact, turn, statement)


def citable(turn: Turn) -> str:
    """What of a turn may prove a fact: of the user's message the own words, with blanks in the place of the rest."""
    return own_words(turn.text) if turn.role == "user" else turn.text


def _candidate(fact: StatedFact, turn: Turn, statement: Statement) -> Candidate:
    return Candidate(statement=statement, turn=turn, quote=fact.quote)
