"""Export and import: streams the store out, reads Filrouge's own exports back, and reads in other programs' data.

Exports are read page by page, so a memory of any size needs little room. Our own export comes back under its original
ids, each row once. An import is trusted as little as a web page (RELIABILITY 6) unless the user vouches for it.
Secrets are redacted again, and forgotten content stays forgotten. A row that cannot be read is reported and counted;
the others continue. Everything is written in small batches, so that other writers are not blocked.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from pydantic import BaseModel

from filrouge._version import __version__
from filrouge.capture.events import TextCutter, strip_injected_blocks
from filrouge.capture.intake import CutCounts, skip_reason
from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, ImportedMemory, ImportedTurn, Turn
from filrouge.capture.service import UNIQUE_KEY_LENGTH, add_transcript_turn, is_capture_off, queue_backfill
from filrouge.context.hook_files import write_briefs
from filrouge.core import lazy_re as re
from filrouge.core.clock import from_epoch, new_id, to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.erasure.tombstones import Tombstones
from filrouge.extraction.sentences import MASK
from filrouge.memories.changes import bin_memory
from filrouge.memories.models import SUMS, Memory
from filrouge.projects.repository import Projects, resolve_project
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors
from filrouge.threads.placing import queue_placing
from filrouge.threads.upkeep import is_routed
from filrouge.transfer.exports import (
    COLUMNS,
    FORM,
    FULL_TABLES,
    HEADER_KEY,
    MODELS,
    VERSION,
    ExportTable,
    FullMemoryRow,
    MessageRow,
    ProjectRow,
    Rows,
    StatementRow,
    WholeMessageRow,
    document,
    json_lines,
    memory_row,
    message_row,
    spreadsheet,
    validate_row,
)
from filrouge.transfer.repository import FIRST_CURSOR, ExportRepository, Outcome, SideTable, Whole

# Export. Content captured during the export may or may not be included; each included row is complete.

Format = Literal["json", "csv", "jsonl"]
What = Literal["memories", "messages", "threads", "all"]
T = TypeVar("T")
K = TypeVar("K", int, str)
_PAGE: Final = 500
_ALL: Final[Sequence[ExportTable]] = ("messages", "memories", "threads")


def export(parts: Parts, form: Format, what: What | None = None) -> Iterator[str]:
    """The export, in chunks.

    Args:
        what: None = everything in JSON, the memories in CSV.

    Raises:
        BadInput: everything was requested as one CSV table, or only a part as JSON Lines.
    """
    if form == "jsonl":
        if what not in (None, "all"):
            raise BadInput(
                "A JSON Lines export always contains everything.", remedy="For one table, ask for json or csv."
            )
        return export_all(parts)
    if form == "csv":
        if what == "all":
            raise BadInput("A CSV file holds one table.", remedy="Name it: memories, messages or threads.")
        table: ExportTable = what or "memories"
        return spreadsheet(COLUMNS[table], _rows(parts, table))
    head = _head(parts)
    names = _ALL if what in (None, "all") else (what,)
    tables: dict[ExportTable, Rows] = {"projects": _rows(parts, "projects")}
    for name in names:
        tables[name] = _rows(parts, name)
    return document(head, tables)


def export_all(parts: Parts) -> Iterator[str]:
    """A whole export, so that nothing has to be recomputed after import; `transfer.exports` describes the format."""
    counts = _read_full(parts, Whole.counts)
    return json_lines({HEADER_KEY: VERSION, **_head(parts), "counts": counts}, _all_rows(parts))


def _all_rows(parts: Parts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from (("projects", row) for row in parts.readers.here(_projects))
    ids = _read_full(parts, Whole.descent)
    for place in range(0, len(ids), _PAGE):
        page = ids[place : place + _PAGE]
        yield from (("threads", row) for row in _read_full(parts, lambda from_, page=page: from_.threads(page)))
    for turn, more in _pages_of_whole(parts, Whole.messages, 0):
        yield "messages", message_row(turn) | more
    for memory, more in _pages_of_whole(parts, Whole.memories, 0):
        yield "memories", memory_row(memory) | more
    yield from (("links", row) for row in _pages_of_whole(parts, Whole.links, 0))
    for table, first in FIRST_CURSOR.items():
        rows = _pages_of_whole(
            parts, lambda from_, behind, limit, table=table: from_.beside(table, behind, limit), first
        )
        yield from ((table, row) for row in rows)


def _read_full(parts: Parts, read: Callable[[Whole], T]) -> T:
    return parts.readers.here(lambda tx: read(Whole(tx, parts.analyser)))


def _pages_of_whole(parts: Parts, page: Callable[[Whole, K, int], Sequence[tuple[K, T]]], first: K) -> Iterator[T]:
    behind = first
    while found := _read_full(parts, lambda from_, behind=behind: page(from_, behind, _PAGE)):
        yield from (row for _, row in found)
        behind = found[-1][0]


def _head(parts: Parts) -> dict[str, Any]:
    return {"version": __version__, "exported_at": to_text(parts.clock.now())}


def _rows(parts: Parts, table: ExportTable) -> Iterator[Mapping[str, Any]]:
    match table:
        case "projects":
            yield from parts.readers.here(_projects)
        case "messages":
            yield from map(message_row, _pages(parts, ExportRepository.turns))
        case "memories":
            yield from map(memory_row, _pages(parts, ExportRepository.memories))
        case "threads":
            yield from _pages(parts, ExportRepository.threads)


def _projects(tx: Tx) -> list[dict[str, Any]]:
    projects = Projects(tx)
    return [{"id": one["id"], "name": one["name"], "aliases": projects.aliases(one["id"])} for one in projects.all()]


def _pages(parts: Parts, page: Callable[[ExportRepository, int, int], Sequence[tuple[int, T]]]) -> Iterator[T]:
    behind = 0
    while found := parts.readers.here(
        lambda tx, behind=behind: page(ExportRepository(tx, parts.analyser), behind, _PAGE)
    ):
        yield from (row for _, row in found)
        behind = found[-1][0]


# Import of our own export: each row once, under its original id.
#
# A file can claim anything. So imported memories are observations only, not rules, preferences or core facts, unless
# the user confirms that it is their own export; then everything is restored as it was.

#: Rows per transaction, so that other writes get in between.
_BATCH: Final = 100
_MOST_PROBLEMS: Final = 100
_ROW_OUTCOMES: Final = ("added", "present", "forgotten", "bad")
_KINDS_ONLY_THE_USER_STATES: Final = frozenset({"rule", "preference"})
_WITHHELD: Final = "it contains a secret"


@dataclass(kw_only=True)
class ImportResult:
    """Row counts by table and outcome, and the first problems."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter[str]() for name in FULL_TABLES})
    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    threads: int = 0

    def bad(self, table: str, place: int, problem: str) -> None:
        """Record a row that cannot be read."""
        self.counts[table]["bad"] += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append({"table": table, "place": place, "problem": problem})

    def to_json(self) -> dict[str, Any]:
        """The response body of the route."""
        counts = {name: {outcome: own[outcome] for outcome in _ROW_OUTCOMES} for name, own in self.counts.items()}
        ever = {name: counts.pop(name) for name in ("projects", "messages", "memories")}
        return {**ever, "beside": counts, "threads_passed_over": self.threads, "problems": self.problems}


def import_export(parts: Parts, exported: object, *, trusted: bool = False) -> ImportResult:
    """Import an export.

    Args:
        trusted: the user confirms that it is their own; rules, preferences and core facts are restored as such.

    Raises:
        BadInput: it is not a Filrouge export, or from a later version.
    """
    given = check_header(exported)
    done = ImportResult(threads=len(_listed(given, "threads")))
    projects = read_rows(done, given, "projects", ProjectRow)
    turns = [(one.turn()) for one in read_rows(done, given, "messages", MessageRow)]
    memories = [one.memory() for one in read_memories(parts, done, given, StatementRow)]
    known = add_projects(parts, done, projects)
    clean = [sanitised_turn(parts, one, known, trusted) for one in turns]
    write_rows(parts, done, "messages", clean, _turn_writer(parts))
    learned = [sanitised_memory(parts, one, known, trusted) for one in memories]
    write_rows(parts, done, "memories", learned, _memory_writer(parts))
    _link(parts, [one for one in memories if one.superseded_by])
    if done.counts["memories"]["added"]:
        write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return done


def check_header(exported: object) -> Mapping[str, Any]:
    """The export, if it can be read.

    Raises:
        BadInput: it is not a Filrouge export, or from a later version.
    """
    if not isinstance(exported, dict) or HEADER_KEY not in exported:
        raise BadInput("This is not a Filrouge export.", remedy="`filrouge export` writes one.")
    given = cast("Mapping[str, Any]", exported)
    if given[HEADER_KEY] != VERSION:
        raise BadInput(f"This export has the version {given[HEADER_KEY]!r}, and {VERSION} can be read.")
    return given


def add_projects(parts: Parts, done: ImportResult, projects: Sequence[ProjectRow]) -> set[str]:
    """Add projects; returns the ids of all projects then known."""
    now = parts.clock.now()

    def write(tx: Tx, row: ProjectRow) -> Outcome:
        return carrying(parts, tx).add_project(row.id, row.name, row.aliases, now)

    write_rows(parts, done, "projects", projects, write)
    return {row["id"] for row in parts.readers.here(lambda tx: tx.all("projects.all"))}


def carrying(parts: Parts, tx: Tx) -> ExportRepository:
    """The export and import repository for a transaction."""
    return ExportRepository(tx, parts.analyser)


def _listed(given: Mapping[str, Any], table: str) -> Sequence[object]:
    rows = given.get(table, [])
    if not isinstance(rows, list):
        raise BadInput(f"{table} of this export is no list.")
    return cast("list[object]", rows)


def read_rows(
    done: ImportResult,
    given: Mapping[str, Any],
    table: str,
    model: Any,
    refusal: Callable[[Any], str] | None = None,
) -> list[Any]:
    """The rows of a table as validated models. Rows that are invalid or refused are recorded as bad."""
    found: list[Any] = []
    for place, row in enumerate(_listed(given, table)):
        try:
            read = validate_row(row, model)
            if why := refusal(read) if refusal else "":
                done.bad(table, place, why)
            else:
                found.append(read)
        except ValueError as error:
            done.bad(table, place, str(error))
    return found


def read_memories(parts: Parts, done: ImportResult, given: Mapping[str, Any], model: Any) -> list[Any]:
    """The memories of an export. A statement that contains a secret is recorded as bad and not imported."""

    def refusal(row: Any) -> str:
        is_stated = row.kind not in SUMS and row.kind != "note"
        return _WITHHELD if is_stated and MASK.search(parts.redact(row.text)) else ""

    return read_rows(done, given, "memories", model, refusal)


def write_rows(
    parts: Parts, done: ImportResult, table: str, rows: Sequence[Any], write: Callable[[Tx, Any], Outcome | None]
) -> None:
    """Write rows batch by batch. `write` returns None for a row that was forgotten here."""
    for place in range(0, len(rows), _BATCH):
        batch = rows[place : place + _BATCH]
        outcomes = parts.writer.run(lambda tx, batch=batch: [write(tx, row) for row in batch])
        done.counts[table].update(outcome or "forgotten" for outcome in outcomes)


def _link(parts: Parts, replaced: Sequence[Memory]) -> None:
    """Link superseded memories to their successors."""
    now = parts.clock.now()
    for place in range(0, len(replaced), _BATCH):
        batch = replaced[place : place + _BATCH]
        parts.writer.run(lambda tx, batch=batch: [carrying(parts, tx).link(one, now) for one in batch])


def _turn_writer(parts: Parts) -> Callable[[Tx, Turn], Outcome | None]:
    def write(tx: Tx, turn: Turn) -> Outcome | None:
        if parts.tombstones.refuses(tx, turn, turn.at) or is_forgotten(parts, tx, turn.id):
            return None
        outcome = carrying(parts, tx).add_turn(turn)
        if outcome == "added":
            if turn.role != "tool":
                queue_vectors(tx, "turn", turn.id, parts.clock.now())
            queue_placing(parts, tx, [turn])
        return outcome

    return write


def _memory_writer(parts: Parts) -> Callable[[Tx, Memory], Outcome | None]:
    def write(tx: Tx, memory: Memory) -> Outcome | None:
        if is_forgotten(parts, tx, memory.id, memory.text):
            return None
        outcome = carrying(parts, tx).add_memory(memory, parts.clock.now())
        if outcome == "added" and memory.state == "live":
            queue_vectors(tx, "memory", memory.id, parts.clock.now())
        return outcome

    return write


def is_forgotten(parts: Parts, tx: Tx, id_: str, text: str = "") -> bool:
    """True if the row was forgotten here, matched by its id or its text."""
    stones = parts.tombstones.stones
    if stones is None or not Tombstones(tx).any():
        return False
    return bool(Tombstones(tx).of([stones.row(id_), *([stones.text(text)] if text else [])]))


def sanitised_turn(parts: Parts, turn: Turn, known: frozenset[str] | set[str], trusted: bool) -> Turn:
    """The turn without secrets, in a known project or none, with reduced trust unless trusted."""
    return replace(
        turn,
        text=parts.redact(turn.text),
        trust=turn.trust if trusted else TRUST_TOOL,
        scope=replace(turn.scope, project=turn.scope.project if turn.scope.project in known else None),
    )


def sanitised_memory(parts: Parts, memory: Memory, known: frozenset[str] | set[str], trusted: bool) -> Memory:
    """The memory without secrets, in a known project or none, reduced to an observation unless trusted."""
    clean = replace(
        memory,
        text=parts.redact(memory.text),
        value=parts.redact(memory.value) if memory.value else memory.value,
        previous_text=parts.redact(memory.previous_text) if memory.previous_text else memory.previous_text,
        scope=replace(memory.scope, project=memory.scope.project if memory.scope.project in known else None),
    )
    if trusted:
        return clean
    kind = "fact" if clean.kind in _KINDS_ONLY_THE_USER_STATES else clean.kind
    return replace(clean, trust=TRUST_TOOL, kind=kind, key=None, value=None, pinned=False, mention_count=1)


# Import of a whole export: also restores everything around messages and memories, so that nothing is placed, named or
# linked again, and nothing that the user named, moved or removed is lost.
#
# This only applies to the user's own export. From an unconfirmed file only projects, messages and memories are read,
# the memories as observations, and the rest is recomputed. The rest is also recomputed if anything was forgotten here:
# titles,
# summaries and analyses repeat words of messages, and tombstones do not match them.

_SIDE_TABLES: Final[tuple[SideTable, ...]] = tuple(FIRST_CURSOR)
#: Tables without the user's words; they are restored even if something was forgotten here.
_TABLES_WITHOUT_TEXT: Final = frozenset({"days", "links"})


def import_document(parts: Parts, exported: object, *, trusted: bool = False) -> ImportResult:
    """Import an export, whole or not.

    Args:
        trusted: the user confirms that it is their own.

    Raises:
        BadInput: it is not a Filrouge export, or from a later version.
    """
    given = check_header(exported)
    if given.get("form") != FORM:
        return import_export(parts, given, trusted=trusted)
    if not trusted:
        return import_export(parts, _without_sums(given))
    return _WholeImport(parts, given).done


class _WholeImport:
    """Imports one piece of a whole export; each table comes after the tables it refers to."""

    def __init__(self, parts: Parts, given: Mapping[str, Any]) -> None:
        self.done = ImportResult()
        self._parts = parts
        self._given = given
        self._forgetful = parts.readers.here(lambda tx: Tombstones(tx).any())
        self._known = add_projects(parts, self.done, self._rows("projects"))
        self._threads()
        self._write("messages", self._message)
        memories = read_memories(parts, self.done, given, MODELS["memories"])
        write_rows(parts, self.done, "memories", memories, self._memory)
        now = parts.clock.now()
        self._write("links", lambda tx, row: _added_or_present(self._whole(tx).link(row.model_dump(), now)))
        for table in _SIDE_TABLES:
            self._write(table, lambda tx, row, table=table: self._row_beside(tx, table, row))
        if self.done.counts["memories"]["added"]:
            write_briefs(parts, None, everywhere=True)
        parts.work_waiting.set()

    def _rows(self, table: str) -> list[Any]:
        return read_rows(self.done, self._given, table, MODELS[table])

    def _write(self, table: str, write: Callable[[Tx, Any], Outcome | None]) -> None:
        write_rows(self._parts, self.done, table, self._rows(table), write)

    def _whole(self, tx: Tx) -> Whole:
        return Whole(tx, self._parts.analyser)

    def _clean(self, row: BaseModel) -> dict[str, Any]:
        """A row without secrets, in a known project or none."""
        clean = cast("dict[str, Any]", _redacted(self._parts.redact, row.model_dump()))
        if clean.get("project_id") not in self._known and "day" not in clean and "project_id" in clean:
            clean["project_id"] = None
        return clean

    def _threads(self) -> None:
        def write(tx: Tx, row: BaseModel) -> Outcome | None:
            return None if self._forgetful else _added_or_present(self._whole(tx).add_thread(self._clean(row)))

        self._write("threads", write)

    def _message(self, tx: Tx, row: WholeMessageRow) -> Outcome | None:
        parts = self._parts
        turn = sanitised_turn(parts, row.turn(), self._known, True)
        if parts.tombstones.refuses(tx, turn, turn.at) or is_forgotten(parts, tx, turn.id):
            return None
        if not parts.turns(tx).restore(turn, row.transcript_key):
            return "present"
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, parts.clock.now())
        placed = self._clean(row.placed) if row.placed else None
        decisions = [self._clean(one) for one in row.decisions]
        if not (placed and self._whole(tx).place(turn.id, placed, decisions)) and (placed or is_routed(turn)):
            queue_placing(parts, tx, [turn])
        return "added"

    def _memory(self, tx: Tx, row: FullMemoryRow) -> Outcome | None:
        parts = self._parts
        memory = sanitised_memory(parts, row.memory(), self._known, True)
        if is_forgotten(parts, tx, memory.id, memory.text) or (self._forgetful and memory.kind in SUMS):
            return None
        if memory.kind == "concept" and memory.state == "live" and self._whole(tx).has_concept(memory):
            return "present"
        outcome = carrying(parts, tx).add_memory(memory, parts.clock.now())
        if outcome == "added":
            counted = row.model_dump(include={"first_mention", "mention_count", "uses", "last_used"})
            counted["last_mention"] = to_text(row.last_mention or row.created_at)
            self._whole(tx).count(memory.id, counted, [one.model_dump() for one in row.mentions])
            if memory.state == "live" and memory.kind not in SUMS:
                queue_vectors(tx, "memory", memory.id, parts.clock.now())
        return outcome

    def _row_beside(self, tx: Tx, table: SideTable, row: BaseModel) -> Outcome | None:
        if self._forgetful and table not in _TABLES_WITHOUT_TEXT:
            return None
        return _added_or_present(self._whole(tx).add_beside(table, self._clean(row)))


def _added_or_present(added: bool) -> Outcome:
    return "added" if added else "present"


def _without_sums(given: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = given.get("memories", [])
    if not isinstance(rows, list):
        return given
    kept = [one for one in cast("list[object]", rows) if _memory_kind(one) not in SUMS]
    return {**given, "memories": kept}


def _memory_kind(row: object) -> object:
    return cast("dict[str, object]", row).get("kind") if isinstance(row, dict) else None


def _is_id(name: str) -> bool:
    return name in ("id", "ids", "until", "host") or name.endswith(("_id", "_ids"))


def _redacted(redact: Callable[[str], str], value: Any) -> Any:
    """A JSON value with every text redacted, except ids."""
    match value:
        case str():
            return redact(value)
        case dict():
            named = cast("dict[str, Any]", value)
            return {name: one if _is_id(name) else _redacted(redact, one) for name, one in named.items()}
        case list():
            return [_redacted(redact, one) for one in cast("list[Any]", value)]
        case _:
            return value


# Import of other programs' data: histories of agents, exports of chats, memories of other programs.
#
# It is processed like a transcript: redacted, stripped of our own injected blocks, and checked against what was
# forgotten. Content already captured by a hook or an earlier run is recognised, so a second run adds nothing. Times
# and projects are kept. Old messages are processed after all other work (`capture.service`).
#
# Unless the user confirms that a file is their own, it has the trust of a web page and produces no rules or
# instructions (RULE-3).

#: Rows per transaction, so that other writes get in between.
_MESSAGE_BATCH: Final = 50
_TRUSTED: Final = {"user": TRUST_PROMPT, "assistant": TRUST_AGENT, "tool": TRUST_TOOL}
#: Confidence of an observation, and of a statement that the user confirmed.
_OBSERVED_CONFIDENCE, _CONFIRMED_CONFIDENCE = 0.6, 0.8
_NAME_PREFIX: Final = re.compile(r"(?:name|origin|root|clone|path):")
PAGE_OUTCOMES: Final = ("added", "vouched", "present", "forgotten", "off")


class TranscriptMark(NamedTuple):
    """How far a transcript file has been read; stored like the marks of the hooks."""

    path: str
    session: str
    offset: int
    skipped_long: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportPage:
    """A page of data to import.

    Attributes:
        source: the agent or program that it comes from.
        trusted: the user confirms that it is their own.
        mark: stored after everything before it is stored.
    """

    source: str
    trusted: bool
    turns: Sequence[ImportedTurn] = ()
    memories: Sequence[ImportedMemory] = ()
    mark: TranscriptMark | None = None


@dataclass(kw_only=True)
class PageResult:
    """Counts for a page by outcome: new, confirmed now, present, forgotten here, or of a disabled project."""

    turns: Counter[str] = field(default_factory=Counter[str])
    memories: Counter[str] = field(default_factory=Counter[str])

    def to_json(self) -> dict[str, Any]:
        """The response body of the route."""
        tables = {"turns": self.turns, "memories": self.memories}
        return {name: {one: counted[one] for one in PAGE_OUTCOMES} for name, counted in tables.items()}


def import_page(parts: Parts, page: ImportPage) -> PageResult:
    """Store what is new in a page; it is on disk when this returns."""
    done = PageResult()
    off = frozenset(parts.readers.here(lambda tx: parts.settings(tx)).disabled_projects)
    for place in range(0, len(page.turns), _MESSAGE_BATCH):
        batch = [(one, _cleaned(parts, one)) for one in page.turns[place : place + _MESSAGE_BATCH]]
        done.turns.update(parts.writer.run_patient(lambda tx, batch=batch: _add(parts, tx, page, batch, off)))
    if page.memories:
        done.memories.update(_add_memories(parts, page, off))
    if page.mark is not None:
        mark = page.mark
        parts.writer.run_patient(lambda tx: _keep(parts, tx, page.source, mark))
    parts.work_waiting.set()
    return done


def _cleaned(parts: Parts, turn: ImportedTurn) -> str:
    """The turn's text, redacted and cut like a captured one."""
    cutter = TextCutter()
    text = cutter.clean_and_cut(turn.text, lambda said: parts.redact(strip_injected_blocks(said)))
    parts.metrics.count_cut(CutCounts(events=int(cutter.characters_cut > 0), characters=cutter.characters_cut))
    return text


def marks(tx: Tx, source: str) -> dict[str, int]:
    """How far each transcript of that agent has been read, by path."""
    return {row["path"]: row["byte_offset"] for row in tx.all("transcripts.of_host", {"host": source})}


def _add(
    parts: Parts, tx: Tx, page: ImportPage, batch: Sequence[tuple[ImportedTurn, str]], off: frozenset[str]
) -> list[str]:
    now, outcomes, added = parts.clock.now(), list[str](), list[str]()
    projects = _ProjectLookup(tx, now, off)
    for told, text in batch:
        turn = _turn(page, told, text, now)
        if not text.strip():
            outcomes.append("present")  # only text that we injected ourselves
        elif parts.tombstones.refuses(tx, turn, turn.at if told.at else None):
            outcomes.append("forgotten")
        elif projects.is_off(told.project):
            outcomes.append("off")
        else:
            placed = _turn(page, told, text, now, projects.id_of(told.project))
            if add_transcript_turn(parts.turns(tx), placed):
                outcomes.append("added")
                added.append(placed.id)
            elif page.trusted and (vouched := parts.turns(tx).raise_trust(placed)):
                outcomes.append("vouched")
                added.append(vouched)
            else:
                outcomes.append("present")
    queue_backfill(parts, tx, added)
    return outcomes


class _ProjectLookup:
    """The projects of a batch, each looked up once. A new project is added with its first turn."""

    def __init__(self, tx: Tx, now: datetime, off: frozenset[str]) -> None:
        self._tx, self._now, self._off = tx, now, off
        self._ids: dict[tuple[str, ...], str | None] = {}
        self._switched: dict[tuple[str, ...], bool] = {}

    def is_off(self, names: tuple[str, ...]) -> bool:
        names = self._full(names)
        if names not in self._switched:
            self._switched[names] = is_capture_off(self._tx, names, self._off)
        return self._switched[names]

    def id_of(self, names: tuple[str, ...]) -> str | None:
        names = self._full(names)
        if names not in self._ids:
            self._ids[names] = Projects(self._tx).resolve(names, at=self._now)
        return self._ids[names]

    def _full(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The full names. A single plain name stands for the project with that name or alias."""
        if len(names) != 1 or _NAME_PREFIX.match(names[0]):
            return names
        return resolve_project(self._tx, names)[0]


def _turn(page: ImportPage, told: ImportedTurn, text: str, now: datetime, project: str | None = None) -> Turn:
    at = _when(told.at, now)
    key = told.key if len(told.key) >= UNIQUE_KEY_LENGTH else f"{told.session}:{told.key}"
    return Turn(
        id=new_id(at),
        key=f"tool:{told.call_id}" if told.call_id else key,
        scope=Scope(project=project, channel=page.source, session=told.session),
        host=page.source,
        role=told.role,
        source=told.source,
        text=text,
        at=at,
        trust=_TRUSTED[told.role] if page.trusted else TRUST_TOOL,
        skipped=skip_reason(text, told.source),
    )


def _when(seconds: float, now: datetime) -> datetime:
    """The given time; now if it is unknown or in the future."""
    return from_epoch(seconds) if 0 < seconds < now.timestamp() else now


def _keep(parts: Parts, tx: Tx, source: str, mark: TranscriptMark) -> None:
    row = {"path": mark.path, "host": source, "session_id": mark.session, "byte_offset": mark.offset}
    tx.run("transcripts.put", row | {"skipped_long": mark.skipped_long, "read_at": to_text(parts.clock.now())})


def _add_memories(parts: Parts, page: ImportPage, off: frozenset[str]) -> Counter[str]:
    """Import memories like our own export. Each id is derived from the source, the key and whether it is confirmed.

    Confirming a memory bins the earlier observation of it. A confirmed memory is not added again as an observation.
    """
    said = [one for one in page.memories if strip_injected_blocks(one.text).strip()]
    observed, vouched = ({one.key: _id(page, one, trusted=trusted) for one in said} for trusted in (False, True))
    wanted = [*observed.values(), *vouched.values()]
    here = parts.readers.here(lambda tx: parts.memories(tx).some(wanted))

    def placed(tx: Tx) -> list[Memory]:
        projects = _ProjectLookup(tx, parts.clock.now(), off)
        return [
            _memory(page, one, projects.id_of(one.project), parts.clock.now())
            for one in said
            if not projects.is_off(one.project) and (page.trusted or vouched[one.key] not in here)
        ]

    memories = parts.writer.run_patient(placed)
    found = import_export(
        parts, {HEADER_KEY: VERSION, "memories": list(map(memory_row, memories))}, trusted=page.trusted
    )
    counts = Counter({name: found.counts["memories"][name] for name in ("added", "present", "forgotten")})
    if page.trusted:
        before = [one for id_ in observed.values() if (one := here.get(id_)) and one.state == "live"]
        for one in before:
            bin_memory(parts, one.id)
        counts["vouched"] = min(len(before), counts["added"])
        counts["added"] -= counts["vouched"]
    else:
        counts["present"] += sum(id_ in here for id_ in vouched.values())
    counts["present"] += len(page.memories) - len(said)  # only text that we injected ourselves
    counts["off"] = len(page.memories) - counts.total()
    return counts


def _id(page: ImportPage, told: ImportedMemory, *, trusted: bool) -> str:
    whose = "mine" if trusted else "anybody's"
    said = f"{page.source}\0{whose}\0{told.key}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:26]


def _memory(page: ImportPage, told: ImportedMemory, project: str | None, now: datetime) -> Memory:
    at = _when(told.at, now)
    return Memory(
        id=_id(page, told, trusted=page.trusted),
        scope=Scope(project=project, channel=page.source, session=told.place[:4096]),
        scope_name="project" if told.project else "user",
        kind=told.kind,
        text=strip_injected_blocks(told.text).strip(),
        trust=TRUST_PROMPT if page.trusted else TRUST_TOOL,
        created_at=at,
        valid_from=at,
        subject=told.subject[:200],
        confidence=_CONFIRMED_CONFIDENCE if page.trusted else _OBSERVED_CONFIDENCE,
        made_by=f"import:{page.source}",
    )
