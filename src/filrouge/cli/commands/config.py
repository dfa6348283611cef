"""`filrouge config`: the settings that hold, and where each comes from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.options import Json

app = typer.Typer(name="config", help="The settings that hold.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """The settings that hold."""


@app.command()
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
