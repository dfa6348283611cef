"""Commands that tell: remember, and the hook's entry in the help (served before this module is loaded)."""

from __future__ import annotations

from typing import Annotated

import typer

from filrouge.cli import output
from filrouge.cli.talk import ask, branch_here, here
from filrouge.errors import BadInput

_DONE = {
    "add": "Remembered",
    "update": "Remembered, replacing what was known",
    "noop": "Known already",
    "delete": "No longer held as true",
    "conflict": "In conflict with what is known",
    "error": "Set aside",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(remember)
    app.command(help="Serve one hook call of an agent: its JSON on standard input (always ends with 0).")(hook)


def remember(
    text: Annotated[str, typer.Argument(help="What to remember, in your own words.")],
    scope: Annotated[
        str | None, typer.Option(help="user (everywhere) or project; default: what the words say.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="A project: its name, id or directory.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Remember a statement; a newer one about the same thing replaces the older."""
    if scope not in (None, "user", "project"):
        raise BadInput(f"--scope is user or project, not {scope!r}.")
    body = {"text": text, "scope": scope, "project": here(project), "channel": "cli", "branch": branch_here(project)}
    found = ask("POST", "/api/memory/memories", body)
    if json:
        output.show_json(found)
        return
    for action in found["actions"]:
        output.say(f"{_DONE[action['action']]}: {action['id']}")
        if action.get("review"):
            output.say(f"It waits for you: filrouge review {action['review']}")


def hook(host: Annotated[str, typer.Option(help="The agent's name; recognised by shape if absent.")] = "") -> None:
    """Stand in the help; `filrouge hook` itself is served by the fast path."""
    raise BadInput(f"`filrouge hook --host {host or 'NAME'}` is called by an agent.")
