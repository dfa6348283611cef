"""`filrouge concepts`: what sessions were about, and in how many of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, here
from filrouge.cli.options import Json, Project


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(concepts)


def concepts(
    project: Project = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 50,
    json: Json = False,
) -> None:
    """List what sessions were about, the most spoken of first."""
    asked: dict[str, Any] = {"limit": limit} | ({"project": here(project)} if project else {})
    found = ask("GET", "/api/memory/concepts", query=asked)
    if json:
        output.show_json(found)
        return
    if not found:
        output.say("No session was analysed yet.")
    output.table(
        ("Sessions", "First", "Last", "Project", "Concept"),
        [
            (
                one["mention_count"],
                one["first_date"][:10],
                one["last_date"][:10],
                one["project_name"] or "-",
                one["concept"],
            )
            for one in found
        ],
    )
