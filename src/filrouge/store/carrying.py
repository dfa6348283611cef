"""Carrying over: everything that is exported, page by page, and what comes back in under the ids that it had.

A row that is here already is left as it is, so the same export read in twice changes nothing. A memory arrives with its
whole life; what it replaced or was replaced by is linked as soon as both are here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from filrouge.clock import to_text
from filrouge.model.memory import SUMS, Memory
from filrouge.model.turn import Turn
from filrouge.ports import Analyser, Tx
from filrouge.store.lives import life_of, place_of
from filrouge.store.memories import Memories
from filrouge.store.memory_rows import row_of
from filrouge.store.memory_writing import MemoryWriter, Origin
from filrouge.store.turns import Turns, turn_from_row
from filrouge.store.words import Words

Outcome = Literal["added", "present"]


class Carrying:
    """Exports and imports rows of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._memories = Memories(tx, analyser)
        self._writer = MemoryWriter(tx, analyser)

    def turns(self, behind: int, limit: int) -> list[tuple[int, Turn]]:
        """Turns behind a number, each with its own."""
        rows = self._tx.all("carrying.turns", {"behind": behind, "limit": limit})
        return [(row["seq"], turn_from_row(row)) for row in rows]

    def memories(self, behind: int, limit: int) -> list[tuple[int, Memory]]:
        """Memories behind a number, with their evidence: not what sums sessions up, nor what waits for review."""
        rows = self._tx.all("carrying.memories", {"behind": behind, "limit": limit})
        found = {one.id: one for one in self._memories.known([row["id"] for row in rows])}
        return [(row["seq"], found[row["id"]]) for row in rows]

    def threads(self, behind: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Threads behind a number, as rows."""
        rows = self._tx.all("carrying.threads", {"behind": behind, "limit": limit})
        return [(row.pop("seq"), row | {"topics": json.loads(row["topics"])}) for row in rows]

    def add_project(self, id_: str, name: str, aliases: Sequence[str], at: datetime) -> Outcome:
        """Add a project with its names; names that another project has stay with that one."""
        known = {row["id"] for row in self._tx.all("projects.all")}
        if id_ not in known:
            self._tx.run("projects.add", {"id": id_, "name": name, "created_at": to_text(at)})
        taken = {row["alias"] for row in self._tx.all("projects.known", {"names": json.dumps([id_, *aliases])})}
        for alias in dict.fromkeys([id_, *aliases]):
            if alias not in taken:
                self._tx.run("projects.alias", {"alias": alias, "project_id": id_})
        return "present" if id_ in known else "added"

    def add_turn(self, turn: Turn) -> Outcome:
        """Add a turn under its own id, unless the same is here, from wherever it came."""
        turns = Turns(self._tx, self._analyser)
        if turns.get([turn.id]) or not turns.add(turn):
            return "present"
        return "added"

    def add_memory(self, memory: Memory, at: datetime) -> Outcome:
        """Add a memory under its own id, with its life, its words and the evidence whose turns are here."""
        here = self._memories.some([id_ for id_ in (memory.id, memory.supersedes, memory.superseded_by) if id_])
        if memory.id in here:
            return "present"
        links = {
            "supersedes": memory.supersedes if memory.supersedes in here else None,
            "superseded_by": memory.superseded_by if memory.superseded_by in here else None,
        }
        memory = replace(memory, **links)
        if memory.state == "live" and memory.key is not None and self._tx.one("memories.core_fact", place_of(memory)):
            memory = replace(memory, key=None)
        life = life_of(memory)
        unborn: dict[str, object] = {"state": "binned", "supersedes": memory.supersedes, "pinned": False}
        unborn |= {"disabled": False, "previous_text": memory.previous_text, "analyser": self._analyser.version}
        self._tx.run("memories.add", row_of(memory) | unborn)
        if memory.kind not in SUMS:  # they repeat other rows, and would make their words look common
            Words(self._tx, self._analyser, "memory").put(memory.id, f"{memory.text} {memory.subject}")
        self._writer.lives.write({memory.id: life}, at)
        known = {one.id for one in Turns(self._tx, self._analyser).get([one.turn_id for one in memory.evidence])}
        for one in memory.evidence:
            if one.turn_id in known:
                cited = {"memory_id": memory.id, "turn_id": one.turn_id, "start": one.span.start, "stop": one.span.end}
                self._tx.run("evidence.add", cited)
        if memory.mention_count > 1:
            mentioned = {"id": memory.id, "at": to_text(memory.last_mention or memory.created_at)}
            self._tx.run("memories.mention", {**mentioned, "by": memory.mention_count - 1})
        origin = Origin(scope=memory.scope, trust=memory.trust, at=at, made_by=memory.made_by, actor="user")
        self._writer.record(
            origin,
            "import",
            memory.id,
            self._writer.said(memory.text, "read in from an export", origin),
            before={memory.id: life.unborn},
            after={memory.id: life},
        )
        return "added"

    def link(self, memory: Memory, at: datetime) -> None:
        """Say by what a memory was replaced that is here and does not know; its successor came after it."""
        found = self._memories.some([id_ for id_ in (memory.id, memory.superseded_by) if id_])
        here = found.get(memory.id)
        if here is None or memory.superseded_by not in found:
            return
        if here.state != "superseded" or here.superseded_by is not None:
            return
        before = life_of(here)
        after = replace(before, superseded_by=memory.superseded_by)
        self._writer.lives.write({here.id: after}, at)
        origin = Origin(scope=here.scope, trust=here.trust, at=at, actor="user")
        payload = {"reason": "what replaced it was read in", "turn": ""}
        self._writer.record(
            origin, "import", here.id, payload, before={here.id: before}, after={here.id: after},
            touches=[memory.superseded_by] if memory.superseded_by else (),
        )  # fmt: skip
