"""`filrouge rules`: the standing instructions; list, add, edit, disable, enable, remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, here
from filrouge.cli.commands.asking import (
    Agent,
    AsOf,
    Branch,
    Channel,
    Everything,
    Since,
    Thread,
    Trust,
    Until,
    filters_of,
    listing,
)
from filrouge.cli.options import Json, Project

app = typer.Typer(help="The standing instructions of you and your projects.", invoke_without_command=True)
Id = Annotated[str, typer.Argument(help="A rule's id, or its beginning.")]
#: Only so many rules of a scope are said to agents.
_MOST = 20
_NO_RULES = "There are no rules of this project or of you yet. Other projects: filrouge rules --all"


@app.command("list")
@app.callback()
def rules(
    context: typer.Context,
    everything: Everything = False,
    project: Project = None,
    agent: Agent = None,
    channel: Channel = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    trust: Trust = 0,
    thread: Thread = None,
    branch: Branch = None,
    json: Json = False,
) -> None:
    """List the rules of this project and of you, newest first, with where each comes from and whether it stands."""
    if context.invoked_subcommand is None:
        given = filters_of(agent, channel, None, since, until, as_of, trust, thread=thread, branch=branch)
        _list(everything, project, given, json)


@app.command()
def add(
    text: Annotated[str, typer.Argument(help="The rule, in your own words.")],
    everywhere: Annotated[bool, typer.Option("--user", help="It holds in every project.")] = False,
    project: Project = None,
    json: Json = False,
) -> None:
    """Add a rule; it holds in this project unless you say otherwise."""
    scope = "user" if everywhere else "project"
    found = ask("POST", "/api/memory/rules", {"text": text, "scope": scope, "project": here(project)})
    _told(found, "Added", json)
    if not json:
        _notice(ask("GET", "/api/memory/rules"))


@app.command()
def edit(
    rule_id: Id, text: Annotated[str, typer.Argument(help="What it says from now on.")], json: Json = False
) -> None:
    """Say a rule otherwise; the new one takes its place."""
    _told(ask("PATCH", _path(rule_id), {"text": text}), "Now", json)


@app.command()
def disable(rule_id: Id, json: Json = False) -> None:
    """Keep a rule and say it to no agent."""
    _told(ask("PATCH", _path(rule_id), {"enabled": False}), "Disabled", json)


@app.command()
def enable(rule_id: Id, json: Json = False) -> None:
    """Say a disabled rule to agents again."""
    _told(ask("PATCH", _path(rule_id), {"enabled": True}), "Enabled", json)


@app.command()
def remove(rule_id: Id, json: Json = False) -> None:
    """Put a rule into the bin; `filrouge restore` brings it back."""
    found = ask("DELETE", _path(rule_id))
    if json:
        output.show_json(found)
    else:
        output.say(f"In the bin: {found['id']}")


def _list(everything: bool, project: str | None, filters: dict[str, Any], json: bool) -> None:
    found = ask("GET", "/api/memory/rules", query=listing(project, filters, everything=everything))
    if json:
        output.show_json(found)
        return
    if not found:
        output.say("There are no rules yet." if everything else _NO_RULES)
    output.table(("Id", "Stands", "Where", "From", "Text"), [_row(one) for one in found])
    _notice(found)


def _row(rule: Mapping[str, Any]) -> tuple[str, ...]:
    where = rule["project_name"] if rule["scope"] == "project" else "user"
    pinned = ", pinned" if rule["pinned"] else ""
    source: list[Mapping[str, Any]] = rule["source"]
    said = f"{source[0]['by']} {source[0]['at'][:10]}" if source else f"you {rule['created_at'][:10]}"
    return rule["id"], f"{rule['standing']}{pinned}", where or "-", said, rule["text"]


def _told(rule: Mapping[str, Any], done: str, json: bool) -> None:
    if json:
        output.show_json(rule)
    else:
        output.say(f"{done}: {rule['id']} {rule['text']}")


def _notice(found: list[Mapping[str, Any]]) -> None:
    """What to do where rules wait because their scope has too many."""
    number = sum(one["standing"] == "waiting" for one in found)
    if number:
        told = "1 rule waits" if number == 1 else f"{number} rules wait"
        output.say(f"{told}: {_MOST} of a scope are said to agents. Remove, disable or pin some to choose which.")


def _path(rule_id: str) -> str:
    return f"/api/memory/rules/{quote(rule_id, safe='')}"
