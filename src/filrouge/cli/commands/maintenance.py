"""`filrouge garden`, `repair` and `audit`.

`repair` opens the database itself, while no daemon runs (`between_daemons`). It does so in a worker process, so that a
crash of native code is reported instead of ending the command.
"""

from __future__ import annotations

import json as json_format
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, TimeElapsedColumn

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.commands.backups import between_daemons
from filrouge.cli.output import Json, bars
from filrouge.core.clock import SystemClock, to_text
from filrouge.core.errors import BadInput, Busy, Corrupt, FilrougeError, StoreError
from filrouge.core.paths import home
from filrouge.daemon import client
from filrouge.daemon.reply import named_error
from filrouge.maintenance.backup_files import GO

#: Planning compares the memories with each other, so it may take long.
_PLAN_SECONDS = 60.0

_POLL_SECONDS = 0.1


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(garden)
    app.command()(repair)


def garden(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the latest runs.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or let it run.")] = True,
    json: Json = False,
) -> None:
    """Consolidate the memory: read sessions, merge duplicates, submit contradictions for review."""
    if list_:
        _list(json=json)
        return
    if running := _running():
        if dry_run or json or not wait:
            raise Busy(f"A consolidation is running already ({running}).", remedy="Watch it with `filrouge garden`.")
        output.say("A consolidation is running already.")
        _watch(running)
        return
    if dry_run or not yes:
        preview = _begin(dry_run=True)
        if json:  # a program cannot be asked: without --yes it gets the plan
            output.show_json(preview)
            return
        output.say_lines(preview["plan"]["text"])
        if dry_run or not preview["plan"]["steps"]:
            return
        output.confirm(preview["plan"]["question"], abort=True)
    started = _begin(dry_run=False)
    if started["garden"] is None or not wait:
        if json:
            output.show_json(started)
        else:
            output.say_lines(
                started["plan"]["text"] if started["garden"] is None else f"Begun: {started['garden']['id']}."
            )
        return
    if json:
        ended = _follow(started["garden"]["id"], lambda _: None)
        output.show_json(started | {"garden": ended})
    else:
        _watch(started["garden"]["id"])


def _begin(*, dry_run: bool) -> dict[str, Any]:
    return ask("POST", "/api/memory/gardens", {"dry_run": dry_run}, timeout=_PLAN_SECONDS)


def _running() -> str | None:
    """Return the id of the current run, if any."""
    newest = ask("GET", "/api/memory/gardens", query={"limit": 1})
    return newest[0]["id"] if newest and newest[0]["state"] == "running" else None


def _watch(garden_id: str) -> None:
    """Follow a run to its end, with a progress bar at a terminal."""
    lines: list[str] = []
    try:
        if output.is_terminal():
            _follow_with_bar(garden_id, lines.append)
        else:
            _follow(garden_id, lambda message: lines.append(message["label"]))
    except KeyboardInterrupt:
        output.warn("The run continues in the daemon; `filrouge garden` shows it again.")
        raise
    output.say(lines[-1])


def _follow_with_bar(garden_id: str, note: Callable[[str], None]) -> None:
    columns = ("{task.description}", BarColumn(), TimeElapsedColumn())
    with bars(*columns) as bar:
        task = bar.add_task("", total=None)

        def show(message: dict[str, Any]) -> None:
            payload = message["payload"]
            bar.update(task, description=message["label"], completed=payload["current"], total=payload["total"])
            note(message["label"])

        _follow(garden_id, show)


def _follow(garden_id: str, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Pass every new message of a run to `show` until the run is completed. Returns the completed run.

    Raises:
        FilrougeError: the run failed.
    """
    after = 0
    while True:
        found = ask("GET", f"/api/memory/gardens/{garden_id}/progress", query={"after": after})
        for message in found["messages"]:
            show(message)
        after = found["next"]
        if found["garden"]["state"] == "failed":
            raise FilrougeError(
                f"The consolidation stopped: {found['garden']['error']}",
                remedy="Completed steps are kept; `filrouge garden` continues with the rest.",
            )
        if found["garden"]["state"] == "completed":
            return found["garden"]
        time.sleep(_POLL_SECONDS)


def _list(*, json: bool) -> None:
    found = ask("GET", "/api/memory/gardens")
    columns = ("Begun", "Occasion", "State", "Steps", "Sessions", "New", "Merged")
    output.show_list(found, columns, _run_row, json=json, empty="The memory was never consolidated.")


def _run_row(run: Mapping[str, Any]) -> tuple[object, ...]:
    steps, totals = run["steps"], run["totals"]
    return (
        run["started_at"][:16].replace("T", " "),
        run["occasion"],
        run["state"],
        f"{steps['done']}/{steps['total']}",
        totals.get("sessions", 0),
        totals.get("new_items", 0),
        totals.get("merged_concepts", 0) + totals.get("merged_memories", 0),
    )


# `filrouge repair`

_COUNTS: Final = ("saved", "unreadable", "refused", "orphaned", "remade")
_PROGRESS: Final = "Checking a copy for damage. Agents can continue; hooks write to the spool."
_NOT_NEEDED: Final = "Nothing is wrong."
#: The module that repairs, run as a separate process.
_WORKER: Final = "filrouge.maintenance.repair"

Show = Callable[[dict[str, Any]], None]


def repair(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be saved and lost.")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="Make every vector again.")] = False,
    rebuild_all: Annotated[bool, typer.Option("--all", help="Also rebuild indexes in which nothing is wrong.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put back the damaged files that the last repair kept.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do what the plan says without asking.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rebuild a damaged memory from what can be read, after showing what is lost. The damaged files are kept."""
    if client.is_remote(os.environ):
        raise BadInput("A memory is repaired on the machine of its daemon.", remedy=f"Unset {client.URL} there.")
    switches = (("--dry-run", dry_run), ("--vectors", vectors), ("--all", rebuild_all), ("--undo", undo))
    options = [word for word, is_set in switches if is_set]
    if undo and (vectors or rebuild_all):
        raise BadInput("--undo reverts a repair and rebuilds nothing.", remedy="Leave --vectors and --all out.")
    if not json and not undo:
        output.warn(_PROGRESS)
    is_agreed = _consent_asker(_show_undo if undo else _show_plan, undo=undo, yes=yes, json=json)
    plan, done = _plan_and_repair(home(), options, is_agreed)
    result = plan if done is None else done
    if json:
        output.show_json(result | {"plan": plan, "done": bool(done and done["kept"])})
        return
    if not undo and not result["tables"]:
        output.say(_NOT_NEEDED)
        return
    if dry_run:
        (_show_undo if undo else _show_plan)(plan)
    output.say(_outcome(done, undo=undo))


def _consent_asker(show: Show, *, undo: bool, yes: bool, json: bool) -> Callable[[dict[str, Any]], bool]:
    """Return a function that shows the plan and returns True if the user, or `yes`, agrees to it."""

    def is_agreed(plan: dict[str, Any]) -> bool:
        if not yes and (json or not sys.stdin.isatty()):
            raise BadInput(
                "Repairing replaces the memory; confirm it with --yes.", remedy="See the plan first with --dry-run."
            )
        if not json:
            show(plan)
        question = "Put the damaged files back?" if undo else "Replace the memory by what can be saved of it?"
        return yes or output.confirm(question)

    return is_agreed


def _plan_and_repair(
    directory: str, options: list[str], is_agreed: Callable[[dict[str, Any]], bool]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Plan the repair, and carry it out if `is_agreed` returns True. No daemon runs meanwhile, so the plan stays valid.

    Returns:
        The plan, and the result; None if nothing was done.

    Raises:
        Corrupt: the worker died, or nothing could be saved.
    """
    with between_daemons(directory), _worker(directory, options) as worker:
        first = _exchange(worker)
        if "plan" not in first:
            return first, None
        plan: dict[str, Any] = first["plan"]
        if not is_agreed(plan):
            return plan, None
        return plan, _exchange(worker, GO)


@contextmanager
def _worker(directory: str, options: list[str]) -> Generator[subprocess.Popen[str]]:
    """Start the repair worker. If its plan gets no answer, it ends without changes."""
    now = to_text(SystemClock().now())
    command = [sys.executable, "-P", "-m", _WORKER, directory, now, "--ask", *options]
    with subprocess.Popen(  # noqa: S603 (our own module)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as worker:
        yield worker


def _exchange(worker: subprocess.Popen[str], answer: str = "") -> dict[str, Any]:
    """Send the answer, if any, to the worker, and return the next JSON line that it prints.

    Raises:
        Corrupt: the worker ended without a line.
        FilrougeError: the error that the worker reported.
    """
    if worker.stdin is None or worker.stdout is None:
        raise Corrupt("The repair process cannot be reached; nothing was changed.")
    if answer:
        with suppress(BrokenPipeError):  # the worker died; the missing line is reported below
            worker.stdin.write(f"{answer}\n")
            worker.stdin.flush()
    try:
        message: dict[str, Any] = json_format.loads(worker.stdout.readline())
    except ValueError as error:
        outcome = (
            "the memory is repaired or unchanged; `filrouge doctor` tells which" if answer else "nothing was changed"
        )
        raise Corrupt(
            f"The repair itself ended with {worker.wait()}; {outcome}.",
            remedy="`filrouge restore latest` puts the newest backup in the memory's place.",
        ) from error
    if "error" in message:
        raise named_error(message["error"], message["message"], message["remedy"])
    return message


def _show_plan(plan: dict[str, Any]) -> None:
    for problem in plan["found"]:
        output.say(f"Found: {problem}")
    rows = [(name, *(counts[what] for what in _COUNTS)) for name, counts in sorted(plan["tables"].items())]
    output.table(("Table", *_COUNTS), [row for row in rows if any(row[1:])])
    if plan["redacted"]:
        output.say(f"{plan['redacted']} journal entries lose their content; the hash chain records this.")
    if plan["vectors"]:
        output.say(f"{plan['vectors']} vectors are made again by the daemon.")
    output.say("The damaged files are kept; `filrouge repair --undo` puts them back.")


def _show_undo(plan: dict[str, Any]) -> None:
    at, size = output.format_time(plan["at"]), output.megabytes(plan["bytes"])
    output.say(f"Puts back what the repair of {at} kept: backups/{plan['undone']}.db, {size}, damaged.")
    if not plan["log"]:
        output.say("Its log can no longer be read; the log stays beside that file.")
    output.say("The repaired memory, with what was learned since, is backed up first.")


def _outcome(done: dict[str, Any] | None, *, undo: bool) -> str:
    if done is None:
        return "Nothing was changed."
    if undo:
        back = f" filrouge restore {done['kept']}" if done["kept"] else " there was none"
        return f"The damaged files are back. The repaired memory is kept:{back}"
    return f"Repaired. The damaged files are kept: backups/{done['kept']}.db"


audit_app = typer.Typer(help="The journal of every decision.", no_args_is_help=True)
#: Long, because every entry is read and hashed.
_SECONDS = 120.0


@audit_app.callback()
def group() -> None:
    """The journal of every decision."""


@audit_app.command()
def verify(json: Json = False) -> None:
    """Verify the journal's hash chain. Exits with 6 if an entry was edited, removed or reordered."""
    found = ask("GET", "/api/audit/verify", timeout=_SECONDS)
    if json:
        output.show_json(found)
    else:
        output.say(f"{found['entries']} entries read, {found['redacted']} of them forgotten.")
        if found["sound"]:
            output.say("Every entry holds.")
        else:
            output.say(f"Entry {found['broken_at']} does not hold: {found['reason']}. Restore a backup from before it.")
    if not found["sound"]:
        raise typer.Exit(StoreError.exit_code)
