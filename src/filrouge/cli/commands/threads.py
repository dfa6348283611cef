"""`filrouge threads`, `thread`, `why-thread`, `bridges` and `graph`.

A thread groups the turns about one piece of work across sessions. A bridge is a typed relation between two threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, names_of_project
from filrouge.cli.output import Json, Project
from filrouge.core.choices import check_choice
from filrouge.core.errors import BadInput

Id = Annotated[str, typer.Argument(help="A thread's id, or its beginning; see `filrouge threads`.")]
_PATH = "/api/memory/threads"
_MAX_LINE_CHARACTERS = 100


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(threads)
    app.command()(thread)
    app.command("why-thread")(why_thread)
    app.command()(bridges)
    app.command()(graph)


def threads(
    status: Annotated[str, typer.Option("--status", "-s", help="active, suspended, archived or all.")] = "all",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 50,
    project: Project = None,
    agent: Annotated[str | None, typer.Option(help="Only what this agent opened: its id, or its channel.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="As they were on this day or at this time.")] = None,
    json: Json = False,
) -> None:
    """List threads, the most recent first."""
    check_choice("--status", status, ("active", "suspended", "archived", "all"))
    query: dict[str, Any] = {"status": status, "limit": limit} | (
        {"project": names_of_project(project)} if project else {}
    )
    query |= {name: value for name, value in (("agent", agent), ("as_of", as_of)) if value}
    found = ask("GET", _PATH, query=query)
    columns = ("Id", "Title", "Status", "Weight", "Topics", "Messages")
    output.show_list(found, columns, _thread_row, json=json, empty="There are no such threads yet.")


def _thread_row(thread: Mapping[str, Any]) -> tuple[object, ...]:
    weight, topics = f"{thread['weight']:.2f}", ", ".join(thread["topics"])
    return thread["id"], thread["title"], thread["status"], weight, topics, thread["messages"]


def thread(
    thread_id: Id,
    rename: Annotated[
        str | None, typer.Option("--rename", help="Give it this title; it is not changed automatically any more.")
    ] = None,
    archive: Annotated[bool, typer.Option("--archive", help="Put it away.")] = False,
    reopen: Annotated[bool, typer.Option("--reopen", help="Make it active again.")] = False,
    merge_into: Annotated[str | None, typer.Option("--merge-into", help="Put all of it into this thread.")] = None,
    split: Annotated[list[str] | None, typer.Option("--split", help="A turn for a new thread; repeatable.")] = None,
    move: Annotated[list[str] | None, typer.Option("--move", help="A turn that belongs here; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Show a thread with the state of its work, its bridges and its turns, or change it (one option at a time)."""
    chosen = [
        option for option in (rename, archive, reopen, merge_into, split, move) if option not in (None, False, [])
    ]
    if len(chosen) > 1:
        raise BadInput("A thread is changed in one way at a time.", remedy="Give one of the options.")
    path = f"{_PATH}/{quote(thread_id, safe='')}"
    if rename is not None:
        found = ask("PATCH", path, {"title": rename})
    elif archive or reopen:
        found = ask("PATCH", path, {"status": "archived" if archive else "active"})
    elif merge_into:
        found = ask("POST", f"{path}/merge", {"into": merge_into})
    elif split or move:
        found = ask("POST", f"{path}/{'split' if split else 'move'}", {"turns": split or move})
    else:
        found = ask("GET", path)
    if json:
        output.show_json(found)
    else:
        _show_thread(found)


def why_thread(
    turn_id: Annotated[str, typer.Argument(help="A turn's id; see `filrouge thread ID`.")], json: Json = False
) -> None:
    """Show why a turn is in its thread: the threads it was compared with, and every decision."""
    found = ask("GET", f"/api/memory/turns/{quote(turn_id, safe='')}/thread")
    if json:
        output.show_json(found)
        return
    output.say(_single_line(found["text"]))
    output.say(f"In: {found['title']} ({found['thread_id']})" if found["thread_id"] else "In no thread.")
    if found["follows"]:
        output.say("It follows the thread of the prompt before it.")
    for decision in found["decisions"]:
        asked = f", asked {decision['model']}" if decision["model"] else ""
        title = decision["title"] or decision["thread_id"]
        output.say(f"{decision['at'][:19]} {decision['action']} {title} ({decision['actor']}{asked})")
        output.say(f"  {decision['reason']}")
        output.table(
            ("Similarity", "Embedding", "Topics", "State", "Thread"),
            [
                (
                    f"{comparison['similarity']:.2f}",
                    "-" if comparison["embedding"] is None else f"{comparison['embedding']:.2f}",
                    f"{comparison['topics']:.2f}{' exact' if comparison['exact'] else ''}",
                    f"{comparison['state']}{', its own' if comparison['own'] else ''}",
                    comparison["title"] or comparison["thread_id"],
                )
                for comparison in decision["weighed"]
            ],
        )


def _show_thread(found: Mapping[str, Any]) -> None:
    rows = {
        "Id": found["id"],
        "Status": f"{found['status']} (weight {found['weight']:.2f})",
        "Topics": ", ".join(found["topics"]) or "-",
        "Summary": found["summary"] or "-",
        "Messages": f"{found['messages']} in {found['conversations']} conversations",
        "Project": found["project_name"] or "-",
        "Opened": found["opened_at"][:16],
        "Last active": found["last_active"][:16],
    }
    if found["parent"]:
        rows["From"] = f"{found['parent_title']} ({found['parent']})"
    if found["merged_into"]:
        rows["Merged into"] = found["merged_into"]
    output.box(found["title"], rows | _state_rows(found["state"]))
    output.table(
        ("Bridge", "Strength", "Thread", "Title"),
        [
            (
                f"{bridge['type']} {'→' if bridge['outgoing'] else '←'}",
                f"{bridge['strength']:.2f}",
                bridge["thread_id"],
                bridge["title"],
            )
            for bridge in found["bridges"]
        ],
    )
    output.table(
        ("Turn", "When", "Who", "How", "Text"),
        [
            (turn["id"], turn["at"][:16], turn["role"], turn["action"], _single_line(turn["text"]))
            for turn in found["turns_shown"]
        ],
    )
    for drift in found["drift"]:
        output.say(f"drifted {drift['at'][:16]} ({drift['similarity']:.2f}) into {drift['title'] or drift['became']}")


def _state_rows(state: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the state of the work as table rows. Empty entries get no row."""
    if state is None:
        return {}
    named = {"state": "Stood", "decisions": "Decisions", "questions": "Open questions"}
    rows: dict[str, object] = {
        name: [_single_line(entry["text"]) for entry in state[kind]] for kind, name in named.items()
    }
    rows["Files"] = ", ".join(state["files"])
    rows["Last error"] = _single_line(state["error"]["text"]) if state["error"] else ""
    return {name: text for name, text in rows.items() if text}


def _single_line(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _MAX_LINE_CHARACTERS else f"{one_line[: _MAX_LINE_CHARACTERS - 1]}…"


#: The bridge types. Copied here, because a command should not import `threads.models`.
TYPES = ("extends", "depends_on", "contradicts", "supports", "refines", "relates_to", "child_of")


def bridges(
    thread: Annotated[str | None, typer.Option(help="Only those of this thread: its id.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--type", help="extends, depends_on, contradicts, supports, refines, relates_to or child_of."),
    ] = None,
    add: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="ID ID", help="Connect two threads, with the type that --type names."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why the two are connected; for --add.")] = "",
    remove: Annotated[str | None, typer.Option(metavar="ID", help="Remove a bridge; it is not made again.")] = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """List the bridges between threads, the strongest first; or add or remove a bridge."""
    if kind:
        check_choice("--type", kind, TYPES)
    if add:
        body = {"source": add[0], "target": add[1], "reason": reason} | ({"type": kind} if kind else {})
        found = [ask("POST", "/api/memory/bridges", body)]
    elif remove:
        found = [ask("DELETE", f"/api/memory/bridges/{quote(remove, safe='')}")]
    else:
        query: dict[str, Any] = {"project": names_of_project(project)} if project else {}
        query |= {name: value for name, value in (("thread", thread), ("type", kind)) if value}
        found = ask("GET", "/api/memory/bridges", query=query)
    if json:
        output.show_json(found[0] if add or remove else found)
        return
    if not found:
        output.say("No threads are connected.")
    output.table(
        ("Id", "Source", "", "Target", "Type", "Confidence", "Now", "Reason"),
        [
            (
                bridge["id"],
                bridge["source_title"],
                "→",
                bridge["target_title"],
                bridge["type"],
                f"{bridge['confidence']:.2f}",
                f"{bridge['strength']:.2f}",
                bridge["reason"],
            )
            for bridge in found
        ],
    )


def graph(
    form: Annotated[str, typer.Option("--format", "-f", help="dot, json or svg.")] = "dot",
    project: Project = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; default: standard output.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Threads, the latest.")] = 100,
    json: Json = False,
) -> None:
    """Write the graph of threads and bridges, as Graphviz, JSON or SVG."""
    check_choice("--format", form, ("dot", "json", "svg"))
    query: dict[str, Any] = {"limit": limit} | ({"project": names_of_project(project)} if project else {})
    found = ask("GET", "/api/memory/graph", query=query)
    if out is None and (json or form == "json"):
        output.show_json(found)
        return
    text = _render_graph(found, "json" if json else form)
    if out is None:
        output.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise output.unwritable(str(out), error) from error
    output.say(f"{out}: {len(found['threads'])} threads, {len(found['bridges'])} bridges")


def _render_graph(found: dict[str, Any], form: str) -> str:
    if form == "json":
        return output.as_json(found) + "\n"
    # Imported here because drawing needs numpy, which is slow to import.
    from filrouge.threads.bridges import graph_of, to_dot, to_svg

    return (to_svg if form == "svg" else to_dot)(graph_of(found))
