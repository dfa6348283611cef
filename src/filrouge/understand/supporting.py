"""Ask a model whether quotes say what facts say, for those where words and meaning leave it open (EXT-3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from filrouge.model.answers import StatedSupport, SupportShape, read_items, schema_of
from filrouge.model.asking import Ask
from filrouge.ports import Prompts
from filrouge.understand.answers import Thought, asked
from filrouge.understand.extraction import Candidate
from filrouge.understand.transcript import quoted

_AROUND: Final = 300
_TOKENS_EACH: Final = 40


def supporting(candidates: Sequence[Candidate], prompts: Prompts, language: str) -> Thought[tuple[bool, ...]]:
    """Which of these facts are supported; what the model says nothing of is not."""
    if not candidates:
        return ()
    items = [{"fact": number, "text": one.statement.text, **_cited(one)} for number, one in enumerate(candidates)]
    ask = Ask(
        operation="support",
        prompt=prompts("support", language),
        text=quoted("facts", json.dumps(items, ensure_ascii=False, indent=1)),
        schema=schema_of(SupportShape),
        most_tokens=100 + _TOKENS_EACH * len(candidates),
    )
    answer, _ = yield from asked(ask, prompts("repair", language), _judged)
    judged, _ = read_items(StatedSupport, answer, "judgements")
    # Judged twice and differently counts as not supported.
    refused = {one.fact for one in judged if not one.supported}
    held = {one.fact for one in judged if one.supported} - refused
    return tuple(number in held for number in range(len(candidates)))


def _cited(candidate: Candidate) -> dict[str, str]:
    span, text = candidate.statement.span, candidate.turn.text
    return {
        "quote": text[span.start : span.end],
        "message": text[max(0, span.start - _AROUND) : span.end + _AROUND],
    }


def _judged(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(answer.get("judgements"), list):
        raise ValueError("it has no list `judgements`")
    return answer
