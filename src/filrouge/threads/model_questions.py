"""Questions to a language model: does a prompt belong to a thread, and where does the work stand?

Pure: no database, no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, Turn
from filrouge.core.protocols import Prompts
from filrouge.extraction.model_answers import (
    RequestGenerator,
    ask_and_parse,
    locate,
    quoted,
    rendered,
    turns_per_prompt,
)
from filrouge.extraction.models import ChosenQuote, RelatedShape, StandingShape, read_item, read_items, schema_of
from filrouge.extraction.summaries import speaker_of
from filrouge.providers.models import CompletionRequest
from filrouge.threads.assignment import RoutedPrompt
from filrouge.threads.models import Point, Routing, Synthesis, Thread, ThreadCandidate
from filrouge.threads.synthesis import MAX_POINT_CHARS, MOST_DECISIONS, MOST_QUESTIONS

# Does a prompt belong to a thread?

MESSAGE, TOPICS, SUMMARY = 500, 5, 200
#: Acceptance threshold: for a yes, the mean of similarity and confidence; for a no, the confidence.
ACCEPTED: Final = 0.5
_TOKENS: Final = 200


def asking(
    item: RoutedPrompt,
    routing: Routing,
    candidate: Thread,
    prompts: Prompts,
    language: str,
    *,
    seconds: float | None = None,
) -> RequestGenerator[Routing]:
    """Ask a model about a borderline prompt; return the routing, no longer borderline if the model is confident.

    It is asked if the rules are unsure (THR-3). A confident yes puts the prompt there. A confident no removes it if the
    rules had put it there, and otherwise changes nothing: an answer about one thread says nothing about another. An
    unsure answer leaves the decision of the rules, still open.

    Args:
        routing: the decision of the rules, including the comparison with `candidate`.
        candidate: the thread of `routing.weighed[0]`.
        seconds: how long each answer is of use.

    Raises:
        Unreadable: the model's answer cannot be read; the decision of the rules stands.
    """
    best = next(one for one in routing.weighed if one.thread_id == candidate.id)
    shown = {
        "message": item.text[:MESSAGE],
        "topics": list(item.topics[:TOPICS]),
        "thread": {
            "title": candidate.title,
            "topics": list(candidate.topics[:TOPICS]),
            "summary": candidate.summary[:SUMMARY],
        },
    }
    ask = CompletionRequest(
        operation="thread",
        prompt=prompts("thread", language),
        text=quoted("case", json.dumps(shown, ensure_ascii=False, indent=1)),
        schema=schema_of(RelatedShape),
        most_tokens=_TOKENS,
        seconds=seconds,
    )
    answer, by = yield from ask_and_parse(ask, prompts("repair", language), _read)
    return _decided(routing, best, answer, f"{by.provider}/{by.model}")


def _decided(routing: Routing, best: ThreadCandidate, answer: RelatedShape, model: str) -> Routing:
    confidence = (best.similarity + answer.confidence) / 2
    told = f"({answer.confidence:.2f}), similarity {best.similarity:.2f}."
    if answer.related and confidence >= ACCEPTED:
        return replace(
            routing,
            action="continue" if best.state == "active" else "reactivate",
            thread_id=best.thread_id,
            parent=None,
            similarity=confidence,
            reason=f"A model says it belongs {told}",
            borderline=False,
            model=model,
        )
    if answer.related or answer.confidence < ACCEPTED:
        return replace(routing, reason=f"A model was asked and is not sure {told}", model=model)
    sure = replace(routing, reason=f"A model says it does not belong {told}", borderline=False, model=model)
    if routing.thread_id != best.thread_id:
        return sure
    own = next((one for one in routing.weighed if one.own), None)
    parent = own.thread_id if own else None
    return replace(sure, action="fork" if own else "new", thread_id=None, parent=parent)


def _read(answer: Mapping[str, Any]) -> RelatedShape:
    found = read_item(RelatedShape, answer)
    if isinstance(found, str):
        raise ValueError(found)
    return found


# Where does the work stand?

_MOST_STATE: Final = 3
_RECOUNTING_TOKENS: Final = 800
_LISTS: Final = ("state", "decisions", "questions")


def recounting(
    turns: Sequence[Turn], by_rules: Synthesis, prompts: Prompts, language: str
) -> RequestGenerator[Synthesis]:
    """Return the synthesis as corrected by a model.

    A model judges better than the rules which sentences matter (GARD-3), but it cannot write any: it selects sentences
    of the conversation, and each must be found in its turn. Decisions are accepted only from the user's turns. Files
    and failures stay as the rules found them.

    Args:
        turns: the turns that the rules read, in order; only the last ones are shown if there are very many.
        by_rules: the synthesis by the rules; what it holds of earlier turns is kept.

    Raises:
        Unreadable: the model's answer cannot be read; the synthesis by the rules stands.
    """
    spoken = [turn for turn in turns if speaker_of(turn) in ("user", "agent")]
    shown = spoken[-turns_per_prompt(spoken[::-1]) :]
    ask = CompletionRequest(
        operation="synthesise",
        prompt=prompts("synthesise", language),
        text=rendered(shown),
        schema=schema_of(StandingShape),
        most_tokens=_RECOUNTING_TOKENS,
    )
    answer, by = yield from ask_and_parse(ask, prompts("repair", language), _listed)
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
    """Find the selected sentence: in the cited turn, or else in any turn, because models miscount."""
    cited = turns[chosen.turn - 1 : chosen.turn] if chosen.turn > 0 else ()
    for turn in (*cited, *reversed(turns)):
        span = locate(chosen.quote, turn.text)
        if span and turn.trust >= least:
            text = " ".join(turn.text[span.start : span.end].split())
            return Point(text=text, turn_id=turn.id, trust=turn.trust) if len(text) <= MAX_POINT_CHARS else None
    return None


def _latest_first(chosen: Sequence[Point], by_rules: Sequence[Point], seen: set[str]) -> tuple[Point, ...]:
    """Merge the model's selection with the rules' points from turns that the model was not shown, latest first.

    Memory ids are carried over.
    """
    memories = {one.turn_id: one.memory_id for one in by_rules if one.memory_id}
    own = [replace(one, memory_id=memories.get(one.turn_id, "")) for one in chosen]
    unseen = [one for one in by_rules if one.turn_id not in seen]
    once = {one.text: one for one in [*own, *unseen]}
    return tuple(sorted(once.values(), key=lambda one: one.turn_id, reverse=True))
