"""Merging: of two memories that say the same, one stays and gets what speaks for the other, which becomes its history.

What goes keeps its words, its evidence and its sessions: it is superseded by the other, so it is found for its own
time, and erasing what it rests on takes it along. What stays gets copies of them, and what was added is noted in the
journal, so that an undo takes exactly that away again. Trust, confidence and words of what stays are its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from filrouge.clock import to_text
from filrouge.ports import Analyser, Tx
from filrouge.store.journal import Journal
from filrouge.store.lives import life_of
from filrouge.store.memory_rows import memory_from_row
from filrouge.store.memory_writing import MemoryWriter, Origin

ACTION = "merge"


class Merging:
    """Merges memories of one database. Whether two are one is for the caller to say."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def merge(self, kept: str, gone: str, origin: Origin, reason: str) -> bool:
        """Let `gone` go into `kept`, in the caller's transaction; False where not both are live."""
        rows = {row["id"]: row for row in self._tx.all("memories.some", {"ids": json.dumps([kept, gone])})}
        if len(rows) < 2 or any(row["state"] != "live" for row in rows.values()):
            return False
        memory = memory_from_row(rows[gone])
        before = life_of(memory)
        after = replace(
            before, state="superseded", valid_to=max(before.valid_from, to_text(origin.at)), superseded_by=kept
        )
        self._writer.lives.write({gone: after}, origin.at)
        merged = self._copied(rows[kept], rows[gone])
        payload = self._writer.said(memory.text, reason, origin) | {"merged": merged}
        self._writer.record(origin, ACTION, gone, payload, before={gone: before}, after={gone: after}, touches=[kept])
        return True

    def take_back(self, merged: Mapping[str, Any]) -> dict[str, Any]:
        """Take away from the kept memory what a merge gave it, or give it again; what the journal is to say of it."""
        kept, back = merged["kept"], -int(merged["by"])
        self._tx.run(
            "memories.merge_mentions",
            {"id": kept, "by": back * merged["mentions"]}
            | {f"{name}_{place}": merged[name][place] for name in ("first", "last") for place in (0, 1)}
            | {"back": back < 0},
        )
        for turn_id, start, stop in merged["evidence"]:
            row = {"memory_id": kept, "turn_id": turn_id, "start": start, "stop": stop}
            self._tx.run("evidence.withdraw" if back < 0 else "evidence.add", row)
        for host, session_id, first_at, last_at in merged["sessions"]:
            row = {"memory_id": kept, "host": host, "session_id": session_id}
            if back < 0:
                self._tx.run("analyses.unmention_once", row)
            else:
                self._tx.run("analyses.mention_between", row | {"first_at": first_at, "last_at": last_at})
        return {**merged, "by": back}

    def was_merged(self, one: str, other: str) -> bool:
        """True where these two were merged once and set apart again: a user said that they are not one."""
        found = Journal(self._tx).of(one)
        return any(entry.action == ACTION and {one, other} <= entry.touches for entry in found)

    def _copied(self, kept: Mapping[str, Any], gone: Mapping[str, Any]) -> dict[str, Any]:
        """Give the kept memory what speaks for the other; what it did not have before."""
        pair = {"kept": kept["id"], "gone": gone["id"]}
        evidence = [[row["turn_id"], row["start"], row["stop"]] for row in self._tx.all("evidence.copy", pair)]
        sessions = [
            [row["host"], row["session_id"], row["first_at"], row["last_at"]]
            for row in self._tx.all("analyses.copy_mentions", pair)
        ]
        first = [kept["first_mention"], min(kept["first_mention"], gone["first_mention"])]
        last = [kept["last_mention"], max(kept["last_mention"], gone["last_mention"])]
        # A concept counts the sessions that speak of it, and one session may speak of both.
        mentions = len(sessions) if kept["kind"] == "concept" else int(gone["mention_count"])
        row = {"id": kept["id"], "by": mentions, "first_0": first[0], "first_1": first[1], "last_0": last[0]}
        self._tx.run("memories.merge_mentions", row | {"last_1": last[1], "back": False})
        return {
            "kept": kept["id"],
            "by": 1,
            "mentions": mentions,
            "first": first,
            "last": last,
            "evidence": evidence,
            "sessions": sessions,
        }
