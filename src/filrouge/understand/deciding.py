"""Ask a model what becomes of facts, given what is known near each (EXT-4). One question for all facts of a stretch.

The answer is a list of raw decisions; whether each can be carried out is settled where they are admitted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from filrouge.model.answers import DecisionShape, schema_of
from filrouge.model.asking import Ask, Completion
from filrouge.model.decision import Neighbour
from filrouge.model.memory import Statement
from filrouge.ports import Prompts
from filrouge.understand.answers import Thought, asked
from filrouge.understand.transcript import quoted

#: EXT-4: so many nearest memories a fact, their text cut, their similarity rounded.
NEAREST: Final = 5
_LONGEST: Final = 280
_DIGITS: Final = 3
_TOKENS_EACH: Final = 120


def deciding(
    facts: Sequence[tuple[Statement, Sequence[Neighbour]]], prompts: Prompts, language: str
) -> Thought[tuple[list[object], Completion | None]]:
    """What a model would do with each fact, as it said it, and who said so; nothing to ask: nobody."""
    if not facts:
        return [], None
    items = [_shown(number, *fact) for number, fact in enumerate(facts)]
    ask = Ask(
        operation="decide",
        prompt=prompts("decide", language),
        text=quoted("facts", json.dumps(items, ensure_ascii=False, indent=1)),
        schema=schema_of(DecisionShape),
        most_tokens=200 + _TOKENS_EACH * len(facts),
    )
    return (yield from asked(ask, prompts("repair", language), _listed))


def _shown(number: int, statement: Statement, neighbours: Sequence[Neighbour]) -> dict[str, object]:
    return {
        "fact": number,
        "text": statement.text,
        "kind": statement.kind,
        "memories": [
            {
                "id": one.memory.id,
                "text": one.memory.text[:_LONGEST],
                "kind": one.memory.kind,
                "since": f"{one.memory.valid_from:%Y-%m-%d}",
                "similarity": round(one.similarity, _DIGITS),
            }
            for one in neighbours[:NEAREST]
        ],
    }


def _listed(answer: Mapping[str, Any]) -> list[object]:
    decisions = answer.get("decisions")
    if not isinstance(decisions, list):
        raise ValueError("it has no list `decisions`")
    return cast("list[object]", decisions)
