"""The one way out: everything that a command shows a person or hands to a program."""

from __future__ import annotations

import codecs
import errno
import getpass
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, TextIO, cast

import typer
from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel
from rich.progress import Progress, ProgressColumn, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from filrouge.core.errors import BadInput, CannotWrite, FilrougeError
from filrouge.core.text import in_json, one_line, visible

# The one way out: everything that a command shows a person or hands to a program passes through this module.
#
# Commands speak JSON for programs, plain lines for pipes, and a little colour for a person at a terminal. With
# `--json` standard output holds one JSON document, the body of the route of the same meaning, and nothing else.
# Errors go to standard error, as one line with the remedy, or as JSON under `--json`.
#
# What is shown was often written by somebody else: memories, names of files, projects and branches, answers of a
# server. A terminal must not obey it, so control characters are shown as `\x1b` or `\u202e`
# (`filrouge.core.text`), and JSON has them as its own escapes. That happens twice: the functions here do it
# to what they are given, where they also know what must stay one line, and `guard` puts a stream in front of standard
# output and standard error that does it to whatever else is written: usage errors, questions, tracebacks, warnings.
# Nothing else in `cli` writes to them (checked by tests/security/test_terminal.py), apart from the hook and the MCP
# shim, which write JSON in ASCII.

#: Colour, which the help writes to a terminal; it changes how text looks and nothing else.
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


class GuardedStream(io.TextIOBase):
    """A text stream in front of another that shows control characters instead of passing them on.

    Where the other is a terminal, changes of colour pass, and nothing else does.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.behind = stream

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The encoding of the stream behind."""
        return self.behind.encoding

    def writable(self) -> bool:
        """True."""
        return True

    def isatty(self) -> bool:
        """Whether the stream behind is a terminal."""
        return self.behind.isatty()

    def fileno(self) -> int:
        """The file descriptor of the stream behind."""
        return self.behind.fileno()

    def flush(self) -> None:
        """Flush the stream behind."""
        self.behind.flush()

    def write(self, text: str, /) -> int:
        """Write a text with its control characters shown; returns its length."""
        if self.isatty():
            parts = _COLOUR.split(text)
            self.behind.write("".join(part if place % 2 else visible(part) for place, part in enumerate(parts)))
        else:
            self.behind.write(visible(text))
        return len(text)


class _Console(Console):
    """A console that shows control characters of what it is given, and makes no links."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment  # the console's own, as a progress bar moves the cursor
                continue
            style = segment.style.update_link(None) if segment.style and segment.style.link else segment.style
            yield Segment(visible(segment.text), style)


def guard() -> None:
    """Put a `GuardedStream` in front of standard output and standard error, for the rest of the process."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None or isinstance(stream, GuardedStream):
            continue
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks
        setattr(sys, name, GuardedStream(stream))


def console() -> Console:
    """A console on standard output; colour and width only where a person reads."""
    stream = sys.stdout.behind if isinstance(sys.stdout, GuardedStream) else sys.stdout
    return _Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def is_watched() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def show_json(value: object) -> None:
    """Print one JSON document."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write(in_json(text) + "\n")


def as_json(value: object) -> str:
    """A JSON document for a file."""
    return in_json(json.dumps(value, ensure_ascii=False, indent=2))


def write(text: str) -> None:
    """Print a document with its own ends of lines."""
    sys.stdout.write(visible(text))


def write_export(pieces: Iterable[bytes], form: str, file: BinaryIO | None = None) -> None:
    """Write an export as it arrives, to a file or else to standard output, in UTF-8.

    Args:
        form: json, jsonl or csv. In JSON control characters become its escapes, in CSV they are shown.
    """
    if file is not None:
        for text in _neutral(pieces, form):
            file.write(text.encode())
        return
    sys.stdout.flush()
    stream = sys.stdout.behind if isinstance(sys.stdout, GuardedStream) else sys.stdout
    for text in _neutral(pieces, form):
        stream.buffer.write(text.encode())
    stream.buffer.flush()


def _neutral(pieces: Iterable[bytes], form: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    held = ""
    for piece in pieces:
        text = held + decoder.decode(piece)
        # A line of CSV ends with CR LF, which may be cut in two.
        held = "\r" if text.endswith("\r") else ""
        yield _neutral_text(text.removesuffix("\r"), form)
    yield _neutral_text(held + decoder.decode(b"", final=True), form)


def _neutral_text(text: str, form: str) -> str:
    if form != "csv":
        return in_json(text)
    return "\r\n".join(visible(line) for line in text.split("\r\n"))


def flush() -> None:
    """Hand on what was printed so far."""
    sys.stdout.flush()


def say(line: str) -> None:
    """Print one line of plain text; ends of lines in it become spaces."""
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
    """Print what went wrong and what to do next."""
    if as_json:
        document = {"error": type(error).__name__, "detail": error.message, "remedy": error.remedy}
        sys.stderr.write(in_json(json.dumps(document, ensure_ascii=False)) + "\n")
        return
    warn(f"{error.message} {error.remedy}".rstrip())


def unwritable(path: str, error: OSError) -> FilrougeError:
    """Why a file that was named cannot be written: its place is wrong, or the disk is full or read-only."""
    said = f"{path} cannot be written: {error.strerror}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
        return CannotWrite(said)
    return BadInput(said, remedy="Name a place in a folder that exists and that you may write to.")


def confirm(question: str, *, default: bool | None = False, abort: bool = False) -> bool:
    """Ask a person yes or no.

    Raises:
        typer.Abort: the answer is no and `abort` is set, or nobody answers.
    """
    return typer.confirm(one_line(question), default=default, abort=abort)


def prompt(question: str, *, default: str, show_default: bool = True) -> str:
    """Ask a person for a word."""
    return typer.prompt(one_line(question), default=default, show_default=show_default)


def prompt_secret(question: str) -> str:
    """Ask a person for a secret, which is not shown."""
    return getpass.getpass(f"{one_line(question)}: ")


def box(title: str, rows: Mapping[str, object]) -> None:
    """Print names and values in a box; a list has a line for each of its values."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        lines = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        table.add_row(Text(one_line(name), style="dim"), Text("\n".join(one_line(str(line)) for line in lines)))
    console().print(Panel(table, title=Text(one_line(title)), title_align="left", box=ROUNDED, expand=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings; plain tab-separated lines where nobody reads."""
    listed = [[one_line(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in listed:
            sys.stdout.write("\t".join(row) + "\n")
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


# Progress bars, where a person reads. Their text is shown as it is: no markup and no links.


def bars(*columns: ProgressColumn | str, transient: bool = True, disable: bool = False) -> Progress:
    """Bars of these columns on the console; a text is a template such as `{task.description}`."""
    made = (TextColumn(one, markup=False) if isinstance(one, str) else one for one in columns)
    return Progress(*made, console=console(), transient=transient, disable=disable)
