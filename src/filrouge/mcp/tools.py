"""The seven MCP tools: each calls one application service and returns a value with a readable text.

A model writes the arguments and may copy them from untrusted text, so they are treated as data: `endpoint` validates
them against the schema, and here they are only passed as parameters. An error is a `FilrougeError` with a remedy.

Memories are returned as quoted data with their source. Every text is neutralised like injected text
(`context.block`). The readable form has one line for each item, inside the block that capture recognises and
removes, so that Filrouge does not learn its own output.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.context.service import build_and_log
from filrouge.core.clock import relative_date, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.mcp.results import (
    MAX_LISTED_CHARACTERS,
    MAX_READ_CHARACTERS,
    ToolResult,
    quote,
    render_block,
    render_line,
)
from filrouge.memories.changes import add_for_agent, correct_for_agent, manual_event
from filrouge.memories.models import Memory
from filrouge.memories.reports import quotes
from filrouge.memories.repository import Action
from filrouge.memories.service import BinPreview, confirm_bin, preview_bin
from filrouge.projects import repository
from filrouge.runtime.executors import ReaderPool
from filrouge.runtime.repository import resolve_id
from filrouge.runtime.services import Parts
from filrouge.search.models import Hit
from filrouge.search.service import Question, recall, search_turns
from filrouge.server.responses import await_future, in_thread, run_recall
from filrouge.server.routes.memories import action_json
from filrouge.team import service as team

_MAX_NAME_CHARACTERS: Final = 60

ResultItem = dict[str, Any]


def item_json(
    item: Memory | Turn, names: Mapping[str, str], now: datetime, *, max_characters: int = MAX_LISTED_CHARACTERS
) -> ResultItem:
    """Return a memory or a turn as the tools output it."""
    is_memory = isinstance(item, Memory)
    said_at = item.valid_from if isinstance(item, Memory) else item.at
    text = quote(item.text, max_characters)
    return {
        "id": item.id,
        "kind": item.kind if isinstance(item, Memory) else "turn",
        "text": text,
        "source": quote(item.scope.channel, _MAX_NAME_CHARACTERS),
        "project": quote(names.get(item.scope.project or "", item.scope.project or ""), _MAX_NAME_CHARACTERS),
        "at": to_text(said_at),
        "age": relative_date(said_at, now, "en"),
        "trust": item.trust,
        "verified": item.trust >= TRUST_PROMPT and (is_memory or item.role == "user"),
        "state": item.state if isinstance(item, Memory) else "live",
        "cut": len(item.text) > max_characters,
    }


def render_item(item: ResultItem) -> str:
    """Return an item as one line."""
    marks = [item["id"], item["kind"], item["age"], item["source"] or "unknown", item["project"]]
    marks += [] if item["state"] == "live" else [item["state"]]
    marks += [] if item["verified"] else ["unverified"]
    return render_line(marks, item["text"])


#: The channel of statements that arrive over MCP.
CHANNEL: Final = "mcp"
_MAX_LISTED: Final = 20
#: A hit with a lower relevance does not match the query.
_MIN_RELEVANCE: Final = 0.01
_MAX_REASON_CHARACTERS: Final = 300
#: Relevance bonus for hits of the current project or of the user's own memories.
_PROJECT_BONUS: Final = 0.25

Arguments = Mapping[str, Any]


class Caller(Struct, frozen=True, kw_only=True):
    """The client that calls a tool.

    Attributes:
        project: names of the project that the client works in; empty if the client sends none.
        idempotency_key: key of an addition; the same key is stored only once.
    """

    project: tuple[str, ...] = ()
    idempotency_key: str = ""


async def memory_search(parts: Parts, caller: Caller, arguments: Arguments) -> ToolResult:
    """Return memories and turns for a query, best first; the current project and the user's own get a bonus."""
    mode, limit = arguments.get("mode", "hybrid"), int(arguments.get("limit", 10))
    names = [arguments["project"]] if "project" in arguments else []

    def find(tx: Tx) -> dict[str, Any]:
        project = repository.project_id(tx, names)
        near_projects = (None, project or repository.project_id(tx, caller.project))
        fetch_limit = max(2 * limit, 20)  # fetch more, so that hits of the current project can move up
        question = Question(
            text=arguments["query"], project=project, everywhere=not names, mode=mode, limit=fetch_limit
        )
        memories, turns = recall(parts, tx, question), search_turns(parts, tx, question)
        rankings = (turns, memories) if mode == "text" else (memories, turns)
        hits = [
            hit for ranking in rankings for hit in ranking.hits if mode == "text" or hit.relevance >= _MIN_RELEVANCE
        ]
        if mode != "text":
            # Relevance is a probability, so memories and turns can be compared.
            hits.sort(key=lambda hit: -hit.relevance - _PROJECT_BONUS * (hit.item.scope.project in near_projects))
        project_names, now = repository.names_of(tx), parts.clock.now()
        results = [
            item_json(hit.item, project_names, now) | {"relevance": _rounded_relevance(hit)} for hit in hits[:limit]
        ]
        notices = dict.fromkeys(notice for ranking in rankings for notice in ranking.notices)
        return {"results": results, "notices": list(notices)}

    value = await run_recall(parts.readers, find)
    found = value["results"]
    lines = [render_item(result) for result in found] or ["Nothing in memory matches."]
    return ToolResult(value=value, text=render_block([*lines, *(f"({notice})" for notice in value["notices"])]))


async def memory_get(parts: Parts, _: Caller, arguments: Arguments) -> ToolResult:
    """Return one memory or turn."""

    def find(tx: Tx) -> dict[str, Any]:
        id_, project_names, now = (
            resolve_id(tx, arguments["id"], ("memory", "turn")),
            repository.names_of(tx),
            parts.clock.now(),
        )
        memory = next(iter(parts.memories(tx).known([id_])), None)
        item = memory or next(iter(parts.turns(tx).get([id_])), None)
        if item is None:
            raise NotFound(f"There is no memory {quote(id_, 100)!r}.", remedy="memory_search gives the ids.")
        evidence = quotes(parts, tx, memory) if isinstance(memory, Memory) else []
        return {
            "item": item_json(item, project_names, now, max_characters=MAX_READ_CHARACTERS),
            "quotes": [
                {
                    "text": quote(quotation["text"], MAX_READ_CHARACTERS),
                    "source": quote(quotation["channel"], 60),
                    "at": quotation["at"],
                }
                for quotation in evidence[:_MAX_LISTED]
            ],
            "supersedes": memory.supersedes if memory else None,
            "superseded_by": memory.superseded_by if memory else None,
            "pinned": memory.pinned if memory else False,
        }

    value = await await_future(parts.readers.submit(find))
    lines = [render_item(value["item"]), *(f"  said: {quotation['text']}" for quotation in value["quotes"])]
    if value["superseded_by"]:
        lines.append(f"  replaced by {value['superseded_by']}")
    return ToolResult(value=value, text=render_block(lines))


async def memory_add(parts: Parts, caller: Caller, arguments: Arguments) -> ToolResult:
    """Store a statement of an agent."""
    names = _project_names(parts.readers, caller, arguments)
    actions = await in_thread(
        lambda: add_for_agent(
            parts, arguments["text"], names=names, host=CHANNEL, idempotency_key=caller.idempotency_key
        )
    )
    return _actions_result(actions)


async def memory_update(parts: Parts, _: Caller, arguments: Arguments) -> ToolResult:
    """Correct a memory, within what an agent may change."""
    id_ = parts.readers.here(lambda tx: resolve_id(tx, arguments["id"], ("memory",)))
    return _actions_result([await in_thread(lambda: correct_for_agent(parts, id_, arguments["text"]))])


async def memory_forget(parts: Parts, caller: Caller, arguments: Arguments) -> ToolResult:
    """Preview what would be binned, or bin it if a token is given."""
    topic, id_, token = arguments.get("topic", ""), arguments.get("id", ""), arguments.get("token", "")
    id_ = parts.readers.here(lambda tx: resolve_id(tx, id_, ("memory",)))
    project = parts.readers.here(lambda tx: repository.project_id(tx, caller.project))

    def run() -> BinPreview:
        if token:
            return confirm_bin(parts, token, topic=topic, memory_id=id_, project=project)
        return preview_bin(parts, topic=topic, memory_id=id_, project=project)

    found = await in_thread(run)
    project_names = parts.readers.here(repository.names_of)
    now = parts.clock.now()
    to_bin = [item_json(memory, project_names, now) for memory in found.goes]
    not_binned = [item_json(memory, project_names, now) for memory in found.kept]
    value = {
        "done": bool(token),
        "counts": {"binned": len(to_bin), "kept": len(not_binned)},
        "items": to_bin[:_MAX_LISTED],
        "kept": not_binned[:_MAX_LISTED],
        "token": "" if token else found.token,
    }
    return ToolResult(value=value, text=_render_bin(value, to_bin, not_binned))


async def memory_context(parts: Parts, caller: Caller, arguments: Arguments) -> ToolResult:
    """Return the context that would be injected for a prompt."""
    names = _project_names(parts.readers, caller, arguments)
    project = parts.readers.here(lambda tx: repository.project_id(tx, names)) or ""
    event = manual_event(parts.clock, "prompt", arguments["prompt"], names=names, host=CHANNEL)
    context = await run_recall(parts.readers, lambda _: build_and_log(parts, event, project))
    value = {"context": context.block.text, "memories": context.block.memories, "notices": list(context.notices)}
    return ToolResult(value=value, text=context.block.text or "Nothing in memory bears on this prompt.")


async def memory_team(parts: Parts, _: Caller, arguments: Arguments) -> ToolResult:
    """Return the state of the team; with ids, propose to share these memories, which the user has to confirm."""

    def run() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        given: list[str] = arguments.get("propose", [])
        ids = parts.readers.here(lambda tx: [resolve_id(tx, id_, ("memory",)) for id_ in given])
        proposed = team.propose(parts, ids) if ids else []
        return team.status(parts), proposed

    status, proposed = await in_thread(run)
    value = {
        "joined": status["joined"],
        "team": quote(status.get("team", ""), _MAX_NAME_CHARACTERS),
        "problem": quote(status.get("problem", ""), _MAX_REASON_CHARACTERS),
        "shared": status.get("shared", 0),
        "received": status.get("received", 0),
        "candidates": status.get("candidates", 0),
        "projects": [
            {"name": quote(project["name"], _MAX_NAME_CHARACTERS), "policy": project["policy"]}
            for project in status.get("projects", [])
        ],
        "proposed": [
            {"id": memory["id"], "state": memory["state"], "text": quote(memory["text"], MAX_LISTED_CHARACTERS)}
            for memory in proposed
        ],
    }
    return ToolResult(value=value, text=render_block(_team_lines(value)))


Tool = Callable[[Parts, Caller, Arguments], Awaitable[ToolResult]]
BY_NAME: Final[Mapping[str, Tool]] = {
    "memory_search": memory_search,
    "memory_get": memory_get,
    "memory_add": memory_add,
    "memory_update": memory_update,
    "memory_forget": memory_forget,
    "memory_context": memory_context,
    "memory_team": memory_team,
}


def _project_names(readers: ReaderPool, caller: Caller, arguments: Arguments) -> tuple[str, ...]:
    """Return the names of the current project: the client's, otherwise the argument's.

    Raises:
        BadInput: they are two different projects; automatic recall is limited to the current one.
    """
    requested = arguments.get("project", "")
    if not caller.project or not requested:
        return caller.project or ((requested,) if requested else ())

    def is_same_project(tx: Tx) -> bool:
        return repository.project_id(tx, [requested]) == repository.project_id(tx, caller.project)

    if not readers.here(is_same_project):
        raise BadInput(
            "This client works in another project.", remedy="Leave `project` out; memory_search sees all projects."
        )
    return caller.project


def _rounded_relevance(hit: Hit) -> float:
    return round(min(max(hit.relevance, 0.0), 1.0), 4)


def _actions_result(actions: list[Action]) -> ToolResult:
    values = [action_json(action) | {"reason": quote(action.reason, _MAX_REASON_CHARACTERS)} for action in actions]
    lines = [_describe_action(value) for value in values] or ["Nothing was stored."]
    return ToolResult(value={"actions": values}, text=render_block(lines))


def _describe_action(action: dict[str, Any]) -> str:
    templates = {
        "add": "Stored as {id}.",
        "update": "Stored as {id}, in the place of {old}.",
        "delete": "Ended {old}.",
        "noop": "Known already: {id}." if action["id"] else "Not stored again: {reason}.",
        "conflict": "It contradicts {id}. The user must decide; review {review}.",
        "error": "Not stored: {reason}.",
    }
    old = ", ".join(action["superseded"])
    return templates.get(action["action"], "{action} {id}").format(**action, old=old)


def _render_bin(value: dict[str, Any], to_bin: list[ResultItem], not_binned: list[ResultItem]) -> str:
    if value["done"]:
        lines = [f"In the bin: {len(to_bin)}. The user takes it back with `filrouge restore ID`."]
    elif to_bin:
        lines = [f"Would go into the bin: {len(to_bin)}. To do so, call memory_forget again with this token."]
        lines.append(f"token: {value['token']}")
    else:
        lines = ["Nothing would go into the bin."]
    lines += [render_item(item) for item in value["items"]]
    if not_binned:
        lines += ["Kept: only the user can bin rules and pinned memories (`filrouge bin ID`):"]
        lines += [render_item(item) for item in value["kept"]]
    return render_block(lines)


def _team_lines(value: Mapping[str, Any]) -> list[str]:
    if not value["joined"]:
        return ["The user belongs to no team; they join one with `filrouge team join`."]
    if value["proposed"]:
        said = (
            "Nothing was sent. What is a candidate waits for the user, who sees it with `filrouge team list` and shares"
            " it with `filrouge team share ID`. What they declined before stays declined:"
        )
        return [said, *(f"- [{memory['id']}, {memory['state']}] {memory['text']}" for memory in value["proposed"])]
    counts = (
        f"The team {value['team']}: {value['shared']} memories shared, {value['received']} received from colleagues,"
        f" {value['candidates']} waiting for the user (`filrouge team list`)."
    )
    problem = [f"The last exchange failed: {value['problem']}"] if value["problem"] else []
    return [counts, *problem, *(f"- {project['name']}: {project['policy']}" for project in value["projects"])]
