"""What a model says a session came to, laid over what the rules say (EXT-1).

The rules quote the user and count; a model writes better summaries and names better subjects. So its words take the
place of theirs where it gave any, and everything that stands on quotes stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from filrouge.model.analysis import ENTITY_TYPES, Analysis, Entity, EntityType
from filrouge.model.answers import NamedEntity
from filrouge.understand.extraction import Extraction
from filrouge.understand.topic_cleaning import clean_topics
from filrouge.understand.words import fold

_MOST_CONCEPTS: Final = 5
_LONGEST_SUMMARY: Final = 1200
_MOST_ENTITIES: Final = 40


def overview(by_rules: Analysis, found: Extraction) -> Analysis:
    """The analysis of a session with the model's words in it."""
    implicit = (found.implicit,) if found.implicit else ()
    return replace(
        by_rules,
        summary=found.summary[:_LONGEST_SUMMARY] or by_rules.summary,
        concepts=tuple(clean_topics(found.concepts))[:_MOST_CONCEPTS] or by_rules.concepts,
        entities=_entities(by_rules.entities, found.entities),
        implicit_context=tuple(dict.fromkeys([*by_rules.implicit_context, *implicit])),
        points=() if found.summary else by_rules.points,
        made_by=f"{found.by.provider}/{found.by.model}",
    )


def _entities(counted: Sequence[Entity], named: Sequence[NamedEntity]) -> tuple[Entity, ...]:
    """Those that were counted, typed as the model says, then those that only the model saw."""
    types = {fold(one.name): _type(one.type) for one in named}
    known = {fold(one.name) for one in counted}
    more = (Entity(name=one.name, type=_type(one.type)) for one in named if fold(one.name) not in known)
    kept = [replace(one, type=types.get(fold(one.name), one.type)) for one in counted]
    return tuple({fold(one.name): one for one in [*kept, *more]}.values())[:_MOST_ENTITIES]


def _type(name: str) -> EntityType:
    plain = name.strip().lower()
    known: dict[str, EntityType] = {one: one for one in ENTITY_TYPES}
    return known.get(plain, "other")
