"""Ask a model whether a prompt belongs to a thread, where rules leave it open (THR-3).

A sure yes puts the prompt there. A sure no takes it away again where the rules put it there, and else leaves it: what a
model says of one thread says nothing of another. Whatever is not sure leaves the decision of the rules, and open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from filrouge.extraction.model_answers import Thought, asked, quoted
from filrouge.model.answers import RelatedShape, read_item, schema_of
from filrouge.model.asking import Ask
from filrouge.model.thread import Routing, Thread, Weighed
from filrouge.ports import Prompts
from filrouge.threads.routing import Item

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
