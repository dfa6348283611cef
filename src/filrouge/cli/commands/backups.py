"""`filrouge backup`: make one, or list those that there are."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.options import Json
from filrouge.core.clock import from_text
from filrouge.core.errors import BadInput
from filrouge.core.paths import home
from filrouge.daemon import client
from filrouge.maintenance import backup_files as files

_LONGEST_SECONDS = 3600.0


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
                when(one["at"]),
                _size(one["bytes"]),
                sum(one["rows"].values()),
                one["schema"],
                ", ".join(one["verified"]) or "no",
            )
            for one in found["backups"]
        ],
    )
    if found["failed"]:
        output.say(f"The last one failed, {when(found['failed']['at'])}: {found['failed']['error']}")


def when(at: str | None) -> str:
    """A moment as tables show it; empty for none."""
    return f"{from_text(at):%Y-%m-%d %H:%M} UTC" if at else ""


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
