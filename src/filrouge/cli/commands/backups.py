"""`filrouge backup`, and what `filrouge restore` does with a backup."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from filrouge.app.restoring import Restored, restore
from filrouge.cli import output
from filrouge.cli.talk import SHORT_SECONDS, ask
from filrouge.clock import SystemClock, from_text
from filrouge.daemon import client
from filrouge.daemon.process import only_one
from filrouge.daemon.waking import wake
from filrouge.errors import BadInput, Busy, DaemonUnavailable, FilrougeError
from filrouge.home import home
from filrouge.transfer import backup as files

Json = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]
_LONGEST_SECONDS = 3600.0
_DRAIN_SECONDS = 30.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backup)


def backup(
    to: Annotated[str | None, typer.Option("--to", help="Write it to this file as well, on another disk.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the backups that there are.")] = False,
    json: Json = False,
) -> None:
    """Back the memory up while it is in use; what is kept was verified."""
    if list_:
        _list(json)
        return
    if to is not None:
        _check_target(to)
    made: dict[str, Any] = ask("POST", "/api/memory/backups", {}, timeout=_LONGEST_SECONDS)
    if to is not None:
        files.copy_out(home(), made["name"], to)
    if json:
        output.show_json(made)
    else:
        where = to or files.path_of(home(), made["name"])
        output.say(f"Backed up: {where} ({_size(made['bytes'])}, {sum(made['rows'].values())} rows, verified)")


def is_backup(what: str) -> bool:
    """True for what names a backup and no memory: `latest`, a name, a path. An id has no point and no slash."""
    return what == "latest" or files.is_name(what) or "/" in what or "." in what


def restore_backup(what: str, *, dry_run: bool, yes: bool, json: bool) -> None:
    """Put a backup in the place of the memory."""
    if client.is_elsewhere(os.environ):
        raise BadInput("A backup is restored on the machine of the daemon.", remedy=f"Unset {client.URL} there.")
    directory = home()
    path = files.find(directory, what)
    if not dry_run and not yes:
        _confirm(path)
    done = restore(directory, what, SystemClock(), dry_run=True) if dry_run else _replaced(directory, what)
    if json:
        output.show_json(done.to_json())
    else:
        for line in _told(done, dry_run=dry_run):
            output.say(line)


def _replaced(directory: str, what: str) -> Restored:
    """Restore between two daemons, if there is one."""
    was_there = drained(directory)
    try:
        with only_one(directory, patience=_DRAIN_SECONDS):
            return restore(directory, what, SystemClock())
    finally:
        if was_there:
            with suppress(FilrougeError):  # the next command says what keeps it from starting
                wake(directory)


def _told(done: Restored, *, dry_run: bool) -> list[str]:
    made = f" of {_when(done.at)}" if done.at else ""
    if dry_run:
        return [f"It can be restored: {done.path}{made}, {sum(done.rows.values())} rows.", "Nothing was changed."]
    kept = f" What was there is kept: filrouge restore {done.kept}" if done.kept else ""
    return [f"Restored: {done.path}{made}, {sum(done.rows.values())} rows.{kept}"]


def _confirm(path: str) -> None:
    if not sys.stdin.isatty():
        raise BadInput(
            "Restoring a backup replaces the whole memory; say so with --yes.",
            remedy=f"`filrouge restore {path} --dry-run` verifies it and changes nothing.",
        )
    typer.confirm(f"Replace the whole memory by {path}? What is there is backed up first.", abort=True)


def drained(directory: str) -> bool:
    """Ask the daemon to leave; True if there was one."""
    try:
        client.request(directory, "POST", "/daemon/drain", {}, SHORT_SECONDS)
    except DaemonUnavailable:
        if client.is_absent(directory):
            return False
        raise Busy("The daemon does not answer, so it cannot be asked to make room.") from None
    return True


def _check_target(to: str) -> None:
    if client.is_elsewhere(os.environ):
        raise BadInput("--to writes on the machine of the daemon.", remedy="Run it there.")
    folder = os.path.dirname(os.path.abspath(to))
    if not os.path.isdir(folder):
        raise BadInput(f"There is no directory {folder}.")
    if os.path.exists(to):
        raise BadInput(f"{to} is there already.", remedy="Name another file, or remove it.")


def _list(json: bool) -> None:
    found = ask("GET", "/api/memory/backups")
    if json:
        output.show_json(found)
        return
    output.table(
        ("Name", "Made", "Size", "Rows", "Schema", "Verified"),
        [
            (
                one["name"],
                _when(one["at"]),
                _size(one["bytes"]),
                sum(one["rows"].values()),
                one["schema"],
                ", ".join(one["verified"]) or "no",
            )
            for one in found["backups"]
        ],
    )
    if found["failed"]:
        output.say(f"The last one failed, {_when(found['failed']['at'])}: {found['failed']['error']}")


def _when(at: str | None) -> str:
    return f"{from_text(at):%Y-%m-%d %H:%M} UTC" if at else ""


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
