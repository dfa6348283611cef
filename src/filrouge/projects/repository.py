"""Projects in the database: their sizes and names, and merging one into another.

A merge moves rows and does not change their text. A memory's seal covers its project, so a moved memory is sealed
again, unless its seal was already broken: a move must not make an altered memory look intact.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from filrouge.capture.repository import Projects
from filrouge.core.clock import to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.maintenance.garden_service import Merging
from filrouge.memories.models import Memory
from filrouge.memories.repository import Memories, MemoryWriter, Origin, content_of, intact, life_of, memory_from_row
from filrouge.runtime import journal
from filrouge.runtime.journal import Journal

#: The queries that move rows which refer to a project. A row left behind would block the project's deletion.
_MOVE_QUERIES = (
    "projects.take_names",
    "projects.take_events",
    "projects.take_turns",
    "projects.take_threads",
    "projects.take_syntheses",
    "projects.take_recalls",
    "projects.take_jobs",
    "projects.take_days",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """The ids of rows that moved from one project to another, and of memories that the merge ended."""

    turns: tuple[str, ...]
    memories: tuple[str, ...]
    replaced: tuple[str, ...]


class ProjectRows:
    """The projects of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser

    def told(self) -> list[dict[str, Any]]:
        """Return every project with its names and sizes, the most recently used first."""
        names = Projects(self._tx)
        return [row | {"aliases": names.aliases(row["id"])} for row in self._tx.all("projects.told")]

    def owners(self, names: Sequence[str]) -> dict[str, str]:
        """Return the project ids of those names that belong to a project."""
        rows = self._tx.all("projects.known", {"names": json.dumps(list(names))})
        return {row["alias"]: row["project_id"] for row in rows if row["alias"] in names}

    def add_names(self, project: str, names: Sequence[str], origin: Origin) -> None:
        """Add names to a project; the names must not belong to any project yet."""
        for alias in names:
            self._tx.run("projects.alias", {"alias": alias, "project_id": project})
        self._note(origin, "project_alias", project, {"names": list(names), "reason": "by hand"})

    def doubled(self, source: str, into: str) -> list[tuple[Memory, Memory]]:
        """Return the memories that conflict after a merge: same key, or concepts of the same subject.

        Returns:
            Pairs of the memory that stays and the memory that ends.
        """
        pairs = self._tx.all("projects.doubled", {"source": source, "into": into})
        found = Memories(self._tx, self._analyser).some([id_ for pair in pairs for id_ in (pair["one"], pair["other"])])
        both = [sorted((found[pair["one"]], found[pair["other"]]), key=_priority) for pair in pairs]
        return [(stands, ends) for ends, stands in both]

    def rows_of(self, project: str) -> Moved:
        """Return the ids of the rows that would move."""
        asked = {"project_id": project}
        return Moved(
            turns=tuple(row["id"] for row in self._tx.all("projects.turns", asked)),
            memories=tuple(row["id"] for row in self._tx.all("projects.memories", asked)),
            replaced=(),
        )

    def merge(self, source: str, into: str, origin: Origin) -> Moved:
        """Move all rows and names of one project to another, and delete the emptied project."""
        moved = self.rows_of(source)
        ended = [self._end(stands, ends, origin) for stands, ends in self.doubled(source, into)]
        self._tx.many("projects.place", self._sealed(source, into))
        ways = {"source": source, "into": into}
        for query in _MOVE_QUERIES:
            self._tx.run(query, ways)
        self._tx.run("projects.drop_days", {"project_id": source})
        self._tx.run("projects.alias", {"alias": source, "project_id": into})
        self._tx.run("projects.drop", {"project_id": source})
        counts = {"turns": len(moved.turns), "memories": len(moved.memories), "replaced": ended}
        self._note(origin, "project_merge", into, {"source": source, "reason": "two names of one project"} | counts)
        return replace(moved, replaced=tuple(ended))

    def _end(self, stands: Memory, ends: Memory, origin: Origin) -> str:
        reason = "two projects became one"
        if ends.kind == "concept":
            Merging(self._tx, self._analyser).merge(stands.id, ends.id, origin, reason)
            return ends.id
        writer, before = MemoryWriter(self._tx, self._analyser), life_of(ends)
        at = max(before.valid_from, to_text(origin.at))
        after = replace(before, state="superseded", valid_to=at, superseded_by=stands.id)
        writer.lives.write({ends.id: after}, origin.at)
        said = writer.said(ends.text, reason, origin)
        writer.record(
            origin, "merge", ends.id, said, before={ends.id: before}, after={ends.id: after}, touches=[stands.id]
        )
        return ends.id

    def _sealed(self, source: str, into: str) -> list[dict[str, Any]]:
        """Return the new project and seal for every memory of a project."""
        found = list[dict[str, Any]]()
        for row in self._tx.all("projects.memories", {"project_id": source}):
            key, digest = row["row_key"], row["row_hash"]
            if intact(row):
                memory = memory_from_row(row)
                sealed = journal.seal(content_of(replace(memory, scope=replace(memory.scope, project=into))))
                key, digest = sealed.key, sealed.hash
            found.append({"id": row["id"], "project_id": into, "row_key": key, "row_hash": digest})
        return found

    def _note(self, origin: Origin, action: str, project: str, payload: dict[str, Any]) -> None:
        # The entry touches no memory. A project action cannot be undone, and would otherwise block undoing earlier
        # decisions about the memory.
        Journal(self._tx).append(
            at=origin.at, actor=origin.actor, action=action, subject_id=project, payload={**payload, "turn": ""}
        )


def _priority(memory: Memory) -> tuple[bool, str, str]:
    return memory.pinned, to_text(memory.valid_from), memory.id
