"""Commands that read the memory: search, recall, facts, why, topics, timeline, context.

`status` and `settings` are here as well. `context` prints the exact block that a host would receive here and, with
`--explain`, why each candidate is in it or not. Other command modules share the filter options
(`filtered`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, get_type_hints
from urllib.parse import quote

import typer

from filrouge.capture import events, inbox
from filrouge.cli import output
from filrouge.cli.client import SHORT_SECONDS, ask, names_of_project
from filrouge.cli.commands.health import threads_line
from filrouge.cli.output import Json, Project
from filrouge.core.choices import check_choice, closest_first, did_you_mean, join_with_or
from filrouge.core.errors import BadConfig, BadInput, DaemonUnavailable, FilrougeError
from filrouge.core.paths import home
from filrouge.daemon import client
from filrouge.hosts import hook_input
from filrouge.hosts import project as projects

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=200)]
#: The options of all filters, by their API names.
FILTERS: Final[Mapping[str, Any]] = {
    "agent": Annotated[str | None, typer.Option(help="Only what this agent learned: its id, or its channel.")],
    "channel": Annotated[str | None, typer.Option(help="Only what was said through it: claude-code, codex, cli, ...")],
    "kind": Annotated[
        list[str] | None, typer.Option(help="Only this kind: fact, decision, rule, ..., turn; repeatable.")
    ],
    "since": Annotated[str | None, typer.Option(help="Only what was said from this day or time on.")],
    "until": Annotated[str | None, typer.Option(help="Only what was said up to this day, or before this time.")],
    "as_of": Annotated[str | None, typer.Option("--as-of", help="What was valid on this day or at this time.")],
    "trust": Annotated[
        int, typer.Option(min=0, max=3, help="Minimum trust: 1 agent output, 2 your prompts, 3 entered by you.")
    ],
    "role": Annotated[str | None, typer.Option(help="Only turns of this speaker: user, assistant or tool.")],
    "thread": Annotated[str | None, typer.Option(help="Only what was said in this thread, or rests on it: its id.")],
    "branch": Annotated[str | None, typer.Option(help="Only what was said on this git branch: its whole name.")],
    "language": Annotated[str | None, typer.Option(help="Only memories in this language: en, fr or es.")],
}
#: The filters that are set, by their API names.
Filters = dict[str, Any]
NO_FILTERS: Final[Filters] = {}
Everything = Annotated[
    bool, typer.Option("--all", help="Every project; without filters, also superseded and binned memories.")
]
Collection = Annotated[str, typer.Option("--in", help="turns, memories, threads, notes, or all but threads.")]
Status = Annotated[str, typer.Option("--status", "-s", help="Of threads: active, suspended, archived or all.")]
#: Values of `--kind`: the kinds of memories, and `turn`.
KINDS = ("fact", "decision", "preference", "intent", "constraint", "episode", "concept", "note", "rule", "turn")
_NOTHING = "Nothing is known about that."
_NOTHING_HERE = "Nothing is known about this project or you yet. To see other projects: filrouge facts --all"


def filtered(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the filter options; it receives those that are set as `filters`.

    Args:
        without: filters that the command does not have.
    """
    options = {name: option for name, option in FILTERS.items() if name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            filters = {name: value for name in options if (value := arguments.pop(name))}
            for kind in filters.get("kind", ()):
                check_choice("--kind", kind, KINDS)
            if "role" in filters:
                check_choice("--role", filters["role"], ("user", "assistant", "tool"))
            command(**arguments, filters=filters)

        hints = get_type_hints(command, include_extras=True) | options
        parameters = list[Parameter]()
        for name, parameter in signature(command).parameters.items():
            if name == "filters":
                parameters += [
                    _option(option_name, 0 if option_name == "trust" else None, hints) for option_name in options
                ]
            else:
                parameters.append(_option(name, parameter.default, hints))
        del hints["filters"]
        vars(run).update(__signature__=Signature(parameters), __annotations__=hints)
        return run

    return decorate


def _option(name: str, default: object, hints: Mapping[str, Any]) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (status, search, recall, facts, why, settings):
        app.command()(command)
    app.command()(topics)
    app.command()(timeline)
    app.command()(context)


def status(json: Json = False) -> None:
    """Show what is stored, what is waiting, and whether the daemon runs."""
    try:
        found = ask("GET", "/daemon/status", start=False, timeout=SHORT_SECONDS)
    except DaemonUnavailable:
        if not client.is_absent(home()):
            raise
        if json:
            output.show_json({"running": False, "home": home(), "lost": inbox.read_losses(home()).events})
        else:
            stopped = {"Daemon": "Stopped", "Home": home(), "Next": "filrouge daemon start"}
            output.box("Filrouge", stopped | _lost_rows())
        raise typer.Exit(3) from None
    if json:
        output.show_json(found)
        return
    queue, current = found["queue"], found["current_thread"]
    rows = {
        "Daemon": f"Running (version {found['version']}, pid {found['pid']})",
        "Memories": f"{found['memories']} ({found['superseded']} superseded)",
        "Rules": found["rules"],
        "Turns": found["turns"],
        "Threads": threads_line(found["threads"]),
        "Current thread": f"{current['title']} ({current['id']})" if current else "none yet",
        "Bridges": found["bridges"],
        "Projects": ", ".join(project["name"] for project in found["projects"]) or "none yet",
        "Queue": f"{queue['waiting']} waiting, {queue['running']} running, {queue['dead']} dead",
        "Last activity": found["last_activity"] or "none yet",
        "Embedding": found["embedding_space"].partition("/")[0],
        "Backup": _backup_line(found["backups"]),
        "Home": found["home"],
    }
    if not (writes := found.get("writes", {"works": True}))["works"]:  # an older daemon does not report it
        rows["Writes"] = f"Nothing new is stored: {writes['cause']}. {writes['next']}"
    rows |= _lost_rows()
    if found.get("to_review"):
        rows["Review"] = f"{found['to_review']} waiting (filrouge review)"
    rows |= _team_rows()
    if found.get("embedding_notice"):
        rows["Embedding"] += f" ({found['embedding_notice']})"
    waiting: list[dict[str, str]] = found.get("waiting_folders", [])
    if waiting:
        rows["Not joined"] = "\n".join(
            f"{folder['folder']} names the project {folder['name']!r} of other folders: filrouge project join"
            f" {shlex.quote(folder['folder'])}"
            for folder in waiting
        )
    output.box("Filrouge", rows)


def _team_rows() -> dict[str, str]:
    """Return a row about the team; empty if there is none."""
    try:
        team = ask("GET", "/api/team", start=False, timeout=SHORT_SECONDS)
    except FilrougeError:  # a daemon of an older version has no teams
        return {}
    if not team["joined"]:
        return {}
    if team["problem"]:
        return {"Team": f"{team['team']}: the last exchange failed (filrouge team status)"}
    waiting = f", {team['candidates']} waiting for you (filrouge team list)" if team["candidates"] else ""
    return {"Team": f"{team['team']}: {team['shared']} shared, {team['received']} received{waiting}"}


def _lost_rows() -> dict[str, str]:
    """Return a row about events that hooks on this machine lost; empty if none were lost."""
    lost = inbox.read_losses(home())
    return {"Lost events": f"{lost.sentence()} (filrouge doctor)"} if lost.events else {}


def _backup_line(backups: dict[str, Any]) -> str:
    newest = (
        f"{backups['newest'][:16].replace('T', ' ')} UTC ({backups['backups']} kept)"
        if backups["newest"]
        else "none yet"
    )
    return f"{newest}; the last one failed (filrouge doctor)" if backups["failed"] else newest


@filtered()
def search(
    query: Annotated[str, typer.Argument(help="Words to look for; any punctuation is fine.")],
    mode: Annotated[str, typer.Option(help="text, semantic or hybrid.")] = "hybrid",
    limit: Limit = 10,
    project: Project = None,
    filters: Filters = NO_FILTERS,
    collection: Collection = "all",
    thread_status: Status = "all",
    json: Json = False,
) -> None:
    """Search the turns, memories and notes of all projects, or search threads."""
    check_choice("--mode", mode, ("text", "semantic", "hybrid"))
    check_choice("--in", collection, ("turns", "memories", "threads", "notes", "all"))
    check_choice("--status", thread_status, ("active", "suspended", "archived", "all"))
    parameters: dict[str, Any] = {
        "q": query,
        "mode": mode,
        "limit": limit,
        "collection": collection,
        "status": thread_status,
    }
    parameters |= filters
    found = ask(
        "GET", "/api/memory/search", query=parameters | ({"project": names_of_project(project)} if project else {})
    )
    if json:
        output.show_json(found)
        return
    if not found:
        output.say(_NOTHING)
    if collection == "threads":
        _show_threads(found)
        return
    output.table(
        ("Relevance", "Type", "Project", "Text"),
        [(f"{hit['relevance']:.2f}", hit["type"], hit["project_name"] or "-", hit["content"][:200]) for hit in found],
    )


@filtered("role")
def recall(
    query: Annotated[str, typer.Argument(help="A question or a prompt.")],
    limit: Limit = 5,
    min_relevance: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help='Minimum relevance; also disables the "nothing known" answer.'),
    ] = None,
    project: Project = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Look into every project.")] = False,
    filters: Filters = NO_FILTERS,
    json: Json = False,
) -> None:
    """List the memories that a prompt would recall in this project, with their relevance."""
    body: dict[str, Any] = {
        "query": query,
        "k": limit,
        "threshold": min_relevance or 0.0,
        "known_only": min_relevance is None,
        "project": [] if everywhere else names_of_project(project),
    }
    body |= filters
    found = ask("POST", "/search", body)
    if json:
        output.show_json(found)
        return
    for notice in found["notices"]:
        output.say(notice)
    if found["nothing_known"]:
        output.say(found["message"])
    output.table(
        ("Relevance", "Kind", "Text"),
        [(f"{hit['relevance']:.2f}", hit["type"], hit["text"]) for hit in found["results"]],
    )


@filtered("role")
def facts(
    everything: Everything = False,
    project: Project = None,
    filters: Filters = NO_FILTERS,
    json: Json = False,
) -> None:
    """List the current memories of this project and of you, newest first."""
    found = ask("GET", "/api/memory/facts", query=listing(project, filters, everything=everything))
    empty = "Nothing is known yet." if everything else _NOTHING_HERE
    output.show_list(found, ("Id", "Kind", "Where", "Text"), output.memory_row, json=json, empty=empty)


def why(memory_id: Annotated[str, typer.Argument(help="A memory's id, or its beginning.")], json: Json = False) -> None:
    """Show the quotes that a memory is based on, and every decision about it."""
    found = ask("GET", f"/api/memory/memories/{quote(memory_id, safe='')}")
    if json:
        output.show_json(found)
        return
    fields = ("id", "kind", "state", "scope", "branch", "created_at", "vitality", "uses")
    output.box(found["text"], {name: found[name] for name in fields if found[name] != ""})
    for quotation in found["quotes"]:
        output.say(f"said {quotation['at']} ({quotation['channel']}): {quotation['text']}")
    for entry in found["journal"]:
        payload: dict[str, Any] = entry["payload"] or {"reason": "forgotten"}
        output.say(f"{entry['at']} {entry['actor']} {entry['action']}: {payload.get('reason', '')}")


def settings(
    name: Annotated[str | None, typer.Argument(help="A setting to change.")] = None,
    value: Annotated[str | None, typer.Argument(help="Its new value; lists are separated by commas.")] = None,
    json: Json = False,
) -> None:
    """Show the settings with their origin, or change one."""
    found = ask("GET", "/api/memory/settings")
    if name is not None and value is not None:
        found = ask("PATCH", "/api/memory/settings", {name: _parse_value(value, found.get(name))})
    elif name is not None and name not in found:
        available = join_with_or(closest_first(name, found))
        raise BadConfig(f"There is no setting {name!r}.{did_you_mean(name, found)} There are: {available}.", remedy="")
    if json:
        output.show_json(found)
        return
    origins = ask("GET", "/api/memory/settings/origins")
    chosen = [name] if name else list(found)
    output.table(("Setting", "Value", "From"), [(key, found[key], origins[key]) for key in chosen])


def _show_threads(found: Sequence[Mapping[str, Any]]) -> None:
    output.table(
        ("Score", "Id", "Title", "Status", "Last active", "Project", "Why"),
        [
            (
                f"{thread['score']:.2f}",
                thread["id"],
                thread["title"],
                thread["status"],
                thread["last_active"][:16],
                thread["project_name"] or "-",
                thread["why"],
            )
            for thread in found
        ],
    )


def listing(project: str | None, filters: Filters, *, everything: bool) -> dict[str, Any]:
    """Return the query of a list of memories: those of a project and of the user, or everything."""
    project_query = {} if everything and not project else {"project": names_of_project(project)}
    return {"history": everything and not filters} | project_query | filters


def _parse_value(value: str, current: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(current, list) else value


AgentOption = Annotated[str | None, typer.Option(help="Only what was said to this agent: its id, or its channel.")]


def topics(
    timeframe: Annotated[str, typer.Option("--timeframe", "-t", help="today, week, month or all.")] = "week",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 50,
    min_mentions: Annotated[int, typer.Option(min=1, help="Conversations a topic was part of, at least.")] = 1,
    agent: AgentOption = None,
    json: Json = False,
) -> None:
    """List the topics of conversations, latest first."""
    check_choice("--timeframe", timeframe, ("today", "week", "month", "all"))
    query: dict[str, Any] = {"timeframe": timeframe, "limit": limit, "min_mention_count": min_mentions}
    found = ask("GET", "/api/memory/topics", query=query | ({"agent_id": agent} if agent else {}))
    if json:
        output.show_json(found)
        return
    if found["nothing_known"]:
        output.say("No conversation is known from that time.")
    output.table(
        ("First", "Last", "Conversations", "Vitality", "Title"),
        [
            (
                topic["first_date"][:10],
                topic["last_date"][:10],
                topic["conversations"],
                topic["vitality"],
                topic["title"],
            )
            for topic in found["topics"]
        ],
    )


def timeline(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 120,
    language: Annotated[str | None, typer.Option(help="en, fr or es; default: the one you write.")] = None,
    agent: AgentOption = None,
    json: Json = False,
) -> None:
    """Show the topics of conversations by week and month."""
    if language:
        check_choice("--language", language, ("en", "fr", "es"))
    query: dict[str, Any] = {"limit": limit} | ({"language": language} if language else {})
    found = ask("GET", "/api/memory/timeline", query=query | ({"agent_id": agent} if agent else {}))
    if json:
        output.show_json(found)
        return
    output.say_lines("No conversation is known yet." if found["nothing_known"] else found["text"])


def context(
    prompt: Annotated[str, typer.Argument(help="The prompt to try; leave it out with --session-start.")] = "",
    session_start: Annotated[bool, typer.Option("--session-start", help="What a session starts with.")] = False,
    opening: Annotated[str, typer.Option(help="How it starts: startup, resume, clear, compact or fork.")] = "startup",
    explain: Annotated[bool, typer.Option("--explain", help="Also list every candidate, in or out, and why.")] = False,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="A project: its name, id or directory.")
    ] = None,
    host: Annotated[str, typer.Option(help="The agent that would ask: claude-code, codex, ...")] = "claude-code",
    session: Annotated[str, typer.Option(help="The conversation it would ask in; default: a new one.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Print the context that an agent would get before a prompt or at a session start. Nothing is logged."""
    if not session_start and not prompt.strip():
        raise BadInput("There is no prompt.", remedy="Give one, or --session-start.")
    check_choice("--opening", opening, ("startup", "resume", "clear", "compact", "fork"))
    names, directory = names_of_project(project), _directory(project)
    if notice := _why_hooks_are_off(tuple(names), directory):
        if explain:
            output.say(notice)
        if json:
            output.show_json({"context": "", "memories": [], "notes": [], "notices": [notice], "candidates": []})
        return
    body = {"project": names, "channel": host, "session_id": session, "cwd": directory}
    occasion = {"occasion": "start", "opening": opening} if session_start else {"prompt": prompt}
    found = ask("POST", "/api/memory/context/preview", body | occasion)
    if json:
        output.show_json(found)
        return
    if found["context"]:
        output.write(found["context"] + "\n")
    if explain:
        _explain(found)


def _explain(found: dict[str, Any]) -> None:
    for notice in found["notices"]:
        output.say(notice)
    if not found["enabled"]:
        output.say("Retrieval is switched off (auto_retrieve_enabled).")
    elif not found["context"]:
        output.say("No context would be added.")
    output.table(
        ("", "Section", "Kind", "Value", "Relevance", "Because", "Id", "Text"),
        [
            (
                "in" if candidate["injected"] else "out",
                candidate["section"],
                candidate["kind"],
                f"{candidate['value']:.2f}",
                _relevance_parts(candidate),
                candidate["reason"],
                candidate["id"],
                candidate["content"],
            )
            for candidate in found["candidates"]
        ],
    )


def _relevance_parts(candidate: dict[str, Any]) -> str:
    """Return the parts of a candidate's relevance, those that it has."""
    labels = {"relevance": "", "similarity": "meaning ", "bm25_score": "words ", "coverage": "coverage "}
    return ", ".join(
        f"{label}{candidate[name]:.2f}" for name, label in labels.items() if candidate.get(name) is not None
    )


def _directory(project: str | None) -> str:
    """Return the directory in which a hook would run; empty for a project that is given by name."""
    if project is None:
        return os.getcwd()
    return os.path.abspath(project) if os.path.isdir(project) else ""


def _why_hooks_are_off(names: tuple[str, ...], directory: str) -> str:
    """Return why a hook would do nothing here; empty if it would work."""
    if events.is_disabled(os.environ):
        return f"Hooks do nothing: {events.DISABLED_VARIABLE} is set."
    settings = hook_input.settings_of(home())
    if not settings.auto_capture or not projects.is_capture_enabled(directory, os.environ):
        return "Hooks do nothing here: auto_capture is off."
    if hook_input.is_disabled(settings, names):
        return "Hooks do nothing here: the project is among disabled_projects."
    return ""
