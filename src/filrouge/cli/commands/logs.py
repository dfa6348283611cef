"""`filrouge logs`: what the daemon wrote down, read from its file, so that it is there when the daemon is not."""

from __future__ import annotations

from typing import Annotated

import typer

from filrouge.cli import output
from filrouge.core.errors import BadInput
from filrouge.core.paths import home
from filrouge.daemon import logs as files


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(logs)


def logs(
    number: Annotated[int, typer.Option("-n", "--lines", help="So many of the newest lines.", min=0, max=100_000)] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those that come.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as records.")] = False,
) -> None:
    """Show the newest lines of the log; none of them has a word of what was said."""
    if json and follow:
        raise BadInput("One document has an end: `--json` and `--follow` exclude each other.")
    lines = files.last_lines(home(), number)
    if json:
        output.show_json(files.parsed(lines))
        return
    for line in lines:
        output.write(f"{line}\n")
    if follow:
        for line in files.new_lines(home()):
            if line is not None:
                output.write(f"{line}\n")
                output.flush()
