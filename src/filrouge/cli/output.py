"""All output of the commands, for people and for programs.

Commands print JSON for programs, plain lines in pipes, and some colour at a terminal. With `--json`, standard output
holds one JSON document, the body of the equivalent route, and nothing else. Errors go to standard error: one line with
the remedy, or JSON under `--json`.

Much of the text is foreign: memories, file names, branches, answers of servers. A terminal must not interpret its
control characters, so they are printed as `\x1b` or `\u202e` (`filrouge.core.text`), and in JSON as JSON escapes. The
functions here do this to their arguments. `guard` wraps standard output and standard error for everything else: usage
errors, prompts, tracebacks, warnings. No other module of `cli` writes to these streams (tests/security/test_terminal.py
checks this), except the hook and the MCP shim, which write JSON in ASCII.
"""

from __future__ import annotations

import codecs
import errno
import getpass
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, Final, TextIO, cast

import typer
from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel
from rich.progress import Progress, ProgressColumn, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from filrouge.core.choices import closest_first, join_with_or
from filrouge.core.errors import BadInput, CannotWrite, FilrougeError
from filrouge.core.text import in_json, one_line, visible
from filrouge.hosts.setup.entries import AGENTS
from filrouge.hosts.setup.plan import Change, Plan, apply_change

#: Colour escapes, which the help writes to a terminal. They only change how text looks, so they are safe.
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


class GuardedStream(io.TextIOBase):
    """Wraps a text stream and makes control characters visible instead of passing them on.

    If the wrapped stream is a terminal, colour escapes pass unchanged; no other escapes do.

    Attributes:
        wrapped: the wrapped stream.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.wrapped = stream

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The encoding of the wrapped stream."""
        return self.wrapped.encoding

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return True if the wrapped stream is a terminal."""
        return self.wrapped.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the wrapped stream."""
        return self.wrapped.fileno()

    def flush(self) -> None:
        """Flush the wrapped stream."""
        self.wrapped.flush()

    def write(self, text: str, /) -> int:
        """Write a text with its control characters made visible. Returns the length of the text."""
        if self.isatty():
            parts = _COLOUR.split(text)
            self.wrapped.write("".join(part if index % 2 else visible(part) for index, part in enumerate(parts)))
        else:
            self.wrapped.write(visible(text))
        return len(text)


class _Console(Console):
    """A console that makes control characters in its content visible, and prints no terminal hyperlinks."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment  # written by the console itself, for example to move the cursor of a progress bar
                continue
            style = segment.style.update_link(None) if segment.style and segment.style.link else segment.style
            yield Segment(visible(segment.text), style)


def guard() -> None:
    """Wrap standard output and standard error in a `GuardedStream` for the rest of the process."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None or isinstance(stream, GuardedStream):
            continue
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # for characters that the terminal's encoding lacks
        setattr(sys, name, GuardedStream(stream))


def console() -> Console:
    """Return a console on standard output. Colour and line wrapping apply only at a terminal."""
    stream = sys.stdout.wrapped if isinstance(sys.stdout, GuardedStream) else sys.stdout
    return _Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def is_terminal() -> bool:
    """Return True if standard output is a terminal."""
    return sys.stdout.isatty()


def show_json(value: object) -> None:
    """Print one JSON document."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write(in_json(text) + "\n")


def answer(document: object, line: str, *, json: bool) -> None:
    """Print one line, or with `json` the document."""
    if json:
        show_json(document)
    else:
        say(line)


def as_json(value: object) -> str:
    """Return a JSON document as text for a file."""
    return in_json(json.dumps(value, ensure_ascii=False, indent=2))


def write(text: str) -> None:
    """Print a document with its own line endings."""
    sys.stdout.write(visible(text))


def write_export(pieces: Iterable[bytes], form: str, file: BinaryIO | None = None) -> None:
    """Write an export in UTF-8 as it arrives, to a file or to standard output.

    Args:
        pieces: the bytes of the export.
        form: json, jsonl or csv. Control characters become JSON escapes, and visible text in CSV.
        file: None = standard output.
    """
    if file is not None:
        for text in _escape_pieces(pieces, form):
            file.write(text.encode())
        return
    sys.stdout.flush()
    stream = sys.stdout.wrapped if isinstance(sys.stdout, GuardedStream) else sys.stdout
    for text in _escape_pieces(pieces, form):
        stream.buffer.write(text.encode())
    stream.buffer.flush()


def _escape_pieces(pieces: Iterable[bytes], form: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pending = ""
    for piece in pieces:
        text = pending + decoder.decode(piece)
        # A CSV line ends with CR LF, which may be split between two pieces.
        pending = "\r" if text.endswith("\r") else ""
        yield _escape_text(text.removesuffix("\r"), form)
    yield _escape_text(pending + decoder.decode(b"", final=True), form)


def _escape_text(text: str, form: str) -> str:
    if form != "csv":
        return in_json(text)
    return "\r\n".join(visible(line) for line in text.split("\r\n"))


def flush() -> None:
    """Flush standard output."""
    sys.stdout.flush()


def say(line: str) -> None:
    """Print one line of plain text; line breaks in it become spaces."""
    console().print(Text(one_line(line)))


def say_lines(text: str) -> None:
    """Print plain text that may have several lines."""
    console().print(Text(visible(text)))


def heading(title: str) -> None:
    """Print an empty line and a title."""
    console().print(Text(f"\n{one_line(title)}", style="bold"))


def warn(line: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(one_line(line) + "\n")


def show_error(error: FilrougeError, *, as_json: bool) -> None:
    """Print an error with its remedy on standard error, as one line or as JSON."""
    if as_json:
        document = {"error": type(error).__name__, "detail": error.message, "remedy": error.remedy}
        sys.stderr.write(in_json(json.dumps(document, ensure_ascii=False)) + "\n")
        return
    warn(f"{error.message} {error.remedy}".rstrip())


def unwritable(path: str, error: OSError) -> FilrougeError:
    """Return the error for a file that cannot be written.

    It is `CannotWrite` if the disk is full, read-only or failing, and `BadInput` if the path is wrong.
    """
    message = f"{path} cannot be written: {error.strerror}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
        return CannotWrite(message)
    return BadInput(message, remedy="Choose a path in an existing folder that you can write to.")


def confirm(question: str, *, default: bool | None = False, abort: bool = False) -> bool:
    """Ask the user a yes/no question.

    Raises:
        typer.Abort: the answer is no and `abort` is set, or the input ends without an answer.
    """
    return typer.confirm(one_line(question), default=default, abort=abort)


def prompt(question: str, *, default: str, show_default: bool = True) -> str:
    """Ask the user for a value."""
    return typer.prompt(one_line(question), default=default, show_default=show_default)


def prompt_secret(question: str) -> str:
    """Ask the user for a secret. The input is not echoed."""
    return getpass.getpass(f"{one_line(question)}: ")


def format_time(at: str | None) -> str:
    """Return a stored time as people read it, to the minute; empty for None."""
    return f"{at[:16].replace('T', ' ')} UTC" if at else ""


def megabytes(size: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / 1e6:,.1f} MB"


def box(title: str, rows: Mapping[str, object]) -> None:
    """Print names and values in a box. A list gets one line per value."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        lines = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        table.add_row(Text(one_line(name), style="dim"), Text("\n".join(one_line(str(line)) for line in lines)))
    console().print(Panel(table, title=Text(one_line(title)), title_align="left", box=ROUNDED, expand=False))


def show_list(
    found: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[object]],
    *,
    json: bool,
    empty: str,
) -> None:
    """Print a table with one row for each item; with `json`, the items; without items, the line `empty`."""
    if json:
        show_json(found)
        return
    if not found:
        say(empty)
    table(columns, [row(item) for item in found])


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings at a terminal; otherwise tab-separated lines without headings."""
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in cells:
            sys.stdout.write("\t".join(row) + "\n")
        return
    rich_table = Table(box=ROUNDED, header_style="bold")
    for column in columns:
        rich_table.add_column(column, overflow="fold")
    for row in cells:
        rich_table.add_row(*(Text(cell) for cell in row))
    console().print(rich_table)


def memory_row(memory: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return a memory as a table row: id, kind, project or user, text."""
    owner = memory["project_name"] if memory["scope"] == "project" else "user"
    state = "" if memory["state"] == "live" else f" ({memory['state']})"
    return memory["id"], f"{memory['kind']}{state}", owner or "-", memory["text"]


def bars(*columns: ProgressColumn | str, transient: bool = True, disable: bool = False) -> Progress:
    """Return progress bars with these columns. A text is a template, such as `{task.description}`; no markup."""
    rendered = (TextColumn(column, markup=False) if isinstance(column, str) else column for column in columns)
    return Progress(*rendered, console=console(), transient=transient, disable=disable)


# Plans for changes to the agents' settings files: show the plan, ask for consent, carry it out.


def checked_agents(names: Sequence[str]) -> list[str]:
    """Return the names without duplicates.

    Raises:
        BadInput: a name is not an agent that Filrouge can connect.
    """
    for name in names:
        if name not in AGENTS:
            raise BadInput(
                f"There is no agent {name!r}.", remedy=f"There are: {join_with_or(closest_first(name, AGENTS))}."
            )
    return list(dict.fromkeys(names))


def consent(question: str, *, yes: bool, json: bool, has_dry_run: bool = True) -> bool:
    """Ask the user for consent, unless `yes` is given. Returns True to continue.

    Raises:
        BadInput: the user cannot be asked, because of `json` or because stdin is not a terminal.
    """
    if yes:
        return True
    if json or not sys.stdin.isatty():
        raise BadInput(
            "This command needs confirmation, and stdin is not a terminal.",
            remedy=f"Add --yes to do it{', or --dry-run to see it' if has_dry_run else ''}.",
        )
    return confirm(question, default=True)


def show(plan: Plan) -> None:
    """Print every change of a plan, and the files that are left alone."""
    for change in plan.changes:
        say(f"{_verb(change)} {change.path}")
        for line in change.lines():
            say(f"    {line}")
        if change.note:
            say(f"    {change.note}")
    for name, plugin in plan.plugins.items():
        say(
            f"{AGENTS[name].title} has Filrouge as a plugin ({plugin.path}), so its hooks are not written;"
            f" `filrouge init --host {name}` writes them anyway."
        )
    show_errors(plan.problems)


def show_errors(troubles: Mapping[str, FilrougeError]) -> None:
    """Print the files that were left alone, with the reason."""
    for path, error in troubles.items():
        say(f"left alone: {path}: {error.message} {error.remedy}".rstrip())


def apply(plan: Plan, home: str) -> dict[str, FilrougeError]:
    """Carry out a plan. Returns the error for each file that could not be changed; the others are still changed."""
    troubles = dict[str, FilrougeError]()
    for change in plan.changes:
        try:
            apply_change(change, home)
        except FilrougeError as error:
            troubles[change.path] = error
    return troubles


def plan_json(plan: Plan, troubles: Mapping[str, FilrougeError], *, changed: bool, **more: Any) -> dict[str, Any]:
    """Return a plan and its outcome as JSON data."""
    return {
        "changed": changed,
        "files": [
            {
                "agent": change.agent,
                "path": change.path,
                "deed": _verb(change),
                "lines": change.lines(),
                "note": change.note,
            }
            for change in plan.changes
        ],
        "troubles": [
            {"path": path, "detail": error.message, "remedy": error.remedy} for path, error in troubles.items()
        ],
        "settled": list(plan.unchanged),
        "plugged": {name: plugin.path for name, plugin in plan.plugins.items()},
        **more,
    }


def titles(names: Iterable[str]) -> str:
    """Return the agents' titles, joined by commas."""
    return ", ".join(AGENTS[name].title for name in names)


def _verb(change: Change) -> str:
    if change.current is None:
        return "creates" if change.planned is not None else "forgets"
    return "removes" if change.planned is None else "changes"


# Options that several commands share.

Json = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]
Project = Annotated[str | None, typer.Option("--project", "-p", help="A project: its name, id or directory.")]
