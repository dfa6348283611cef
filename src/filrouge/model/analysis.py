"""An analysis: what one session came to, whoever read it.

One typed result for the heuristics and for a language model: the code that stores, caches and shows an analysis takes
either. What the user said is quoted with its place, so that nothing is put into their mouth; what an agent reported
is marked as the agent's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from filrouge.model.memory import Span
from filrouge.model.when import Language

EntityType = Literal["person", "organisation", "place", "project", "tool", "file", "url", "other"]
ENTITY_TYPES: tuple[EntityType, ...] = get_args(EntityType)
Intent = Literal["fix", "build", "change", "decide", "understand", "review", "inform", ""]
"""What a session was for; empty where nothing tells."""
PointKind = Literal["asked", "decided", "ruled", "found", "noted", "done", "told"]
"""What a sentence of a summary reports: what the user asked, decided, ruled, found or noted, what the agent did, or
what a summary that somebody else wrote says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """Something with a name.

    Attributes:
        name: as it was written first.
        mentions: how often it was named.
    """

    name: str
    type: EntityType
    mentions: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """The user's own words, and where they stand: characters `span` of a turn."""

    text: str
    turn_id: str
    span: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A sentence that a summary is made of.

    Attributes:
        weight: how central it is, to compare with the points of later turns.
    """

    kind: PointKind
    text: str
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """What a session came to.

    Attributes:
        summary: two or three sentences; empty where nothing was said.
        concepts: three to five specific subjects where there are so many, the weightiest first, in lower case.
        questions: what the user asked that nobody answered.
        implicit_context: what is taken for granted and nowhere stated, as `database: postgres`.
        points: what the summary was made of; none where a model wrote it.
        made_by: `heuristic`, or who else.
    """

    summary: str = ""
    concepts: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    questions: tuple[Quote, ...] = ()
    decisions: tuple[Quote, ...] = ()
    preferences: tuple[Quote, ...] = ()
    intents: tuple[Quote, ...] = ()
    constraints: tuple[Quote, ...] = ()
    implicit_context: tuple[str, ...] = ()
    intent: Intent = ""
    language: Language = "en"
    points: tuple[Point, ...] = ()
    made_by: str = "heuristic"


#: Of a session in which nothing was said.
NOTHING = Analysis()
