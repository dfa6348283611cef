"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]
Project = Annotated[str | None, typer.Option("--project", "-p", help="A project: its name, id or directory.")]
