"""`filrouge audit`: is the journal as it was written?"""

from __future__ import annotations

from typing import Annotated

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.core.errors import StoreError

app = typer.Typer(help="The journal of every decision.", no_args_is_help=True)
#: Every entry is read and hashed.
_SECONDS = 120.0


@app.callback()
def group() -> None:
    """The journal of every decision."""


@app.command()
def verify(
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Walk the journal's chain: nothing was edited, removed or reordered. Exit code 6 where something was."""
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
