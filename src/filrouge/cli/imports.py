"""Imports from the command line: find the source, send it to the daemon in parts, show progress.

An export of Filrouge is sent in pieces, and the counts of the pieces are added up. Markdown pages are read from a
folder. An agent's transcripts and exports of other programs are sent in pages of turns and memories.

A transcript is read in complete lines from the stored offset. The last page of a chunk carries the new offset, so an
interrupted import reads those lines again and the daemon recognises them. An unfinished last line waits for the next
run.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, BinaryIO, Final, cast

from msgspec import Struct, field
from rich.progress import BarColumn, TaskProgressColumn, TimeRemainingColumn

from filrouge.capture.models import (
    IMPORT_BATCH,
    MAX_IMPORT_CHARACTERS,
    ImportedMemory,
    ImportedTurn,
    ImportItem,
    ImportProblem,
    TranscriptRecord,
)
from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.output import bars
from filrouge.core.errors import BadInput, CannotWrite
from filrouge.core.scope import display_name
from filrouge.daemon.process import write_atomically
from filrouge.hosts.project import find_names, is_capture_enabled
from filrouge.hosts.transcript_lines import Chunk, read_from, read_lines
from filrouge.hosts.transcripts import (
    AGENT_FOLDERS,
    TranscriptFile,
    ZstdReader,
    agent_directory,
    find_transcripts,
    is_compressed,
    records,
    uncompressed_path,
)
from filrouge.notes import pages as markdown
from filrouge.transfer.exports import JsonLinesReader
from filrouge.transfer.importers import FORMATS

# Exports of Filrouge, sent in pieces.

#: Characters of rows in one request. An export is split at this size, so its total size is not limited.
_MAX_PIECE_CHARACTERS: Final = 4 * 1024 * 1024
_DOCUMENT_TABLES: Final = ("messages", "memories")
_MAX_PROBLEMS: Final = 100
Piece = dict[str, Any]


def split_document(document: Mapping[str, Any]) -> Iterator[Piece]:
    """Split a JSON export into pieces that can be sent in order.

    Messages come before the memories that cite them. If there are several pieces, superseded memories are sent again
    at the end, when the memories that replace them exist.

    Raises:
        BadInput: messages or memories are not a list.
    """
    head = {name: value for name, value in document.items() if name not in (*_DOCUMENT_TABLES, "threads")}
    fits_in_one_piece = True
    for table in _DOCUMENT_TABLES:
        rows: list[Any] = document.get(table, [])
        if not isinstance(cast("object", rows), list):
            raise BadInput(f"{table} of this export is not a list.")
        pieces = list(_split_rows(rows))
        fits_in_one_piece = fits_in_one_piece and len(pieces) <= 1
        yield from ({**head, table: piece} for piece in pieces or [[]])
    if not fits_in_one_piece:
        memories: list[Any] = document.get("memories", [])
        replaced: list[Any] = [
            row for row in memories if isinstance(row, dict) and cast("dict[str, Any]", row).get("superseded_by")
        ]
        yield from ({**head, "memories": piece} for piece in _split_rows(replaced))


def send_lines(lines: JsonLinesReader, send: Callable[[Piece], Mapping[str, Any]]) -> dict[str, Any]:
    """Send a line-based export while reading it. Returns the summed answers; each problem has its line number."""
    found: dict[str, Any] = {}
    for piece, numbers in _pieces_of_lines(lines):
        part = dict(send(piece))
        part["problems"] = [_with_line_number(problem, numbers) for problem in part["problems"]]
        found = merge_results(found, part)
    problems = [{"table": "", "place": number, "problem": problem} for number, problem in lines.problems]
    found["problems"] = sorted([*found["problems"], *problems], key=lambda problem: problem["place"])[:_MAX_PROBLEMS]
    return found


def merge_results(found: dict[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Add the answer for one piece to the answer so far."""
    if not found:
        return dict(part)
    for table in ("messages", "memories"):  # not projects: every piece of a document repeats them
        found[table] = _add_counts(found[table], part[table])
    found["beside"] = {table: _add_counts(found["beside"][table], part["beside"][table]) for table in found["beside"]}
    found["problems"] = [*found["problems"], *part["problems"]]
    return found


def _pieces_of_lines(lines: JsonLinesReader) -> Iterator[tuple[Piece, dict[str, list[int]]]]:
    """Yield pieces of a line-based export with the line number of each row. Projects get the first piece alone."""
    piece, numbers, size = dict(lines.head), dict[str, list[int]](), 0
    for number, table, row in lines.rows():
        if size > _MAX_PIECE_CHARACTERS or (table != "projects" and "projects" in numbers):
            yield piece, numbers
            piece, numbers, size = dict(lines.head), {}, 0
        piece.setdefault(table, []).append(row)
        numbers.setdefault(table, []).append(number)
        size += len(json.dumps(row))
    yield piece, numbers


def _with_line_number(problem: Mapping[str, Any], numbers: Mapping[str, list[int]]) -> dict[str, Any]:
    return {**problem, "place": numbers[problem["table"]][problem["place"]]}


def _split_rows(rows: list[Any]) -> Iterator[list[Any]]:
    piece, size = list[Any](), 0
    for row in rows:
        piece.append(row)
        size += len(json.dumps(row))
        if size > _MAX_PIECE_CHARACTERS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _add_counts(found: Mapping[str, int], part: Mapping[str, int]) -> dict[str, int]:
    counted = Counter[str](found)
    counted.update(part)
    return dict(counted)


# Markdown pages of memories in a folder.

_MAX_HEAD_CHARACTERS = 4096


def write_pages(folder: str, document: Mapping[str, Any]) -> list[str]:
    """Write an export's memories as Markdown pages. Returns the names of the pages that are new or changed.

    A page of Filrouge with the same name is replaced. Other files are not touched.

    Raises:
        CannotWrite: the disk is full or read-only, or a file that is not a page of Filrouge has the name of a page.
        BadInput: the folder cannot be created or written for another reason.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return [
            name
            for name, text in markdown.export_pages(document["projects"], document["memories"])
            if _write_page(os.path.join(folder, name), text)
        ]
    except OSError as error:
        raise output.unwritable(folder, error) from error


def read_pages(folder: str, head: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read the pages of a folder as one document with this head. Returns the document and the problems by line.

    Raises:
        BadInput: the folder contains no page of Filrouge, or cannot be read.
    """
    found: list[tuple[str, markdown.Page]] = []
    try:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if (
                name.endswith(".md")
                and os.path.isfile(path)
                and (page := markdown.parse_export_page(_read_page_text(path))) is not None
            ):
                found.append((name, page))
    except OSError as error:
        raise BadInput(f"{folder} cannot be read: {error.strerror}.") from error
    if not found:
        remedy = "`filrouge export --format markdown --out FOLDER` writes them."
        raise BadInput(f"{folder} contains no page of Filrouge.", remedy=remedy)
    problems = [
        {"table": name, "place": number, "problem": problem}
        for name, page in found
        for number, problem in page.problems
    ]
    projects = [page.project for _, page in found if page.project is not None]
    memories = _deduplicate(row for _, page in found for row in page.memories)
    return {**head, "projects": projects, "messages": [], "memories": memories}, problems


def _deduplicate(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove duplicate rows and sort by id, which is the order of creation. A row follows the row it supersedes."""
    by_id = {str(row["id"]): row for row in rows}
    ordered: dict[str, dict[str, Any]] = {}
    for id_ in sorted(by_id):
        chain: list[str] = []
        while id_ in by_id and id_ not in ordered and id_ not in chain:
            chain.append(id_)
            id_ = str(by_id[id_].get("supersedes"))
        ordered |= {member: by_id[member] for member in reversed(chain)}
    return list(ordered.values())


def _read_page_text(path: str) -> str:
    """Read a file. Only its first characters are returned if it cannot be a page, because it lacks a front matter."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        start = file.read(_MAX_HEAD_CHARACTERS)
        return start + file.read() if start.removeprefix("\ufeff").startswith("---") else start


def _write_page(path: str, text: str) -> bool:
    """Write a page atomically. Returns False if the file already has this content.

    Raises:
        CannotWrite: the existing file is a link, not a regular file, or not a page of Filrouge.
    """
    if os.path.lexists(path):
        if os.path.islink(path) or not os.path.isfile(path):
            raise CannotWrite(f"{path} is not a regular file.", remedy="Export to another folder.")
        existing_text = _read_page_text(path)
        if existing_text == text:
            return False
        if markdown.parse_export_page(existing_text) is None:
            raise CannotWrite(f"{path} is not a page of Filrouge.", remedy="Move it, or export to another folder.")
    write_atomically(path, text)
    return True


# Transcripts and exports of other programs, sent in pages.

#: `_CHUNK_BYTES`: bytes of a transcript per read. `_MAX_PAGE_CHARACTERS`: characters of text per request; escaped in
#: JSON they are at most 6 MB, and the daemon accepts 10 MB.
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_MAX_PAGE_CHARACTERS: Final = MAX_IMPORT_CHARACTERS

_STEP_BYTES: Final = 1024 * 1024


class ImportFilter(Struct, frozen=True, kw_only=True):
    """The filters of an import.

    Attributes:
        since: earliest time; None = no limit.
        project: a record is imported if its project has one of these names; empty = all projects.
    """

    since: datetime | None = None
    project: frozenset[str] = frozenset()

    @property
    def is_everything(self) -> bool:
        """True if nothing is filtered out, so that a file may be marked as read."""
        return self.since is None and not self.project

    def has_time(self, at: float) -> bool:
        """Return True if this time is not before `since`. A record without a time (0) passes."""
        return self.since is None or not at or at >= self.since.timestamp()

    def has_project(self, known_as: tuple[str, ...]) -> bool:
        """Return True if the filter accepts the project with these names."""
        return not self.project or bool(self.project & {*known_as, display_name(known_as) if known_as else ""})


class Skipped(Struct, kw_only=True):
    """Counts of the records that the client skipped or cut, and the first problems with the input."""

    counts: Counter[str] = field(default_factory=Counter[str])
    problems: list[ImportProblem] = field(default_factory=list[ImportProblem])

    def add_problem(self, place: str, problem: str) -> None:
        """Record something that cannot be read."""
        self.counts["bad"] += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(ImportProblem(place, problem))


class Page(Struct, frozen=True, kw_only=True):
    """The content of one request.

    Attributes:
        mark: how far the file is read after this page; None if that is not to be stored.
        done: progress that this page makes, in the unit of `ImportSource.total`.
    """

    turns: list[ImportedTurn] = field(default_factory=list[ImportedTurn])
    memories: list[ImportedMemory] = field(default_factory=list[ImportedMemory])
    mark: Mapping[str, Any] | None = None
    done: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the request body, without source and trust."""
        rows = {
            "turns": [item.to_json() for item in self.turns],
            "memories": [item.to_json() for item in self.memories],
        }
        return rows | ({"mark": dict(self.mark)} if self.mark else {})


def pages_of_history(
    agent: str, history: TranscriptFile, offset: int, filters: ImportFilter, skipped: Skipped
) -> Iterator[Page]:
    """Yield the pages of a transcript, starting at byte `offset`."""
    pager = _TranscriptPager(agent, history, filters, skipped)
    position = offset if offset <= history.size else 0  # a file that is shorter now was replaced
    while True:
        chunk = read_from(history.path, position, _CHUNK_BYTES)
        if chunk.offset == position:
            return
        yield from pager.pages(chunk, done=chunk.offset - position)
        position = chunk.offset


def pages_of_packed(
    agent: str, history: TranscriptFile, offset: int, filters: ImportFilter, skipped: Skipped
) -> Iterator[Page]:
    """Yield the pages of a compressed transcript, starting at `offset` of its uncompressed bytes.

    The offset is stored under the name of the uncompressed file, so that lines read before the compression are not
    read again. When the end is reached, the compressed size is stored under the name of the compressed file.
    """
    pager, consumed = _TranscriptPager(agent, history, filters, skipped), 0
    try:
        raw = ZstdReader(history.path)
    except OSError as error:
        skipped.add_problem(history.path, f"it cannot be read: {error.strerror}")
        return
    with raw, io.BufferedReader(raw) as file:
        position = _skip_bytes(file, offset)
        if position < offset and not raw.problem:  # the content is shorter than before: the file was replaced
            yield from pages_of_packed(agent, history, 0, filters, skipped)
            return
        while (chunk := read_lines(file, position, position + _CHUNK_BYTES)).offset != position:
            yield from pager.pages(chunk, done=raw.compressed_bytes_read - consumed)
            position, consumed = chunk.offset, raw.compressed_bytes_read
    if raw.problem:
        skipped.add_problem(history.path, raw.problem)
    elif filters.is_everything:
        yield Page(mark=pager.mark(history.path, history.size), done=history.size - consumed)


def _skip_bytes(file: BinaryIO, offset: int) -> int:
    """Skip up to `offset` bytes of a stream. Returns the number of bytes skipped."""
    position = 0
    while position < offset and (data := file.read(min(_STEP_BYTES, offset - position))):
        position += len(data)
    return position


class _TranscriptPager:
    """Turns chunks of one transcript into pages. A working directory named in a line also applies to later lines."""

    def __init__(self, agent: str, history: TranscriptFile, filters: ImportFilter, skipped: Skipped) -> None:
        self._agent, self._history, self._filters, self._skipped = agent, history, filters, skipped
        self._cwd = history.cwd

    def mark(self, path: str, offset: int, skipped_long: int = 0) -> dict[str, Any]:
        """Return the record that stores how far a file is read."""
        return {"path": path, "session": self._history.session, "offset": offset, "skipped_long": skipped_long}

    def pages(self, chunk: Chunk, *, done: int) -> Iterator[Page]:
        """Yield the pages of a chunk. The last page carries the mark and the progress."""
        history, filters, skipped = self._history, self._filters, self._skipped
        turns = list[ImportedTurn]()
        for record in records(self._agent, chunk.lines):
            self._cwd = record.cwd or self._cwd
            if (turn := _turn(history, record, self._cwd, filters, skipped)) is not None:
                turns.append(turn)
        if chunk.skipped_long:
            skipped.add_problem(history.path, f"{chunk.skipped_long} lines are longer than 10 MB and were skipped")
        mark = self.mark(uncompressed_path(history.path), chunk.offset, chunk.skipped_long)
        *before, last = [*_split_turns(turns)] or [[]]
        yield from (Page(turns=piece) for piece in before)
        yield Page(turns=last, mark=mark if filters.is_everything else None, done=done)


def pages_of_items(
    items: Iterable[ImportItem], filters: ImportFilter, assigned: tuple[str, ...], skipped: Skipped
) -> Iterator[Page]:
    """Yield the pages of an export of another program.

    Args:
        assigned: project names for items that have no project.

    Raises:
        BadInput: the export cannot be read to its end; the pages before the failure are yielded first.
    """
    turns, memories, size = list[ImportedTurn](), list[ImportedMemory](), 0
    failures = list[BadInput]()
    for item in _until_failure(items, failures):
        if isinstance(item, ImportProblem):
            skipped.add_problem(item.place, item.problem)
            continue
        if not filters.has_time(item.at):
            skipped.counts["older"] += 1
            continue
        cleaned = item._replace(text=_clean_text(item.text, skipped), project=item.project or assigned)
        if not _fits(len(turns) + len(memories), size, cleaned.text):
            yield Page(turns=turns, memories=memories, done=len(turns) + len(memories))
            turns, memories, size = [], [], 0
        if isinstance(cleaned, ImportedTurn):
            turns.append(cleaned)
        else:
            memories.append(cleaned)
        size += len(cleaned.text)
    if turns or memories:
        yield Page(turns=turns, memories=memories, done=len(turns) + len(memories))
    for failure in failures:
        raise failure


def _until_failure(items: Iterable[ImportItem], failures: list[BadInput]) -> Iterator[ImportItem]:
    """Yield items until reading fails. The error is appended to `failures`."""
    try:
        yield from items
    except BadInput as error:
        failures.append(error)


def _turn(
    history: TranscriptFile, record: TranscriptRecord, cwd: str, filters: ImportFilter, skipped: Skipped
) -> ImportedTurn | None:
    known_as = _project_names(cwd)
    if not _captures(cwd):
        skipped.counts["off"] += 1
    elif not filters.has_time(record.at):
        skipped.counts["older"] += 1
    elif not filters.has_project(known_as):
        skipped.counts["elsewhere"] += 1
    else:
        return ImportedTurn(
            session=history.session,
            key=record.key,
            role=record.role,
            source=record.source,
            text=_clean_text(record.text, skipped),
            at=record.at,
            call_id=record.call_id,
            project=known_as,
        )
    return None


def _clean_text(text: str, skipped: Skipped) -> str:
    """Clean a text for sending and storing: replace lone surrogates, remove NUL, cut it at `MAX_IMPORT_CHARACTERS`
    characters."""
    if len(text) > MAX_IMPORT_CHARACTERS:
        skipped.counts["cut"] += 1
        text = text[:MAX_IMPORT_CHARACTERS]
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


@cache
def _project_names(cwd: str) -> tuple[str, ...]:
    return find_names(cwd, {}) if os.path.isabs(cwd) else ()


@cache
def _captures(cwd: str) -> bool:
    return is_capture_enabled(cwd, {})


def _fits(count: int, size: int, text: str) -> bool:
    """Return True if a text fits into a page with `count` items and `size` characters. An empty page takes any text."""
    return count < IMPORT_BATCH and (not count or size + len(text) <= _MAX_PAGE_CHARACTERS)


def _split_turns(turns: list[ImportedTurn]) -> Iterator[list[ImportedTurn]]:
    piece, size = list[ImportedTurn](), 0
    for turn in turns:
        if not _fits(len(piece), size, turn.text):
            yield piece
            piece, size = [], 0
        piece.append(turn)
        size += len(turn.text)
    if piece:
        yield piece


# Finding the source, sending its pages, and reporting.

_REQUEST_SECONDS: Final = 600.0
_OUTCOMES: Final = ("added", "vouched", "present", "forgotten", "off")


class ImportSource(Struct, frozen=True, kw_only=True):
    """The source of an import.

    Attributes:
        size: bytes still to read.
        total: the same in the unit of `Page.done` (bytes or items); None if it was not counted.
        pages: returns the pages; problems are recorded in its argument.
    """

    source: str
    files: int
    size: int
    total: int | None
    pages: Callable[[Skipped], Iterable[Page]]


class Tally(Struct, kw_only=True):
    """Running totals of an import.

    Attributes:
        turns: turns by outcome.
        memories: memories by outcome.
        read: turns and memories read.
        done: progress, in the unit of `ImportSource.total`.
    """

    turns: Counter[str] = field(default_factory=Counter[str])
    memories: Counter[str] = field(default_factory=Counter[str])
    read: int = 0
    done: int = 0

    def take(self, page: Page, answer: Mapping[str, Mapping[str, int]] | None) -> None:
        """Add a page and the daemon's answer; None for a dry run or an empty page."""
        self.read += len(page.turns) + len(page.memories)
        self.done += page.done
        if answer is None:
            self.turns["found"] += len(page.turns)
            self.memories["found"] += len(page.memories)
        else:
            self.turns.update(answer["turns"])
            self.memories.update(answer["memories"])


def history_of(
    agent: str, root: str | None, environ: Mapping[str, str], filters: ImportFilter, *, from_start: bool
) -> ImportSource:
    """Find the transcripts of an agent. Each file is read from its stored offset.

    Args:
        root: the agent's directory; None = its usual place.
        from_start: ignore the stored offsets and read from the beginning.

    Raises:
        BadInput: no transcript was found.
    """
    folder = os.path.abspath(root) if root else agent_directory(agent, environ)
    found = find_transcripts(agent, folder)
    if not found:
        variable = AGENT_FOLDERS[agent][0]
        raise BadInput(
            f"There is no history of {agent} in {folder}.",
            remedy=f"Say where it is with --from, or set {variable} as you do for {agent}.",
        )
    offsets: Mapping[str, int] = {}
    if not from_start:
        offsets = ask("GET", "/api/memory/imports", query={"source": agent})["offsets"]
    selected = [file for file in found if filters.since is None or file.changed >= filters.since.timestamp()]
    starts = {file.path: offsets.get(file.path, 0) for file in selected}
    total = sum(max(0, file.size - starts[file.path]) for file in selected)

    def pages(skipped: Skipped) -> Iterator[Page]:
        for file in selected:
            if is_compressed(file.path):
                if starts[file.path] != file.size:
                    yield from pages_of_packed(
                        agent, file, offsets.get(uncompressed_path(file.path), 0), filters, skipped
                    )
            else:
                yield from pages_of_history(agent, file, starts[file.path], filters, skipped)

    return ImportSource(source=agent, files=len(selected), size=total, total=total, pages=pages)


def export_of(
    name: str, path: str | None, environ: Mapping[str, str], filters: ImportFilter, assigned: tuple[str, ...]
) -> ImportSource:
    """Find the export or the data of another program, at `path` or in its usual place.

    Args:
        assigned: project names for items that have no project.

    Raises:
        BadInput: no path is known, or it does not exist.
    """
    form = FORMATS[name]
    home = environ.get("HOME") or os.path.expanduser("~")
    location = path or form.default_path.replace("~", home, 1)
    if not location:
        raise BadInput(f"Name {form.description}.", remedy=f"`filrouge import {name} FILE`.")
    if not os.path.exists(location):
        raise BadInput(f"{location} does not exist.", remedy=f"Name {form.description}: `filrouge import {name} FILE`.")
    if name == "ai-smartness" and not assigned:
        assigned = find_names(os.path.dirname(os.path.abspath(location)), environ)
    files = list(_files_at(location))
    return ImportSource(
        source=name,
        files=len(files),
        size=sum(map(os.path.getsize, files)),
        total=sum(1 for _ in form.read(location)) if _shows_progress() else None,
        pages=lambda skipped: pages_of_items(form.read(location), filters, assigned, skipped),
    )


def _files_at(location: str) -> Iterator[str]:
    if os.path.isfile(location):
        yield location
    for folder, _, found in os.walk(location):
        yield from (path for name in found if os.path.isfile(path := os.path.join(folder, name)))


def run_import(source: ImportSource, *, trusted: bool, dry_run: bool) -> dict[str, Any]:
    """Send all pages to the daemon, with a progress bar at a terminal. Returns the result.

    Raises:
        FilrougeError: the daemon is unreachable or rejects a page. The pages sent before are stored, so the import can
            be run again to complete it.
    """
    skipped, tally, started = Skipped(), Tally(), time.monotonic()
    with _bar(source.total) as show:
        for page in source.pages(skipped):
            answer = None
            if not dry_run and (page.turns or page.memories or page.mark):
                body = {"source": source.source, "trusted": trusted, **page.to_json()}
                answer = ask("POST", "/api/memory/imports", body, timeout=_REQUEST_SECONDS)
            tally.take(page, answer)
            show(tally, time.monotonic() - started)
    seconds = time.monotonic() - started
    outcomes = ("found",) if dry_run else _OUTCOMES
    return {
        "source": source.source,
        "dry_run": dry_run,
        "trusted": trusted,
        "files": source.files,
        "bytes": source.size,
        "turns": {name: tally.turns[name] for name in outcomes},
        "memories": {name: tally.memories[name] for name in outcomes},
        "passed_over": {name: skipped.counts[name] for name in ("off", "older", "elsewhere", "cut", "bad")},
        "problems": [{"place": problem.place, "problem": problem.problem} for problem in skipped.problems],
        "seconds": round(seconds, 3),
        "per_second": round(tally.read / seconds, 1) if seconds else 0.0,
    }


def print_result(done: Mapping[str, Any]) -> None:
    """Print the result of an import or of a dry run in a few lines."""
    rows = {name: done[name] for name in ("turns", "memories") if any(done[name].values())} or {"turns": done["turns"]}
    size = f"{done['files']} files, {done['bytes'] / 1e6:.1f} MB"
    if done["dry_run"]:
        counts = ", ".join(f"{counted['found']} {name}" for name, counted in rows.items())
        output.say(f"{done['source']}: {size}, {counts}. Nothing was imported.")
    else:
        labels = {"added": "added", "vouched": "vouched for now", "present": "already here"}
        labels |= {"forgotten": "forgotten here", "off": "switched off"}
        for name, counted in rows.items():
            shown = [outcome for outcome in labels if counted[outcome] or outcome in ("added", "present")]
            output.say(f"{name}: " + ", ".join(f"{counted[outcome]} {labels[outcome]}" for outcome in shown))
        output.say(f"{done['source']}: {size} in {done['seconds']:.1f} s ({done['per_second']:.0f} a second).")
    reasons = {"off": "switched off by .filrouge.toml", "older": "older than --since", "elsewhere": "of other projects"}
    reasons |= {"cut": "longer than a million characters and cut", "bad": "not readable"}
    for name, reason in reasons.items():
        if done["passed_over"][name]:
            output.say(f"{done['passed_over'][name]} {reason}.")
    for problem in done["problems"]:
        output.say(f"{problem['place']}: {problem['problem']}")
    added = sum(counted.get("added", 0) for counted in rows.values())
    if added and not done["trusted"]:
        output.say("Imported text is not trusted as your own; use --trust if it is. See the guide on importing.")


@contextmanager
def _bar(total: int | None) -> Generator[Callable[[Tally, float], None]]:
    """Show a progress bar with the rate and the time left. It shows nothing unless a person is watching."""
    if not _shows_progress():
        yield lambda _tally, _seconds: None
        return
    columns = (
        "{task.fields[read]} read, {task.fields[rate]:.0f} a second",
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with bars(*columns) as bar:
        task = bar.add_task("", total=total or None, read=0, rate=0.0)

        def show(tally: Tally, seconds: float) -> None:
            bar.update(task, completed=tally.done, read=tally.read, rate=tally.read / seconds if seconds else 0.0)

        yield show


def _shows_progress() -> bool:
    """Return True if standard output is a terminal and `--json` is not given."""
    return output.is_terminal() and "--json" not in sys.argv


def backfill(names: Iterable[str], *, interactive: bool, agreed: bool, quiet: bool, from_start: bool) -> list[str]:
    """Import the existing history of these agents, or offer to.

    Args:
        interactive: ask the user for each agent; otherwise only print the command.
        agreed: the user already agreed.
        quiet: print nothing except the questions.
        from_start: read from the beginning, even what an earlier memory had imported.

    Returns:
        The agents whose history was not imported.
    """
    waiting = list[str]()
    for name in (name for name in names if name in AGENT_FOLDERS):
        found = find_transcripts(name, agent_directory(name, os.environ))
        if not found:
            continue
        files = f"{len(found)} file{'s' if len(found) > 1 else ''}"
        size = f"{files}, {output.megabytes(sum(file.size for file in found))}"
        if agreed or (
            interactive and output.confirm(f"Import the existing history of {name} ({size})?", default=False)
        ):
            done = run_import(
                history_of(name, None, os.environ, ImportFilter(), from_start=from_start), trusted=False, dry_run=False
            )
            if not quiet:
                print_result(done)
            continue
        waiting.append(name)
        if not quiet:
            output.say(f"{name} has an existing history ({size}): `filrouge import {name}` imports it.")
    return waiting
