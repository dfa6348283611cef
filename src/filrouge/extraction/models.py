"""What extraction makes of a session: its analysis, a model's answers, and reminders of how to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from filrouge.core.clock import Language
from filrouge.memories.models import Span

# An analysis: what one session came to, whoever read it.
#
# One typed result for the heuristics and for a language model: the code that stores, caches and shows an analysis
# takes either. What the user said is quoted with its place, so that nothing is put into their mouth; what an agent
# reported is marked as the agent's.

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


# The shapes of a model's answers, as they are asked for and as each part of them is read.
#
# A shape gives the JSON schema that goes with the question: every property named and required and nothing else
# allowed, which is what strict providers want. Reading is kinder, since models break shapes in every way: what is
# missing takes its default, what nobody asked for is passed over, and an item that does not fit costs itself alone.

Item = TypeVar("Item", bound="Shape")
_CLOSED: dict[str, Any] = {"additionalProperties": False}


def _or_nothing(value: object) -> object:
    """Null where a text was asked for is no text."""
    return "" if value is None else value


Text = Annotated[str, BeforeValidator(_or_nothing)]


class Shape(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        str_strip_whitespace=True,
        json_schema_serialization_defaults_required=True,
        json_schema_extra=_CLOSED,
        defer_build=True,
    )


class StatedFact(Shape):
    """One statement that a model read: the words that prove it, in turn `turn`, and what they say by themselves."""

    turn: int
    quote: str
    text: str
    kind: Literal["fact", "decision", "preference", "intent", "constraint", "rule"] = "fact"
    scope: Literal["user", "project"] = "project"
    topic: Text = ""
    key: str | None = None
    value: str | None = None
    confidence: float = Field(default=0.8, ge=0.0, le=1.0)
    sentiment: Literal["positive", "neutral", "negative"] = "neutral"
    timeframe: Text = ""


class NamedEntity(Shape):
    """Somebody or something that is spoken of by name."""

    name: str
    type: str = "other"


class SessionShape(Shape):
    """What a stretch of a conversation holds."""

    summary: Text = ""
    intent: Text = ""
    implicit: Text = ""
    concepts: list[str] = Field(default_factory=list[str])
    entities: list[NamedEntity] = Field(default_factory=list[NamedEntity])
    questions: list[str] = Field(default_factory=list[str])
    facts: list[StatedFact] = Field(default_factory=list[StatedFact])


class StatedDecision(Shape):
    """What becomes of fact number `fact`, and which known memory it touches."""

    fact: int
    action: Literal["add", "update", "delete", "noop", "conflict"]
    id: str | None = None
    text: str | None = None
    reason: Text = ""


class DecisionShape(Shape):
    """What becomes of every fact."""

    decisions: list[StatedDecision] = Field(default_factory=list[StatedDecision])


class StatedSupport(Shape):
    """Whether the quote of fact number `fact` says what the fact says."""

    fact: int
    supported: bool


class SupportShape(Shape):
    """Judgements of evidence."""

    judgements: list[StatedSupport] = Field(default_factory=list[StatedSupport])


class InformativeShape(Shape):
    """How much a tool's output tells, and what."""

    score: float = Field(ge=0.0, le=1.0)
    summary: Text = ""


class RelatedShape(Shape):
    """Whether a message belongs to a thread, and how sure that is."""

    related: bool
    confidence: float = Field(ge=0.0, le=1.0)
    reason: Text = ""


class NameShape(Shape):
    """What a thread is called."""

    title: str
    summary: Text = ""


class ChosenQuote(Shape):
    """A sentence of turn `turn`, letter by letter."""

    turn: int
    quote: str


class StandingShape(Shape):
    """Where a piece of work stands, in sentences of the conversation."""

    state: list[ChosenQuote] = Field(default_factory=list[ChosenQuote])
    decisions: list[ChosenQuote] = Field(default_factory=list[ChosenQuote])
    questions: list[ChosenQuote] = Field(default_factory=list[ChosenQuote])


def schema_of(shape: type[Shape]) -> dict[str, Any]:
    """The JSON schema of an answer."""
    return shape.model_json_schema(mode="serialization")


def read_item(shape: type[Item], value: object) -> Item | str:
    """The value as this shape, or what is wrong with it, without quoting it."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        return f"{where}: {first['msg']}"


def read_items(shape: type[Item], answer: Mapping[str, Any], name: str) -> tuple[list[Item], list[str]]:
    """Those items of a list in an answer that can be used, and what is wrong with the others."""
    given = answer.get(name)
    if not isinstance(given, list):
        return [], [f"{name}: not a list"] if name in answer else []
    read = [read_item(shape, value) for value in cast("list[object]", given)]
    return [one for one in read if not isinstance(one, str)], [one for one in read if isinstance(one, str)]


def text_of(answer: Mapping[str, Any], name: str) -> str:
    """A text of an answer on one line, empty where there is none."""
    value = answer.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


def texts_of(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a list in an answer."""
    value = answer.get(name)
    texts = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(one.strip() for one in texts if isinstance(one, str) and one.strip())


# Reminders of how the user wants work to be done (RULE-2); what each says is with whoever recognises its occasion.

Reminder = Literal["plan_mode_required", "no_quick_solutions", "present_all_choices"]
REMINDERS: tuple[Reminder, ...] = get_args(Reminder)
