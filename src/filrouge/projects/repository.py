"""Projects as rows: how much each holds, its names, and one project that goes into another.

A merge moves rows and rewrites none of their words. What a memory's seal covers names its project, so a memory that
moves is sealed anew, unless its seal was broken before: a move must not make an altered memory look whole.
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

#: What refers to a project; a row that still did would keep it from going.
_TAKING = (
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
    """What went from one project into another: the ids of its rows, and of those that ended with it."""

    turns: tuple[str, ...]
    memories: tuple[str, ...]
    replaced: tuple[str, ...]


class ProjectRows:
    """The projects of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser

    def told(self) -> list[dict[str, Any]]:
        """Every project with its names and what it holds, the one spoken in last first."""
        names = Projects(self._tx)
        return [row | {"aliases": names.aliases(row["id"])} for row in self._tx.all("projects.told")]

    def owners(self, names: Sequence[str]) -> dict[str, str]:
        """Whose these names are, of those that are anybody's."""
        rows = self._tx.all("projects.known", {"names": json.dumps(list(names))})
        return {row["alias"]: row["project_id"] for row in rows if row["alias"] in names}

    def add_names(self, project: str, names: Sequence[str], origin: Origin) -> None:
        """Know a project by more names; they are nobody's yet."""
        for alias in names:
            self._tx.run("projects.alias", {"alias": alias, "project_id": project})
        self._note(origin, "project_alias", project, {"names": list(names), "reason": "by hand"})

    def doubled(self, source: str, into: str) -> list[tuple[Memory, Memory]]:
        """What both projects say of one key, and the concepts of both: which of two stands, and which ends."""
        pairs = self._tx.all("projects.doubled", {"source": source, "into": into})
        found = Memories(self._tx, self._analyser).some([id_ for pair in pairs for id_ in (pair["one"], pair["other"])])
        both = [sorted((found[pair["one"]], found[pair["other"]]), key=_weight) for pair in pairs]
        return [(stands, ends) for ends, stands in both]

    def rows_of(self, project: str) -> Moved:
        """The ids of what would move."""
        asked = {"project_id": project}
        return Moved(
            turns=tuple(row["id"] for row in self._tx.all("projects.turns", asked)),
            memories=tuple(row["id"] for row in self._tx.all("projects.memories", asked)),
            replaced=(),
        )

    def merge(self, source: str, into: str, origin: Origin) -> Moved:
        """Let all of one project go into another; the emptied one is gone, and its names are the other's."""
        moved = self.rows_of(source)
        ended = [self._end(stands, ends, origin) for stands, ends in self.doubled(source, into)]
        self._tx.many("projects.place", self._sealed(source, into))
        ways = {"source": source, "into": into}
        for query in _TAKING:
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
        """Every memory of a project as it is sealed in the other."""
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
        # It touches no memory: else no earlier decision about one could be undone without it, which has no undo.
        Journal(self._tx).append(
            at=origin.at, actor=origin.actor, action=action, subject_id=project, payload={**payload, "turn": ""}
        )


def _weight(memory: Memory) -> tuple[bool, str, str]:
    return memory.pinned, to_text(memory.valid_from), memory.id
