"""Ask a model what a tool's output tells (CAP-7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filrouge.model.answers import InformativeShape, read_item, schema_of
from filrouge.model.asking import Ask
from filrouge.ports import Prompts
from filrouge.understand.answers import Thought, asked
from filrouge.understand.informative import LONGEST_INPUT, LONGEST_SUMMARY, THRESHOLD, Informed, told
from filrouge.understand.transcript import quoted

_TOKENS = 300


def judging_output(text: str, prompts: Prompts, language: str) -> Thought[Informed]:
    """What this output is worth, as a model sees it."""
    ask = Ask(
        operation="inform",
        prompt=prompts("inform", language),
        text=quoted("output", told(text)[:LONGEST_INPUT]),
        schema=schema_of(InformativeShape),
        most_tokens=_TOKENS,
    )
    answer, by = yield from asked(ask, prompts("repair", language), _scored)
    kept = answer.summary[:LONGEST_SUMMARY] if answer.score >= THRESHOLD else ""
    return Informed(score=answer.score, summary=kept, made_by=f"{by.provider}:{by.model}")


def _scored(answer: Mapping[str, Any]) -> InformativeShape:
    found = read_item(InformativeShape, answer)
    if isinstance(found, str):
        raise ValueError(found)
    return found
