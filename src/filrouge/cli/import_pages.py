"""The pages that an import is handed over in, with how far each brings it: what a transcript or another format tells,
cut so that no page is large.

A transcript is read by whole lines from where it was read last, and its page of the last of them carries the new place;
a process that ends in between reads those lines again, and they are recognised. A last line that is still being written
waits for the next run.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, BinaryIO, Final

from filrouge.capture.transcripts import Chunk, lines_of, read_from
from filrouge.errors import BadInput
from filrouge.hosts.histories import History
from filrouge.hosts.packed import Unpacked, plain
from filrouge.hosts.project import captures, names
from filrouge.hosts.transcripts import records
from filrouge.model.imported import LONGEST, TOGETHER, ImportedMemory, ImportedTurn, Item, Trouble
from filrouge.model.scope import display_name
from filrouge.model.transcript import TranscriptRecord

#: Bytes of a transcript that are read at once, and characters that are handed over at once: escaped, they are six
#: megabytes at the most, and a daemon takes ten.
_CHUNK: Final = 4 * 1024 * 1024
_PAGE: Final = LONGEST
_MOST_PROBLEMS: Final = 100
_STEP: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What of it is to be read in.

    Attributes:
        project: names of which one must be the project's; empty = all of them.
    """

    since: datetime | None = None
    project: frozenset[str] = frozenset()

    @property
    def is_everything(self) -> bool:
        """True where nothing is left out, so that a file may count as read."""
        return self.since is None and not self.project

    def has_time(self, at: float) -> bool:
        """True for what was said late enough; what has no time is."""
        return self.since is None or not at or at >= self.since.timestamp()

    def has_project(self, known_as: tuple[str, ...]) -> bool:
        """True for a project of one of the names."""
        return not self.project or bool(self.project & {*known_as, display_name(known_as) if known_as else ""})


@dataclass(kw_only=True)
class Passed:
    """What was passed over on this side, and what was wrong."""

    counts: Counter[str] = field(default_factory=Counter[str])
    problems: list[Trouble] = field(default_factory=list[Trouble])

    def trouble(self, place: str, problem: str) -> None:
        """Note what cannot be read."""
        self.counts["bad"] += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Trouble(place, problem))


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is handed over at once, and how much of what is to be read is done with it."""

    turns: list[ImportedTurn] = field(default_factory=list[ImportedTurn])
    memories: list[ImportedMemory] = field(default_factory=list[ImportedMemory])
    mark: Mapping[str, Any] | None = None
    done: int = 0

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        rows = {"turns": [one.to_json() for one in self.turns], "memories": [one.to_json() for one in self.memories]}
        return rows | ({"mark": dict(self.mark)} if self.mark else {})


def pages_of_history(agent: str, history: History, offset: int, wanted: Wanted, passed: Passed) -> Iterator[Page]:
    """What a transcript holds from `offset` on."""
    teller = _Teller(agent, history, wanted, passed)
    place = offset if offset <= history.size else 0  # a file that became shorter was replaced
    while True:
        chunk = read_from(history.path, place, _CHUNK)
        if chunk.offset == place:
            return
        yield from teller.pages(chunk, done=chunk.offset - place)
        place = chunk.offset


def pages_of_packed(agent: str, history: History, offset: int, wanted: Wanted, passed: Passed) -> Iterator[Page]:
    """What a compressed transcript holds from `offset` of its plain bytes on.

    How far it is read is kept under the name that it had before, so that what was read then is not read again; that it
    was read to its end, under its own name.
    """
    teller, taken = _Teller(agent, history, wanted, passed), 0
    try:
        raw = Unpacked(history.path)
    except OSError as error:
        passed.trouble(history.path, f"it cannot be read: {error.strerror}")
        return
    with raw, io.BufferedReader(raw) as file:
        place = _skipped(file, offset)
        if place < offset and not raw.trouble:  # a file that became shorter was replaced
            yield from pages_of_packed(agent, history, 0, wanted, passed)
            return
        while (chunk := lines_of(file, place, place + _CHUNK)).offset != place:
            yield from teller.pages(chunk, done=raw.taken - taken)
            place, taken = chunk.offset, raw.taken
    if raw.trouble:
        passed.trouble(history.path, raw.trouble)
    elif wanted.is_everything:
        yield Page(mark=teller.mark(history.path, history.size), done=history.size - taken)


def _skipped(file: BinaryIO, offset: int) -> int:
    """How far a stream is that was to pass over so many bytes."""
    place = 0
    while place < offset and (step := file.read(min(_STEP, offset - place))):
        place += len(step)
    return place


class _Teller:
    """Tells chunks of one transcript as pages; the directory that a line names holds for those behind it."""

    def __init__(self, agent: str, history: History, wanted: Wanted, passed: Passed) -> None:
        self._agent, self._history, self._wanted, self._passed = agent, history, wanted, passed
        self._cwd = history.cwd

    def mark(self, path: str, offset: int, skipped_long: int = 0) -> dict[str, Any]:
        """How far a file is read."""
        return {"path": path, "session": self._history.session, "offset": offset, "skipped_long": skipped_long}

    def pages(self, chunk: Chunk, *, done: int) -> Iterator[Page]:
        """A chunk, cut; the last page carries how far it goes."""
        history, wanted, passed = self._history, self._wanted, self._passed
        turns = list[ImportedTurn]()
        for record in records(self._agent, chunk.lines):
            self._cwd = record.cwd or self._cwd
            if (turn := _turn(history, record, self._cwd, wanted, passed)) is not None:
                turns.append(turn)
        if chunk.skipped_long:
            passed.trouble(history.path, f"{chunk.skipped_long} lines are longer than 10 MB and were passed over")
        mark = self.mark(plain(history.path), chunk.offset, chunk.skipped_long)
        *before, last = [*_cut(turns)] or [[]]
        yield from (Page(turns=piece) for piece in before)
        yield Page(turns=last, mark=mark if wanted.is_everything else None, done=done)


def pages_of_items(items: Iterable[Item], wanted: Wanted, assigned: tuple[str, ...], passed: Passed) -> Iterator[Page]:
    """What another format holds.

    Args:
        assigned: the names of the project of what tells none.

    Raises:
        BadInput: it cannot be read to its end; what stands before was yielded.
    """
    turns, memories, size = list[ImportedTurn](), list[ImportedMemory](), 0
    failures = list[BadInput]()
    for item in _until_failure(items, failures):
        if isinstance(item, Trouble):
            passed.trouble(item.place, item.problem)
            continue
        if not wanted.has_time(item.at):
            passed.counts["older"] += 1
            continue
        clean = item._replace(text=_text(item.text, passed), project=item.project or assigned)
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


def _until_failure(items: Iterable[Item], failures: list[BadInput]) -> Iterator[Item]:
    """The items before what cannot be read, and that for later."""
    try:
        yield from items
    except BadInput as error:
        failures.append(error)


def _turn(history: History, record: TranscriptRecord, cwd: str, wanted: Wanted, passed: Passed) -> ImportedTurn | None:
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
            text=_text(record.text, passed),
            at=record.at,
            call_id=record.call_id,
            project=known_as,
        )
    return None


def _text(text: str, passed: Passed) -> str:
    """The text as it can travel and be stored: no half of a character, no NUL, and of a bounded length."""
    if len(text) > LONGEST:
        passed.counts["cut"] += 1
        text = text[:LONGEST]
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


@cache
def _names(cwd: str) -> tuple[str, ...]:
    return names(cwd, {}) if os.path.isabs(cwd) else ()


@cache
def _captures(cwd: str) -> bool:
    return captures(cwd, {})


def _fits(count: int, size: int, text: str) -> bool:
    """Whether a text goes into a page of so many with so many characters; an empty one takes any."""
    return count < TOGETHER and (not count or size + len(text) <= _PAGE)


def _cut(turns: list[ImportedTurn]) -> Iterator[list[ImportedTurn]]:
    piece, size = list[ImportedTurn](), 0
    for turn in turns:
        if not _fits(len(piece), size, turn.text):
            yield piece
            piece, size = [], 0
        piece.append(turn)
        size += len(turn.text)
    if piece:
        yield piece
