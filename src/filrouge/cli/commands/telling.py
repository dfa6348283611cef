"""Commands that tell: remember, and the hook's entry in the help (served before this module is loaded)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, branch_here, here
from filrouge.core.choices import one_of
from filrouge.core.errors import BadInput

_DONE = {
    "noop": "Known already",
    "delete": "No longer held as true",
    "conflict": "In conflict with what is known",
    "error": "Set aside",
}
_KINDS = {"intent": "an intent", "episode": "an episode"}


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
    if scope is not None:
        one_of("--scope", scope, ("user", "project"))
    body = {"text": text, "scope": scope, "project": here(project), "channel": "cli", "branch": branch_here(project)}
    found = ask("POST", "/api/memory/memories", body)
    if json:
        output.show_json(found)
        return
    for action in found["actions"]:
        _tell(action)


def _tell(action: Mapping[str, Any]) -> None:
    """What became of a statement: as what it is kept, where it holds, and what it replaced."""
    if action["action"] in ("add", "update"):
        memory = _memory(action["id"])
        output.say(f"Remembered as {_kind(memory)} {_where(memory)} ({memory['id']}): {memory['text']}")
    else:
        output.say(f"{_DONE[action['action']]}: {_described(action)}")
    for old in action["superseded"]:
        output.say(f"It replaces: {_memory(old)['text']}")
    if action.get("review"):
        output.say(f"It waits for you: filrouge review {action['review']}")


def _described(action: Mapping[str, Any]) -> str:
    if not action["id"]:
        return action["reason"]
    memory = _memory(action["id"])
    return f"{memory['text']} ({_kind(memory)} {_where(memory)}, {memory['id']})"


def _memory(memory_id: str) -> Mapping[str, Any]:
    return ask("GET", f"/api/memory/memories/{quote(memory_id, safe='')}")


def _kind(memory: Mapping[str, Any]) -> str:
    return _KINDS.get(memory["kind"], f"a {memory['kind']}")


def _where(memory: Mapping[str, Any]) -> str:
    return "for every project" if memory["scope"] == "user" else f"of the project {memory['project_name'] or '-'}"


def hook(host: Annotated[str, typer.Option(help="The agent's name; recognised by shape if absent.")] = "") -> None:
    """Stand in the help; `filrouge hook` itself is served by the fast path."""
    raise BadInput(f"`filrouge hook --host {host or 'NAME'}` is called by an agent.")
