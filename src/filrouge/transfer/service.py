"""Export and import: streams the store out, imports Filrouge's own exports, and imports other programs' data.

Exports are read page by page, so a store of any size needs little memory. Our own export is restored under its
original ids, each row once. An import is trusted as little as a web page unless the user confirms it.
Secrets are redacted again, and forgotten content stays forgotten. A row that cannot be read is reported and counted;
the others continue. Everything is written in small batches, so that other writers are not blocked.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel

from filrouge._version import __version__
from filrouge.capture.events import TextCutter, strip_injected_blocks
from filrouge.capture.intake import CutCounts, skip_reason
from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, ImportedMemory, ImportedTurn, Turn
from filrouge.capture.service import UNIQUE_KEY_LENGTH, add_transcript_turn, is_capture_off, queue_backfill
from filrouge.context.hook_files import write_briefs
from filrouge.core import lazy_re as re
from filrouge.core.clock import Clock, from_epoch, new_id, to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Analyser, Redactor, Tx
from filrouge.core.scope import Scope
from filrouge.erasure.tombstones import TombstoneFilter, Tombstones
from filrouge.extraction.sentences import MASK
from filrouge.memories.changes import bin_memory
from filrouge.memories.models import SUMS, Memory
from filrouge.projects.repository import Projects, resolve_project
from filrouge.runtime.executors import ReaderPool, Writer
from filrouge.runtime.metrics import Metrics
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
    FullMessageRow,
    MessageRow,
    ProjectRow,
    Rows,
    StatementRow,
    document,
    json_lines,
    memory_row,
    message_row,
    spreadsheet,
    validate_row,
)
from filrouge.transfer.repository import FIRST_CURSOR, ExportRepository, FullExportRepository, Outcome, SideTable

# Export. Content captured during the export may or may not be included; each included row is complete.

ExportFormat = Literal["json", "csv", "jsonl"]
Contents = Literal["memories", "messages", "threads", "all"]
T = TypeVar("T")
K = TypeVar("K", int, str)
_PAGE_ROWS: Final = 500
_ALL_TABLES: Final[Sequence[ExportTable]] = ("messages", "memories", "threads")


def export(parts: Parts, form: ExportFormat, what: Contents | None = None) -> Iterator[str]:
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
        return spreadsheet(COLUMNS[table], _rows(parts.analyser, parts.readers, table))
    head = _head(parts.clock)
    names = _ALL_TABLES if what in (None, "all") else (what,)
    tables: dict[ExportTable, Rows] = {"projects": _rows(parts.analyser, parts.readers, "projects")}
    for name in names:
        tables[name] = _rows(parts.analyser, parts.readers, name)
    return document(head, tables)


def export_all(parts: Parts) -> Iterator[str]:
    """A full export, so that nothing has to be recomputed after import; `transfer.exports` describes the format."""
    counts = _read_full(parts.analyser, parts.readers, FullExportRepository.counts)
    return json_lines(
        {HEADER_KEY: VERSION, **_head(parts.clock), "counts": counts}, _all_rows(parts.analyser, parts.readers)
    )


def _all_rows(analyser: Analyser, readers: ReaderPool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from (("projects", row) for row in readers.here(_projects))
    ids = _read_full(analyser, readers, FullExportRepository.thread_order)
    for start in range(0, len(ids), _PAGE_ROWS):
        page = ids[start : start + _PAGE_ROWS]
        yield from (
            ("threads", row)
            for row in _read_full(analyser, readers, lambda repository, page=page: repository.threads(page))
        )
    for turn, extra in _full_pages(analyser, readers, FullExportRepository.messages, 0):
        yield "messages", message_row(turn) | extra
    for memory, extra in _full_pages(analyser, readers, FullExportRepository.memories, 0):
        yield "memories", memory_row(memory) | extra
    yield from (("links", row) for row in _full_pages(analyser, readers, FullExportRepository.links, 0))
    for table, first in FIRST_CURSOR.items():
        rows = _full_pages(
            analyser,
            readers,
            lambda repository, behind, limit, table=table: repository.side_rows(table, behind, limit),
            first,
        )
        yield from ((table, row) for row in rows)


def _read_full(analyser: Analyser, readers: ReaderPool, read: Callable[[FullExportRepository], T]) -> T:
    return readers.here(lambda tx: read(FullExportRepository(tx, analyser)))


def _full_pages(
    analyser: Analyser,
    readers: ReaderPool,
    page: Callable[[FullExportRepository, K, int], Sequence[tuple[K, T]]],
    first: K,
) -> Iterator[T]:
    behind = first
    while rows := _read_full(analyser, readers, lambda repository, behind=behind: page(repository, behind, _PAGE_ROWS)):
        yield from (row for _, row in rows)
        behind = rows[-1][0]


def _head(clock: Clock) -> dict[str, Any]:
    return {"version": __version__, "exported_at": to_text(clock.now())}


def _rows(analyser: Analyser, readers: ReaderPool, table: ExportTable) -> Iterator[Mapping[str, Any]]:
    match table:
        case "projects":
            yield from readers.here(_projects)
        case "messages":
            yield from map(message_row, _pages(analyser, readers, ExportRepository.turns))
        case "memories":
            yield from map(memory_row, _pages(analyser, readers, ExportRepository.memories))
        case "threads":
            yield from _pages(analyser, readers, ExportRepository.threads)


def _projects(tx: Tx) -> list[dict[str, Any]]:
    projects = Projects(tx)
    return [
        {"id": project["id"], "name": project["name"], "aliases": projects.aliases(project["id"])}
        for project in projects.all()
    ]


def _pages(
    analyser: Analyser, readers: ReaderPool, page: Callable[[ExportRepository, int, int], Sequence[tuple[int, T]]]
) -> Iterator[T]:
    behind = 0
    while rows := readers.here(lambda tx, behind=behind: page(ExportRepository(tx, analyser), behind, _PAGE_ROWS)):
        yield from (row for _, row in rows)
        behind = rows[-1][0]


# Import of our own export: each row once, under its original id.
#
# A file can claim anything. So imported memories are observations only, not rules, preferences or core facts, unless
# the user confirms that it is their own export; then everything is restored as it was.

#: Rows per transaction, so that other writes get in between.
_BATCH_ROWS: Final = 100
_MAX_PROBLEMS: Final = 100
_ROW_OUTCOMES: Final = ("added", "present", "forgotten", "bad")
_KINDS_ONLY_THE_USER_STATES: Final = frozenset({"rule", "preference"})
_WITHHELD: Final = "it contains a secret"


class ImportResult(Struct, kw_only=True):
    """The result of an import.

    Attributes:
        counts: number of rows by table and outcome.
        problems: the first bad rows: table, position in it, and problem.
        skipped_threads: number of threads in the export that were not imported.
    """

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter[str]() for name in FULL_TABLES})
    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    skipped_threads: int = 0

    def record_bad(self, table: str, index: int, problem: str) -> None:
        """Record a row that cannot be read."""
        self.counts[table]["bad"] += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append({"table": table, "place": index, "problem": problem})

    def to_json(self) -> dict[str, Any]:
        """The response body of the route."""
        counts = {
            name: {outcome: outcomes[outcome] for outcome in _ROW_OUTCOMES} for name, outcomes in self.counts.items()
        }
        main_counts = {name: counts.pop(name) for name in ("projects", "messages", "memories")}
        return {**main_counts, "beside": counts, "threads_passed_over": self.skipped_threads, "problems": self.problems}


def import_filrouge_export(parts: Parts, exported: object, *, trusted: bool = False) -> ImportResult:
    """Import an export.

    Args:
        trusted: the user confirms that it is their own; rules, preferences and core facts are restored as such.

    Raises:
        BadInput: it is not a Filrouge export, or from a later version.
    """
    content = check_header(exported)
    result = ImportResult(skipped_threads=len(_table_rows(content, "threads")))
    projects = read_rows(result, content, "projects", ProjectRow)
    turns = [row.turn() for row in read_rows(result, content, "messages", MessageRow)]
    memories = [row.memory() for row in read_memories(parts.redact, result, content, StatementRow)]
    project_ids = add_projects(parts, result, projects)
    sanitised_turns = [sanitise_turn(parts.redact, item, project_ids, trusted) for item in turns]
    write_rows(parts.writer, result, "messages", sanitised_turns, _turn_writer(parts))
    sanitised_memories = [sanitise_memory(parts.redact, item, project_ids, trusted) for item in memories]
    write_rows(parts.writer, result, "memories", sanitised_memories, _memory_writer(parts))
    _link(parts, [item for item in memories if item.superseded_by])
    if result.counts["memories"]["added"]:
        write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return result


def check_header(exported: object) -> Mapping[str, Any]:
    """The export, if it can be read.

    Raises:
        BadInput: it is not a Filrouge export, or from a later version.
    """
    if not isinstance(exported, dict) or HEADER_KEY not in exported:
        raise BadInput("This is not a Filrouge export.", remedy="`filrouge export` writes one.")
    content = cast("Mapping[str, Any]", exported)
    if content[HEADER_KEY] != VERSION:
        raise BadInput(
            f"This export has the version {content[HEADER_KEY]!r}, and {VERSION} can be read.",
            remedy="Update Filrouge here, or export again with this version.",
        )
    return content


def add_projects(parts: Parts, result: ImportResult, projects: Sequence[ProjectRow]) -> set[str]:
    """Add projects; returns the ids of all projects then known."""
    now = parts.clock.now()

    def write(tx: Tx, row: ProjectRow) -> Outcome:
        return export_repository(parts.analyser, tx).add_project(row.id, row.name, row.aliases, now)

    write_rows(parts.writer, result, "projects", projects, write)
    return {row["id"] for row in parts.readers.here(lambda tx: tx.all("projects.all"))}


def export_repository(analyser: Analyser, tx: Tx) -> ExportRepository:
    """The export and import repository for a transaction."""
    return ExportRepository(tx, analyser)


def _table_rows(content: Mapping[str, Any], table: str) -> Sequence[object]:
    rows = content.get(table, [])
    if not isinstance(rows, list):
        raise BadInput(f"{table} of this export is not a list.")
    return cast("list[object]", rows)


def read_rows(
    result: ImportResult,
    content: Mapping[str, Any],
    table: str,
    model: Any,
    refusal: Callable[[Any], str] | None = None,
) -> list[Any]:
    """The rows of a table as validated models. Rows that are invalid or refused are recorded as bad."""
    models: list[Any] = []
    for index, row in enumerate(_table_rows(content, table)):
        try:
            parsed = validate_row(row, model)
            if problem := refusal(parsed) if refusal else "":
                result.record_bad(table, index, problem)
            else:
                models.append(parsed)
        except ValueError as error:
            result.record_bad(table, index, str(error))
    return models


def read_memories(redact: Redactor, result: ImportResult, content: Mapping[str, Any], model: Any) -> list[Any]:
    """The memories of an export. A statement that contains a secret is recorded as bad and not imported."""

    def refusal(row: Any) -> str:
        is_stated = row.kind not in SUMS and row.kind != "note"
        return _WITHHELD if is_stated and MASK.search(redact(row.text)) else ""

    return read_rows(result, content, "memories", model, refusal)


def write_rows(
    writer: Writer, result: ImportResult, table: str, rows: Sequence[Any], write: Callable[[Tx, Any], Outcome | None]
) -> None:
    """Write rows batch by batch. `write` returns None for a row that was forgotten here."""
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = rows[start : start + _BATCH_ROWS]
        outcomes = writer.run(lambda tx, batch=batch: [write(tx, row) for row in batch])
        result.counts[table].update(outcome or "forgotten" for outcome in outcomes)


def _link(parts: Parts, superseded: Sequence[Memory]) -> None:
    """Link superseded memories to their successors."""
    now = parts.clock.now()
    for start in range(0, len(superseded), _BATCH_ROWS):
        batch = superseded[start : start + _BATCH_ROWS]
        parts.writer.run(
            lambda tx, batch=batch: [export_repository(parts.analyser, tx).link(memory, now) for memory in batch]
        )


def _turn_writer(parts: Parts) -> Callable[[Tx, Turn], Outcome | None]:
    def write(tx: Tx, turn: Turn) -> Outcome | None:
        if parts.tombstones.refuses(tx, turn, turn.at) or is_forgotten(parts.tombstones, tx, turn.id):
            return None
        outcome = export_repository(parts.analyser, tx).add_turn(turn)
        if outcome == "added":
            if turn.role != "tool":
                queue_vectors(tx, "turn", turn.id, parts.clock.now())
            queue_placing(parts.clock, tx, [turn])
        return outcome

    return write


def _memory_writer(parts: Parts) -> Callable[[Tx, Memory], Outcome | None]:
    def write(tx: Tx, memory: Memory) -> Outcome | None:
        if is_forgotten(parts.tombstones, tx, memory.id, memory.text):
            return None
        outcome = export_repository(parts.analyser, tx).add_memory(memory, parts.clock.now())
        if outcome == "added" and memory.state == "live":
            queue_vectors(tx, "memory", memory.id, parts.clock.now())
        return outcome

    return write


def is_forgotten(tombstones: TombstoneFilter, tx: Tx, id_: str, text: str = "") -> bool:
    """True if the row was forgotten here, matched by its id or its text."""
    hasher = tombstones.hasher
    if hasher is None or not Tombstones(tx).any():
        return False
    return bool(Tombstones(tx).of([hasher.row(id_), *([hasher.text(text)] if text else [])]))


def sanitise_turn(redact: Redactor, turn: Turn, project_ids: frozenset[str] | set[str], trusted: bool) -> Turn:
    """The turn without secrets, in a known project or none, with reduced trust unless trusted."""
    return replace(
        turn,
        text=redact(turn.text),
        trust=turn.trust if trusted else TRUST_TOOL,
        scope=replace(turn.scope, project=turn.scope.project if turn.scope.project in project_ids else None),
    )


def sanitise_memory(redact: Redactor, memory: Memory, project_ids: frozenset[str] | set[str], trusted: bool) -> Memory:
    """The memory without secrets, in a known project or none, reduced to an observation unless trusted."""
    sanitised = replace(
        memory,
        text=redact(memory.text),
        value=redact(memory.value) if memory.value else memory.value,
        previous_text=redact(memory.previous_text) if memory.previous_text else memory.previous_text,
        scope=replace(memory.scope, project=memory.scope.project if memory.scope.project in project_ids else None),
    )
    if trusted:
        return sanitised
    kind = "fact" if sanitised.kind in _KINDS_ONLY_THE_USER_STATES else sanitised.kind
    return replace(sanitised, trust=TRUST_TOOL, kind=kind, key=None, value=None, pinned=False, mention_count=1)


# Import of a full export: also restores everything around messages and memories, so that nothing is placed, named or
# linked again, and nothing that the user named, moved or removed is lost.
#
# This only applies to the user's own export. From an unconfirmed file only projects, messages and memories are read,
# the memories as observations, and the rest is recomputed. The rest is also recomputed if anything was forgotten here:
# titles, summaries and analyses repeat words of messages, and tombstones do not match them.

_SIDE_TABLES: Final[tuple[SideTable, ...]] = tuple(FIRST_CURSOR)
#: Tables without the user's words; they are restored even if something was forgotten here.
_TABLES_WITHOUT_TEXT: Final = frozenset({"days", "links"})


def import_document(parts: Parts, exported: object, *, trusted: bool = False) -> ImportResult:
    """Import an export, full or not.

    Args:
        trusted: the user confirms that it is their own.

    Raises:
        BadInput: it is not a Filrouge export, or from a later version.
    """
    content = check_header(exported)
    if content.get("form") != FORM:
        return import_filrouge_export(parts, content, trusted=trusted)
    if not trusted:
        return import_filrouge_export(parts, _drop_sums(content))
    return _FullImport(parts, content).result


class _FullImport:
    """Imports one piece of a full export; each table comes after the tables it refers to."""

    def __init__(self, parts: Parts, content: Mapping[str, Any]) -> None:
        self.result = ImportResult()
        self._parts = parts
        self._content = content
        self._has_tombstones = parts.readers.here(lambda tx: Tombstones(tx).any())
        self._project_ids = add_projects(parts, self.result, self._rows("projects"))
        self._threads()
        self._write("messages", self._message)
        memories = read_memories(parts.redact, self.result, content, MODELS["memories"])
        write_rows(parts.writer, self.result, "memories", memories, self._memory)
        now = parts.clock.now()
        self._write("links", lambda tx, row: _outcome(self._repository(tx).link(row.model_dump(), now)))
        for table in _SIDE_TABLES:
            self._write(table, lambda tx, row, table=table: self._side_row(tx, table, row))
        if self.result.counts["memories"]["added"]:
            write_briefs(parts, None, everywhere=True)
        parts.work_waiting.set()

    def _rows(self, table: str) -> list[Any]:
        return read_rows(self.result, self._content, table, MODELS[table])

    def _write(self, table: str, write: Callable[[Tx, Any], Outcome | None]) -> None:
        write_rows(self._parts.writer, self.result, table, self._rows(table), write)

    def _repository(self, tx: Tx) -> FullExportRepository:
        return FullExportRepository(tx, self._parts.analyser)

    def _sanitise(self, row: BaseModel) -> dict[str, Any]:
        """The fields of a row without secrets, in a known project or none."""
        sanitised = cast("dict[str, Any]", _redact_json(self._parts.redact, row.model_dump()))
        if (
            sanitised.get("project_id") not in self._project_ids
            and "day" not in sanitised
            and "project_id" in sanitised
        ):
            sanitised["project_id"] = None
        return sanitised

    def _threads(self) -> None:
        def write(tx: Tx, row: BaseModel) -> Outcome | None:
            return None if self._has_tombstones else _outcome(self._repository(tx).add_thread(self._sanitise(row)))

        self._write("threads", write)

    def _message(self, tx: Tx, row: FullMessageRow) -> Outcome | None:
        parts = self._parts
        turn = sanitise_turn(parts.redact, row.turn(), self._project_ids, True)
        if parts.tombstones.refuses(tx, turn, turn.at) or is_forgotten(parts.tombstones, tx, turn.id):
            return None
        if not parts.turns(tx).restore(turn, row.transcript_key):
            return "present"
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, parts.clock.now())
        placement = self._sanitise(row.placed) if row.placed else None
        decisions = [self._sanitise(decision) for decision in row.decisions]
        if not (placement and self._repository(tx).place_turn(turn.id, placement, decisions)) and (
            placement or is_routed(turn)
        ):
            queue_placing(parts.clock, tx, [turn])
        return "added"

    def _memory(self, tx: Tx, row: FullMemoryRow) -> Outcome | None:
        parts = self._parts
        memory = sanitise_memory(parts.redact, row.memory(), self._project_ids, True)
        if is_forgotten(parts.tombstones, tx, memory.id, memory.text) or (self._has_tombstones and memory.kind in SUMS):
            return None
        if memory.kind == "concept" and memory.state == "live" and self._repository(tx).has_concept(memory):
            return "present"
        outcome = export_repository(parts.analyser, tx).add_memory(memory, parts.clock.now())
        if outcome == "added":
            counts = row.model_dump(include={"first_mention", "mention_count", "uses", "last_used"})
            counts["last_mention"] = to_text(row.last_mention or row.created_at)
            self._repository(tx).restore_counts(memory.id, counts, [mention.model_dump() for mention in row.mentions])
            if memory.state == "live" and memory.kind not in SUMS:
                queue_vectors(tx, "memory", memory.id, parts.clock.now())
        return outcome

    def _side_row(self, tx: Tx, table: SideTable, row: BaseModel) -> Outcome | None:
        if self._has_tombstones and table not in _TABLES_WITHOUT_TEXT:
            return None
        return _outcome(self._repository(tx).add_side_row(table, self._sanitise(row)))


def _outcome(added: bool) -> Outcome:
    return "added" if added else "present"


def _drop_sums(content: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = content.get("memories", [])
    if not isinstance(rows, list):
        return content
    memories = [row for row in cast("list[object]", rows) if _memory_kind(row) not in SUMS]
    return {**content, "memories": memories}


def _memory_kind(row: object) -> object:
    return cast("dict[str, object]", row).get("kind") if isinstance(row, dict) else None


def _is_id_field(name: str) -> bool:
    return name in ("id", "ids", "until", "host") or name.endswith(("_id", "_ids"))


def _redact_json(redact: Callable[[str], str], value: Any) -> Any:
    """A JSON value with every text redacted, except ids."""
    match value:
        case str():
            return redact(value)
        case dict():
            fields = cast("dict[str, Any]", value)
            return {name: item if _is_id_field(name) else _redact_json(redact, item) for name, item in fields.items()}
        case list():
            return [_redact_json(redact, item) for item in cast("list[Any]", value)]
        case _:
            return value


# Import of other programs' data: histories of agents, exports of chats, memories of other programs.
#
# It is processed like a transcript: redacted, stripped of our own injected blocks, and checked against what was
# forgotten. Content already captured by a hook or an earlier run is recognised, so a second run adds nothing. Times
# and projects are kept. Old messages are processed after all other work (`capture.service`).
#
# Unless the user confirms that a file is their own, it has the trust of a web page and produces no rules or
# instructions.

#: Rows per transaction, so that other writes get in between.
_BATCH_MESSAGES: Final = 50
_CONFIRMED_TRUST: Final = {"user": TRUST_PROMPT, "assistant": TRUST_AGENT, "tool": TRUST_TOOL}
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


class ImportPage(Struct, frozen=True, kw_only=True):
    """One page of data to import.

    Attributes:
        source: the agent or program that it comes from.
        trusted: the user confirms that it is their own.
        mark: how far the transcript was read; stored after the rows of this page.
    """

    source: str
    trusted: bool
    turns: Sequence[ImportedTurn] = ()
    memories: Sequence[ImportedMemory] = ()
    mark: TranscriptMark | None = None


class PageResult(Struct, kw_only=True):
    """Counts for a page by outcome.

    The outcomes are `added`; `vouched`, stored before and confirmed by the user now; `present`; `forgotten` here; and
    `off`, in a project without capture.
    """

    turns: Counter[str] = field(default_factory=Counter[str])
    memories: Counter[str] = field(default_factory=Counter[str])

    def to_json(self) -> dict[str, Any]:
        """The response body of the route."""
        tables = {"turns": self.turns, "memories": self.memories}
        return {name: {outcome: counts[outcome] for outcome in PAGE_OUTCOMES} for name, counts in tables.items()}


def import_page(parts: Parts, page: ImportPage) -> PageResult:
    """Store what is new in a page; it is on disk when this returns."""
    result = PageResult()
    disabled = frozenset(parts.readers.here(lambda tx: parts.settings(tx)).disabled_projects)
    for start in range(0, len(page.turns), _BATCH_MESSAGES):
        batch = [
            (turn, _redact_and_cut(parts.redact, parts.metrics, turn))
            for turn in page.turns[start : start + _BATCH_MESSAGES]
        ]
        result.turns.update(
            parts.writer.run_patient(lambda tx, batch=batch: _add_turns(parts, tx, page, batch, disabled))
        )
    if page.memories:
        result.memories.update(_add_memories(parts, page, disabled))
    if page.mark is not None:
        mark = page.mark
        parts.writer.run_patient(lambda tx: _store_mark(parts.clock, tx, page.source, mark))
    parts.work_waiting.set()
    return result


def _redact_and_cut(redact: Redactor, metrics: Metrics, turn: ImportedTurn) -> str:
    """The turn's text, redacted and cut like a captured one."""
    cutter = TextCutter()
    text = cutter.clean_and_cut(turn.text, lambda piece: redact(strip_injected_blocks(piece)))
    metrics.count_cut(CutCounts(events=int(cutter.characters_cut > 0), characters=cutter.characters_cut))
    return text


def marks(tx: Tx, source: str) -> dict[str, int]:
    """How far each transcript of that agent has been read, by path."""
    return {row["path"]: row["byte_offset"] for row in tx.all("transcripts.of_host", {"host": source})}


def _add_turns(
    parts: Parts, tx: Tx, page: ImportPage, batch: Sequence[tuple[ImportedTurn, str]], disabled: frozenset[str]
) -> list[str]:
    now, outcomes, added = parts.clock.now(), list[str](), list[str]()
    projects = _ProjectLookup(tx, now, disabled)
    for imported, text in batch:
        turn = _turn(page, imported, text, now)
        if not text.strip():
            outcomes.append("present")  # only text that we injected ourselves
        elif parts.tombstones.refuses(tx, turn, turn.at if imported.at else None):
            outcomes.append("forgotten")
        elif projects.is_off(imported.project):
            outcomes.append("off")
        else:
            placed = _turn(page, imported, text, now, projects.id_of(imported.project))
            if add_transcript_turn(parts.turns(tx), placed):
                outcomes.append("added")
                added.append(placed.id)
            elif page.trusted and (raised_id := parts.turns(tx).raise_trust(placed)):
                outcomes.append("vouched")
                added.append(raised_id)
            else:
                outcomes.append("present")
    queue_backfill(parts.clock, tx, added)
    return outcomes


class _ProjectLookup:
    """The projects of a batch, each looked up once. A new project is added with its first turn."""

    def __init__(self, tx: Tx, now: datetime, disabled: frozenset[str]) -> None:
        self._tx, self._now, self._disabled = tx, now, disabled
        self._ids: dict[tuple[str, ...], str | None] = {}
        self._is_off: dict[tuple[str, ...], bool] = {}

    def is_off(self, names: tuple[str, ...]) -> bool:
        names = self._full(names)
        if names not in self._is_off:
            self._is_off[names] = is_capture_off(self._tx, names, self._disabled)
        return self._is_off[names]

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


def _turn(page: ImportPage, imported: ImportedTurn, text: str, now: datetime, project: str | None = None) -> Turn:
    at = _time_or_now(imported.at, now)
    key = imported.key if len(imported.key) >= UNIQUE_KEY_LENGTH else f"{imported.session}:{imported.key}"
    return Turn(
        id=new_id(at),
        key=f"tool:{imported.call_id}" if imported.call_id else key,
        scope=Scope(project=project, channel=page.source, session=imported.session),
        host=page.source,
        role=imported.role,
        source=imported.source,
        text=text,
        at=at,
        trust=_CONFIRMED_TRUST[imported.role] if page.trusted else TRUST_TOOL,
        skipped=skip_reason(text, imported.source),
    )


def _time_or_now(seconds: float, now: datetime) -> datetime:
    """The given time; now if it is unknown or in the future."""
    return from_epoch(seconds) if 0 < seconds < now.timestamp() else now


def _store_mark(clock: Clock, tx: Tx, source: str, mark: TranscriptMark) -> None:
    row = {"path": mark.path, "host": source, "session_id": mark.session, "byte_offset": mark.offset}
    tx.run("transcripts.put", row | {"skipped_long": mark.skipped_long, "read_at": to_text(clock.now())})


def _add_memories(parts: Parts, page: ImportPage, disabled: frozenset[str]) -> Counter[str]:
    """Import memories like our own export. Each id is derived from the source, the key and whether it is confirmed.

    Confirming a memory bins the earlier observation of it. A confirmed memory is not added again as an observation.
    """
    imported = [item for item in page.memories if strip_injected_blocks(item.text).strip()]
    observed, confirmed = (
        {item.key: _memory_id(page, item, trusted=trusted) for item in imported} for trusted in (False, True)
    )
    ids = [*observed.values(), *confirmed.values()]
    existing = parts.readers.here(lambda tx: parts.memories(tx).some(ids))

    def build_memories(tx: Tx) -> list[Memory]:
        projects = _ProjectLookup(tx, parts.clock.now(), disabled)
        return [
            _memory(page, item, projects.id_of(item.project), parts.clock.now())
            for item in imported
            if not projects.is_off(item.project) and (page.trusted or confirmed[item.key] not in existing)
        ]

    memories = parts.writer.run_patient(build_memories)
    result = import_filrouge_export(
        parts, {HEADER_KEY: VERSION, "memories": list(map(memory_row, memories))}, trusted=page.trusted
    )
    counts = Counter({name: result.counts["memories"][name] for name in ("added", "present", "forgotten")})
    if page.trusted:
        observations = [item for id_ in observed.values() if (item := existing.get(id_)) and item.state == "live"]
        for item in observations:
            bin_memory(parts, item.id)
        counts["vouched"] = min(len(observations), counts["added"])
        counts["added"] -= counts["vouched"]
    else:
        counts["present"] += sum(id_ in existing for id_ in confirmed.values())
    counts["present"] += len(page.memories) - len(imported)  # only text that we injected ourselves
    counts["off"] = len(page.memories) - counts.total()
    return counts


def _memory_id(page: ImportPage, imported: ImportedMemory, *, trusted: bool) -> str:
    owner = "mine" if trusted else "anybody's"
    content = f"{page.source}\0{owner}\0{imported.key}"
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:26]


def _memory(page: ImportPage, imported: ImportedMemory, project: str | None, now: datetime) -> Memory:
    at = _time_or_now(imported.at, now)
    return Memory(
        id=_memory_id(page, imported, trusted=page.trusted),
        scope=Scope(project=project, channel=page.source, session=imported.place[:4096]),
        scope_name="project" if imported.project else "user",
        kind=imported.kind,
        text=strip_injected_blocks(imported.text).strip(),
        trust=TRUST_PROMPT if page.trusted else TRUST_TOOL,
        created_at=at,
        valid_from=at,
        subject=imported.subject[:200],
        confidence=_CONFIRMED_CONFIDENCE if page.trusted else _OBSERVED_CONFIDENCE,
        made_by=f"import:{page.source}",
    )
