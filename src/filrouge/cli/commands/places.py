"""`filrouge paths`: where everything is."""

from __future__ import annotations

import typer

from filrouge.cli import output
from filrouge.cli.options import Json
from filrouge.core import paths as place


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(paths)


def paths(json: Json = False) -> None:
    """Show where everything is; nothing is started and nothing made."""
    directory = place.home()
    named = {
        "database": place.DATABASE,
        "log": place.LOG,
        "spool": place.SPOOL,
        "backups": place.BACKUPS,
        "runtime": place.RUNTIME,
        "config": place.CONFIG,
    }
    found = {"home": directory, "socket": place.socket_path(directory)}
    found |= {name: place.inside(directory, file) for name, file in named.items()}
    if json:
        output.show_json(found)
    else:
        output.table(("What", "Where"), list(found.items()))
