"""Import of a whole export: besides what `importing` reads, everything around it comes back as it was, so that nothing
is placed, named or tied anew and nothing that a person named, moved or removed is lost.

That is for the user's own: of a file that nobody vouches for, messages and memories alone are read, as observations,
and the rest is made anew. It is made anew as well where something was forgotten here: titles, summaries and analyses
repeat words of messages, and no tombstone knows them by their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel

from filrouge.app.importing import (
    Imported,
    add_projects,
    buried,
    carrying,
    checked,
    clean_memory,
    clean_turn,
    import_export,
    read_memories,
    read_rows,
    write_rows,
)
from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.placing import queue_placing
from filrouge.app.spaces import queue_vectors
from filrouge.app.thread_upkeep import is_routed
from filrouge.clock import to_text
from filrouge.model.memory import SUMS
from filrouge.ports import Tx
from filrouge.store.carrying import Outcome
from filrouge.store.tombstones import Tombstones
from filrouge.store.whole import FIRST, Beside, Whole
from filrouge.transfer.exports import FORM, MODELS, WholeMemoryRow, WholeMessageRow

_BESIDE: Final[tuple[Beside, ...]] = tuple(FIRST)
#: What was read in sessions is read again from messages; the days hold no words, so they come back in any case.
_WORDLESS: Final = frozenset({"days", "links"})


def import_any(parts: Parts, exported: object, *, trusted: bool = False) -> Imported:
    """Read an export in, whole or not.

    Args:
        trusted: the user vouches that it is their own.

    Raises:
        BadInput: it is no export of ours, or of a later version.
    """
    given = checked(exported)
    if given.get("form") != FORM:
        return import_export(parts, given, trusted=trusted)
    if not trusted:
        return import_export(parts, _without_sums(given))
    return _Importing(parts, given).done


class _Importing:
    """Reads one piece in; each table before those whose rows name its own."""

    def __init__(self, parts: Parts, given: Mapping[str, Any]) -> None:
        self.done = Imported()
        self._parts = parts
        self._given = given
        self._forgetful = parts.readers.here(lambda tx: Tombstones(tx).any())
        self._known = add_projects(parts, self.done, self._rows("projects"))
        self._threads()
        self._write("messages", self._message)
        memories = read_memories(parts, self.done, given, MODELS["memories"])
        write_rows(parts, self.done, "memories", memories, self._memory)
        now = parts.clock.now()
        self._write("links", lambda tx, row: _outcome(self._whole(tx).link(row.model_dump(), now)))
        for table in _BESIDE:
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
        """A row without secrets, in a project that is known."""
        clean = cast("dict[str, Any]", _redacted(self._parts.redact, row.model_dump()))
        if clean.get("project_id") not in self._known and "day" not in clean and "project_id" in clean:
            clean["project_id"] = None
        return clean

    def _threads(self) -> None:
        def write(tx: Tx, row: BaseModel) -> Outcome | None:
            return None if self._forgetful else _outcome(self._whole(tx).add_thread(self._clean(row)))

        self._write("threads", write)

    def _message(self, tx: Tx, row: WholeMessageRow) -> Outcome | None:
        parts = self._parts
        turn = clean_turn(parts, row.turn(), self._known, True)
        if parts.gate.refuses(tx, turn, turn.at) or buried(parts, tx, turn.id):
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

    def _memory(self, tx: Tx, row: WholeMemoryRow) -> Outcome | None:
        parts = self._parts
        memory = clean_memory(parts, row.memory(), self._known, True)
        if buried(parts, tx, memory.id, memory.text) or (self._forgetful and memory.kind in SUMS):
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

    def _row_beside(self, tx: Tx, table: Beside, row: BaseModel) -> Outcome | None:
        if self._forgetful and table not in _WORDLESS:
            return None
        return _outcome(self._whole(tx).add_beside(table, self._clean(row)))


def _outcome(added: bool) -> Outcome:
    return "added" if added else "present"


def _without_sums(given: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = given.get("memories", [])
    if not isinstance(rows, list):
        return given
    kept = [one for one in cast("list[object]", rows) if _kind(one) not in SUMS]
    return {**given, "memories": kept}


def _kind(row: object) -> object:
    return cast("dict[str, object]", row).get("kind") if isinstance(row, dict) else None


def _is_id(name: str) -> bool:
    return name in ("id", "ids", "until", "host") or name.endswith(("_id", "_ids"))


def _redacted(redact: Callable[[str], str], value: Any) -> Any:
    """A value of JSON with every text in it redacted."""
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
