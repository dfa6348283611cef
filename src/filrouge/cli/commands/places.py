"""`filrouge paths`, `logs` and `config show`: where everything is, what the daemon noted, and which settings hold."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import typer

from filrouge import home as place
from filrouge.cli import output
from filrouge.cli.talk import ask
from filrouge.config import USER_FILE
from filrouge.errors import NotFound

Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
config = typer.Typer(name="config", help="The settings that hold.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(paths)
    app.command()(logs)


def paths(json: Json = False) -> None:
    """Show where everything is; nothing is started and nothing made."""
    directory = place.home()
    named = {
        "database": place.DATABASE,
        "log": place.LOG,
        "spool": place.SPOOL,
        "backups": place.BACKUPS,
        "runtime": place.RUNTIME,
        "config": USER_FILE,
    }
    found = {"home": directory, "socket": place.socket_path(directory)}
    found |= {name: place.inside(directory, file) for name, file in named.items()}
    if json:
        output.show_json(found)
    else:
        output.table(("What", "Where"), list(found.items()))


def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="So many from the end.")] = 50,
) -> None:
    """Show the end of the daemon's log; it holds no content at info level."""
    path = place.inside(place.home(), place.LOG)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            last = deque(file, lines)
    except FileNotFoundError:
        raise NotFound(
            f"There is no log yet: {path}.", remedy="The daemon writes it; `filrouge daemon start`."
        ) from None
    output.write("".join(last))


@config.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Also where each value comes from.")] = False,
    json: Json = False,
) -> None:
    """Show the settings that hold."""
    found: dict[str, Any] = ask("GET", "/api/memory/settings")
    if not origin:
        if json:
            output.show_json(found)
        else:
            output.table(("Setting", "Value"), list(found.items()))
        return
    origins: dict[str, str] = ask("GET", "/api/memory/settings/origins")
    if json:
        output.show_json({key: {"value": value, "origin": origins[key]} for key, value in found.items()})
    else:
        output.table(("Setting", "Value", "From"), [(key, value, origins[key]) for key, value in found.items()])
