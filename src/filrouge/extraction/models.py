"""Values of extraction: session analyses, shapes of model answers, reminder names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from filrouge.core.clock import Language
from filrouge.memories.models import Span

# The analysis of a session: one type for heuristics and language models, so that storage, cache and views handle both.
# The user's words are quoted with their position, so nothing is attributed to them falsely; the agent's reports are
# marked as such.

EntityType = Literal["person", "organisation", "place", "project", "tool", "file", "url", "other"]
ENTITY_TYPES: tuple[EntityType, ...] = get_args(EntityType)
Intent = Literal["fix", "build", "change", "decide", "understand", "review", "inform", ""]
"""What a session was for; empty if the user wrote nothing."""
PointKind = Literal["asked", "decided", "ruled", "found", "noted", "done", "told"]
"""What a sentence of a summary reports: what the user asked, decided, ruled, found or noted; `done`, what the agent
did; `told`, what the host's own summary says."""


class Entity(Struct, frozen=True, kw_only=True):
    """A named thing or person.

    Attributes:
        name: the name as it was first written.
        mentions: how often it was named.
    """

    name: str
    type: EntityType
    mentions: int = 1


class Quote(Struct, frozen=True, kw_only=True):
    """The user's own words and their position.

    Attributes:
        text: the words, on one line.
        turn_id: the turn that holds them.
        span: their characters in the text of that turn.
    """

    text: str
    turn_id: str
    span: Span


class Point(Struct, frozen=True, kw_only=True):
    """A sentence that a summary can use.

    Attributes:
        weight: how central it is, from 0; comparable with the points of later turns.
    """

    kind: PointKind
    text: str
    weight: float


class Analysis(Struct, frozen=True, kw_only=True):
    """The analysis of a session.

    Attributes:
        summary: two or three sentences; empty if nothing was said.
        concepts: up to five specific subjects, heaviest first, in lower case.
        entities: the named persons and things, most mentioned first.
        questions: the user's unanswered questions, oldest first.
        decisions, preferences, intents: what the user decided, prefers and plans, oldest first.
        constraints: the user's constraints and rules, oldest first.
        implicit_context: facts taken for granted and stated nowhere, such as `database: postgres`.
        intent: what the session was for.
        language: the language of the user's last turns; the summary is written in it.
        points: the candidate sentences of the summary, most central first; empty if a model wrote it.
        made_by: `heuristic`, or the provider and model.
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


#: The analysis of a session in which nothing was said.
EMPTY_ANALYSIS = Analysis()


# Shapes of model answers. A shape gives the JSON schema sent with the question: all properties required, no others
# allowed, as strict providers demand. Parsing is lenient, because models break shapes in every way: missing values take
# their defaults, unknown properties are ignored, and an invalid list item is dropped alone.
#
# The docstrings of shapes become descriptions in the schema, so models read them.

Item = TypeVar("Item", bound="Shape")
_CLOSED: dict[str, Any] = {"additionalProperties": False}


def _or_nothing(value: object) -> object:
    """Return an empty string for null, which models send for a missing text."""
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
    """Return the JSON schema of an answer."""
    return shape.model_json_schema(mode="serialization")


def read_item(shape: type[Item], value: object) -> Item | str:
    """Return the value as this shape, or the validation error without the value."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        return f"{where}: {first['msg']}"


def read_answer(shape: type[Item], answer: Mapping[str, Any]) -> Item:
    """Return a whole answer as this shape.

    Raises:
        ValueError: it does not fit; the message does not quote it.
    """
    found = read_item(shape, answer)
    if isinstance(found, str):
        raise ValueError(found)
    return found


def with_lists(answer: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the answer, if it has these lists.

    Raises:
        ValueError: one of them is missing.
    """
    missing = next((name for name in names if not isinstance(answer.get(name), list)), None)
    if missing:
        raise ValueError(f"it has no list `{missing}`")
    return answer


def read_items(shape: type[Item], answer: Mapping[str, Any], name: str) -> tuple[list[Item], list[str]]:
    """Return the valid items of a list in an answer, and the validation errors of the others."""
    items = answer.get(name)
    if not isinstance(items, list):
        return [], [f"{name}: not a list"] if name in answer else []
    read = [read_item(shape, value) for value in cast("list[object]", items)]
    return [item for item in read if not isinstance(item, str)], [item for item in read if isinstance(item, str)]


def text_of(answer: Mapping[str, Any], name: str) -> str:
    """Return a text of an answer on one line; empty if it is missing."""
    value = answer.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


def texts_of(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the non-empty texts of a list in an answer."""
    value = answer.get(name)
    texts = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(text.strip() for text in texts if isinstance(text, str) and text.strip())


# Reminders of how the user wants work to be done (RULE-2); `extraction.intents` holds their texts and conditions.

Reminder = Literal["plan_mode_required", "no_quick_solutions", "present_all_choices"]
REMINDERS: tuple[Reminder, ...] = get_args(Reminder)
