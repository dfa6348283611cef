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
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, BinaryIO, Final, cast

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
_PIECE: Final = 4 * 1024 * 1024
_IN_A_DOCUMENT: Final = ("messages", "memories")
_MOST_PROBLEMS: Final = 100
Piece = dict[str, Any]


def split_document(given: Mapping[str, Any]) -> Iterator[Piece]:
    """Split a JSON export into pieces that can be sent in order.

    Messages come before the memories that cite them. If there are several pieces, superseded memories are sent again
    at the end, when the memories that replace them exist.

    Raises:
        BadInput: messages or memories are not a list.
    """
    head = {name: value for name, value in given.items() if name not in (*_IN_A_DOCUMENT, "threads")}
    small = True
    for table in _IN_A_DOCUMENT:
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


def send_lines(lines: JsonLinesReader, send: Callable[[Piece], Mapping[str, Any]]) -> dict[str, Any]:
    """Send a line-based export while reading it. Returns the summed answers; each problem has its line number."""
    found: dict[str, Any] = {}
    for piece, numbers in _of_lines(lines):
        part = dict(send(piece))
        part["problems"] = [_in_line(one, numbers) for one in part["problems"]]
        found = merge_results(found, part)
    problems = [{"table": "", "place": number, "problem": problem} for number, problem in lines.problems]
    found["problems"] = sorted([*found["problems"], *problems], key=lambda one: one["place"])[:_MOST_PROBLEMS]
    return found


def merge_results(found: dict[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Add the answer for one piece to the answer so far."""
    if not found:
        return dict(part)
    for table in ("messages", "memories"):  # not projects: every piece of a document repeats them
        found[table] = _sum(found[table], part[table])
    found["beside"] = {table: _sum(found["beside"][table], part["beside"][table]) for table in found["beside"]}
    found["problems"] = [*found["problems"], *part["problems"]]
    return found


def _of_lines(lines: JsonLinesReader) -> Iterator[tuple[Piece, dict[str, list[int]]]]:
    """Yield pieces of a line-based export with the line number of each row. Projects get the first piece alone."""
    piece, numbers, size = dict(lines.head), dict[str, list[int]](), 0
    for number, table, row in lines.rows():
        if size > _PIECE or (table != "projects" and "projects" in numbers):
            yield piece, numbers
            piece, numbers, size = dict(lines.head), {}, 0
        piece.setdefault(table, []).append(row)
        numbers.setdefault(table, []).append(number)
        size += len(json.dumps(row))
    yield piece, numbers


def _in_line(problem: Mapping[str, Any], numbers: Mapping[str, list[int]]) -> dict[str, Any]:
    return {**problem, "place": numbers[problem["table"]][problem["place"]]}


def _cut(rows: list[Any]) -> Iterator[list[Any]]:
    piece, size = list[Any](), 0
    for row in rows:
        piece.append(row)
        size += len(json.dumps(row))
        if size > _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _sum(found: Mapping[str, int], part: Mapping[str, int]) -> dict[str, int]:
    counted = Counter[str](found)
    counted.update(part)
    return dict(counted)


# Markdown pages of memories in a folder.

_HEAD = 4096


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
            if _written(os.path.join(folder, name), text)
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
                and (page := markdown.parse_export_page(_text(path))) is not None
            ):
                found.append((name, page))
    except OSError as error:
        raise BadInput(f"{folder} cannot be read: {error.strerror}.") from error
    if not found:
        remedy = "`filrouge export --format markdown --out FOLDER` writes them."
        raise BadInput(f"{folder} holds no page of Filrouge.", remedy=remedy)
    problems = [
        {"table": name, "place": number, "problem": problem}
        for name, page in found
        for number, problem in page.problems
    ]
    projects = [page.project for _, page in found if page.project is not None]
    memories = _deduplicated(row for _, page in found for row in page.memories)
    return {**head, "projects": projects, "messages": [], "memories": memories}, problems


def _deduplicated(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove duplicate rows and sort by id, which is the order of creation. A row follows the row it supersedes."""
    by_id = {str(row["id"]): row for row in rows}
    done: dict[str, dict[str, Any]] = {}
    for id_ in sorted(by_id):
        line: list[str] = []
        while id_ in by_id and id_ not in done and id_ not in line:
            line.append(id_)
            id_ = str(by_id[id_].get("supersedes"))
        done |= {one: by_id[one] for one in reversed(line)}
    return list(done.values())


def _text(path: str) -> str:
    """Read a file. Only its first characters are returned if it cannot be a page, because it lacks a front matter."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        start = file.read(_HEAD)
        return start + file.read() if start.removeprefix("\ufeff").startswith("---") else start


def _written(path: str, text: str) -> bool:
    """Write a page atomically. Returns False if the file already has this content.

    Raises:
        CannotWrite: the existing file is a link, not a regular file, or not a page of Filrouge.
    """
    if os.path.lexists(path):
        if os.path.islink(path) or not os.path.isfile(path):
            raise CannotWrite(f"{path} is no plain file.", remedy="Export to another folder.")
        there = _text(path)
        if there == text:
            return False
        if markdown.parse_export_page(there) is None:
            raise CannotWrite(f"{path} is no page of Filrouge.", remedy="Move it, or export to another folder.")
    write_atomically(path, text)
    return True


# Transcripts and exports of other programs, sent in pages.

#: `_CHUNK`: bytes of a transcript per read. `_PAGE`: characters of text per request; escaped in JSON they are at most
#: 6 MB, and the daemon accepts 10 MB.
_CHUNK: Final = 4 * 1024 * 1024
_PAGE: Final = MAX_IMPORT_CHARACTERS

_STEP: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ImportFilter:
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
        """Return True if the project with these names is wanted."""
        return not self.project or bool(self.project & {*known_as, display_name(known_as) if known_as else ""})


@dataclass(kw_only=True)
class Skipped:
    """Counts of the records that the client skipped or cut, and the first problems with the input."""

    counts: Counter[str] = field(default_factory=Counter[str])
    problems: list[ImportProblem] = field(default_factory=list[ImportProblem])

    def trouble(self, place: str, problem: str) -> None:
        """Record something that cannot be read."""
        self.counts["bad"] += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(ImportProblem(place, problem))


@dataclass(frozen=True, kw_only=True)
class Page:
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
        rows = {"turns": [one.to_json() for one in self.turns], "memories": [one.to_json() for one in self.memories]}
        return rows | ({"mark": dict(self.mark)} if self.mark else {})


def pages_of_history(
    agent: str, history: TranscriptFile, offset: int, wanted: ImportFilter, passed: Skipped
) -> Iterator[Page]:
    """Yield the pages of a transcript, starting at byte `offset`."""
    teller = _TranscriptPager(agent, history, wanted, passed)
    place = offset if offset <= history.size else 0  # a file that is shorter now was replaced
    while True:
        chunk = read_from(history.path, place, _CHUNK)
        if chunk.offset == place:
            return
        yield from teller.pages(chunk, done=chunk.offset - place)
        place = chunk.offset


def pages_of_packed(
    agent: str, history: TranscriptFile, offset: int, wanted: ImportFilter, passed: Skipped
) -> Iterator[Page]:
    """Yield the pages of a compressed transcript, starting at `offset` of its uncompressed bytes.

    The offset is stored under the name of the uncompressed file, so that lines read before the compression are not
    read again. When the end is reached, the compressed size is stored under the name of the compressed file.
    """
    teller, taken = _TranscriptPager(agent, history, wanted, passed), 0
    try:
        raw = ZstdReader(history.path)
    except OSError as error:
        passed.trouble(history.path, f"it cannot be read: {error.strerror}")
        return
    with raw, io.BufferedReader(raw) as file:
        place = _skipped(file, offset)
        if place < offset and not raw.problem:  # the content is shorter than before: the file was replaced
            yield from pages_of_packed(agent, history, 0, wanted, passed)
            return
        while (chunk := read_lines(file, place, place + _CHUNK)).offset != place:
            yield from teller.pages(chunk, done=raw.compressed_bytes_read - taken)
            place, taken = chunk.offset, raw.compressed_bytes_read
    if raw.problem:
        passed.trouble(history.path, raw.problem)
    elif wanted.is_everything:
        yield Page(mark=teller.mark(history.path, history.size), done=history.size - taken)


def _skipped(file: BinaryIO, offset: int) -> int:
    """Skip up to `offset` bytes of a stream. Returns the number of bytes skipped."""
    place = 0
    while place < offset and (step := file.read(min(_STEP, offset - place))):
        place += len(step)
    return place


class _TranscriptPager:
    """Turns chunks of one transcript into pages. A working directory named in a line also applies to later lines."""

    def __init__(self, agent: str, history: TranscriptFile, wanted: ImportFilter, passed: Skipped) -> None:
        self._agent, self._history, self._wanted, self._passed = agent, history, wanted, passed
        self._cwd = history.cwd

    def mark(self, path: str, offset: int, skipped_long: int = 0) -> dict[str, Any]:
        """Return the record that stores how far a file is read."""
        return {"path": path, "session": self._history.session, "offset": offset, "skipped_long": skipped_long}

    def pages(self, chunk: Chunk, *, done: int) -> Iterator[Page]:
        """Yield the pages of a chunk. The last page carries the mark and the progress."""
        history, wanted, passed = self._history, self._wanted, self._passed
        turns = list[ImportedTurn]()
        for record in records(self._agent, chunk.lines):
            self._cwd = record.cwd or self._cwd
            if (turn := _turn(history, record, self._cwd, wanted, passed)) is not None:
                turns.append(turn)
        if chunk.skipped_long:
            passed.trouble(history.path, f"{chunk.skipped_long} lines are longer than 10 MB and were passed over")
        mark = self.mark(uncompressed_path(history.path), chunk.offset, chunk.skipped_long)
        *before, last = [*_split_turns(turns)] or [[]]
        yield from (Page(turns=piece) for piece in before)
        yield Page(turns=last, mark=mark if wanted.is_everything else None, done=done)


def pages_of_items(
    items: Iterable[ImportItem], wanted: ImportFilter, assigned: tuple[str, ...], passed: Skipped
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
            passed.trouble(item.place, item.problem)
            continue
        if not wanted.has_time(item.at):
            passed.counts["older"] += 1
            continue
        clean = item._replace(text=_clean_text(item.text, passed), project=item.project or assigned)
        if not _fits(len(turns) + len(memories), size, clean.text):
            yield Page(turns=turns, memories=memories, done=len(turns) + len(memories))
            turns, memories, size = [], [], 0
        if isinstance(clean, ImportedTurn):
            turns.append(clean)
        else:
            memories.append(clean)
        size += len(clean.text)
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
    history: TranscriptFile, record: TranscriptRecord, cwd: str, wanted: ImportFilter, passed: Skipped
) -> ImportedTurn | None:
    known_as = _names(cwd)
    if not _captures(cwd):
        passed.counts["off"] += 1
    elif not wanted.has_time(record.at):
        passed.counts["older"] += 1
    elif not wanted.has_project(known_as):
        passed.counts["elsewhere"] += 1
    else:
        return ImportedTurn(
            session=history.session,
            key=record.key,
            role=record.role,
            source=record.source,
            text=_clean_text(record.text, passed),
            at=record.at,
            call_id=record.call_id,
            project=known_as,
        )
    return None


def _clean_text(text: str, passed: Skipped) -> str:
    """Clean a text for sending and storing: replace lone surrogates, remove NUL, cut it at `MAX_IMPORT_CHARACTERS`
    characters."""
    if len(text) > MAX_IMPORT_CHARACTERS:
        passed.counts["cut"] += 1
        text = text[:MAX_IMPORT_CHARACTERS]
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


@cache
def _names(cwd: str) -> tuple[str, ...]:
    return find_names(cwd, {}) if os.path.isabs(cwd) else ()


@cache
def _captures(cwd: str) -> bool:
    return is_capture_enabled(cwd, {})


def _fits(count: int, size: int, text: str) -> bool:
    """Return True if a text fits into a page with `count` items and `size` characters. An empty page takes any text."""
    return count < IMPORT_BATCH and (not count or size + len(text) <= _PAGE)


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

_LONGEST_SECONDS: Final = 600.0
_OUTCOMES: Final = ("added", "vouched", "present", "forgotten", "off")


@dataclass(frozen=True, kw_only=True)
class ImportSource:
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


@dataclass(kw_only=True)
class Tally:
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
    agent: str, root: str | None, environ: Mapping[str, str], wanted: ImportFilter, *, anew: bool
) -> ImportSource:
    """Find the transcripts of an agent. Each file is read from its stored offset.

    Args:
        root: the agent's directory; None = its usual place.
        anew: ignore the stored offsets and read from the beginning.

    Raises:
        BadInput: no transcript was found.
    """
    place = os.path.abspath(root) if root else agent_directory(agent, environ)
    found = find_transcripts(agent, place)
    if not found:
        variable = AGENT_FOLDERS[agent][0]
        raise BadInput(
            f"There is no history of {agent} in {place}.",
            remedy=f"Say where it is with --from, or set {variable} as you do for {agent}.",
        )
    offsets: Mapping[str, int] = {}
    if not anew:
        offsets = ask("GET", "/api/memory/imports", query={"source": agent})["offsets"]
    late = [one for one in found if wanted.since is None or one.changed >= wanted.since.timestamp()]
    starts = {one.path: offsets.get(one.path, 0) for one in late}
    total = sum(max(0, one.size - starts[one.path]) for one in late)

    def pages(passed: Skipped) -> Iterator[Page]:
        for one in late:
            if is_compressed(one.path):
                if starts[one.path] != one.size:
                    yield from pages_of_packed(agent, one, offsets.get(uncompressed_path(one.path), 0), wanted, passed)
            else:
                yield from pages_of_history(agent, one, starts[one.path], wanted, passed)

    return ImportSource(source=agent, files=len(late), size=total, total=total, pages=pages)


def export_of(
    name: str, path: str | None, environ: Mapping[str, str], wanted: ImportFilter, assigned: tuple[str, ...]
) -> ImportSource:
    """Find the export or the data of another program, at `path` or in its usual place.

    Args:
        assigned: project names for items that have no project.

    Raises:
        BadInput: no path is known, or it does not exist.
    """
    form = FORMATS[name]
    home = environ.get("HOME") or os.path.expanduser("~")
    place = path or form.default_path.replace("~", home, 1)
    if not place:
        raise BadInput(f"Name {form.description}.", remedy=f"`filrouge import {name} FILE`.")
    if not os.path.exists(place):
        raise BadInput(f"{place} does not exist.", remedy=f"Name {form.description}: `filrouge import {name} FILE`.")
    if name == "ai-smartness" and not assigned:
        assigned = find_names(os.path.dirname(os.path.abspath(place)), environ)
    files = list(_files(place))
    return ImportSource(
        source=name,
        files=len(files),
        size=sum(map(os.path.getsize, files)),
        total=sum(1 for _ in form.read(place)) if _is_watched() else None,
        pages=lambda passed: pages_of_items(form.read(place), wanted, assigned, passed),
    )


def _files(place: str) -> Iterator[str]:
    if os.path.isfile(place):
        yield place
    for folder, _, found in os.walk(place):
        yield from (path for name in found if os.path.isfile(path := os.path.join(folder, name)))


def run_import(found: ImportSource, *, trusted: bool, dry_run: bool) -> dict[str, Any]:
    """Send all pages to the daemon, with a progress bar at a terminal. Returns the result.

    Raises:
        FilrougeError: the daemon is unreachable or rejects a page. The pages sent before are stored, so the import can
            be run again to complete it.
    """
    passed, tally, began = Skipped(), Tally(), time.monotonic()
    with _bar(found.total) as show:
        for page in found.pages(passed):
            answer = None
            if not dry_run and (page.turns or page.memories or page.mark):
                body = {"source": found.source, "trusted": trusted, **page.to_json()}
                answer = ask("POST", "/api/memory/imports", body, timeout=_LONGEST_SECONDS)
            tally.take(page, answer)
            show(tally, time.monotonic() - began)
    seconds = time.monotonic() - began
    outcomes = ("found",) if dry_run else _OUTCOMES
    return {
        "source": found.source,
        "dry_run": dry_run,
        "trusted": trusted,
        "files": found.files,
        "bytes": found.size,
        "turns": {name: tally.turns[name] for name in outcomes},
        "memories": {name: tally.memories[name] for name in outcomes},
        "passed_over": {name: passed.counts[name] for name in ("off", "older", "elsewhere", "cut", "bad")},
        "problems": [{"place": one.place, "problem": one.problem} for one in passed.problems],
        "seconds": round(seconds, 3),
        "per_second": round(tally.read / seconds, 1) if seconds else 0.0,
    }


def print_result(done: Mapping[str, Any]) -> None:
    """Print the result of an import or of a dry run in a few lines."""
    rows = {name: done[name] for name in ("turns", "memories") if any(done[name].values())} or {"turns": done["turns"]}
    size = f"{done['files']} files, {done['bytes'] / 1e6:.1f} MB"
    if done["dry_run"]:
        counts = ", ".join(f"{counted['found']} {name}" for name, counted in rows.items())
        output.say(f"{done['source']}: {size}, {counts}. Nothing was read in.")
    else:
        told = {"added": "added", "vouched": "vouched for now", "present": "here already"}
        told |= {"forgotten": "forgotten here", "off": "switched off"}
        for name, counted in rows.items():
            shown = [one for one in told if counted[one] or one in ("added", "present")]
            output.say(f"{name}: " + ", ".join(f"{counted[one]} {told[one]}" for one in shown))
        output.say(f"{done['source']}: {size} in {done['seconds']:.1f} s ({done['per_second']:.0f} a second).")
    over = {"off": "switched off by .filrouge.toml", "older": "older than --since", "elsewhere": "of other projects"}
    over |= {"cut": "longer than a million characters and cut", "bad": "not readable"}
    for name, word in over.items():
        if done["passed_over"][name]:
            output.say(f"{done['passed_over'][name]} {word}.")
    for one in done["problems"]:
        output.say(f"{one['place']}: {one['problem']}")
    added = sum(counted.get("added", 0) for counted in rows.values())
    if added and not done["trusted"]:
        output.say("Imported text is not trusted as your own; use --trust if it is. See the guide on importing.")


@contextmanager
def _bar(total: int | None) -> Generator[Callable[[Tally, float], None]]:
    """Show a progress bar with the rate and the time left. It shows nothing unless a person is watching."""
    if not _is_watched():
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


def _is_watched() -> bool:
    """Return True if standard output is a terminal and `--json` is not given."""
    return output.is_watched() and "--json" not in sys.argv


def backfill(names: Iterable[str], *, asked: bool, wanted: bool, quiet: bool, anew: bool) -> list[str]:
    """Import the existing history of these agents, or offer to.

    Args:
        asked: ask the user for each agent; otherwise only print the command.
        wanted: the user already agreed.
        quiet: print nothing except the questions.
        anew: read from the beginning, even what an earlier memory had imported.

    Returns:
        The agents whose history was not imported.
    """
    waiting = list[str]()
    for name in (name for name in names if name in AGENT_FOLDERS):
        found = find_transcripts(name, agent_directory(name, os.environ))
        if not found:
            continue
        files = f"{len(found)} file{'s' if len(found) > 1 else ''}"
        said = f"{files}, {output.megabytes(sum(one.size for one in found))}"
        if wanted or (asked and output.confirm(f"Read in what {name} kept of before ({said})?", default=False)):
            done = run_import(
                history_of(name, None, os.environ, ImportFilter(), anew=anew), trusted=False, dry_run=False
            )
            if not quiet:
                print_result(done)
            continue
        waiting.append(name)
        if not quiet:
            output.say(f"{name} has a history of its own ({said}): `filrouge import {name}` reads it in.")
    return waiting
