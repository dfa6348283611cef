"""How commands speak: JSON for programs, plain lines for pipes, a little colour for a person at a terminal.

With `--json` standard output holds one JSON document, the body of the route of the same meaning, and nothing
else. Errors go to standard error, as one line with the remedy, or as JSON under `--json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import ROUNDED
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from filrouge.errors import FilrougeError


def console() -> Console:
    """A console on standard output; colour and width only where a person reads."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def show_json(value: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


def as_json(value: object) -> str:
    """A JSON document for a file."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def write(text: str) -> None:
    """Print a document exactly as it is."""
    sys.stdout.write(text)


def flush() -> None:
    """Let whoever reads along see what was printed so far."""
    sys.stdout.flush()


def say(line: str) -> None:
    """Print one line of plain text, exactly as it is."""
    console().print(Text(line))


def show_error(error: FilrougeError, *, as_json: bool) -> None:
    """Print what went wrong and what to do next."""
    if as_json:
        document = {"error": type(error).__name__, "detail": error.message, "remedy": error.remedy}
        sys.stderr.write(json.dumps(document, ensure_ascii=False) + "\n")
        return
    sys.stderr.write(f"{error.message} {error.remedy}".rstrip() + "\n")


def box(title: str, rows: Mapping[str, object]) -> None:
    """Print names and values in a box."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(str(value)))
    console().print(Panel(table, title=Text(title), title_align="left", box=ROUNDED, expand=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings; plain tab-separated lines where nobody reads."""
    listed = [[str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in listed:
            sys.stdout.write("\t".join(cell.replace("\n", " ") for cell in row) + "\n")
        return
    made = Table(box=ROUNDED, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in listed:
        made.add_row(*(Text(cell) for cell in row))
    console().print(made)


def memory_row(memory: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """A memory as a line of a table: id, kind, where it holds, text."""
    where = memory["project_name"] if memory["scope"] == "project" else "user"
    state = "" if memory["state"] == "live" else f" ({memory['state']})"
    return memory["id"], f"{memory['kind']}{state}", where or "-", memory["text"]
