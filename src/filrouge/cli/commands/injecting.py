"""`filrouge context`: what a host would be given here, to the letter, and why each candidate is in it or not."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from filrouge.capture import guard
from filrouge.cli import hook_output, output
from filrouge.cli.client import ask, here
from filrouge.core.choices import one_of
from filrouge.core.errors import BadInput
from filrouge.core.paths import home
from filrouge.hosts import project as projects


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(context)


def context(
    prompt: Annotated[str, typer.Argument(help="What would be typed; nothing with --session-start.")] = "",
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
    """Print what an agent would be given before a prompt, or when a session starts; nothing is logged."""
    if not session_start and not prompt.strip():
        raise BadInput("There is no prompt.", remedy="Give one, or --session-start.")
    one_of("--opening", opening, ("startup", "resume", "clear", "compact", "fork"))
    names, directory = here(project), _directory(project)
    if why := _switched_off(tuple(names), directory):
        if explain:
            output.say(why)
        if json:
            output.show_json({"context": "", "memories": [], "notes": [], "notices": [why], "candidates": []})
        return
    body = {"project": names, "channel": host, "session_id": session, "cwd": directory}
    about = {"occasion": "start", "opening": opening} if session_start else {"prompt": prompt}
    found = ask("POST", "/api/memory/context/preview", body | about)
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
        output.say("Nothing is put in front of this.")
    output.table(
        ("", "Section", "Kind", "Value", "Relevance", "Because", "Id", "Text"),
        [
            (
                "in" if one["injected"] else "out",
                one["section"],
                one["kind"],
                f"{one['value']:.2f}",
                _parts(one),
                one["reason"],
                one["id"],
                one["content"],
            )
            for one in found["candidates"]
        ],
    )


def _parts(one: dict[str, Any]) -> str:
    """What a relevance is made of, where there is one."""
    named = {"relevance": "", "similarity": "meaning ", "bm25_score": "words ", "coverage": "coverage "}
    return ", ".join(f"{label}{one[name]:.2f}" for name, label in named.items() if one.get(name) is not None)


def _directory(project: str | None) -> str:
    """Where a hook would run; empty for a project that is given by its name."""
    if project is None:
        return os.getcwd()
    return os.path.abspath(project) if os.path.isdir(project) else ""


def _switched_off(names: tuple[str, ...], directory: str) -> str:
    """Why a hook would do nothing here, or empty."""
    if guard.disabled(os.environ):
        return f"Hooks do nothing: {guard.DISABLED} is set."
    settings = hook_output.settings_of(home())
    if not settings.auto_capture or not projects.captures(directory, os.environ):
        return "Hooks do nothing here: auto_capture is off."
    if hook_output.is_disabled(settings, names):
        return "Hooks do nothing here: the project is among disabled_projects."
    return ""
