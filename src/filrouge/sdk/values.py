"""The values that the SDK's methods return, and how they are read from the JSON of the routes.

Each value is a frozen dataclass. Times are aware and in UTC; ids are strings. `raw` is the JSON object as the route
returned it, which can contain more than the named fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from filrouge.core.errors import FilrougeError


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The base of every value.

    Attributes:
        raw: the JSON object that the value was read from.
    """

    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class Action(Answered):
    """The result for one statement or for one change by hand.

    Attributes:
        action: the decision: add, update, confirm, skip, conflict, …
        id: the memory that was created or changed; may be empty if nothing was stored.
        superseded: the ids of the memories that the decision superseded.
        reason: why the decision was taken, for a person.
        review: the id in the review queue; empty if the statement does not wait there.
    """

    action: str
    id: str
    superseded: tuple[str, ...] = ()
    reason: str = ""
    review: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed(Answered):
    """The result of recording messages.

    Attributes:
        accepted: number of messages that were newly written to disk.
        duplicates: number of messages that were already known.
        spooled: no daemon answered; the messages wait in the home's spool.
    """

    accepted: int
    duplicates: int
    spooled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Extracted(Answered):
    """The result of an extraction.

    Attributes:
        extracted_count: number of statements that were read in the text.
        stored_count: number of new memories.
        updated_count: number of memories that were replaced.
        deleted_count: number of memories that were withdrawn.
        actions: every decision, in order.
    """

    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Superseded(Answered):
    """The result of replacing a memory's text.

    Attributes:
        old_id: the memory that was replaced; it is now superseded.
        new_id: the live memory with the new text.
        previous_text: the text of the replaced memory.
    """

    old_id: str
    new_id: str
    previous_text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten(Answered):
    """A preview of what would be forgotten, or the receipt of what was.

    Attributes:
        counts: number of rows by table and operation (`erased`, `emptied`).
        token: preview only: permits forgetting exactly the rows listed. Empty on a receipt.
        rows: preview only: each row with an excerpt.
        receipt: the receipt's id; empty on a preview.
        ok: receipt only: a search afterwards found nothing left.
    """

    counts: Mapping[str, Mapping[str, int]]
    token: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    receipt: str = ""
    ok: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Undone(Answered):
    """What undoing a decision changed, or with `dry_run` would change.

    Attributes:
        entry: the journal entry that was undone.
        decisions: the undone decisions, each with entry, at, actor, action, memory_id and reason.
        changes: the changed memories, each with id, text, what, and its state before and after.
        text: the same for a person.
    """

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
        role: who said it; turns only.
        score: comparable only within one search.
        relevance: from 0 to 1, comparable across searches.
        similarity: calibrated, from 0 to 1; None if no vectors were compared.
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
        known: from 0 to 1: confidence that anything is known about the question.
        nothing_known: whether there are no results.
        notices: notes for the user, for example that only full text was searched.
    """

    results: tuple[Found, ...]
    known: float
    nothing_known: bool
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Context(Answered):
    """The context for a prompt.

    Attributes:
        context: the block for the model, marked as data; empty if nothing is relevant.
        memories: the memories in the block: id, content, score, channel, timestamp, time_ago, type, section.
        notes: the notes in the block: path and content.
        notices: notes for the user, for example that only full text was searched.
    """

    context: str
    memories: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[Mapping[str, Any], ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(Answered):
    """A turn, verbatim.

    Attributes:
        id: the turn's id.
        role: who said it: user, assistant or tool.
        at: when it was said.
        channel: where it came from: `claude-code`, `cli`, `api`, ...
        session_id: the session of the agent or program that it belongs to.
    """

    id: str
    role: str
    content: str
    at: datetime
    channel: str = ""
    session_id: str = ""
    user_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remembered(Answered):
    """A memory, with its validity and its trust.

    Attributes:
        key: the key of a core fact; the id of a memory without a key.
        kind: fact, decision, preference, intent, constraint, episode, concept, note or rule.
        state: live, superseded, binned or quarantined.
        valid_from, valid_to: when it is valid; `valid_to` is None while it has no end.
        trust: 0 imported, 1 the agent, 2 the user's prompts, 3 what the user entered by hand.
        value: the value of a core fact; the text of a memory without a key.
        project: the project's id; None for a memory outside every project.
        confidence: from 0 to 1: how sure extraction was of the statement.
        supersedes, superseded_by: the ids of the previous and the next version.
        pinned: only the user may change it.
        disabled: it stays listed, but is not used; rules only.
        mention_count: how often it was stated.
        vitality: from 0 to 1; decays with time unless the memory is used or stated again.
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
    """A standing instruction.

    Attributes:
        standing: `standing` if it is in force, else `waiting`, `disabled`, or the memory's state.
    """

    standing: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class History(Answered):
    """The history of a memory.

    Attributes:
        id, text, state: those of the memory that was asked for.
        versions: every version, oldest first.
        journal: every decision about it, as journal entries.
    """

    id: str
    text: str
    state: str
    versions: tuple[Remembered, ...]
    journal: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread(Answered):
    """A thread: work that continues across sessions.

    Attributes:
        status: active, suspended or archived.
        weight: from 0 to 1: how present the thread is.
        messages, conversations: number of turns and of sessions.
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
    """A topic of the conversations.

    Attributes:
        first_date, last_date: when it was first and last mentioned.
        conversations: number of sessions that mention it.
        thread_ids: the threads about it.
        vitality: from 0 to 1; decays with time unless the topic is mentioned again.
    """

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
    """Topics grouped by how long ago they were last mentioned.

    Attributes:
        total: number of topics in all groups.
        text: the same for a person.
    """

    this_week: tuple[Topic, ...]
    last_week: tuple[Topic, ...]
    this_month: tuple[Topic, ...]
    older: tuple[Topic, ...]
    total: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamProject(Answered):
    """What is shared of a project.

    Attributes:
        project: the project's id.
        address: its normalised remote, by which the team knows it.
        policy: off, ask, rules-and-decisions or all-memories.
        with_evidence: whether the quotes that prove memories are shared too.
    """

    project: str
    name: str
    address: str
    policy: str
    with_evidence: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Team(Answered):
    """The team of a home; without one, `joined` is False and everything else empty.

    Attributes:
        team, member, device: the names of the team, of the user in it, and of this home among its devices.
        url: where the hub answers.
        is_admin: whether the user is an admin of the team.
        synchronised_at: the end of the last complete exchange since the daemon's start.
        problem: why the last exchange failed; empty if it did not.
        projects: the projects that the team can know, those with a remote.
        shared, received: number of memories that the hub has from here, and of colleagues' memories here.
        queued, candidates, refused: number of memories to be sent or removed there, that wait for the user, and that
            cannot be shared.
    """

    joined: bool
    team: str = ""
    member: str = ""
    url: str = ""
    device: str = ""
    is_admin: bool = False
    joined_at: datetime | None = None
    synchronised_at: datetime | None = None
    problem: str = ""
    projects: tuple[TeamProject, ...] = ()
    shared: int = 0
    queued: int = 0
    candidates: int = 0
    refused: int = 0
    received: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamMemory(Answered):
    """A memory on its way to the team.

    Attributes:
        state: candidate, queued, shared, leaving, withdrawn, declined or refused.
        reason: why it is in that state, for a person; may be empty.
        project: the project's name.
    """

    id: str
    state: str
    reason: str
    kind: str
    text: str
    project: str


# Reading values from JSON: each field by its annotation.
#
# A field that a newer daemon added stays in `raw`; a field with a default may be missing from an older daemon's reply.

T = TypeVar("T")
RAW = "raw"


def read(kind: type[T], value: Any) -> T:
    """Return the value of a dataclass from a JSON object.

    Raises:
        FilrougeError: the object does not match, so the daemon has another version.
    """
    try:
        return _object(kind, value)
    except (KeyError, TypeError, ValueError) as error:
        raise FilrougeError(
            f"The daemon's answer cannot be read as {kind.__name__}: {error}.",
            remedy="Use the same version of Filrouge for the daemon and this program.",
        ) from error


def read_all(kind: type[T], values: Any) -> list[T]:
    """Return the values of a JSON list."""
    return [read(kind, value) for value in values]


def _object(kind: type[T], value: Any) -> T:
    json_object = cast("Mapping[str, Any]", value)
    hints, required = _fields(kind)
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        if name == RAW:
            fields[RAW] = json_object
        elif name in json_object or name in required:
            fields[name] = _read_value(hint, json_object[name])
    return kind(**fields)


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the type hints of a dataclass, and the names of its fields without a default."""
    missing = dataclasses.MISSING
    required = {
        field_.name
        for field_ in dataclasses.fields(kind)
        if field_.default is missing and field_.default_factory is missing and field_.name != RAW
    }
    return get_type_hints(kind), frozenset(required)


def _read_value(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        return (
            None
            if value is None
            else _read_value(next(part for part in get_args(hint) if part is not type(None)), value)
        )
    if hint is datetime:
        return datetime.fromisoformat(value)
    if get_origin(hint) is tuple:
        return tuple(_read_value(get_args(hint)[0], item) for item in value)
    return _object(hint, value) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else value
