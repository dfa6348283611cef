"""Analyses as the JSON that is stored and back again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from filrouge.model.analysis import Analysis, Entity, Point, Quote
from filrouge.model.memory import Span


def analysis_to_text(analysis: Analysis) -> str:
    """The whole analysis as JSON."""
    return json.dumps(asdict(analysis), ensure_ascii=False)


def analysis_from_text(text: str) -> Analysis:
    """What `analysis_to_text` wrote."""
    raw: Mapping[str, Any] = json.loads(text)
    return Analysis(
        summary=raw["summary"],
        intent=raw["intent"],
        language=raw["language"],
        made_by=raw["made_by"],
        questions=_quotes(raw["questions"]),
        decisions=_quotes(raw["decisions"]),
        preferences=_quotes(raw["preferences"]),
        intents=_quotes(raw["intents"]),
        constraints=_quotes(raw["constraints"]),
        concepts=tuple(raw["concepts"]),
        implicit_context=tuple(raw["implicit_context"]),
        entities=tuple(Entity(**one) for one in raw["entities"]),
        points=tuple(Point(**one) for one in raw["points"]),
    )


def _quotes(raw: Sequence[Mapping[str, Any]]) -> tuple[Quote, ...]:
    return tuple(Quote(text=one["text"], turn_id=one["turn_id"], span=Span(**one["span"])) for one in raw)
