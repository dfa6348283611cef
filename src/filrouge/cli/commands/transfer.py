"""`filrouge export` and `filrouge import`: take what is known along, and bring it back."""

from __future__ import annotations

import json as json_
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Annotated, Any, cast
from urllib.parse import urlencode

import typer

from filrouge.cli import output
from filrouge.cli.import_pages import Wanted
from filrouge.cli.importing import export_of, history_of, read_in, tell
from filrouge.cli.talk import ask, here
from filrouge.daemon.streamed import streamed
from filrouge.errors import BadInput, CannotWrite
from filrouge.home import home
from filrouge.hosts.histories import AGENTS
from filrouge.transfer.readers import FORMATS

#: Characters of rows that are handed over at once: an export of any size comes in.
_PIECE = 4 * 1024 * 1024
_LONGEST_SECONDS = 600.0
_TABLES = ("messages", "memories")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(export)
    app.command("import")(import_)


def export(
    form: Annotated[str, typer.Option("--format", help="json, which can be read in again, or csv.")] = "json",
    what: Annotated[str | None, typer.Option(help="memories, messages, threads; default: all (csv: memories).")] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="A file; default: standard output.")] = None,
) -> None:
    """Write out what is known: messages, memories with their history, threads; no settings, no keys."""
    if form not in ("json", "csv"):
        raise BadInput(f"--format is json or csv, not {form!r}.")
    if what not in (None, "all", "memories", "messages", "threads"):
        raise BadInput(f"--what is memories, messages, threads or all, not {what!r}.")
    if form == "csv" and what == "all":
        raise BadInput("A CSV file is one table: name it with --what.")
    ask("GET", "/health")
    query = urlencode({"format": form, **({"what": what} if what else {})})
    with ExitStack() as opened:
        file = opened.enter_context(os.fdopen(_private(out), "wb")) if out else sys.stdout.buffer
        for piece in streamed(home(), os.environ, f"/api/memory/export?{query}"):
            file.write(piece)
        file.flush()


def import_(
    what: Annotated[
        str,
        typer.Argument(
            help="An export of Filrouge in JSON (`-`: standard input); or, with what it left in FILE: claude-code, "
            "codex, chatgpt, claude-ai, gemini, mem0, claude-mem, mcp-memory, markdown, ai-smartness."
        ),
    ],
    file: Annotated[
        str | None, typer.Argument(help="The export, folder or database; default: where its program keeps it.")
    ] = None,
    mine: Annotated[
        bool, typer.Option("--mine", help="An export of your own: rules, preferences and core facts come back as such.")
    ] = False,
    from_: Annotated[str | None, typer.Option("--from", help="The agent's directory; the same as FILE.")] = None,
    since: Annotated[str | None, typer.Option(help="Only what was said from this day on: 2026-01-31.")] = None,
    project: Annotated[str | None, typer.Option(help="Of a history only this project; of others: whose it is.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="It is your own word: it may become rules, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much there is, and read nothing in.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Read in an export, the history of an agent, or what another program kept. What is here already stays as it is;
    what was forgotten here does not come back."""
    if what not in (*AGENTS, *FORMATS) or (file is None and os.path.isfile(what)):
        if file is not None:
            known = ", ".join((*AGENTS, *FORMATS))
            raise BadInput(f"Nothing called {what!r} can be read in.", remedy=f"There are: {known}.")
        _import_export(what, mine=mine, json=json)
        return
    known_as = tuple(here(project)) if project else ()
    if what in AGENTS:
        wanted = Wanted(since=_day(since), project=frozenset([*known_as, *([project] if project else [])]))
        found = history_of(what, from_ or file, os.environ, wanted, anew=dry_run or trust)
    else:
        found = export_of(what, file or from_, os.environ, Wanted(since=_day(since)), known_as)
    done = read_in(found, trusted=trust, dry_run=dry_run)
    if json:
        output.show_json(done)
    else:
        tell(done)


def _day(since: str | None) -> datetime | None:
    if since is None:
        return None
    try:
        return datetime.fromisoformat(since).astimezone()
    except (ValueError, OverflowError) as error:
        raise BadInput(f"--since is a day such as 2026-01-31, not {since!r}.") from error


def _import_export(file: str, *, mine: bool, json: bool) -> None:
    given = _document(file)
    found: dict[str, Any] = {}
    for piece in _pieces(given):
        part = ask("POST", f"/api/memory/import?trusted={str(mine).lower()}", piece, timeout=_LONGEST_SECONDS)
        found = _together(found, part)
    if json:
        output.show_json(found)
        return
    for table in ("projects", "messages", "memories"):
        output.say(f"{table}: " + ", ".join(f"{count} {outcome}" for outcome, count in found[table].items()))
    for one in found["problems"]:
        output.say(f"{one['table']} {one['place']}: {one['problem']}")


def _private(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror}.") from error


def _document(file: str) -> Mapping[str, Any]:
    try:
        if file == "-":
            given = json_.load(sys.stdin)
        else:
            with open(file, encoding="utf-8") as read:
                given = json_.load(read)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is no JSON.", remedy="`filrouge export` writes what can be read in.") from error
    if not isinstance(given, dict):
        raise BadInput(f"{file} is no export of Filrouge.", remedy="`filrouge export` writes one.")
    return cast("Mapping[str, Any]", given)


def _pieces(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The export in pieces that can be handed over one by one: messages before what cites them, then what was replaced
    once more, by when its successors are there."""
    head = {name: value for name, value in given.items() if name not in (*_TABLES, "threads")}
    small = True
    for table in _TABLES:
        rows: list[Any] = given.get(table, [])
        if not isinstance(cast("object", rows), list):
            raise BadInput(f"{table} of this export is no list.")
        pieces = list(_cut(rows))
        small = small and len(pieces) <= 1
        yield from ({**head, table: piece} for piece in pieces or [[]])
    if not small:
        memories: list[Any] = given.get("memories", [])
        replaced: list[Any] = [
            row for row in memories if isinstance(row, dict) and cast("dict[str, Any]", row).get("superseded_by")
        ]
        yield from ({**head, "memories": piece} for piece in _cut(replaced))


def _cut(rows: list[Any]) -> Iterator[list[Any]]:
    piece, size = list[Any](), 0
    for row in rows:
        piece.append(row)
        size += len(json_.dumps(row))
        if size > _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _together(found: dict[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """What became of several pieces."""
    if not found:
        return dict(part)
    for table in ("messages", "memories"):
        counted = Counter[str](found[table])
        counted.update(part[table])
        found[table] = dict(counted)
    found["problems"] = [*found["problems"], *part["problems"]]
    return found
