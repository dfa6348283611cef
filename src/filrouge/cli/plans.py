"""Plans for changes to the agents' settings files: show the plan, ask for consent, carry it out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from filrouge.cli import output
from filrouge.core.choices import closest_first, listed
from filrouge.core.errors import BadInput, FilrougeError
from filrouge.hosts.setup.entries import AGENTS
from filrouge.hosts.setup.plan import Change, Plan, carry_out


def checked_agents(names: Sequence[str]) -> list[str]:
    """Return the names without duplicates.

    Raises:
        BadInput: a name is not an agent that Filrouge can connect.
    """
    for name in names:
        if name not in AGENTS:
            raise BadInput(f"There is no agent {name!r}.", remedy=f"There are: {listed(closest_first(name, AGENTS))}.")
    return list(dict.fromkeys(names))


def consent(question: str, *, yes: bool, json: bool) -> bool:
    """Ask the user for consent, unless `yes` is given. Returns True to continue.

    Raises:
        BadInput: the user cannot be asked, because of `json` or because stdin is not a terminal.
    """
    if yes:
        return True
    if json or not sys.stdin.isatty():
        raise BadInput(
            "This command needs confirmation, and stdin is not a terminal.",
            remedy="Add --yes to do it, or --dry-run to see it.",
        )
    return output.confirm(question, default=True)


def show(plan: Plan) -> None:
    """Print every change of a plan, and the files that are left alone."""
    for change in plan.changes:
        output.say(f"{_deed(change)} {change.path}")
        for line in change.lines():
            output.say(f"    {line}")
        if change.note:
            output.say(f"    {change.note}")
    for name, plugin in plan.plugged.items():
        output.say(
            f"{AGENTS[name].title} has Filrouge as a plugin ({plugin.place}), so its hooks are not written besides;"
            f" `filrouge init --host {name}` writes them all the same."
        )
    show_troubles(plan.troubles)


def show_troubles(troubles: Mapping[str, FilrougeError]) -> None:
    """Print the files that were left alone, with the reason."""
    for path, trouble in troubles.items():
        output.say(f"left alone: {path}: {trouble.message} {trouble.remedy}".rstrip())


def apply(plan: Plan, home: str) -> dict[str, FilrougeError]:
    """Carry out a plan. Returns the error for each file that could not be changed; the others are still changed."""
    troubles = dict[str, FilrougeError]()
    for change in plan.changes:
        try:
            carry_out(change, home)
        except FilrougeError as error:
            troubles[change.path] = error
    return troubles


def as_json(plan: Plan, troubles: Mapping[str, FilrougeError], *, changed: bool, **more: Any) -> dict[str, Any]:
    """Return a plan and its outcome as JSON data."""
    return {
        "changed": changed,
        "files": [
            {
                "agent": change.agent,
                "path": change.path,
                "deed": _deed(change),
                "lines": change.lines(),
                "note": change.note,
            }
            for change in plan.changes
        ],
        "troubles": [
            {"path": path, "detail": error.message, "remedy": error.remedy} for path, error in troubles.items()
        ],
        "settled": list(plan.settled),
        "plugged": {name: plugin.place for name, plugin in plan.plugged.items()},
        **more,
    }


def titles(names: Iterable[str]) -> str:
    """Return the agents' titles, joined by commas."""
    return ", ".join(AGENTS[name].title for name in names)


def _deed(change: Change) -> str:
    if change.now is None:
        return "creates" if change.then is not None else "forgets"
    return "removes" if change.then is None else "changes"
