"""`filrouge repair`: what is still there of a damaged memory becomes a sound one, and what is lost is listed."""

from __future__ import annotations

import json as json_format
import os
import subprocess
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from filrouge.app import repairing
from filrouge.cli import output
from filrouge.cli.commands.restoring import drained
from filrouge.clock import SystemClock, to_text
from filrouge.daemon import client
from filrouge.daemon.problems import named_error
from filrouge.daemon.process import only_one
from filrouge.daemon.waking import wake
from filrouge.errors import BadInput, Corrupt, FilrougeError
from filrouge.home import home

_DRAIN_SECONDS = 30.0
_COUNTS = ("saved", "unreadable", "refused", "orphaned", "remade")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(repair)


def repair(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do it on copies and say what came of it.")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="Have every vector made again.")] = False,
    all_anew: Annotated[bool, typer.Option("--all", help="Make indexes anew also where nothing is wrong.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Replace the damaged memory without asking.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a sound memory of what is left of a damaged one; the damaged files are kept, the loss is listed."""
    if client.is_elsewhere(os.environ):
        raise BadInput("A memory is repaired on the machine of its daemon.", remedy=f"Unset {client.URL} there.")
    if not dry_run and not yes:
        if not sys.stdin.isatty():
            raise BadInput("Repairing replaces the memory; say so with --yes.", remedy="See first what --dry-run says.")
        typer.confirm("Replace the memory by what can be saved of it? The damaged files are kept.", abort=True)
    ways = [word for word, said in (("--dry-run", dry_run), ("--vectors", vectors), ("--all", all_anew)) if said]
    done = _repaired(home(), ways)
    if json:
        output.show_json(done)
    else:
        _show(done, dry_run=dry_run)


def _repaired(directory: str, ways: list[str]) -> dict[str, Any]:
    """Repair between two daemons, in a process of its own.

    Raises:
        Corrupt: that process died, or nothing could be saved.
    """
    was_there = drained(directory)
    try:
        with only_one(directory, patience=_DRAIN_SECONDS):
            command = [sys.executable, "-P", "-m", repairing.__name__, directory, to_text(SystemClock().now()), *ways]
            ended = subprocess.run(  # noqa: S603 (it is ourselves)
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
    finally:
        if was_there:
            with suppress(FilrougeError):  # the next command says what keeps it from starting
                wake(directory)
    try:
        said: dict[str, Any] = json_format.loads(ended.stdout)
    except ValueError as error:
        raise Corrupt(
            f"The repair itself ended with {ended.returncode}; nothing was changed.",
            remedy="`filrouge restore latest` puts the newest backup in the memory's place.",
        ) from error
    if "error" in said:
        raise named_error(said["error"], said["message"], said["remedy"])
    return said


def _show(done: dict[str, Any], *, dry_run: bool) -> None:
    if not done["tables"]:
        output.say("Nothing is wrong.")
        return
    for one in done["found"]:
        output.say(f"Found: {one}")
    touched = [(name, *(counts[what] for what in _COUNTS)) for name, counts in sorted(done["tables"].items())]
    output.table(("Table", *_COUNTS), [row for row in touched if any(row[1:])])
    if done["redacted"]:
        output.say(f"{done['redacted']} entries of the journal lost what they said; its chain is closed and says so.")
    if done["vectors"]:
        output.say(f"{done['vectors']} vectors are made again by the daemon.")
    output.say("Nothing was changed." if dry_run else f"Repaired. What was damaged is kept: backups/{done['kept']}.db")
