"""`filrouge garden`: consolidate what was said and learned, with the plan first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, TimeElapsedColumn

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.output import bars
from filrouge.core.errors import Busy, FilrougeError

_LOOK_SECONDS = 0.1
#: Comparing a thousand memories takes a moment.
_PLAN_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(garden)


def garden(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the latest runs.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or let it run.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Consolidate the memory: read sessions, merge what is said twice, put contradictions up for review."""
    if list_:
        _list(json=json)
        return
    if running := _running():
        if dry_run or json or not wait:
            raise Busy(f"The garden is at work already ({running}).", remedy="Watch it with `filrouge garden`.")
        output.say("The garden is at work already.")
        _watch(running)
        return
    if dry_run or not yes:
        planned = _begin(dry_run=True)
        if json:  # a program is asked nothing: without --yes it gets the plan
            output.show_json(planned)
            return
        output.say_lines(planned["plan"]["text"])
        if dry_run or not planned["plan"]["steps"]:
            return
        output.confirm(planned["plan"]["question"], abort=True)
    begun = _begin(dry_run=False)
    if begun["garden"] is None or not wait:
        if json:
            output.show_json(begun)
        else:
            output.say_lines(begun["plan"]["text"] if begun["garden"] is None else f"Begun: {begun['garden']['id']}.")
        return
    if json:
        ended = _until_over(begun["garden"]["id"], lambda _: None)
        output.show_json(begun | {"garden": ended})
    else:
        _watch(begun["garden"]["id"])


def _begin(*, dry_run: bool) -> dict[str, Any]:
    return ask("POST", "/api/memory/gardens", {"dry_run": dry_run}, timeout=_PLAN_SECONDS)


def _running() -> str | None:
    """The run that is at work."""
    newest = ask("GET", "/api/memory/gardens", query={"limit": 1})
    return newest[0]["id"] if newest and newest[0]["state"] == "running" else None


def _watch(garden_id: str) -> None:
    """Follow a run to its end, behind a bar where a person reads."""
    lines: list[str] = []
    try:
        if output.is_watched():
            _behind_a_bar(garden_id, lines.append)
        else:
            _until_over(garden_id, lambda one: lines.append(one["label"]))
    except KeyboardInterrupt:
        output.warn("The garden goes on in the daemon; `filrouge garden` shows it again.")
        raise
    output.say(lines[-1])


def _behind_a_bar(garden_id: str, note: Callable[[str], None]) -> None:
    columns = ("{task.description}", BarColumn(), TimeElapsedColumn())
    with bars(*columns) as bar:
        task = bar.add_task("", total=None)

        def show(message: dict[str, Any]) -> None:
            payload = message["payload"]
            bar.update(task, description=message["label"], completed=payload["current"], total=payload["total"])
            note(message["label"])

        _until_over(garden_id, show)


def _until_over(garden_id: str, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Show every message of a run, each once, until it is over; the run as it is then.

    Raises:
        FilrougeError: it failed.
    """
    after = 0
    while True:
        found = ask("GET", f"/api/memory/gardens/{garden_id}/progress", query={"after": after})
        for message in found["messages"]:
            show(message)
        after = found["next"]
        if found["garden"]["state"] == "failed":
            raise FilrougeError(
                f"The garden stopped: {found['garden']['error']}",
                remedy="What was done is done; `filrouge garden` begins anew with what is left.",
            )
        if found["garden"]["state"] == "completed":
            return found["garden"]
        time.sleep(_LOOK_SECONDS)


def _list(*, json: bool) -> None:
    found = ask("GET", "/api/memory/gardens")
    if json:
        output.show_json(found)
        return
    if not found:
        output.say("The garden was never tended.")
    output.table(
        ("Begun", "Occasion", "State", "Steps", "Sessions", "New", "Merged"),
        [
            (
                one["started_at"][:16].replace("T", " "),
                one["occasion"],
                one["state"],
                f"{one['steps']['done']}/{one['steps']['total']}",
                one["totals"].get("sessions", 0),
                one["totals"].get("new_items", 0),
                one["totals"].get("merged_concepts", 0) + one["totals"].get("merged_memories", 0),
            )
            for one in found
        ],
    )
