"""`filrouge export` and `filrouge import`, for Filrouge's own exports and for other programs."""

from __future__ import annotations

import json as json_
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Annotated, Any, cast
from urllib.parse import urlencode

import typer

from filrouge.cli import imports, output
from filrouge.cli.client import ask, names_of_project
from filrouge.cli.imports import (
    ImportFilter,
    export_of,
    history_of,
    merge_results,
    print_result,
    run_import,
    send_lines,
    split_document,
)
from filrouge.core.choices import check_choice, closest_first, join_with_or
from filrouge.core.errors import BadInput
from filrouge.core.paths import home
from filrouge.daemon.client import streamed
from filrouge.hosts.transcripts import AGENT_FOLDERS
from filrouge.transfer.exports import open_export
from filrouge.transfer.importers import FORMATS

_MAX_TRANSFER_SECONDS = 600.0
#: Version of the exports that can be read. Copied from `transfer.exports`, which a command does not load.
_VERSION = 1


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(export)
    app.command("import")(import_)


def export(
    form: Annotated[
        str, typer.Option("--format", help="jsonl (loses nothing), json, csv, or markdown: pages in a folder.")
    ] = "json",
    what: Annotated[str | None, typer.Option(help="memories, messages, threads; default: all (csv: memories).")] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="A file, or a folder of pages; default: standard output.")
    ] = None,
) -> None:
    """Export messages, memories with their history, and threads. Settings and keys are not included."""
    check_choice("--format", form, ("json", "jsonl", "csv", "markdown"))
    if what is not None:
        check_choice("--what", what, ("memories", "messages", "threads", "all"))
    if form == "csv" and what == "all":
        raise BadInput("A CSV file is one table: name it with --what.")
    if form == "markdown":
        _export_pages(what, out)
        return
    ask("GET", "/health")
    query = urlencode({"format": form, **({"what": what} if what else {})})
    with ExitStack() as stack:
        file = stack.enter_context(os.fdopen(_open_private(out), "wb")) if out else None
        output.write_export(streamed(home(), os.environ, f"/api/memory/export?{query}"), form, file)


def _export_pages(what: str | None, folder: str | None) -> None:
    if what not in (None, "memories") or folder is None:
        raise BadInput("Markdown pages hold memories, in a folder.", remedy="Name it with --out FOLDER.")
    ask("GET", "/health")
    written = b"".join(streamed(home(), os.environ, "/api/memory/export?format=json&what=memories"))
    for name in imports.write_pages(folder, json_.loads(written)):
        output.say(os.path.join(folder, name))


def import_(
    what: Annotated[
        str,
        typer.Argument(
            help="An export of Filrouge in JSON or JSON Lines (`-`: standard input) or a folder of pages; or, with "
            "what it left in FILE: claude-code, codex, chatgpt, claude-ai, gemini, mem0, claude-mem, mcp-memory, "
            "markdown, ai-smartness."
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
    trust: Annotated[bool, typer.Option("--trust", help="It is your own text: it may also become rules.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much there is, and import nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Import an export of Filrouge, the history of an agent, or the data of another program.

    Existing data is not changed, and what was forgotten here is not imported again.
    """
    if what not in (*AGENT_FOLDERS, *FORMATS) or (file is None and os.path.isfile(what)):
        if file is not None:
            raise BadInput(f"{what!r} cannot be imported.", remedy=_import_remedy(what))
        if what != "-" and not os.path.exists(what):
            raise BadInput(f"There is no file, folder or program {what!r} to import.", remedy=_import_remedy(what))
        _import_export(what, mine=mine, json=json)
        return
    known_as = tuple(names_of_project(project)) if project else ()
    if what in AGENT_FOLDERS:
        filters = ImportFilter(since=_day(since), project=frozenset([*known_as, *([project] if project else [])]))
        found = history_of(what, from_ or file, os.environ, filters, from_start=dry_run or trust)
    else:
        found = export_of(what, file or from_, os.environ, ImportFilter(since=_day(since)), known_as)
    done = run_import(found, trusted=trust, dry_run=dry_run)
    if json:
        output.show_json(done)
    else:
        print_result(done)


def _import_remedy(what: str) -> str:
    programs = join_with_or(closest_first(what, (*AGENT_FOLDERS, *FORMATS)))
    return f"Name an export of Filrouge, a folder of pages, or a program: {programs}."


def _day(since: str | None) -> datetime | None:
    if since is None:
        return None
    try:
        return datetime.fromisoformat(since).astimezone()
    except (ValueError, OverflowError) as error:
        raise BadInput(f"--since is a day such as 2026-01-31, not {since!r}.") from error


def _import_export(file: str, *, mine: bool, json: bool) -> None:
    def send(piece: Mapping[str, Any]) -> dict[str, Any]:
        return ask("POST", f"/api/memory/import?trusted={str(mine).lower()}", piece, timeout=_MAX_TRANSFER_SECONDS)

    found = _import_file(file, send)
    if json:
        output.show_json(found)
        return
    always_shown = {table: found[table] for table in ("projects", "messages", "memories")}
    for table, counts in (
        always_shown
        | {name: table_counts for name, table_counts in found["beside"].items() if any(table_counts.values())}
    ).items():
        output.say(f"{table}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    for problem in found["problems"]:
        output.say(f"{problem['table'] or 'line'} {problem['place']}: {problem['problem']}")


def _open_private(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise output.unwritable(path, error) from error


def _import_file(file: str, send: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Read an export or a folder of pages and send it in pieces. Returns the summed answers.

    Raises:
        BadInput: the file cannot be read, or is not an export of Filrouge.
    """
    if os.path.isdir(file):
        document, problems = imports.read_pages(file, {"filrouge_export": _VERSION})
        found = _in_pieces(document, send)
        return {**found, "problems": [*problems, *found["problems"]]}
    with ExitStack() as stack:
        try:
            stream = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
            first = stream.readline()
            if (lines := open_export(first, stream, _VERSION)) is not None:
                return send_lines(lines, send)
            parsed: object = json_.loads(first + stream.read())
        except OSError as error:
            raise BadInput(f"{file} cannot be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise BadInput(
                f"{file} is not valid JSON.", remedy="`filrouge export` writes what can be imported."
            ) from error
    if not isinstance(parsed, dict):
        raise BadInput(f"{file} is not an export of Filrouge.", remedy="`filrouge export` writes one.")
    return _in_pieces(cast("Mapping[str, Any]", parsed), send)


def _in_pieces(document: Mapping[str, Any], send: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for piece in split_document(document):
        found = merge_results(found, send(piece))
    return found
