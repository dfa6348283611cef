"""HTTP routes about memories: facts, search, recall, changes, reviews, undo, rules, concepts.

The last route carries out commands of Anthropic's memory tool. Each route validates its input and calls the services
in `memories`, `search` and `maintenance`; the decisions are made there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from filrouge.capture.models import Role
from filrouge.context.hook_files import write_briefs, write_hook_settings
from filrouge.context.log import Recalls
from filrouge.core.errors import BadConfig, BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER, ScopeName
from filrouge.core.settings import check, rename_old_settings
from filrouge.extraction.vocabulary import Language, detect_language
from filrouge.maintenance import health
from filrouge.memories import reports, service
from filrouge.memories.changes import (
    MAX_SELECTED,
    SelectionAction,
    bin_memory,
    change_selection,
    pin,
    put_fact,
    remember,
    remember_many,
    restore,
    supersede,
)
from filrouge.memories.files import MAX_FILE, run
from filrouge.memories.models import MAX_PATH_CHARS, Filters, Kind, ReviewKind, ReviewOutcome, Sentiment, State
from filrouge.memories.reports import MAX_COMPARED_CHARS, THRESHOLD, is_novel, one_json
from filrouge.memories.repository import Action, ActionName
from filrouge.memories.service import bin_fact, change_fact, fact_of, plan_undo, undo
from filrouge.notes.service import hit_json, merge_notes, search_notes
from filrouge.projects import repository
from filrouge.runtime.services import StoredSettings
from filrouge.search.filters import parse_filters
from filrouge.search.models import DeliveryOutcome
from filrouge.search.service import Mode, Question, recall, search_turns
from filrouge.server.admission import requires
from filrouge.server.middleware import MemoryId, ThreadId
from filrouge.server.queries import Cursor, PageLimit, WithTexts, id_in, link_next, number_in, page_of
from filrouge.server.responses import (
    Answer,
    Body,
    await_future,
    in_thread,
    parts_of,
    read_in_tx,
    response_model,
    run_recall,
)
from filrouge.server.routes.context import (
    HitAnswer,
    RetrievalAnswer,
    SearchAnswer,
    StatsAnswer,
    Success,
    ThreadHitAnswer,
)
from filrouge.server.routes.daemon import OriginsAnswer, SettingsAnswer
from filrouge.threads.reports import Status, search_threads_json

# Response models.


class Cited(Answer):
    """A span of a turn that is evidence for a memory."""

    turn_id: str
    start: int = Field(ge=0, description="The index of the first character, from 0.")
    end: int = Field(ge=0, description="The end, exclusive.")


class MemoryAnswer(Answer):
    """A memory as it is listed."""

    id: str
    key: str = Field(description="The key of a core fact; the id of a memory without a key.")
    value: str
    text: str
    kind: Kind
    state: State
    scope: ScopeName
    project: str | None
    project_name: str
    channel: str
    session_id: str
    branch: str = Field(description="The git branch, or the beginning of the commit, it was learned on; may be empty.")
    language: str = Field(description="The language of the text: en, fr or es; empty if it was not recorded.")
    subject: str
    confidence: float = Field(ge=0, le=1)
    sentiment: Sentiment
    timeframe: str
    trust: int = Field(ge=0, le=3)
    created_at: str
    valid_from: str
    valid_to: str | None
    supersedes: str | None
    superseded_by: str | None
    previous_text: str | None
    pinned: bool
    disabled: bool
    mention_count: int = Field(ge=0)
    vitality: float = Field(ge=0, le=1, description="How present it is; 1 = just used.")
    uses: int = Field(ge=0)
    last_used: str | None
    evidence: list[Cited]
    made_by: str = Field(description="What extracted it: `heuristic`, `user`, or a model's name.")


class Quote(Answer):
    """A quoted passage of a turn."""

    turn_id: str
    text: str
    at: str
    channel: str


class JournalEntry(Answer):
    """A journal entry: one decision about a memory."""

    entry: int = Field(ge=1, description="Its number, which `undo` takes.")
    at: str
    actor: str
    action: str
    memory_id: str
    payload: dict[str, Any] | None = Field(description="What was decided and why; null if it was forgotten.")
    undone: bool


class MemoryWithProof(MemoryAnswer):
    """A memory with the passages it is based on."""

    quotes: list[Quote]


class MemoryWithHistory(MemoryWithProof):
    """A memory with its quotes and every decision about it."""

    journal: list[JournalEntry]


class MemoryVersions(Answer):
    """All versions of a memory, oldest first."""

    id: str
    text: str
    state: State
    versions: list[MemoryWithProof]
    journal: list[JournalEntry]


class RuleSource(Answer):
    """Who stated a rule, when and where."""

    turn_id: str
    at: str
    by: str = Field(description="`you`, or the channel.")
    channel: str
    session_id: str
    text: str


class RuleAnswer(MemoryAnswer):
    """A rule as it is listed."""

    standing: Literal["standing", "waiting", "disabled", "live", "superseded", "binned", "quarantined"]
    source: list[RuleSource]


class ActionAnswer(Answer):
    """The result of one decision."""

    action: ActionName
    id: str
    superseded: list[str] = Field(description="The ids of memories that it ended.")
    reason: str
    review: str = Field(description="The id in the review queue; empty if the statement does not wait there.")


class ActionsAnswer(Answer):
    """The result for each statement in a text."""

    actions: list[ActionAnswer]


class SupersededAnswer(Answer):
    """A memory that was replaced."""

    success: Literal[True]
    old_id: str
    new_id: str
    previous_text: str


class ReviewAnswer(Answer):
    """An entry of the review queue, open or settled."""

    id: str
    kind: ReviewKind
    outcome: ReviewOutcome
    reason: str
    at: str
    settled_at: str | None
    text: str
    statement: MemoryAnswer
    quotes: list[Quote]
    against: MemoryAnswer | None


class TakenBackAnswer(Answer):
    """A decision that is undone."""

    entry: int
    at: str
    actor: str
    action: str
    memory_id: str
    reason: str


class EffectAnswer(Answer):
    """How an undo changes one memory."""

    id: str
    text: str
    what: str
    before: State
    after: State


class UndoAnswer(Answer):
    """What was undone, or would be in a dry run."""

    entry: int
    decisions: list[TakenBackAnswer]
    changes: list[EffectAnswer]
    dry_run: bool
    text: str


class SessionChangeAnswer(Answer):
    """A decision made in a session, with the memory it is about as it is now."""

    entry: int = Field(ge=1, description="Its number, which `undo` takes.")
    at: str
    actor: str
    action: str
    reason: str
    memory_id: str
    kind: Kind
    text: str
    state: State
    previous_text: str | None
    quotes: list[Quote] = Field(description="The words of this session that the memory is based on.")
    undone: bool


class SessionRevertAnswer(Answer):
    """The undo of all changes of a session."""

    session_id: str
    decisions: list[TakenBackAnswer]
    changes: list[EffectAnswer]
    undone_by: int | None = Field(description="The entry with which `undo` takes the whole back; null in a dry run.")
    dry_run: bool


class AuditAnswer(Answer):
    """The result of verifying the journal."""

    sound: bool
    entries: int = Field(ge=0)
    redacted: int = Field(ge=0)
    broken_at: int | None
    reason: str


class ConceptAnswer(Answer):
    """A concept: a subject of one or more sessions."""

    id: str
    concept: str
    project: str | None
    project_name: str
    mention_count: int
    first_date: str | None
    last_date: str | None
    summary: str
    sessions: list[str]
    thread_ids: list[str]


# Facts, statements, search, recall, settings and the retrieval log.

memory_router = APIRouter(tags=["memory"])
changing_router = APIRouter(tags=["changing"])
rules_router = APIRouter(tags=["rules"])
concepts_router = APIRouter(tags=["concepts"])
memory_tool_router = APIRouter(tags=["memory tool"])
ProjectNames = Annotated[
    list[str] | None, Query(description="A project: its id, alias or short name, or several aliases.")
]
Limit = Annotated[int, Query(ge=1, le=200)]
# Filters in requests: query parameters or body fields, with the same names and meanings.

_WHEN = "A day (2026-05-01) or a time (2026-05-01T14:30), in this machine's time zone unless it names one."
_BRANCH = "The full name of the git branch that was checked out when it was said."


class FilterBody(Body):
    """Filters on memories and turns."""

    user: str | None = None
    agent: str | None = Field(None, description="The agent that learned it: its id, or its channel if it has no id.")
    channel: str | None = None
    kind: list[str] = Field(default_factory=list[str], description="Kinds of memories, or `turn`.")
    since: str | None = Field(None, description=f"Said at this time or later. {_WHEN}")
    until: str | None = Field(None, description=f"Said before this time; a day is included. {_WHEN}")
    as_of: str | None = Field(None, description=f"What was current at this time, or at the end of this day. {_WHEN}")
    trust: int = Field(
        0, ge=0, le=3, description="Minimum trust: 1 the agent, 2 the user's prompts, 3 what the user entered by hand."
    )
    role: Role | None = None
    thread: ThreadId | None = Field(None, description="A thread's id: its turns, and the memories learned from them.")
    branch: str | None = Field(None, description=_BRANCH)
    language: Language | None = Field(None, description="Memories in this language.")

    def filters(self) -> Filters:
        """Return the filters.

        Raises:
            BadInput: a time is invalid, or a kind is unknown.
        """
        fields = self.model_dump(include=set(FilterBody.model_fields))
        return parse_filters({name: value for name, value in fields.items() if value not in (None, "")})[0]


def filters_of(**parameters: Any) -> Filters:
    """Return the filters from a request's query string; its parameters are the fields of `FilterBody`."""
    return FilterBody(**{name: value for name, value in parameters.items() if value is not None}).filters()


def _query_parameter(name: str, field: FieldInfo) -> Parameter:
    """Return a field of the body as a parameter of the query string; a list may be absent."""
    query = Query(description=field.description)
    is_list = field.default_factory is not None
    field_type: Any = field.annotation
    annotation: Any = Annotated[field_type | None if is_list else field_type, *field.metadata, query]
    default = None if is_list else field.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# FastAPI reads a dependency's parameters from its signature.
vars(filters_of)["__signature__"] = Signature([_query_parameter(*item) for item in FilterBody.model_fields.items()])
FilterParams = Annotated[Filters, Depends(filters_of)]


class ListQuery(Struct, frozen=True, kw_only=True):
    """The query parameters that the lists of facts and of rules share.

    Attributes:
        filters: which rows are listed.
        project: names of one project; empty = all projects.
        history: list every state instead of the current rows; no filter is allowed with it.
        limit: rows of a page; None = all.
        cursor: the cursor of the previous page; None = the first page.
    """

    filters: Filters
    project: Sequence[str]
    history: bool
    limit: int | None
    cursor: str | None


async def list_query_of(
    filters: FilterParams,
    project: ProjectNames = None,
    history: bool = False,
    limit: PageLimit = None,
    cursor: Cursor = None,
) -> ListQuery:
    """Return the list query of a request.

    Raises:
        BadInput: `history` comes with a filter.
    """
    if history and filters.narrow:
        raise BadInput("`history` shows every state and accepts no filter.", remedy="Use `as_of` for a point in time.")
    return ListQuery(filters=filters, project=project or [], history=history, limit=limit, cursor=cursor)


ListParams = Annotated[ListQuery, Depends(list_query_of)]


class FactBody(Body):
    """A core fact, or several plain statements."""

    key: str = ""
    value: str = ""
    items: list[dict[str, str]] = Field(default_factory=list[dict[str, str]], max_length=10_000)
    project: list[str] = Field(default_factory=list[str])
    scope: ScopeName = "user"


class StatementBody(Body):
    """A statement in the user's own words."""

    text: str
    project: list[str] = Field(default_factory=list[str])
    scope: ScopeName | None = None
    channel: str = "api"
    branch: str = Field("", max_length=255, description="The git branch that is checked out.")


_NOTHING_KNOWN: Final[Mapping[Language, str]] = {
    "en": "Nothing is known about that.",
    "fr": "Rien n’est connu à ce sujet.",
    "es": "No se sabe nada al respecto.",
}


class SearchBody(FilterBody):
    """A recall query."""

    query: str
    k: int = Field(5, ge=1, le=200)
    hybrid: bool = True
    threshold: float = Field(0.0, ge=0.0, le=1.0)
    known_only: bool = Field(False, description="Return nothing below `auto_retrieve_min_score`, as for a prompt.")
    project: list[str] = Field(default_factory=list[str])


@memory_router.get("/api/memory/facts", responses=response_model(list[MemoryAnswer]))
async def memory_facts(request: Request, response: Response, query: ListParams) -> list[dict[str, Any]]:
    """List the current memories except rules, newest first. With `as_of`, list those that were current at that time.
    All projects are listed unless one is named."""
    parts, before = parts_of(request), number_in(query.cursor)
    found, following = await read_in_tx(
        request,
        lambda tx: reports.listing(
            parts,
            tx,
            query.project,
            query.filters,
            rules=False,
            history=query.history,
            before=before,
            limit=query.limit,
        ),
    )
    link_next(request, response, following)
    return found


@memory_router.post("/api/memory/facts", responses=response_model(Success))
async def memory_add_fact(body: FactBody, request: Request) -> dict[str, bool]:
    """Set a core fact, or add several statements verbatim."""
    parts = parts_of(request)
    if body.items:
        texts = [item.get("text") or item.get("value", "") for item in body.items]
        if not all(text.strip() for text in texts):
            raise BadInput("Every item needs a text.")
        await in_thread(lambda: remember_many(parts, texts, names=body.project, scope=body.scope))
    else:
        await in_thread(lambda: put_fact(parts, body.key, body.value, names=body.project, scope=body.scope))
    return {"success": True}


@memory_router.get("/api/memory/memories/{memory_id}", responses=response_model(MemoryWithHistory))
async def memory_one_memory(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Return one memory with its quotes and every decision about it."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: reports.history(parts, tx, memory_id))


@memory_router.post("/api/memory/memories", status_code=201, responses=response_model(ActionsAnswer, status=201))
async def memory_add_memory(body: StatementBody, request: Request) -> dict[str, Any]:
    """Remember a statement of the user. The answer contains the result for each statement in the text."""
    parts = parts_of(request)
    actions = await in_thread(
        lambda: remember(parts, body.text, names=body.project, scope=body.scope, host=body.channel, branch=body.branch)
    )
    return {"actions": [action_json(action) for action in actions]}


@memory_router.get("/api/memory/search", responses=response_model(list[HitAnswer | ThreadHitAnswer]))
async def memory_search(
    request: Request,
    q: str,
    filters: FilterParams,
    mode: Mode = "text",
    limit: Limit = 10,
    project: ProjectNames = None,
    collection: Literal["turns", "memories", "threads", "notes", "all"] = "all",
    status: Annotated[Status, Query(description="Only threads in this state.")] = "all",
) -> list[dict[str, Any]]:
    """Search turns, memories and relevant notes.

    `collection` restricts the search to one of them, or selects threads. Text mode ranks by full text only.
    """
    parts = parts_of(request)
    if collection != "threads" and status != "all":
        raise BadInput("Only threads have a `status`.", remedy="Search them with `collection=threads`.")

    def find(tx: Tx) -> list[dict[str, Any]]:
        if collection == "threads":
            return search_threads_json(
                parts, tx, q, project or [], mode=mode, status=status, limit=limit, filters=filters
            )
        if collection == "notes":
            return [hit_json(hit) for hit in search_notes(parts, tx, q, mode=mode, limit=limit).hits]
        project_id = repository.project_id(tx, project or [])
        question = Question(text=q, project=project_id, everywhere=not project, mode=mode, limit=limit, filters=filters)
        turns = [] if collection == "memories" else [search_turns(parts, tx, question)]
        memories = [] if collection == "turns" else [recall(parts, tx, question)]
        found = health.hits(tx, [*turns, *memories] if mode == "text" else [*memories, *turns], limit)
        if collection == "all":
            found, _ = merge_notes(parts, tx, q, found, mode=mode, limit=limit, filters=filters)
        return found

    return await run_recall(parts.readers, find)


@memory_router.post("/search", responses=response_model(SearchAnswer))
@requires("read")
async def memory_ask(body: SearchBody, request: Request) -> dict[str, Any]:
    """Recall the memories and relevant notes that answer a query, best first. `threshold` is the minimum relevance."""
    parts, filters = parts_of(request), body.filters()

    def find(tx: Tx) -> dict[str, Any]:
        question = Question(
            text=body.query,
            project=repository.project_id(tx, body.project),
            everywhere=not body.project,
            mode="hybrid" if body.hybrid else "semantic",
            limit=body.k,
            filters=filters,
        )
        ranking = recall(parts, tx, question)
        hits = health.hits(tx, [ranking.recut(body.threshold).top(body.k)], body.k)
        found, notes = merge_notes(
            parts, tx, body.query, hits, mode=question.mode, limit=body.k, filters=filters, min_relevance=body.threshold
        )
        results = [
            hit | {"text": hit["content"], "source": hit["channel"], "similarity": hit["relevance"]} for hit in found
        ]
        probability_known, settings = max(ranking.known, notes.known), parts.settings(tx)
        min_score = settings.auto_retrieve_min_score
        if body.known_only and probability_known < min_score and all(hit["relevance"] < min_score for hit in results):
            results = []
        language = detect_language([body.query]) if settings.language == "auto" else settings.language
        return {
            "results": results,
            "notices": list(ranking.notices),
            "known": round(probability_known, 4),
            "nothing_known": not results,
            "message": "" if results else _NOTHING_KNOWN[language],
        }

    return await run_recall(parts.readers, find)


@memory_router.get("/api/memory/settings", responses=response_model(SettingsAnswer))
async def memory_settings(request: Request) -> dict[str, Any]:
    """Return every setting with its effective value."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: parts.effective(tx).to_json())


@memory_router.get("/api/memory/settings/origins", responses=response_model(OriginsAnswer))
async def memory_origins(request: Request) -> dict[str, str]:
    """Return where the value of each setting comes from."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: dict(parts.effective(tx).origins))


@memory_router.patch("/api/memory/settings", responses=response_model(SettingsAnswer))
@requires("admin")
async def memory_change_settings(changes: dict[str, Any], request: Request) -> dict[str, Any]:
    """Change some settings and keep the others. A setting fixed by a file or the environment cannot be changed here."""
    parts = parts_of(request)
    valid = check(rename_old_settings(changes), where="request")
    fixed = await read_in_tx(request, lambda tx: parts.effective(tx).origins)
    for key in valid:
        if fixed[key] in ("user file", "environment"):
            raise BadConfig(f"Setting {key!r} is fixed by the {fixed[key]}.", remedy="Change it there.")
    await await_future(parts.writer.submit(lambda tx: StoredSettings(tx).put(valid, parts.clock.now())))
    await in_thread(lambda: write_hook_settings(parts))
    await in_thread(lambda: write_briefs(parts, None, everywhere=True))
    request.app.state.running.settings_changed()
    return await memory_settings(request)


@memory_router.get("/api/memory/stats", responses=response_model(StatsAnswer))
async def memory_stats(request: Request) -> dict[str, Any]:
    """Return the number of facts, messages and vectors."""
    return await read_in_tx(request, health.stats)


@memory_router.get("/api/memory/retrievals", responses=response_model(list[RetrievalAnswer]))
async def memory_retrievals(
    request: Request,
    response: Response,
    limit: Limit = 20,
    cursor: Cursor = None,
    outcome: Annotated[DeliveryOutcome | None, Query(description="Only recalls with this outcome.")] = None,
    texts: WithTexts = False,
) -> list[dict[str, Any]]:
    """Return the latest recalls with what was injected for each."""
    before = id_in(cursor)

    def read(tx: Tx) -> list[dict[str, Any]]:
        recalls = Recalls(tx)
        rows = recalls.last(limit + 1, before=before, outcome=outcome or "")
        return recalls.with_texts(rows) if texts else rows

    rows = await read_in_tx(request, read)
    link_next(request, response, rows[limit - 1]["id"] if len(rows) > limit else None)
    return rows[:limit]


def action_json(action: Action) -> dict[str, Any]:
    """Return a decision's result as JSON; `review` is the id in the review queue if the statement waits there."""
    return {
        "action": action.name,
        "id": action.memory_id,
        "superseded": list(action.closed),
        "reason": action.reason,
        "review": action.review,
    }


# One fact by its key (API-1): read, change, move to the bin.


class ValueBody(BaseModel):
    """The new value of a fact."""

    value: str = Field(max_length=2000)


class DoneAnswer(Answer):
    """The request succeeded."""

    success: bool


@memory_router.get("/api/memory/facts/{key:path}", responses=response_model(MemoryAnswer))
async def facts_one(key: str, request: Request, project: ProjectNames = None) -> dict[str, Any]:
    """Return the fact with a key. A memory without a key is addressed by its id."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: one_json(parts.clock, tx, fact_of(parts, tx, key, project or [])))


@memory_router.patch("/api/memory/facts/{key:path}", responses=response_model(DoneAnswer, example={"success": True}))
async def facts_change(key: str, body: ValueBody, request: Request, project: ProjectNames = None) -> dict[str, Any]:
    """Change the value of a fact. The old value stays in its history. A memory without a key is addressed by its id."""
    parts = parts_of(request)
    await in_thread(lambda: change_fact(parts, key, body.value, project or []))
    return {"success": True}


@memory_router.delete("/api/memory/facts/{key:path}", responses=response_model(DoneAnswer, example={"success": True}))
async def facts_delete(key: str, request: Request, project: ProjectNames = None) -> dict[str, Any]:
    """Move a fact to the bin. `restore` and `undo` bring it back."""
    parts = parts_of(request)
    await in_thread(lambda: bin_fact(parts, key, project or []))
    return {"success": True}


# Changes to memories: pin, bin, restore, supersede, review and undo; also history and journal verification.


class PinBody(Body):
    """Whether only the user may change a memory."""

    pinned: bool


class SupersedeBody(Body):
    """The new text of a memory."""

    old_id: MemoryId
    new_text: str
    source: str = Field("", max_length=200)


class SelectionBody(Body):
    """Several memories, and the one change to make to all of them."""

    ids: list[MemoryId] = Field(min_length=1, max_length=MAX_SELECTED)
    action: SelectionAction


class SettleBody(Body):
    """How to settle a review: `old`, `new` or `both` of a conflict; `accept` or `dismiss` an unproven statement."""

    settle: str


class UndoBody(Body):
    """What to undo: a journal entry, or the last decision about a memory. A dry run only reports the effect."""

    entry: int | None = None
    memory_id: MemoryId | None = None
    dry_run: bool = False


@changing_router.patch("/api/memory/memories/{memory_id}", responses=response_model(ActionAnswer))
async def changing_change_memory(memory_id: MemoryId, body: PinBody, request: Request) -> dict[str, Any]:
    """Pin or unpin a memory."""
    parts = parts_of(request)
    return action_json(await in_thread(lambda: pin(parts, memory_id, pinned=body.pinned)))


@changing_router.post("/api/memory/memories/{memory_id}/bin", responses=response_model(ActionAnswer))
async def changing_bin_one(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Move a memory to the bin."""
    parts = parts_of(request)
    return action_json(await in_thread(lambda: bin_memory(parts, memory_id)))


@changing_router.post("/api/memory/memories/{memory_id}/restore", responses=response_model(ActionAnswer))
async def changing_restore_one(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Restore a memory that was binned or superseded."""
    parts = parts_of(request)
    return action_json(await in_thread(lambda: restore(parts, memory_id)))


@changing_router.post("/api/memory/memories/selection", responses=response_model(ActionsAnswer))
async def changing_selection(body: SelectionBody, request: Request) -> dict[str, Any]:
    """Change several memories in one step, all or none. The answer contains the decisions; a memory that is as wanted
    already needs none."""
    parts = parts_of(request)
    actions = await in_thread(lambda: change_selection(parts, body.ids, body.action))
    return {"actions": [action_json(action) for action in actions]}


@changing_router.get("/api/memory/memories/{memory_id}/history", responses=response_model(MemoryVersions))
async def changing_history(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Return every version of a memory, oldest first, and every decision about it with its journal number."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: reports.versions(parts, tx, memory_id))


@changing_router.post("/memory/supersede", responses=response_model(SupersededAnswer))
async def changing_supersede_one(body: SupersedeBody, request: Request) -> dict[str, Any]:
    """Replace the text of a live memory, pinned or not."""
    parts = parts_of(request)
    done = await in_thread(lambda: supersede(parts, body.old_id, body.new_text, source=body.source))
    return {"success": True, "old_id": done.old_id, "new_id": done.new_id, "previous_text": done.previous_text}


@changing_router.get("/api/memory/review", responses=response_model(list[ReviewAnswer]))
async def changing_reviews(
    request: Request,
    response: Response,
    settled: bool = False,
    limit: int = Query(200, ge=1, le=1000),
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """List the review queue, newest first. With `settled`, also list entries that are already settled."""
    parts = parts_of(request)
    max_rows = -1 if cursor else limit + 1
    found = await read_in_tx(request, lambda tx: service.list_reviews(parts, tx, settled=settled, limit=max_rows))
    return page_of(request, response, found, limit=limit, cursor=cursor, by="at")


@changing_router.get("/api/memory/review/{memory_id}", responses=response_model(ReviewAnswer))
async def changing_one_review(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """Return one review entry with its quotes and the memory it conflicts with."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: service.get_review(parts, tx, memory_id))


@changing_router.post("/api/memory/review/{memory_id}", responses=response_model(ReviewAnswer))
async def changing_settle(memory_id: MemoryId, body: SettleBody, request: Request) -> dict[str, Any]:
    """Settle a review and return its new state."""
    parts = parts_of(request)
    return await in_thread(lambda: service.settle(parts, memory_id, body.settle))


@changing_router.post("/api/memory/undo", responses=response_model(UndoAnswer))
async def changing_undo_one(body: UndoBody, request: Request) -> dict[str, Any]:
    """Undo a decision and every decision that depends on it. The answer lists what is, or would be, undone."""
    parts = parts_of(request)
    plan_or_undo = plan_undo if body.dry_run else undo
    found = await in_thread(lambda: plan_or_undo(parts, entry=body.entry, memory_id=body.memory_id))
    return found.to_json() | {"dry_run": body.dry_run, "text": str(found)}


SessionId = Annotated[str, Path(min_length=1, max_length=200)]


class RevertBody(Body):
    """Whether to only report the effect."""

    dry_run: bool = False


@changing_router.get(
    "/api/memory/sessions/{session_id:path}/changes", responses=response_model(list[SessionChangeAnswer])
)
async def changing_session_changes(session_id: SessionId, request: Request) -> list[dict[str, Any]]:
    """List the decisions made from the words of a session and about its summary, newest first."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: service.list_session_changes(parts, tx, session_id))


@changing_router.post("/api/memory/sessions/{session_id:path}/revert", responses=response_model(SessionRevertAnswer))
async def changing_revert_session(session_id: SessionId, body: RevertBody, request: Request) -> dict[str, Any]:
    """Undo every change of a session, and every decision that depends on one, at once."""
    parts = parts_of(request)
    plan_or_revert = service.plan_session_revert if body.dry_run else service.revert_session
    found = await in_thread(lambda: plan_or_revert(parts, session_id))
    return {"session_id": session_id, **found.to_json(), "dry_run": body.dry_run}


@changing_router.get("/api/audit/verify", responses=response_model(AuditAnswer))
async def changing_verify(request: Request) -> dict[str, Any]:
    """Verify every entry of the journal."""
    return await read_in_tx(request, health.audit)


# Novelty check, and the list of memories of every kind.


class NovelBody(BaseModel):
    """A text and the project it would be remembered in."""

    model_config = ConfigDict(strict=True)

    text: str = Field(max_length=MAX_COMPARED_CHARS)
    threshold: float = Field(THRESHOLD, ge=0.0, le=1.0)
    project: str | list[str] = Field(default_factory=list[str])
    user_id: str | None = Field(None, max_length=200)


class NearestAnswer(Answer):
    """A memory and its similarity to the text: 0 = unrelated, 1 = the same."""

    id: str
    content: str
    similarity: float


class NovelAnswer(Answer):
    """Whether a text is new, and the memory nearest to it."""

    novel: bool
    nearest: NearestAnswer | None


@memory_router.post(
    "/memory/novel",
    responses=response_model(
        NovelAnswer,
        example={
            "novel": False,
            "nearest": {
                "id": "01k0000000000000000000000a",
                "content": "Production listens on port 8443.",
                "similarity": 0.94,
            },
        },
    ),
)
@requires("read")
async def novelty_novel(body: NovelBody, request: Request) -> dict[str, Any]:
    """Check whether a text is new to the project's and the user's live memories."""
    parts = parts_of(request)
    names = [body.project] if isinstance(body.project, str) else body.project
    user = body.user_id or LOCAL_USER
    found = await in_thread(lambda: is_novel(parts, body.text, body.threshold, names=names, user=user))
    memory = found.nearest
    nearest = memory and {"id": memory.id, "content": memory.text, "similarity": round(found.similarity, 4)}
    return {"novel": found.novel, "nearest": nearest}


@memory_router.get("/api/memory/memories", responses=response_model(list[MemoryAnswer]))
async def novelty_memories(
    request: Request,
    response: Response,
    filters: FilterParams,
    project: ProjectNames = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """List memories of every kind, rules included, newest first. With `as_of`, list those that were current at that
    time. All projects are listed unless one is named."""
    parts, before = parts_of(request), number_in(cursor)
    found, following = await read_in_tx(
        request, lambda tx: reports.listing(parts, tx, project or [], filters, before=before, limit=limit)
    )
    link_next(request, response, following)
    return found


# Rules, the standing instructions: list, add, edit, enable, disable, remove.


class RuleBody(Body):
    """A rule in the user's own words."""

    text: str
    project: list[str] = Field(default_factory=list[str])
    scope: ScopeName = "project"


class ChangeBody(Body):
    """A change to a rule: new text, or enabled or disabled."""

    text: str | None = None
    enabled: bool | None = None


@rules_router.get("/api/memory/rules", responses=response_model(list[RuleAnswer]))
async def rules_all_rules(request: Request, response: Response, query: ListParams) -> list[dict[str, Any]]:
    """List the rules, newest first, each with its source and its state. With `as_of`, list those that were in force at
    that time. All projects are listed unless one is named."""
    parts = parts_of(request)
    found = await read_in_tx(
        request,
        lambda tx: service.list_rules(parts, tx, query.project, history=query.history, filters=query.filters),
    )
    return page_of(request, response, found, limit=query.limit, cursor=query.cursor, by="created_at")


@rules_router.post("/api/memory/rules", status_code=201, responses=response_model(RuleAnswer, status=201))
async def rules_add_rule(body: RuleBody, request: Request) -> dict[str, Any]:
    """Add a rule and return it as it is listed."""
    parts = parts_of(request)
    action = await in_thread(lambda: service.add_rule(parts, body.text, names=body.project, scope=body.scope))
    return await _listed_rule(request, action.memory_id)


@rules_router.patch("/api/memory/rules/{rule_id}", responses=response_model(RuleAnswer))
async def rules_change_rule(rule_id: MemoryId, body: ChangeBody, request: Request) -> dict[str, Any]:
    """Edit, disable or enable a rule, and return it as it is listed. An edited rule gets a new id."""
    if body.text is None and body.enabled is None:
        raise BadInput("There is nothing to change.", remedy="Give `text`, `enabled`, or both.")
    parts = parts_of(request)

    def change() -> str:
        id_ = rule_id if body.text is None else service.edit(parts, rule_id, body.text)
        if body.enabled is not None:
            service.switch(parts, id_, enabled=body.enabled)
        return id_

    return await _listed_rule(request, await in_thread(change))


@rules_router.delete("/api/memory/rules/{rule_id}", responses=response_model(ActionAnswer))
async def rules_remove_rule(rule_id: MemoryId, request: Request) -> dict[str, Any]:
    """Move a rule to the bin."""
    parts = parts_of(request)
    return action_json(await in_thread(lambda: service.remove_rule(parts, rule_id)))


async def _listed_rule(request: Request, rule_id: str) -> dict[str, Any]:
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: service.get_rule(parts, tx, rule_id))


# Concepts: the subjects of sessions, with the number of sessions for each.


@concepts_router.get("/api/memory/concepts", responses=response_model(list[ConceptAnswer]))
async def concepts_concepts(
    request: Request,
    project: Annotated[list[str] | None, Query(description="Names of the project; none = all.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> list[dict[str, Any]]:
    """List the concepts of sessions, those found in the most sessions first."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: health.concepts(parts.analyser, tx, project or [], limit))


class CommandBody(BaseModel):
    """A command as the memory tool sends it, and the project whose files it uses."""

    model_config = ConfigDict(extra="ignore", strict=True)

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str | None = Field(None, max_length=MAX_PATH_CHARS)
    view_range: list[int] | None = Field(None, max_length=2)
    file_text: str | None = Field(None, max_length=MAX_FILE)
    old_str: str | None = Field(None, max_length=MAX_FILE)
    new_str: str | None = Field(None, max_length=MAX_FILE)
    insert_line: int | None = None
    insert_text: str | None = Field(None, max_length=MAX_FILE)
    old_path: str | None = Field(None, max_length=MAX_PATH_CHARS)
    new_path: str | None = Field(None, max_length=MAX_PATH_CHARS)
    project: list[str] = Field(default_factory=list[str], max_length=20)


class CommandAnswer(Answer):
    """The text that the model reads."""

    content: str


_EXAMPLE = {"content": "File created successfully at: /memories/progress.md"}


@memory_tool_router.post("/memory/tool", responses=response_model(CommandAnswer, example=_EXAMPLE))
async def memory_tool_memory_tool(body: CommandBody, request: Request) -> dict[str, Any]:
    """Run one command of the memory tool. If it is refused, the error's `detail` is written for the model."""
    parts = parts_of(request)
    command = body.model_dump(exclude_none=True, exclude={"project"})
    return {"content": await in_thread(lambda: run(parts, command, names=body.project))}


ROUTERS = (memory_router, changing_router, rules_router, concepts_router, memory_tool_router)
