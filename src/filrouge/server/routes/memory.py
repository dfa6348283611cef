"""Memories over HTTP: list, tell, search, recall, settings, and the log of recalls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from filrouge.context.hook_files import write_briefs, write_hook_settings
from filrouge.context.log import Recalls
from filrouge.core.errors import BadConfig, BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import ScopeName
from filrouge.core.settings import by_todays_names, check
from filrouge.extraction.summaries import Language, vote
from filrouge.maintenance import health
from filrouge.memories import reports
from filrouge.memories.models import Filters
from filrouge.memories.repository import Action
from filrouge.memories.statements import put_fact, remember, remember_many
from filrouge.notes.service import beside, hit_json, search_notes
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.search.memory_search import Mode, Question, recall
from filrouge.search.turn_search import search_turns
from filrouge.server.access import elsewhere, parts_of, reading, recalling, settled
from filrouge.server.auth import needs
from filrouge.server.paging import Cursor, PageLimit, paged
from filrouge.server.responses import Body, answers
from filrouge.server.routes.daemon_answers import OriginsAnswer, SettingsAnswer
from filrouge.server.routes.filtering import FilterBody, filters_of
from filrouge.server.routes.memory_answers import ActionsAnswer, MemoryAnswer, MemoryWithHistory
from filrouge.server.routes.recall_answers import (
    HitAnswer,
    RetrievalAnswer,
    SearchAnswer,
    StatsAnswer,
    Success,
    ThreadHitAnswer,
)
from filrouge.server.validation import MemoryId
from filrouge.threads.reports import Status, found_threads

router = APIRouter(tags=["memory"])
Names = Annotated[list[str] | None, Query(description="A project: its id, alias or short name, or several aliases.")]
Limit = Annotated[int, Query(ge=1, le=200)]
Narrowed = Annotated[Filters, Depends(filters_of)]


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
    branch: str = Field("", max_length=255, description="The git branch that is checked out where it is said.")


_NOTHING_KNOWN: Final[Mapping[Language, str]] = {
    "en": "Nothing is known about that.",
    "fr": "Rien n’est connu à ce sujet.",
    "es": "No se sabe nada al respecto.",
}


class SearchBody(FilterBody):
    """A question to memory."""

    query: str
    k: int = Field(5, ge=1, le=200)
    hybrid: bool = True
    threshold: float = Field(0.0, ge=0.0, le=1.0)
    known_only: bool = Field(
        False, description="Answer nothing where a prompt would bring nothing up: see `auto_retrieve_min_score`."
    )
    project: list[str] = Field(default_factory=list[str])


@router.get("/api/memory/facts", responses=answers(list[MemoryAnswer]))
async def facts(
    request: Request,
    response: Response,
    filters: Narrowed,
    project: Names = None,
    history: bool = False,
    limit: PageLimit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """The current memories that are no rules, or those believed at `as_of`, newest first; all projects unless one is
    named."""
    if history and filters.narrow:
        raise BadInput("`history` shows every state and goes with no filter.", remedy="Use `as_of` for a moment.")
    parts = parts_of(request)
    found = await reading(
        request,
        lambda tx: reports.listing(parts, tx, project or [], rules=False, history=history, filters=filters),
    )
    return paged(request, response, found, limit=limit, cursor=cursor, by="created_at")


@router.post("/api/memory/facts", responses=answers(Success))
async def add_fact(body: FactBody, request: Request) -> dict[str, bool]:
    """Set a core fact, or add several statements as they are."""
    parts = parts_of(request)
    if body.items:
        texts = [item.get("text") or item.get("value", "") for item in body.items]
        if not all(text.strip() for text in texts):
            raise BadInput("Every item needs a text.")
        await elsewhere(lambda: remember_many(parts, texts, names=body.project, scope=body.scope))
    else:
        await elsewhere(lambda: put_fact(parts, body.key, body.value, names=body.project, scope=body.scope))
    return {"success": True}


@router.get("/api/memory/memories/{memory_id}", responses=answers(MemoryWithHistory))
async def one_memory(memory_id: MemoryId, request: Request) -> dict[str, Any]:
    """One memory with the words it rests on and every decision that touched it."""
    parts = parts_of(request)
    return await reading(request, lambda tx: reports.history(parts, tx, memory_id))


@router.post("/api/memory/memories", status_code=201, responses=answers(ActionsAnswer, status=201))
async def add_memory(body: StatementBody, request: Request) -> dict[str, Any]:
    """Remember what the user says; answers what each statement came to."""
    parts = parts_of(request)
    actions = await elsewhere(
        lambda: remember(parts, body.text, names=body.project, scope=body.scope, host=body.channel, branch=body.branch)
    )
    return {"actions": [action_json(action) for action in actions]}


@router.get("/api/memory/search", responses=answers(list[HitAnswer | ThreadHitAnswer]))
async def search(
    request: Request,
    q: str,
    filters: Narrowed,
    mode: Mode = "text",
    limit: Limit = 10,
    project: Names = None,
    collection: Literal["turns", "memories", "threads", "notes", "all"] = "all",
    status: Annotated[Status, Query(description="Only threads in this state.")] = "all",
) -> list[dict[str, Any]]:
    """Search turns, memories and the notes that bear on the question, one kind of them alone, or threads.

    Text mode ranks by full text alone.
    """
    parts = parts_of(request)
    if collection != "threads" and status != "all":
        raise BadInput("Only threads have a `status`.", remedy="Search them with `collection=threads`.")

    def find(tx: Tx) -> list[dict[str, Any]]:
        if collection == "threads":
            return found_threads(parts, tx, q, project or [], mode=mode, status=status, limit=limit, filters=filters)
        if collection == "notes":
            return [hit_json(hit) for hit in search_notes(parts, tx, q, mode=mode, limit=limit).hits]
        place = health.project_id(tx, project or [])
        question = Question(text=q, project=place, everywhere=not project, mode=mode, limit=limit, filters=filters)
        turns = [] if collection == "memories" else [search_turns(parts, tx, question)]
        memories = [] if collection == "turns" else [recall(parts, tx, question)]
        found = health.hits(tx, [*turns, *memories] if mode == "text" else [*memories, *turns], limit)
        if collection == "all":
            found, _ = beside(parts, tx, q, found, mode=mode, limit=limit, filters=filters)
        return found

    return await recalling(parts, find)


@router.post("/search", responses=answers(SearchAnswer))
@needs("read")
async def ask(body: SearchBody, request: Request) -> dict[str, Any]:
    """Recall memories, and notes that bear on it, for a question, best first; `threshold` cuts relevance."""
    parts, filters = parts_of(request), body.filters()

    def find(tx: Tx) -> dict[str, Any]:
        question = Question(
            text=body.query,
            project=health.project_id(tx, body.project),
            everywhere=not body.project,
            mode="hybrid" if body.hybrid else "semantic",
            limit=body.k,
            filters=filters,
        )
        ranking = recall(parts, tx, question)
        hits = health.hits(tx, [ranking.recut(body.threshold).top(body.k)], body.k)
        found, notes = beside(
            parts, tx, body.query, hits, mode=question.mode, limit=body.k, filters=filters, least=body.threshold
        )
        results = [
            hit | {"text": hit["content"], "source": hit["channel"], "similarity": hit["relevance"]} for hit in found
        ]
        known, settings = max(ranking.known, notes.known), parts.settings(tx)
        least = settings.auto_retrieve_min_score
        if body.known_only and known < least and all(hit["relevance"] < least for hit in results):
            results = []
        language = vote([body.query]) if settings.language == "auto" else settings.language
        return {
            "results": results,
            "notices": list(ranking.notices),
            "known": round(known, 4),
            "nothing_known": not results,
            "message": "" if results else _NOTHING_KNOWN[language],
        }

    return await recalling(parts, find)


@router.get("/api/memory/settings", responses=answers(SettingsAnswer))
async def settings(request: Request) -> dict[str, Any]:
    """Every setting with the value that holds."""
    parts = parts_of(request)
    return await reading(request, lambda tx: parts.effective(tx).to_json())


@router.get("/api/memory/settings/origins", responses=answers(OriginsAnswer))
async def origins(request: Request) -> dict[str, str]:
    """Where each setting's value comes from."""
    parts = parts_of(request)
    return await reading(request, lambda tx: dict(parts.effective(tx).origins))


@router.patch("/api/memory/settings", responses=answers(SettingsAnswer))
@needs("admin")
async def change_settings(changes: dict[str, Any], request: Request) -> dict[str, Any]:
    """Change some settings; the others stay. What a file or the environment fixes cannot be changed here."""
    parts = parts_of(request)
    valid = check(by_todays_names(changes), where="request")
    fixed = await reading(request, lambda tx: parts.effective(tx).origins)
    for key in valid:
        if fixed[key] in ("user file", "environment"):
            raise BadConfig(f"Setting {key!r} is fixed by the {fixed[key]}.", remedy="Change it there.")
    await settled(parts.writer.submit(lambda tx: StoredSettings(tx).put(valid, parts.clock.now())))
    await elsewhere(lambda: write_hook_settings(parts))
    await elsewhere(lambda: write_briefs(parts, None, everywhere=True))
    return await settings(request)


@router.get("/api/memory/stats", responses=answers(StatsAnswer))
async def stats(request: Request) -> dict[str, Any]:
    """Counts of facts, messages and vectors."""
    return await reading(request, health.stats)


@router.get("/api/memory/retrievals", responses=answers(list[RetrievalAnswer]))
async def retrievals(request: Request, limit: Limit = 20) -> list[dict[str, Any]]:
    """The newest recalls with what was injected for them."""
    return await reading(request, lambda tx: Recalls(tx).last(limit))


def action_json(action: Action) -> dict[str, Any]:
    """What a decision came to; `review` is the id under which a statement waits for the user."""
    return {
        "action": action.name,
        "id": action.memory_id,
        "superseded": list(action.closed),
        "reason": action.reason,
        "review": action.review,
    }
