"""The journal: every decision, who made it, from which words, in a chain that shows tampering.

Each entry's hash covers the previous entry's hash and the keyed hash of its own payload, never the payload
itself. So a forgotten payload (payload and key set to null) leaves the chain whole and reads `redacted`,
while any edit, removal or reordering breaks it. Only truncation of the tail needs an anchor elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.ports import Tx
from filrouge.store import seals

_GENESIS = b"\x00" * 32
_TENANT = "local"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What `verify` found: entries read, payloads forgotten, and the first entry that does not hold."""

    entries: int
    redacted: int
    broken_at: int | None
    reason: str

    @property
    def sound(self) -> bool:
        """True if every entry holds."""
        return self.broken_at is None


class Journal:
    """Append, read, verify."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def append(self, *, at: datetime, actor: str, action: str, subject_id: str, payload: Mapping[str, object]) -> None:
        """Record that `actor` did `action` to `subject_id`, in the caller's transaction."""
        last = self._tx.one("journal.last")
        sealed = seals.seal(payload)
        head = {"at": to_text(at), "actor": actor, "action": action, "subject_id": subject_id}
        self._tx.run(
            "journal.append",
            head
            | {
                "payload": json.dumps(dict(payload), ensure_ascii=False),
                "payload_key": sealed.key,
                "payload_hash": sealed.hash,
                "hash": _link(last["hash"] if last else _GENESIS, head | {"tenant": _TENANT}, sealed.hash),
            },
        )

    def of(self, subject_id: str) -> list[dict[str, Any]]:
        """Every entry about one memory, oldest first, with its payload or None where forgotten."""
        rows = self._tx.all("journal.of", {"subject_id": subject_id})
        return [row | {"payload": json.loads(row["payload"]) if row["payload"] else None} for row in rows]

    def verify(self) -> Verdict:
        """Walk the whole chain."""
        before, entries, redacted = _GENESIS, 0, 0
        for row in self._tx.all("journal.everything"):
            entries += 1
            head = {name: row[name] for name in ("tenant", "at", "actor", "action", "subject_id")}
            if row["hash"] != _link(before, head, row["payload_hash"]):
                return Verdict(entries=entries, redacted=redacted, broken_at=row["seq"], reason="chain broken")
            if row["payload"] is None:
                redacted += 1
            elif not _intact(row):
                return Verdict(entries=entries, redacted=redacted, broken_at=row["seq"], reason="payload changed")
            before = row["hash"]
        return Verdict(entries=entries, redacted=redacted, broken_at=None, reason="")


def _intact(row: Mapping[str, Any]) -> bool:
    try:
        payload = json.loads(row["payload"])
    except ValueError:
        return False
    return seals.holds(row["payload_key"] or b"", row["payload_hash"], payload)


def _link(before: bytes, head: Mapping[str, str], payload_hash: bytes) -> bytes:
    return hashlib.sha256(before + seals.canonical(head) + payload_hash).digest()
