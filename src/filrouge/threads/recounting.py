"""Ask a model where the work stands, and correct with its answer what the rules made of it (GARD-3).

A model knows better which sentences matter; it does not get to write any. It chooses sentences of the conversation,
each is found again in its turn or falls, and decisions count from the user's turns alone. Files and failures stay as
the rules found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from filrouge.extraction.model_answers import Thought, asked, locate, rendered, stretch
from filrouge.extraction.summaries import speaker_of
from filrouge.model.answers import ChosenQuote, StandingShape, read_items, schema_of
from filrouge.model.asking import Ask
from filrouge.model.synthesis import Point, Synthesis
from filrouge.model.turn import TRUST_AGENT, TRUST_PROMPT, Turn
from filrouge.ports import Prompts
from filrouge.threads.points import LONGEST
from filrouge.threads.still_open import MOST_QUESTIONS
from filrouge.threads.synthesis import MOST_DECISIONS

_MOST_STATE: Final = 3
_TOKENS: Final = 800
_LISTS: Final = ("state", "decisions", "questions")


def recounting(turns: Sequence[Turn], by_rules: Synthesis, prompts: Prompts, language: str) -> Thought[Synthesis]:
    """The synthesis as a model corrects it.

    Args:
        turns: those that the rules read, in their order; of very many the last are shown.
        by_rules: what they made of them. What it holds of earlier turns stays.

    Raises:
        Unreadable: the model's answer cannot be read; what the rules made then stands.
    """
    spoken = [turn for turn in turns if speaker_of(turn) in ("user", "agent")]
    shown = spoken[-stretch(spoken[::-1]) :]
    ask = Ask(
        operation="synthesise",
        prompt=prompts("synthesise", language),
        text=rendered(shown),
        schema=schema_of(StandingShape),
        most_tokens=_TOKENS,
    )
    answer, by = yield from asked(ask, prompts("repair", language), _listed)
    seen = {turn.id for turn in shown}
    state = _points(answer, "state", shown, least=TRUST_AGENT)
    decisions = _points(answer, "decisions", shown, least=TRUST_PROMPT)
    questions = _points(answer, "questions", shown, least=TRUST_AGENT)
    return replace(
        by_rules,
        state=tuple(state[:_MOST_STATE]) or by_rules.state,
        decisions=_latest_first(decisions, by_rules.decisions, seen)[:MOST_DECISIONS],
        questions=_latest_first(questions, by_rules.questions, seen)[:MOST_QUESTIONS],
        made_by=f"{by.provider}/{by.model}",
    )


def _listed(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    missing = next((name for name in _LISTS if not isinstance(answer.get(name), list)), None)
    if missing:
        raise ValueError(f"it has no list `{missing}`")
    return answer


def _points(answer: Mapping[str, Any], name: str, turns: Sequence[Turn], *, least: int) -> list[Point]:
    chosen, _ = read_items(ChosenQuote, answer, name)
    return [point for one in chosen if (point := _found(one, turns, least))]


def _found(chosen: ChosenQuote, turns: Sequence[Turn], least: int) -> Point | None:
    """The sentence in its turn. Models miscount: the turn that holds the words is the one that was meant."""
    cited = turns[chosen.turn - 1 : chosen.turn] if chosen.turn > 0 else ()
    for turn in (*cited, *reversed(turns)):
        span = locate(chosen.quote, turn.text)
        if span and turn.trust >= least:
            text = " ".join(turn.text[span.start : span.end].split())
            return Point(text=text, turn_id=turn.id, trust=turn.trust) if len(text) <= LONGEST else None
    return None


def _latest_first(chosen: Sequence[Point], by_rules: Sequence[Point], seen: set[str]) -> tuple[Point, ...]:
    """What the model chose, and of what the rules found all that the model was not shown; memories stay known."""
    memories = {one.turn_id: one.memory_id for one in by_rules if one.memory_id}
    own = [replace(one, memory_id=memories.get(one.turn_id, "")) for one in chosen]
    unseen = [one for one in by_rules if one.turn_id not in seen]
    once = {one.text: one for one in [*own, *unseen]}
    return tuple(sorted(once.values(), key=lambda one: one.turn_id, reverse=True))
