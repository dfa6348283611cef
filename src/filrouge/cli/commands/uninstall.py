"""`filrouge uninstall`: every file is what it was, or less what is ours; the memory stays unless it is named."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from filrouge.cli import output
from filrouge.cli.commands import plans
from filrouge.home import DATABASE, home, inside
from filrouge.hosts.setup.machine import this_machine
from filrouge.hosts.setup.plan import disconnecting
from filrouge.hosts.setup.wanted import AGENTS
from filrouge.transfer.files import size_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(uninstall)


def uninstall(
    host: Annotated[list[str] | None, typer.Option(help="Only this agent; may be repeated.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take Filrouge out of the agents' settings: byte for byte where nobody edited them since. What is known stays."""
    take_back(plans.known(host or []) or list(AGENTS), yes=yes, dry_run=dry_run, json=json)


def take_back(names: list[str], *, yes: bool, dry_run: bool, json: bool) -> None:
    """Take Filrouge out of the settings of these agents."""
    directory = home()
    plan = disconnecting(this_machine(os.environ), directory, names)
    if not json:
        plans.show(plan)
        for line in _left(directory):
            output.say(line)
    changed = bool(plan.changes) and not dry_run and plans.consent("Do this?", yes=yes, json=json)
    refused = plans.done(plan, directory) if changed else {}
    troubles = {**plan.troubles, **refused}
    if json:
        output.show_json(plans.as_json(plan, troubles, changed=changed, memory=directory))
    elif refused:
        plans.show_troubles(refused)
    elif not plan.changes and not troubles:
        output.say("Nothing of Filrouge stands in the settings of these agents.")
    elif changed:
        output.say("Done.")
    if troubles:
        raise typer.Exit(1)


def _left(directory: str) -> list[str]:
    """What no settings of agents hold, and how it goes; nothing where there is no home."""
    if not os.path.isdir(directory):
        return []
    size = size_of(inside(directory, DATABASE))
    known = f"What is known stays: {size / 1e6:,.1f} MB in {directory}." if size else f"Its home stays: {directory}."
    return [f"{known} To lose it for good, backups and all: `filrouge daemon stop`, then remove that folder."]
