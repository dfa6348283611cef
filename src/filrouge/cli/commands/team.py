"""`filrouge team`: share memories of a project with colleagues, through a hub."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, names_of_project
from filrouge.cli.output import Json, format_time
from filrouge.core.errors import BadInput

team_app = typer.Typer(help="Share memories with a team, through its hub.", no_args_is_help=True)
_PATH: Final = "/api/team"
_SECONDS: Final = 120.0
_POLICIES: Final = "off, ask (each memory waits for you), rules-and-decisions or all-memories"


@team_app.command()
def join(
    url: Annotated[str, typer.Argument(help="Where the hub answers.")],
    token: Annotated[
        str,
        typer.Option(
            envvar="FILROUGE_HUB_TOKEN",
            help="Your token; without it you are asked, or it is read from stdin.",
            show_default=False,
        ),
    ] = "",
    device: Annotated[str, typer.Option(help="A name for this machine; without it, its host name.")] = "",
    json: Json = False,
) -> None:
    """Join a team. Nothing is shared before you say what: see `filrouge team share`."""
    secret = token or (output.prompt_secret("Token") if sys.stdin.isatty() else sys.stdin.readline().strip())
    found = ask("POST", f"{_PATH}/join", {"url": url, "token": secret, "device": device}, timeout=_SECONDS)
    line = (
        f"You are {found['member']} in the team {found['team']}. Nothing is shared before you say so; in a project:"
        " `filrouge team share --policy ask`."
    )
    output.answer(found, line, json=json)


@team_app.command()
def leave(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False, json: Json = False
) -> None:
    """Leave the team: what colleagues shared is erased here, what you shared stays with them."""
    question = "Leave the team, and erase here what colleagues shared?"
    if not output.consent(question, yes=yes, json=json, has_dry_run=False):
        return
    found = ask("POST", f"{_PATH}/leave", timeout=_SECONDS)
    erased = "1 memory of a colleague was" if found["erased"] == 1 else f"{found['erased']} memories of colleagues were"
    line = f"You left the team {found['left']}; {erased} erased here."
    output.answer(found, line, json=json)


@team_app.command()
def status(json: Json = False) -> None:
    """Show the team, what is shared of each project, and what waits."""
    _show(ask("GET", _PATH), json=json)


@team_app.command()
def sync(json: Json = False) -> None:
    """Exchange memories with the hub now instead of within two seconds, and show the status."""
    _show(ask("POST", f"{_PATH}/synchronise", timeout=_SECONDS), json=json)


@team_app.command()
def share(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Memories to share.")] = None,
    policy: Annotated[str, typer.Option(help=f"What is shared of a project on its own: {_POLICIES}.")] = "",
    project: Annotated[str, typer.Option(help="The project of the policy; without it, the one you are in.")] = "",
    evidence: Annotated[
        bool | None, typer.Option("--evidence/--no-evidence", help="Also share the quotes that prove memories.")
    ] = None,
    json: Json = False,
) -> None:
    """Share memories, or say what is shared of a project from now on."""
    if bool(ids) == bool(policy):
        raise BadInput("Give either ids of memories or a policy.", remedy="See `filrouge team share --help`.")
    if ids and (project or evidence is not None):
        raise BadInput("--project and --evidence belong to a policy.", remedy="Give --policy with them, and no ids.")
    if ids:
        _show_memories(ask("POST", f"{_PATH}/share", {"ids": ids}, timeout=_SECONDS), json=json)
        return
    names = names_of_project(project or ".")
    body = {"project": names, "policy": policy, "with_evidence": evidence}
    _show_policy(ask("PUT", f"{_PATH}/policy", body, timeout=_SECONDS), names, policy, json=json)


@team_app.command()
def unshare(ids: Annotated[list[str], typer.Argument(metavar="ID...")], json: Json = False) -> None:
    """Take memories back for good, or decline those that wait: colleagues lose them, you keep them."""
    _show_memories(ask("POST", f"{_PATH}/unshare", {"ids": ids}, timeout=_SECONDS), json=json)


@team_app.command()
def accept(ids: Annotated[list[str], typer.Argument(metavar="ID...")], json: Json = False) -> None:
    """Accept rules for everybody, as an admin of the team; `filrouge review` accepts one for you alone."""
    found = ask("POST", f"{_PATH}/accept", {"ids": ids}, timeout=_SECONDS)
    count = found["accepted"]
    rules = "1 rule is" if count == 1 else f"{count} rules are"
    output.answer(found, f"{rules} accepted for everybody in the team." if count else "Accepted before.", json=json)


@team_app.command("list")
def list_(
    state: Annotated[
        str, typer.Option(help="candidate, queued, shared, leaving, withdrawn, declined or refused.")
    ] = "candidate",
    json: Json = False,
) -> None:
    """List the memories that wait for you to share them, or those in another state."""
    _show_memories(ask("GET", f"{_PATH}/memories", query={"state": state}), json=json)


def _show(found: Mapping[str, Any], *, json: bool) -> None:
    if json:
        output.show_json(found)
        return
    if not found["joined"]:
        output.say("This home belongs to no team. Join one with `filrouge team join URL`.")
        return
    lines = [f"{found['member']} of the team {found['team']}, on {found['device']}, through {found['url']}."]
    lines += [f"Memories: {found['shared']} shared, {found['received']} received from colleagues{_waiting(found)}."]
    if found["problem"]:
        lines.append(f"The last exchange failed: {found['problem']}")
    elif found["synchronised_at"]:
        lines.append(f"Last exchange: {format_time(found['synchronised_at'])}.")
    for line in lines:
        output.say(line)
    rows = [(one["name"], _policy(one), one["address"]) for one in found["projects"]]
    if rows:
        output.table(("project", "shared", "known to the team as"), rows)


_WAITING: Final = {
    "queued": "to be sent",
    "candidates": "waiting for you (`filrouge team list`)",
    "refused": "that cannot be shared (`filrouge team list --state refused`)",
}


def _waiting(found: Mapping[str, Any]) -> str:
    return "".join(f", {found[name]} {what}" for name, what in _WAITING.items() if found[name])


def _policy(project: Mapping[str, Any]) -> str:
    return project["policy"] + (" with evidence" if project["with_evidence"] else "")


def _show_policy(found: Mapping[str, Any], names: Sequence[str], policy: str, *, json: bool) -> None:
    if json:
        output.show_json(found)
        return
    for project in found["projects"]:
        if {project["project"], project["name"], f"origin:{project['address']}"} & set(names):
            output.say(f"{project['name']} ({project['address']}): {_policy(project)}.")
    if waiting := _waiting(found).removeprefix(", "):
        output.say(f"Of all projects: {waiting}.")
    if found["shared"] and policy != "all-memories":
        output.say("What was shared before stays shared until you take it back: `filrouge team unshare ID`.")


def _show_memories(found: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    output.show_list(found, ("id", "state", "kind", "project", "memory"), _row, json=json, empty="There are none.")


def _row(memory: Mapping[str, Any]) -> tuple[str, ...]:
    reason = f": {memory['reason']}" if memory["reason"] else ""
    return memory["id"], f"{memory['state']}{reason}", memory["kind"], memory["project"] or "-", memory["text"]
