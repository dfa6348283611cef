"""`filrouge init`: connect the agents of this machine, after showing what changes in which file."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from filrouge.cli import imports, output
from filrouge.cli.commands import choices, plans
from filrouge.cli.commands.uninstall import take_back
from filrouge.core.errors import BadInput
from filrouge.core.paths import home, make_private
from filrouge.daemon import client
from filrouge.hosts.setup.entries import AGENTS, all_plugged
from filrouge.hosts.setup.files import NAME, this_machine
from filrouge.hosts.setup.plan import connecting, detected

_NEXT: Final = (
    ("filrouge doctor", "is everything in its place"),
    ("filrouge status", "what is known, and what is waiting"),
    ("filrouge search WORDS", "find what was said"),
    ("filrouge forget WORDS", "forget for good, with a receipt"),
    ("filrouge uninstall", "take all of this back"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(
    host: Annotated[list[str] | None, typer.Option(help="Only this agent, detected or not; may be repeated.")] = None,
    provider: Annotated[str | None, typer.Option(help="Who understands: heuristic (no model), ollama, ...")] = None,
    mode: Annotated[str | None, typer.Option(help="light, normal, heavy or max.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of headings: auto, en, fr or es.")] = None,
    tools: Annotated[bool, typer.Option(help="Register the tools (MCP) too.")] = True,
    backfill: Annotated[bool, typer.Option("--backfill", help="Read in what the agents kept of before, too.")] = False,
    allow_conversations: Annotated[
        bool, typer.Option("--allow-conversations", help="Let the plugin read what is said to OpenClaw.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Put the memory away, and begin anew; always asked.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back what init wrote, as `uninstall` does.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Connect the agents of this machine: hooks that remember and recall, and the tools; every file is shown first."""
    names = plans.known(host or [])
    if reset:
        _check_reset(undo=undo, dry_run=dry_run, json=json)
    if undo:
        take_back(names, yes=yes, dry_run=dry_run, json=json)
        return
    machine, directory = this_machine(os.environ), home()
    is_named = bool(names)
    names = names or detected(machine)
    if not names:
        raise BadInput(
            "No agent was found on this machine.",
            remedy=f"Name one with --host: {', '.join(AGENTS)}. Any other program can use `filrouge mcp`.",
        )
    asked = not (yes or dry_run or json) and sys.stdin.isatty()
    settings = choices.chosen(machine, names, provider, mode, language, asked=asked)
    settings |= choices.found_programs(directory, machine, names, settings.get("extract_provider"))
    conversations = allow_conversations or (asked and choices.conversations(names))
    # Who names an agent wants its hooks written, whatever else is there.
    plugged = {} if is_named else all_plugged(names, machine)
    plan = connecting(machine, directory, names, tools=tools, conversations=conversations, plugged=plugged)
    plan = replace(plan, changes=(*plan.changes, *choices.ignoring_home(directory)))
    tightening = choices.tightening(directory)
    memory = choices.Memory.of(directory, reset=reset)
    if not json:
        output.say(f"Agents: {plans.titles(names)}")
        plans.show(plan)
        for line in (*filter(None, [tightening]), *choices.lines(directory, settings), *memory.lines()):
            output.say(line)
    to_write = bool(plan.changes or settings or backfill or tightening.startswith("changes"))
    if dry_run or not (to_write or memory.goes):
        _finish(plan, names, memory, json=json)
        return
    if not ((not to_write or plans.consent("Write this?", yes=yes, json=json)) and memory.consent()):
        output.say("Nothing was changed.")
        return
    put_away = memory.put_away()  # first: where it cannot be done, nothing else is either
    make_private(directory)
    choices.ignore_itself(directory)
    choices.write(directory, settings)
    refused = plans.done(plan, directory)
    troubles = {**plan.troubles, **refused}
    warnings = choices.warnings(settings)
    history = imports.backfill(names, asked=asked, wanted=backfill, quiet=json, anew=memory.goes)
    if json:
        said = {"agents": names, "warnings": warnings, "then": _then(names), "history": history}
        output.show_json(plans.as_json(plan, troubles, changed=True, memory=memory.to_json(), **said))
    else:
        _close(names, [*put_away, *warnings])
        plans.show_troubles(refused)
    if troubles:
        raise typer.Exit(1)


def _check_reset(*, undo: bool, dry_run: bool, json: bool) -> None:
    """Refuse to put a memory away where nobody types that it is meant."""
    if undo:
        raise BadInput("--undo takes agents' settings back; it does not touch the memory.", remedy="Leave one out.")
    if client.is_elsewhere(os.environ):
        raise BadInput("A memory is put away on the machine of its daemon.", remedy=f"Unset {client.URL} there.")
    if not dry_run and (json or not sys.stdin.isatty()):
        raise BadInput(
            "Putting the memory away is asked at a terminal, and --yes does not answer it; nothing was changed.",
            remedy="Run it at a terminal; `filrouge forget` forgets a part, another FILROUGE_HOME begins beside it.",
        )


def _finish(plan: plans.Plan, names: list[str], memory: choices.Memory, *, json: bool) -> None:
    if json:
        said = {"agents": names, "warnings": [], "then": _then(names), "history": []}
        output.show_json(plans.as_json(plan, plan.troubles, changed=False, memory=memory.to_json(), **said))
    elif not plan.changes and not plan.troubles:
        output.say("Nothing is to be done: they are connected.")
        _close(names, [])
    if plan.troubles:
        raise typer.Exit(1)


def _close(names: list[str], said: list[str]) -> None:
    for line in (*said, *_then(names).values()):
        output.say(line)
    output.table(("Command", "What for"), _NEXT)
    program = this_machine(os.environ).executable
    if not shutil.which(NAME):
        output.say(f"`{NAME}` is not on your PATH: type {program} in its place.")
    output.say("Open an agent and work as usual; what matters comes back in the next session.")


def _then(names: list[str]) -> dict[str, Any]:
    return {name: AGENTS[name].then for name in names if AGENTS[name].then}
