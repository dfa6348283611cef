"""The values that the verbs of the SDK return, and how they are read from the JSON of the routes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from filrouge.core.errors import FilrougeError

# What the verbs of the SDK give: frozen values, one for each kind of answer.
#
# Moments are aware and in UTC, ids are strings. Every value has `raw`: the JSON object as the route answered it,
# which may hold more than is named here.


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The base of every value.

    Attributes:
        raw: the JSON object that it was read from.
    """

    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class Action(Answered):
    """What a statement, or a change by hand, came to.

    Attributes:
        action: add, update, confirm, skip, conflict, …: what was decided.
        id: the memory that it made or touched; may be empty where nothing was kept.
        superseded: the memories that it closed.
        review: the id under which it waits for a person, or empty.
    """

    action: str
    id: str
    superseded: tuple[str, ...] = ()
    reason: str = ""
    review: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed(Answered):
    """What became of the messages that were handed over.

    Attributes:
        accepted: how many are on disk now.
        duplicates: how many were there before.
        spooled: no daemon answered, so they wait in the home until one does.
    """

    accepted: int
    duplicates: int
    spooled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Extracted(Answered):
    """What a text came to: how many statements were read, stored, replaced and withdrawn, and each decision."""

    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Superseded(Answered):
    """A memory that says something else from now on, under the id `new_id`."""

    old_id: str
    new_id: str
    previous_text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten(Answered):
    """A preview of forgetting, or the receipt of it.

    Attributes:
        counts: by table and deed (`erased`, `emptied`), how many rows.
        token: of a preview: stands for exactly what it listed. Empty on a receipt.
        rows: of a preview: each row with an excerpt.
        receipt: the receipt's id; empty on a preview.
        ok: of a receipt: a search afterwards found nothing left.
    """

    counts: Mapping[str, Mapping[str, int]]
    token: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    receipt: str = ""
    ok: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Undone(Answered):
    """What taking a decision back did, or with `dry_run` would do; `text` says it to a person."""

    entry: int
    decisions: tuple[Mapping[str, Any], ...]
    changes: tuple[Mapping[str, Any], ...]
    dry_run: bool
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Found(Answered):
    """A hit.

    Attributes:
        type: `turn`, or the kind of the memory.
        role: who said it, of a turn.
        score: compares within one search only.
        relevance: from 0 to 1, compares across searches.
        similarity: calibrated, from 0 to 1; None where no vectors were compared.
    """

    id: str
    content: str
    channel: str
    type: str
    created_at: datetime
    relevance: float
    score: float = 0.0
    similarity: float | None = None
    role: str | None = None
    project: str | None = None
    project_name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recalled(Answered):
    """The memories that answer a question, best first.

    Attributes:
        known: from 0 to 1: how sure it is that anything is known about it.
        nothing_known: there are no results.
        notices: what a person should know, such as that words alone were searched.
    """

    results: tuple[Found, ...]
    known: float
    nothing_known: bool
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Context(Answered):
    """What belongs in front of a prompt.

    Attributes:
        context: the block for the model, marked as data; empty where nothing is relevant.
        memories: the parts of it: id, content, score, channel, timestamp, time_ago, type, section.
        notes: the notes in it: path and content.
    """

    context: str
    memories: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[Mapping[str, Any], ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(Answered):
    """A turn of a conversation, as it was said; `at` is when."""

    id: str
    role: str
    content: str
    at: datetime
    channel: str = ""
    session_id: str = ""
    user_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remembered(Answered):
    """A memory, with when it holds and how sure it is.

    Attributes:
        key: the name of a core fact; the id where it has none.
        kind: fact, decision, preference, intent, constraint, episode, concept, note or rule.
        state: live, superseded, binned or quarantined.
        valid_from, valid_to: when it holds; None = until further notice.
        trust: 0 imported, 1 the agent, 2 the user's prompts, 3 the user's own hand.
        vitality: from 0 to 1, fades with time where it is neither used nor said again.
    """

    id: str
    key: str
    text: str
    kind: str
    state: str
    scope: str
    trust: int
    created_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    value: str = ""
    project: str | None = None
    project_name: str = ""
    channel: str = ""
    subject: str = ""
    confidence: float = 1.0
    supersedes: str | None = None
    superseded_by: str | None = None
    pinned: bool = False
    disabled: bool = False
    mention_count: int = 1
    vitality: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule(Remembered):
    """A standing instruction; `standing` says whether it stands, waits for a person or is disabled."""

    standing: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class History(Answered):
    """Every version of a memory, oldest first, and every decision that touched it, as the journal has it."""

    id: str
    text: str
    state: str
    versions: tuple[Remembered, ...]
    journal: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread(Answered):
    """A piece of work that lives across sessions.

    Attributes:
        status: active, suspended or archived.
        weight: from 0 to 1, how present it is.
        messages, conversations: how many turns and sessions it has.
    """

    id: str
    title: str
    status: str
    weight: float
    topics: tuple[str, ...]
    messages: int
    conversations: int
    opened_at: datetime
    last_active: datetime
    summary: str = ""
    project: str | None = None
    project_name: str = ""
    agent: str = ""
    channel: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic(Answered):
    """Something that was spoken about."""

    id: str
    title: str
    first_date: datetime
    last_date: datetime
    conversations: int
    summary: str = ""
    thread_ids: tuple[str, ...] = ()
    vitality: float = 1.0
    channel: str = ""
    project: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline(Answered):
    """Topics by how long ago they were last spoken of; `text` is the same for a person."""

    this_week: tuple[Topic, ...]
    last_week: tuple[Topic, ...]
    this_month: tuple[Topic, ...]
    older: tuple[Topic, ...]
    total: int
    text: str


# JSON objects of the routes as frozen values: each field by its annotation, and nothing by its name alone.
#
# A field that a newer daemon added stays in `raw`; one that has a default may be missing from an older one's answer.

T = TypeVar("T")
RAW = "raw"


def read(kind: type[T], value: Any) -> T:
    """The value of that dataclass which a JSON object spells.

    Raises:
        FilrougeError: it does not spell one, so the daemon is of another time.
    """
    try:
        return _object(kind, value)
    except (KeyError, TypeError, ValueError) as error:
        raise FilrougeError(
            f"The daemon's answer is no {kind.__name__}: {error}.",
            remedy="Give the daemon and this program the same version of Filrouge.",
        ) from error


def read_all(kind: type[T], values: Any) -> list[T]:
    """The values that a JSON list spells."""
    return [read(kind, value) for value in values]


def _object(kind: type[T], value: Any) -> T:
    given = cast("Mapping[str, Any]", value)
    hints, must = _fields(kind)
    found: dict[str, Any] = {}
    for name, hint in hints.items():
        if name == RAW:
            found[RAW] = given
        elif name in given or name in must:
            found[name] = _read(hint, given[name])
    return kind(**found)


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The annotations of a dataclass, and the fields that have no default."""
    missing = dataclasses.MISSING
    must = {
        one.name
        for one in dataclasses.fields(kind)
        if one.default is missing and one.default_factory is missing and one.name != RAW
    }
    return get_type_hints(kind), frozenset(must)


def _read(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        return None if value is None else _read(next(one for one in get_args(hint) if one is not type(None)), value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    if get_origin(hint) is tuple:
        return tuple(_read(get_args(hint)[0], one) for one in value)
    return _object(hint, value) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else value
