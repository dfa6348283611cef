"""The command `mcp` as the help shows it; the executable serves it before this is loaded."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from filrouge.cli.mcp import main


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="mcp")(mcp)


def mcp(
    verbose: Annotated[bool, typer.Option("--verbose", help="Say on stderr what goes wrong.")] = False,
) -> None:
    """Serve an agent's MCP client on stdin and stdout: what `claude mcp add filrouge -- filrouge mcp` runs."""
    main(["--verbose"] if verbose else sys.argv[2:])
