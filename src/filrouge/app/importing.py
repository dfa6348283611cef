"""Import: our own export comes back, each row once, under the ids that it had.

A file says of itself what it likes. So what is read in is trusted as little as a web page (RELIABILITY 6): it is an
observation, no rule, no preference, no core fact; unless the user says that it is their own export, and then everything
is again what it was. Secrets are taken out once more, and what was forgotten here stays forgotten. A row that cannot be
read is named and counted, and the others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.placing import queue_placing
from filrouge.app.spaces import queue_vectors
from filrouge.errors import BadInput
from filrouge.extraction.units import MASK
from filrouge.model.memory import SUMS, Memory
from filrouge.model.turn import TRUST_TOOL, Turn
from filrouge.ports import Tx
from filrouge.store.carrying import Carrying, Outcome
from filrouge.store.tombstones import Tombstones
from filrouge.transfer.exports import MARK, VERSION, WHOLE_TABLES, MemoryRow, MessageRow, ProjectRow, parsed

#: Rows of one transaction: others write in between.
_TOGETHER: Final = 100
_MOST_PROBLEMS: Final = 100
_OUTCOMES: Final = ("added", "present", "forgotten", "bad")
_USERS_ALONE: Final = frozenset({"rule", "preference"})
_HIDDEN: Final = "it holds a secret"


@dataclass(kw_only=True)
class Imported:
    """What became of the rows of each table, and what was wrong with the first that could not be read."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter[str]() for name in WHOLE_TABLES})
    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    threads: int = 0

    def bad(self, table: str, place: int, problem: str) -> None:
        """Note a row that cannot be read."""
        self.counts[table]["bad"] += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append({"table": table, "place": place, "problem": problem})

    def to_json(self) -> dict[str, Any]:
        """The body of the route."""
        counts = {name: {outcome: own[outcome] for outcome in _OUTCOMES} for name, own in self.counts.items()}
        ever = {name: counts.pop(name) for name in ("projects", "messages", "memories")}
        return {**ever, "beside": counts, "threads_passed_over": self.threads, "problems": self.problems}


def import_export(parts: Parts, exported: object, *, trusted: bool = False) -> Imported:
    """Read an export in.

    Args:
        trusted: the user vouches that it is their own: rules, preferences and core facts come back as such.

    Raises:
        BadInput: it is no export of ours, or of a later version.
    """
    given = checked(exported)
    done = Imported(threads=len(_listed(given, "threads")))
    projects = read_rows(done, given, "projects", ProjectRow)
    turns = [(one.turn()) for one in read_rows(done, given, "messages", MessageRow)]
    memories = [one.memory() for one in read_memories(parts, done, given, MemoryRow)]
    known = add_projects(parts, done, projects)
    clean = [clean_turn(parts, one, known, trusted) for one in turns]
    write_rows(parts, done, "messages", clean, _turn_writer(parts))
    learned = [clean_memory(parts, one, known, trusted) for one in memories]
    write_rows(parts, done, "memories", learned, _memory_writer(parts))
    _link(parts, [one for one in memories if one.superseded_by])
    if done.counts["memories"]["added"]:
        write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return done


def checked(exported: object) -> Mapping[str, Any]:
    """An export that can be read.

    Raises:
        BadInput: it is no export of ours, or of a later version.
    """
    if not isinstance(exported, dict) or MARK not in exported:
        raise BadInput("This is no export of Filrouge.", remedy="`filrouge export` writes one.")
    given = cast("Mapping[str, Any]", exported)
    if given[MARK] != VERSION:
        raise BadInput(f"This export has the version {given[MARK]!r}, and {VERSION} can be read.")
    return given


def add_projects(parts: Parts, done: Imported, projects: Sequence[ProjectRow]) -> set[str]:
    """Add projects; the ids of all that are known then."""
    now = parts.clock.now()

    def write(tx: Tx, row: ProjectRow) -> Outcome:
        return carrying(parts, tx).add_project(row.id, row.name, row.aliases, now)

    write_rows(parts, done, "projects", projects, write)
    return {row["id"] for row in parts.readers.here(lambda tx: tx.all("projects.all"))}


def carrying(parts: Parts, tx: Tx) -> Carrying:
    """What carries rows of this memory over, within a transaction."""
    return Carrying(tx, parts.analyser)


def _listed(given: Mapping[str, Any], table: str) -> Sequence[object]:
    rows = given.get(table, [])
    if not isinstance(rows, list):
        raise BadInput(f"{table} of this export is no list.")
    return cast("list[object]", rows)


def read_rows(
    done: Imported,
    given: Mapping[str, Any],
    table: str,
    model: Any,
    refusal: Callable[[Any], str] | None = None,
) -> list[Any]:
    """The rows of a table as what they stand for; those that cannot be read, or are refused, are noted."""
    found: list[Any] = []
    for place, row in enumerate(_listed(given, table)):
        try:
            read = parsed(row, model)
            if why := refusal(read) if refusal else "":
                done.bad(table, place, why)
            else:
                found.append(read)
        except ValueError as error:
            done.bad(table, place, str(error))
    return found


def read_memories(parts: Parts, done: Imported, given: Mapping[str, Any], model: Any) -> list[Any]:
    """The memories of an export; a statement that holds a secret is noted and teaches nothing."""

    def refusal(row: Any) -> str:
        is_stated = row.kind not in SUMS and row.kind != "note"
        return _HIDDEN if is_stated and MASK.search(parts.redact(row.text)) else ""

    return read_rows(done, given, "memories", model, refusal)


def write_rows(
    parts: Parts, done: Imported, table: str, rows: Sequence[Any], write: Callable[[Tx, Any], Outcome | None]
) -> None:
    """Write rows batch by batch; None is what was forgotten."""
    for place in range(0, len(rows), _TOGETHER):
        batch = rows[place : place + _TOGETHER]
        outcomes = parts.writer.run(lambda tx, batch=batch: [write(tx, row) for row in batch])
        done.counts[table].update(outcome or "forgotten" for outcome in outcomes)


def _link(parts: Parts, replaced: Sequence[Memory]) -> None:
    """Link what was replaced with what came after it."""
    now = parts.clock.now()
    for place in range(0, len(replaced), _TOGETHER):
        batch = replaced[place : place + _TOGETHER]
        parts.writer.run(lambda tx, batch=batch: [carrying(parts, tx).link(one, now) for one in batch])


def _turn_writer(parts: Parts) -> Callable[[Tx, Turn], Outcome | None]:
    def write(tx: Tx, turn: Turn) -> Outcome | None:
        if parts.gate.refuses(tx, turn, turn.at) or buried(parts, tx, turn.id):
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
        if buried(parts, tx, memory.id, memory.text):
            return None
        outcome = carrying(parts, tx).add_memory(memory, parts.clock.now())
        if outcome == "added" and memory.state == "live":
            queue_vectors(tx, "memory", memory.id, parts.clock.now())
        return outcome

    return write


def buried(parts: Parts, tx: Tx, id_: str, text: str = "") -> bool:
    """True for a row that was forgotten here, by its id or its text."""
    stones = parts.gate.stones
    if stones is None or not Tombstones(tx).any():
        return False
    return bool(Tombstones(tx).of([stones.row(id_), *([stones.text(text)] if text else [])]))


def clean_turn(parts: Parts, turn: Turn, known: frozenset[str] | set[str], trusted: bool) -> Turn:
    """A turn without secrets, in a project that is known, and trusted no more than it may be."""
    return replace(
        turn,
        text=parts.redact(turn.text),
        trust=turn.trust if trusted else TRUST_TOOL,
        scope=replace(turn.scope, project=turn.scope.project if turn.scope.project in known else None),
    )


def clean_memory(parts: Parts, memory: Memory, known: frozenset[str] | set[str], trusted: bool) -> Memory:
    """A memory without secrets, in a project that is known, and trusted no more than it may be."""
    clean = replace(
        memory,
        text=parts.redact(memory.text),
        value=parts.redact(memory.value) if memory.value else memory.value,
        previous_text=parts.redact(memory.previous_text) if memory.previous_text else memory.previous_text,
        scope=replace(memory.scope, project=memory.scope.project if memory.scope.project in known else None),
    )
    if trusted:
        return clean
    kind = "fact" if clean.kind in _USERS_ALONE else clean.kind
    return replace(clean, trust=TRUST_TOOL, kind=kind, key=None, value=None, pinned=False, mention_count=1)
