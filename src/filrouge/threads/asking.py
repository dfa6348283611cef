"""Ask a model whether a prompt belongs to a thread, where rules leave it open (THR-3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from filrouge.model.answers import RelatedShape, read_item, schema_of
from filrouge.model.asking import Ask
from filrouge.model.thread import Routing, Thread, Weighed
from filrouge.ports import Prompts
from filrouge.threads.weighing import Item
from filrouge.understand.answers import Thought, asked
from filrouge.understand.transcript import quoted

MESSAGE, TOPICS, SUMMARY = 500, 5, 200
#: The mean of the similarity and the model's confidence from which on its yes is taken.
ACCEPTED: Final = 0.5
_TOKENS: Final = 200


def asking(item: Item, routing: Routing, candidate: Thread, prompts: Prompts, language: str) -> Thought[Routing]:
    """The routing of a borderline prompt as a model sees it.

    Args:
        routing: as the rules decided; what they weighed for `candidate` is in it.
        candidate: the thread of `routing.weighed[0]`.

    Raises:
        Unreadable: the model's answer cannot be read; the routing by the rules then stands.
    """
    best = next(one for one in routing.weighed if one.thread_id == candidate.id)
    shown = {
        "message": item.text[:MESSAGE],
        "topics": list(item.part.topics[:TOPICS]),
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
    )
    answer, by = yield from asked(ask, prompts("repair", language), _read)
    return _decided(routing, best, answer, f"{by.provider}/{by.model}")


def _decided(routing: Routing, best: Weighed, answer: RelatedShape, model: str) -> Routing:
    confidence = (best.similarity + answer.confidence) / 2
    if answer.related and confidence >= ACCEPTED:
        action = "continue" if best.state == "active" else "reactivate"
        return replace(
            routing,
            action=action,
            thread_id=best.thread_id,
            parent=None,
            similarity=confidence,
            reason=f"A model says it belongs ({answer.confidence:.2f}), similarity {best.similarity:.2f}.",
            model=model,
        )
    own = next((one for one in routing.weighed if one.own), None)
    return replace(
        routing,
        action="fork" if own else "new",
        thread_id=None,
        parent=own.thread_id if own else None,
        reason=f"A model says it does not belong ({answer.confidence:.2f}), similarity {best.similarity:.2f}.",
        model=model,
    )


def _read(answer: Mapping[str, Any]) -> RelatedShape:
    found = read_item(RelatedShape, answer)
    if isinstance(found, str):
        raise ValueError(found)
    return found
