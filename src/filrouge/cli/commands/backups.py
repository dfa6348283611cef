"""`filrouge backup` and `filrouge restore`.

`restore` makes a binned or superseded memory live again, or replaces the whole memory by a backup. This process
restores the backup itself while no daemon runs; only then is the database code imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import SHORT_SECONDS, ask
from filrouge.cli.commands.memories import change
from filrouge.cli.output import Json
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, Busy, DaemonUnavailable, FilrougeError
from filrouge.core.paths import home
from filrouge.daemon import client
from filrouge.daemon.process import ensure_running, home_lock
from filrouge.maintenance import backup_files as files

if TYPE_CHECKING:
    from filrouge.maintenance.restore import Restored


_MAX_BACKUP_SECONDS = 3600.0


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(backup)
    app.command()(restore)


def backup(
    to: Annotated[str | None, typer.Option("--to", help="Write it to this file as well, on another disk.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the backups.")] = False,
    json: Json = False,
) -> None:
    """Back up the memory while it is in use. Every backup is verified before it is kept."""
    if list_:
        _list(json)
        return
    if to is not None:
        _check_target(to)
    created: dict[str, Any] = ask("POST", "/api/memory/backups", {}, timeout=_MAX_BACKUP_SECONDS)
    if to is not None:
        files.copy_out(home(), created["name"], to)
    if json:
        output.show_json(created)
    else:
        where = to or files.path_of(home(), created["name"])
        output.say(
            f"Backed up: {where} ({_format_size(created['bytes'])}, {sum(created['rows'].values())} rows, verified)"
        )


def _check_target(to: str) -> None:
    if client.is_remote(os.environ):
        raise BadInput("--to writes on the machine of the daemon.", remedy="Run it there.")
    folder = os.path.dirname(os.path.abspath(to))
    if not os.path.isdir(folder):
        raise BadInput(f"There is no directory {folder}.")
    if os.path.exists(to):
        raise BadInput(f"{to} exists already.", remedy="Choose another file, or remove it.")


def _list(json: bool) -> None:
    found = ask("GET", "/api/memory/backups")
    if json:
        output.show_json(found)
        return
    output.table(
        ("Name", "Made", "Size", "Rows", "Schema", "Verified"),
        [
            (
                backup_entry["name"],
                output.format_time(backup_entry["at"]),
                _format_size(backup_entry["bytes"]),
                sum(backup_entry["rows"].values()),
                backup_entry["schema"],
                ", ".join(backup_entry["verified"]) or "no",
            )
            for backup_entry in found["backups"]
        ],
    )
    if found["failed"]:
        output.say(f"The last one failed, {output.format_time(found['failed']['at'])}: {found['failed']['error']}")


def _format_size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"


_DRAIN_SECONDS = 30.0


def restore(
    what: Annotated[str, typer.Argument(help="A memory's id; or a backup: its name, a path, or `latest`.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Of a backup: verify it, change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Of a backup: replace the memory without asking.")] = False,
    json: Json = False,
) -> None:
    """Restore a binned or superseded memory, or replace the whole memory by a backup."""
    if is_backup(what):
        restore_backup(what, dry_run=dry_run, yes=yes, json=json)
    elif dry_run or yes:
        raise BadInput("--dry-run and --yes are for backups; a memory that is live again can be binned again.")
    else:
        change("POST", what, "/restore", {}, "Live again", json)


def is_backup(what: str) -> bool:
    """Return True if `what` names a backup: `latest`, a backup's name, or a path. An id has no dot and no slash."""
    return what == "latest" or files.is_name(what) or "/" in what or "." in what


def restore_backup(what: str, *, dry_run: bool, yes: bool, json: bool) -> None:
    """Replace the memory by a backup, after asking.

    Raises:
        BadInput: the daemon is remote, or the user cannot be asked.
    """
    if client.is_remote(os.environ):
        raise BadInput("A backup is restored on the machine of the daemon.", remedy=f"Unset {client.URL} there.")
    directory = home()
    path = files.find(directory, what)
    if not dry_run and not yes:
        _confirm(path)
    done = _verify(directory, what) if dry_run else _replace(directory, what)
    if json:
        output.show_json(done.to_json())
    else:
        for line in _result_lines(done, dry_run=dry_run):
            output.say(line)


def _verify(directory: str, what: str) -> Restored:
    from filrouge.maintenance.restore import restore as restored  # imported here: loads the storage

    return restored(directory, what, SystemClock(), dry_run=True)


def _replace(directory: str, what: str) -> Restored:
    """Restore a backup while no daemon runs."""
    from filrouge.maintenance.restore import restore as restored  # imported here: loads the storage

    with between_daemons(directory):
        return restored(directory, what, SystemClock())


def _result_lines(done: Restored, *, dry_run: bool) -> list[str]:
    date = f" of {output.format_time(done.at)}" if done.at else ""
    if dry_run:
        return [f"It can be restored: {done.path}{date}, {sum(done.rows.values())} rows.", "Nothing was changed."]
    kept = f" What was there is kept: filrouge restore {done.kept}" if done.kept else ""
    removed = f" {done.forgotten} rows that were forgotten since were removed again." if done.forgotten else ""
    return [f"Restored: {done.path}{date}, {sum(done.rows.values())} rows.{removed}{kept}"]


def _confirm(path: str) -> None:
    if not sys.stdin.isatty():
        raise BadInput(
            "Restoring a backup replaces the whole memory; confirm it with --yes.",
            remedy=f"`filrouge restore {path} --dry-run` verifies it and changes nothing.",
        )
    output.confirm(f"Replace the whole memory by {path}? What is there is backed up first.", abort=True)


@contextmanager
def between_daemons(directory: str) -> Generator[None]:
    """Stop the daemon and hold the home's lock during the block. If a daemon ran before, it is started again.

    Raises:
        Busy: the daemon does not stop.
    """
    was_running = _drain(directory)
    try:
        with home_lock(directory, timeout=_DRAIN_SECONDS):
            yield
    finally:
        if was_running:
            with suppress(FilrougeError):  # the next command reports why it does not start
                ensure_running(directory)


def _drain(directory: str) -> bool:
    """Ask the daemon to drain and stop. Returns False if none runs.

    Raises:
        Busy: the daemon does not answer.
    """
    try:
        client.request(directory, "POST", "/daemon/drain", {}, SHORT_SECONDS)
    except DaemonUnavailable:
        if client.is_absent(directory):
            return False
        raise Busy("The daemon does not answer, so it cannot be stopped.") from None
    return True
