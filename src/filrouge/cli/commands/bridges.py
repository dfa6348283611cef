"""`filrouge bridges` and `filrouge graph`: what ties threads together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, here
from filrouge.cli.options import Json, Project
from filrouge.core.choices import one_of

#: Of bridges; `threads.models`, which has them, is more than a command needs.
TYPES = ("extends", "depends_on", "contradicts", "supports", "refines", "relates_to", "child_of")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(bridges)
    app.command()(graph)


def bridges(
    thread: Annotated[str | None, typer.Option(help="Only those of this thread: its id.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--type", help="extends, depends_on, contradicts, supports, refines, relates_to or child_of."),
    ] = None,
    add: Annotated[
        tuple[str, str] | None, typer.Option(metavar="ID ID", help="Tie two threads, of the type that --type says.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why the two are tied, for --add.")] = "",
    remove: Annotated[str | None, typer.Option(metavar="ID", help="Remove a bridge; it is not made again.")] = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """List what ties threads together, the strongest first; or tie two, or remove a bridge."""
    if kind:
        one_of("--type", kind, TYPES)
    if add:
        body = {"source": add[0], "target": add[1], "reason": reason} | ({"type": kind} if kind else {})
        found = [ask("POST", "/api/memory/bridges", body)]
    elif remove:
        found = [ask("DELETE", f"/api/memory/bridges/{quote(remove, safe='')}")]
    else:
        asked: dict[str, Any] = {"project": here(project)} if project else {}
        asked |= {name: value for name, value in (("thread", thread), ("type", kind)) if value}
        found = ask("GET", "/api/memory/bridges", query=asked)
    if json:
        output.show_json(found[0] if add or remove else found)
        return
    if not found:
        output.say("No threads are tied.")
    output.table(
        ("Id", "Source", "", "Target", "Type", "Confidence", "Now", "Reason"),
        [
            (
                one["id"],
                one["source_title"],
                "→",
                one["target_title"],
                one["type"],
                f"{one['confidence']:.2f}",
                f"{one['strength']:.2f}",
                one["reason"],
            )
            for one in found
        ],
    )


def graph(
    form: Annotated[str, typer.Option("--format", "-f", help="dot, json or svg.")] = "dot",
    project: Project = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; or else it is printed.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Threads, the latest.")] = 100,
    json: Json = False,
) -> None:
    """Write the graph of threads and bridges: for Graphviz, for programs, or as a picture."""
    one_of("--format", form, ("dot", "json", "svg"))
    asked: dict[str, Any] = {"limit": limit} | ({"project": here(project)} if project else {})
    found = ask("GET", "/api/memory/graph", query=asked)
    if out is None and (json or form == "json"):
        output.show_json(found)
        return
    text = _written(found, "json" if json else form)
    if out is None:
        output.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise output.unwritable(str(out), error) from error
    output.say(f"{out}: {len(found['threads'])} threads, {len(found['bridges'])} bridges")


def _written(found: dict[str, Any], form: str) -> str:
    if form == "json":
        return output.as_json(found) + "\n"
    # Drawing needs numpy, which no other command has to wait for.
    from filrouge.threads.graph import graph_of, to_dot, to_svg

    return (to_svg if form == "svg" else to_dot)(graph_of(found))
