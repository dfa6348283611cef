"""Export and import queries: pages of rows out, and rows in under their original ids.

A row that already exists is left unchanged, so importing an export twice changes nothing. A memory is imported with
its whole lifecycle; links to memories it replaced or that replaced it are set once both exist. `ExportRepository`
handles messages and memories. `FullExportRepository` handles everything around them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal

from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.capture.repository import Turns, turn_from_row
from filrouge.core.clock import to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.memories.models import SUMS, Memory
from filrouge.memories.repository import Memories, MemoryWriter, Origin, row_of, state_of, uniqueness_columns
from filrouge.search.repository import FullTextIndex

Outcome = Literal["added", "present"]


class ExportRepository:
    """Exports and imports projects, turns, memories and threads of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._memories = Memories(tx, analyser)
        self._writer = MemoryWriter(tx, analyser)

    def turns(self, behind: int, limit: int) -> list[tuple[int, Turn]]:
        """Turns numbered above `behind`, each with its number."""
        rows = self._tx.all("carrying.turns", {"behind": behind, "limit": limit})
        return [(row["seq"], turn_from_row(row)) for row in rows]

    def memories(self, behind: int, limit: int) -> list[tuple[int, Memory]]:
        """Memories numbered above `behind`, with evidence; no summaries, no concepts, none waiting for review."""
        rows = self._tx.all("carrying.memories", {"behind": behind, "limit": limit})
        found = {memory.id: memory for memory in self._memories.known([row["id"] for row in rows])}
        return [(row["seq"], found[row["id"]]) for row in rows]

    def threads(self, behind: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Threads numbered above `behind`, as rows."""
        rows = self._tx.all("carrying.threads", {"behind": behind, "limit": limit})
        return [(row.pop("seq"), row | {"topics": json.loads(row["topics"])}) for row in rows]

    def add_project(self, id_: str, name: str, aliases: Sequence[str], at: datetime) -> Outcome:
        """Add a project with its names; names that belong to another project stay with that one."""
        existing_ids = {row["id"] for row in self._tx.all("projects.all")}
        if id_ not in existing_ids:
            self._tx.run("projects.add", {"id": id_, "name": name, "created_at": to_text(at)})
        existing_aliases = {
            row["alias"] for row in self._tx.all("projects.known", {"names": json.dumps([id_, *aliases])})
        }
        for alias in dict.fromkeys([id_, *aliases]):
            if alias not in existing_aliases:
                self._tx.run("projects.alias", {"alias": alias, "project_id": id_})
        return "present" if id_ in existing_ids else "added"

    def add_turn(self, turn: Turn) -> Outcome:
        """Add a turn under its own id, unless this database has it already, also under another id."""
        turns = Turns(self._tx, self._analyser)
        if turns.get([turn.id]) or not turns.add(turn):
            return "present"
        return "added"

    def add_memory(self, memory: Memory, at: datetime) -> Outcome:
        """Add a memory under its own id with its lifecycle, its tokens, and the evidence whose turns exist here."""
        existing = self._memories.some([id_ for id_ in (memory.id, memory.supersedes, memory.superseded_by) if id_])
        if memory.id in existing:
            return "present"
        links = {
            "supersedes": memory.supersedes if memory.supersedes in existing else None,
            "superseded_by": memory.superseded_by if memory.superseded_by in existing else None,
        }
        memory = replace(memory, **links)
        if (
            memory.state == "live"
            and memory.key is not None
            and self._tx.one("memories.core_fact", uniqueness_columns(memory))
        ):
            memory = replace(memory, key=None)
        state = state_of(memory)
        initial: dict[str, object] = {"state": "binned", "supersedes": memory.supersedes, "pinned": False}
        initial |= {"disabled": False, "previous_text": memory.previous_text, "analyser": self._analyser.version}
        self._tx.run("memories.add", row_of(memory) | initial)
        if memory.kind not in SUMS:  # they repeat other rows and would inflate word frequencies
            FullTextIndex(self._tx, self._analyser, "memory").put(memory.id, f"{memory.text} {memory.subject}")
        self._writer.states.write({memory.id: state}, at)
        turn_ids = {
            turn.id for turn in Turns(self._tx, self._analyser).get([cited.turn_id for cited in memory.evidence])
        }
        for one in memory.evidence:
            if one.turn_id in turn_ids:
                cited = {"memory_id": memory.id, "turn_id": one.turn_id, "start": one.span.start, "stop": one.span.end}
                self._tx.run("evidence.add", cited)
        if memory.mention_count > 1:
            last_mention = {"id": memory.id, "at": to_text(memory.last_mention or memory.created_at)}
            self._tx.run("memories.mention", {**last_mention, "by": memory.mention_count - 1})
        origin = Origin(scope=memory.scope, trust=memory.trust, at=at, made_by=memory.made_by, actor="user")
        self._writer.record(
            origin,
            "import",
            memory.id,
            self._writer.statement_payload(memory.text, "read in from an export", origin),
            before={memory.id: state.before_creation},
            after={memory.id: state},
        )
        return "added"

    def link(self, memory: Memory, at: datetime) -> None:
        """Set the missing successor of a superseded memory that was imported before it."""
        memories = self._memories.some([id_ for id_ in (memory.id, memory.superseded_by) if id_])
        stored = memories.get(memory.id)
        if stored is None or memory.superseded_by not in memories:
            return
        if stored.state != "superseded" or stored.superseded_by is not None:
            return
        before = state_of(stored)
        after = replace(before, superseded_by=memory.superseded_by)
        self._writer.states.write({stored.id: after}, at)
        origin = Origin(scope=stored.scope, trust=stored.trust, at=at, actor="user")
        payload = {"reason": "what replaced it was read in", "turn": ""}
        self._writer.record(
            origin, "import", stored.id, payload, before={stored.id: before}, after={stored.id: after},
            touches=[memory.superseded_by] if memory.superseded_by else (),
        )  # fmt: skip


# A full export: the data that `ExportRepository` leaves to be recomputed.
#
# Threads with their ancestry, the placement of messages and the reasons, bridges, session analyses and syntheses. Most
# of it could be recomputed, but not identically, and not what the user named, moved or removed. Rows refer to rows of
# other tables by id, never by row number, because numbers differ between databases.

Row = dict[str, Any]
SideTable = Literal["bridges", "sessions", "syntheses", "readings", "days"]
#: The cursor before a table's first page: its key is an id, or a JSON list of two texts.
FIRST_CURSOR: Final[Mapping[SideTable, str]] = {
    "bridges": "", "sessions": "null", "syntheses": "", "readings": "null", "days": "null",
}  # fmt: skip
_PAGE_QUERIES: Final[Mapping[SideTable, str]] = {
    "bridges": "carrying.bridges", "sessions": "carrying.sessions", "syntheses": "carrying.syntheses",
    "readings": "carrying.readings", "days": "carrying.days",
}  # fmt: skip
#: Columns that hold JSON; an export contains the decoded value.
_JSON_COLUMN: Final[Mapping[str, str]] = {"sessions": "analysis", "syntheses": "content"}


class FullExportRepository:
    """Exports and imports everything around the messages and memories of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._memories = Memories(tx, analyser)

    def counts(self) -> dict[str, int]:
        """The current number of rows of each table."""
        return dict(self._tx.one("carrying.counts") or {})

    def thread_order(self) -> list[str]:
        """The ids of all threads, each after its parent and the thread it was merged into."""
        rows = self._tx.all("carrying.lineage")
        ancestors = {row["id"]: {id_ for id_ in (row["parent_id"], row["merged_into"]) if id_} for row in rows}
        try:
            return list(TopologicalSorter(ancestors).static_order())
        except CycleError:  # no operation creates a cycle; the import drops such a link
            return [row["id"] for row in rows]

    def threads(self, ids: Sequence[str]) -> list[Row]:
        """These threads with all their columns."""
        rows = self._tx.all("carrying.whole_threads", {"ids": json.dumps(list(ids))})
        return [_without(row, "seq", "tenant") | _load_json(row, "topics", "drifts") for row in rows]

    def messages(self, behind: int, limit: int) -> list[tuple[int, tuple[Turn, Row]]]:
        """Turns numbered above `behind`, each with its transcript key, thread and placement decisions."""
        rows = self._tx.all("carrying.turns", {"behind": behind, "limit": limit})
        ids = json.dumps([row["id"] for row in rows])
        placements = {placed["turn_id"]: placed for placed in self._tx.all("carrying.placed", {"ids": ids})}
        decisions: dict[str, list[Row]] = {}
        for decision in self._tx.all("thread_decisions.about", {"ids": ids}):
            decoded = {"borderline": bool(decision["borderline"])} | _load_json(decision, "weighed")
            decisions.setdefault(decision["turn_id"], []).append(_without(decision, "seq", "turn_id") | decoded)
        return [
            (
                row["seq"],
                (
                    turn_from_row(row),
                    {
                        "transcript_key": row["transcript_key"],
                        "placed": _placement(placements.get(row["id"])),
                        "decisions": decisions.get(row["id"], []),
                    },
                ),
            )
            for row in rows
        ]

    def memories(self, behind: int, limit: int) -> list[tuple[int, tuple[Memory, Row]]]:
        """Memories of all kinds numbered above `behind`, with their counters."""
        rows = self._tx.all("carrying.whole_memories", {"behind": behind, "limit": limit})
        ids = [row["id"] for row in rows]
        found = {memory.id: memory for memory in self._memories.known(ids)}
        mentions: dict[str, list[Row]] = {}
        for mention in self._tx.all("carrying.mentions", {"ids": json.dumps(ids)}):
            mentions.setdefault(mention["memory_id"], []).append(_without(mention, "memory_id"))
        return [
            (
                row["seq"],
                (found[row["id"]], _without(row, "seq", "id") | {"mentions": mentions.get(row["id"], [])}),
            )
            for row in rows
        ]

    def links(self, behind: int, limit: int) -> list[tuple[int, Row]]:
        """Memories numbered above `behind` that refer to a later one."""
        rows = self._tx.all("carrying.links", {"behind": behind, "limit": limit})
        return [(row.pop("seq"), row) for row in rows]

    def side_rows(self, table: SideTable, behind: str, limit: int) -> list[tuple[str, Row]]:
        """Rows of a table after a key."""
        rows = self._tx.all(_PAGE_QUERIES[table], {"behind": behind, "limit": limit})
        return [
            (row.pop("behind"), row | (_load_json(row, _JSON_COLUMN[table]) if table in _JSON_COLUMN else {}))
            for row in rows
        ]

    def known_threads(self, ids: Collection[str | None]) -> set[str]:
        """The ids among these of threads that exist here."""
        parameters = json.dumps([id_ for id_ in ids if id_])
        return {row["id"] for row in self._tx.all("threads.title_of", {"ids": parameters})}

    def add_thread(self, row: Mapping[str, Any]) -> bool:
        """Add a thread unless it exists; references to threads that do not exist here are dropped."""
        existing_ids = self.known_threads([row["id"], row["parent_id"], row["merged_into"]])
        if row["id"] in existing_ids:
            return False
        relatives = {name: row[name] if row[name] in existing_ids else None for name in ("parent_id", "merged_into")}
        self._tx.run("threads.add", {**row, **relatives, **_dump_json(row, "topics", "drifts")})
        return True

    def place_turn(self, turn_id: str, placement: Mapping[str, Any], decisions: Sequence[Mapping[str, Any]]) -> bool:
        """Restore a new turn's thread and placement decisions; False if the thread does not exist here."""
        existing_ids = self.known_threads(
            [placement["thread_id"], *(decision[name] for decision in decisions for name in ("thread_id", "parent_id"))]
        )
        if placement["thread_id"] not in existing_ids:
            return False
        self._tx.run("threads.place", {**placement, "turn_id": turn_id, **_dump_json(placement, "topics")})
        for decision in decisions:
            if decision["thread_id"] in existing_ids:
                parent = decision["parent_id"] if decision["parent_id"] in existing_ids else None
                columns = {"turn_id": turn_id, "parent_id": parent} | _dump_json(decision, "weighed")
                self._tx.run("thread_decisions.add", {**decision, **columns})
        return True

    def has_concept(self, memory: Memory) -> bool:
        """True if there is a live concept of this name for the same user and project."""
        project = memory.scope.project if memory.scope_name == "project" else None
        parameters = {"user_id": memory.scope.user, "project_id": project, "subject": memory.subject}
        return self._tx.one("carrying.concept", parameters) is not None

    def restore_counts(self, memory_id: str, counts: Mapping[str, Any], mentions: Sequence[Mapping[str, Any]]) -> None:
        """Restore a memory's counters and mentions."""
        self._tx.run("carrying.counted", {**counts, "id": memory_id})
        for mention in mentions:
            self._tx.run("analyses.mention_between", {**mention, "memory_id": memory_id})

    def link(self, row: Mapping[str, Any], at: datetime) -> bool:
        """Link a memory that was imported before the one it refers to; False if there is nothing to link."""
        found = self._memories.some([id_ for id_ in (row["id"], row["supersedes"], row["superseded_by"]) if id_])
        stored = found.get(row["id"])
        if stored is None:
            return False
        memory = stored
        if stored.state == "superseded" and stored.superseded_by is None and row["superseded_by"] in found:
            memory = replace(memory, superseded_by=row["superseded_by"])
        older = found.get(row["supersedes"] or "")
        if stored.supersedes is None and older is not None and older.superseded_by == stored.id:
            memory = replace(memory, supersedes=older.id)
        if memory == stored:
            return False
        writer = MemoryWriter(self._tx, self._analyser)
        before, after = state_of(stored), state_of(memory)
        writer.states.write({stored.id: after}, at)
        writer.record(
            Origin(scope=stored.scope, trust=stored.trust, at=at, actor="user"),
            "import",
            stored.id,
            {"reason": "what it names was read in", "turn": ""},
            before={stored.id: before},
            after={stored.id: after},
            touches=[id_ for id_ in (memory.supersedes, memory.superseded_by) if id_],
        )
        return True

    def add_side_row(self, table: SideTable, row: Mapping[str, Any]) -> bool:
        """Add a row unless it, or an equivalent one, exists or what it refers to does not."""
        match table:
            case "bridges":
                if len(self.known_threads([row["source_id"], row["target_id"]])) < 2:
                    return False
                return bool(self._tx.run("carrying.add_bridge", row))
            case "sessions":
                return bool(self._tx.run("carrying.add_session", {**row, **_dump_json(row, "analysis")}))
            case "syntheses":
                if row["thread_id"] and not self.known_threads([row["thread_id"]]):
                    return False
                return bool(self._tx.run("carrying.add_synthesis", {**row, **_dump_json(row, "content")}))
            case "readings":
                return bool(self._tx.run("carrying.add_reading", row))
            case "days":
                return bool(self._tx.run("active_days.note", row))


def _placement(row: Row | None) -> Row | None:
    return _without(row, "turn_id") | _load_json(row, "topics") if row else None


def _without(row: Mapping[str, Any], *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _load_json(row: Mapping[str, Any], *names: str) -> Row:
    return {name: json.loads(row[name]) for name in names}


def _dump_json(row: Mapping[str, Any], *names: str) -> Row:
    return {name: json.dumps(row[name], ensure_ascii=False) for name in names}
