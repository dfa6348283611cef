"""What a language model is asked about threads: whether a prompt belongs to one, and where the work stands.

Pure: no database, no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, Turn
from filrouge.core.protocols import Prompts
from filrouge.extraction.model_answers import Thought, asked, locate, quoted, rendered, stretch
from filrouge.extraction.models import ChosenQuote, RelatedShape, StandingShape, read_item, read_items, schema_of
from filrouge.extraction.summaries import speaker_of
from filrouge.providers.models import Ask
from filrouge.threads.assignment import Item
from filrouge.threads.models import Point, Routing, Synthesis, Thread, Weighed
from filrouge.threads.synthesis import LONGEST, MOST_DECISIONS, MOST_QUESTIONS

# Ask a model whether a prompt belongs to a thread, where rules leave it open (THR-3).
#
# A sure yes puts the prompt there. A sure no takes it away again where the rules put it there, and else leaves it:
# what a model says of one thread says nothing of another. Whatever is not sure leaves the decision of the rules, and
# open.

MESSAGE, TOPICS, SUMMARY = 500, 5, 200
#: The mean of the similarity and the model's confidence from which on its yes is taken; its no from this confidence on.
ACCEPTED: Final = 0.5
_TOKENS: Final = 200


def asking(
    item: Item,
    routing: Routing,
    candidate: Thread,
    prompts: Prompts,
    language: str,
    *,
    seconds: float | None = None,
) -> Thought[Routing]:
    """The routing of a borderline prompt as a model sees it; no longer borderline, where it is sure.

    Args:
        routing: as the rules decided; what they weighed for `candidate` is in it.
        candidate: the thread of `routing.weighed[0]`.
        seconds: how long each answer is of use.

    Raises:
        Unreadable: the model's answer cannot be read; the routing by the rules then stands.
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
    ask = Ask(
        operation="thread",
        prompt=prompts("thread", language),
        text=quoted("case", json.dumps(shown, ensure_ascii=False, indent=1)),
        schema=schema_of(RelatedShape),
        most_tokens=_TOKENS,
        seconds=seconds,
    )
    answer, by = yield from asked(ask, prompts("repair", language), _read)
    return _decided(routing, best, answer, f"{by.provider}/{by.model}")


def _decided(routing: Routing, best: Weighed, answer: RelatedShape, model: str) -> Routing:
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


# Ask a model where the work stands, and correct with its answer what the rules made of it (GARD-3).
#
# A model knows better which sentences matter; it does not get to write any. It chooses sentences of the conversation,
# each is found again in its turn or falls, and decisions count from the user's turns alone. Files and failures stay
# as the rules found them.

_MOST_STATE: Final = 3
_RECOUNTING_TOKENS: Final = 800
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
        most_tokens=_RECOUNTING_TOKENS,
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
