"""`filrouge project`: list projects, add a name, merge two projects, let a folder join one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, names_of_project
from filrouge.cli.output import Json, consent
from filrouge.core.errors import BadInput
from filrouge.hosts.project import HOLDER_PREFIX, normalise_url

project_app = typer.Typer(help="Your projects and their names.", no_args_is_help=True)
_PATH: Final = "/api/memory/projects"
_NAME_KINDS: Final = ("name", "origin", "root", "clone", "path")
#: Long, because all rows of a project move in one transaction.
_SECONDS: Final = 600.0


@project_app.command("list")
def list_(json: Json = False) -> None:
    """List the projects with all their names, the most recently active first."""
    found: list[Mapping[str, Any]] = ask("GET", _PATH)
    if json:
        output.show_json(found)
        return
    if not found:
        output.say("There is no project yet: an agent's first session in a directory begins one.")
    for project in found:
        last = (project["last_activity"] or "")[:16]
        rows: dict[str, object] = {"Id": project["id"]}
        rows["Holds"] = f"{project['memories']} memories, {project['turns']} turns, {project['threads']} threads"
        rows |= {"Last spoken in": last} if last else {}
        others = [name for name in project["aliases"] if name != project["id"]]
        output.box(project["name"], rows | ({"Also": others} if others else {}))


@project_app.command()
def alias(
    name: Annotated[str, typer.Argument(help="The project: its name, id or directory.")],
    other: Annotated[
        str, typer.Argument(help="Also known as: an address, a directory, or a name of `.filrouge.toml`.")
    ],
    json: Json = False,
) -> None:
    """Give a project another name. Events with this name belong to the project from then on."""
    project = ask("POST", f"{_PATH}/aliases", {"project": names_of_project(name), "names": _names_of(other)})
    output.answer(
        project, f"{project['name']} ({project['id']}) is known by: {', '.join(project['aliases'])}", json=json
    )


@project_app.command()
def merge(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The project that goes: its name, id or directory.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The project that it goes into.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    json: Json = False,
) -> None:
    """Merge one project into another: memories, turns, threads and names. This cannot be undone."""
    request = {"source": names_of_project(source), "into": names_of_project(into)}
    preview = ask("POST", f"{_PATH}/merge", request | {"dry_run": True}, timeout=_SECONDS)
    if not _is_agreed(preview, "Merge the two projects?", only_shown=dry_run, yes=yes, json=json):
        return
    # Send the ids, so that what was shown is what is merged, even if a name now refers to another project.
    done = ask("POST", f"{_PATH}/merge", {"source": preview["source"], "into": preview["into"]}, timeout=_SECONDS)
    output.answer(done, f"Done: {done['source']} is {done['into']} from now on.", json=json)


@project_app.command()
def join(
    folder: Annotated[str, typer.Argument(help="The folder; without one, this one.")] = ".",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it means.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    json: Json = False,
) -> None:
    """Let a folder join the project that its `.filrouge.toml` names and that other folders already use."""
    if not os.path.isdir(folder):
        raise BadInput(f"There is no folder {folder!r}.", remedy="Give the path of a folder.")
    names = names_of_project(folder)
    preview = ask("POST", f"{_PATH}/join", {"names": names, "dry_run": True})
    only_shown = dry_run or preview["agreed"]
    if not _is_agreed(preview, "Let this folder join?", only_shown=only_shown, yes=yes, json=json):
        return
    done = ask("POST", f"{_PATH}/join", {"names": names})
    output.answer(done, f"Done. {done['text']}", json=json)


def _is_agreed(preview: Mapping[str, Any], question: str, *, only_shown: bool, yes: bool, json: bool) -> bool:
    """Show what would change, and return True if it is to be done and the user agrees."""
    if only_shown:
        output.answer(preview, preview["text"], json=json)
        return False
    if not json:
        output.say(preview["text"])
    agreed = consent(question, yes=yes, json=json)
    if not agreed:
        output.say("Nothing was changed.")
    return agreed


def _names_of(other: str) -> list[str]:
    """Return the project names for what the user typed, in the form in which hooks send them."""
    if os.path.isdir(other):
        return [name for name in names_of_project(other) if not name.startswith(HOLDER_PREFIX)]
    if other.partition(":")[0] in _NAME_KINDS and not other.partition(":")[2].startswith("//"):
        return [other]
    return [f"origin:{normalise_url(other)}"] if "/" in other or "@" in other else [f"name:{other}"]
