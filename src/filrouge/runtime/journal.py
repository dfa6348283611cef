"""The journal: every decision, who made it and from which words, in a hash chain; and the seals of rows.

Each entry's hash covers the previous entry's hash and the keyed hash of its own payload, never the payload itself. So
a forgotten payload (payload and key set to null) leaves the chain valid and counts as redacted. Any edit, removal or
reordering breaks the chain. Only truncating the end goes undetected without an external anchor.
`log_decision` also writes decisions to the log, one line each, without any of the user's words.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Tx
from filrouge.core.rows import pick_columns, require_row
from filrouge.runtime.feed_messages import EventCaptured, EventSettled, LiveMessage

# The decision log: messages of the live feed, one line each at info level.
#
# A line has no words of the user. The reason for a decision is in the journal entry, where it may quote the user and
# where forgetting finds it; `filrouge why` shows it.

_LOG: Final = logging.getLogger("filrouge.decisions")
_PREFIX: Final = "ws:"


def is_decision_log_enabled() -> bool:
    """Return True if decisions are logged."""
    return _LOG.isEnabledFor(logging.INFO)


def log_decision(message: LiveMessage) -> None:
    """Log one message, if it is a decision. Captured and normally processed events decide nothing and are skipped."""
    if not is_decision_log_enabled() or isinstance(message, EventCaptured):
        return
    if isinstance(message, EventSettled) and message.state in ("done", "forgotten"):
        return
    fields = message.to_json()
    kind = str(fields.pop("type")).removeprefix(_PREFIX)
    if "kind" in fields:
        fields["job"] = fields.pop("kind")
    line = " ".join(f"{name}={_render_value(value)}" for name, value in fields.items() if value not in ("", None, ()))
    _LOG.info("%s %s", kind, line, extra={"decision": {"kind": kind, **fields}})


def _render_value(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    text = str(value)
    return f'"{text}"' if " " in text else text


# Seals detect changed rows and allow forgetting.
#
# A sealed row stores a random key and HMAC-SHA-256(key, content). Silent corruption breaks the seal; SQLite's own
# checks mostly miss it. The journal's chain contains only such hashes. Forgetting destroys payload and key: the
# remaining hash reveals nothing, and the chain still verifies.


class Seal(Struct, frozen=True, kw_only=True):
    """A row's key and the keyed hash of its content, 32 bytes each."""

    key: bytes
    hash: bytes


def canonical(content: Mapping[str, object]) -> bytes:
    """Return the unique byte form of a row's content: JSON with sorted keys."""
    return json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode()


def seal(content: Mapping[str, object]) -> Seal:
    """Seal `content` with a new random key."""
    key = secrets.token_bytes(32)
    return Seal(key=key, hash=seal_digest(key, content))


def seal_digest(key: bytes, content: Mapping[str, object]) -> bytes:
    """Return the HMAC-SHA-256 of the content's canonical form."""
    return hmac.new(key, canonical(content), hashlib.sha256).digest()


def matches_seal(key: bytes, expected: bytes, content: Mapping[str, object]) -> bool:
    """Return True if the content matches a seal.

    Args:
        key: the key of the seal.
        expected: the hash of the seal.
    """
    return hmac.compare_digest(seal_digest(key, content), expected)


# The journal and its hash chain.

#: The hash before the first entry.
GENESIS: Final = b"\x00" * 32
_TENANT = "local"


class JournalReport(Struct, frozen=True, kw_only=True):
    """The result of `verify`.

    Attributes:
        entries: number of entries read.
        redacted: number of forgotten payloads among them.
        broken_at: the number of the first broken entry; None if the chain is intact.
        reason: what is wrong with that entry; empty if none is broken.
    """

    entries: int
    redacted: int
    broken_at: int | None
    reason: str

    @property
    def sound(self) -> bool:
        """True if no entry is broken."""
        return self.broken_at is None


class Entry(Struct, frozen=True, kw_only=True):
    """A journal entry.

    Attributes:
        seq: its number.
        actor: who made the decision, such as `user`.
        subject_id: the id of the memory, thread or other row that it is about.
        touches: every memory it mentions, including its subject.
        payload: details of the decision; None if they were forgotten.
    """

    seq: int
    at: datetime
    actor: str
    action: str
    subject_id: str
    touches: frozenset[str]
    payload: Mapping[str, Any] | None

    @property
    def undoes(self) -> int | None:
        """The number of the entry that this one undid, or None."""
        return self.payload.get("undoes") if self.payload else None


class Journal:
    """The journal of one database: append, read, verify."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def append(
        self,
        *,
        at: datetime,
        actor: str,
        action: str,
        subject_id: str,
        payload: Mapping[str, object],
        touches: Iterable[str] = (),
    ) -> int:
        """Record that `actor` did `action` to `subject_id`, in the caller's transaction; returns the entry's number.

        Args:
            touches: other memories that this changed or was based on.
        """
        last = self._tx.one("journal.last")
        payload_seal = seal(payload)
        head = {"at": to_text(at), "actor": actor, "action": action, "subject_id": subject_id}
        row = self._tx.one(
            "journal.append",
            head
            | {
                "payload": json.dumps(dict(payload), ensure_ascii=False),
                "payload_key": payload_seal.key,
                "payload_hash": payload_seal.hash,
                "hash": chain_hash(last["hash"] if last else GENESIS, head | {"tenant": _TENANT}, payload_seal.hash),
            },
        )
        seq = int(row["seq"]) if row else 0
        self._tx.many("journal.touch", [{"seq": seq, "memory_id": id_} for id_ in {subject_id, *touches}])
        return seq

    def entries_about(self, *ids: str, after: int = 0) -> list[Entry]:
        """Return the entries numbered above `after` that mention any of these memories, oldest first."""
        return [_entry_from_row(row) for row in self._tx.all("journal.of", {"ids": json.dumps(ids), "after": after})]

    def undone_together(self, first: int) -> list[Entry]:
        """Return the entries of one undo, oldest first, by the number of the first of them."""
        return [_entry_from_row(row) for row in self._tx.all("journal.together", {"first": first})]

    def entry(self, seq: int) -> Entry:
        """Return the entry with that number.

        Raises:
            NotFound: there is none; the message names the number.
        """
        remedy = "List a memory's entries with `filrouge history ID`."
        return _entry_from_row(
            require_row(self._tx, "journal.entry", {"seq": seq}, what=f"journal entry {seq}", remedy=remedy)
        )

    def verify(self) -> JournalReport:
        """Check the whole chain."""
        return verify_chain(self._tx.all("journal.everything"))


def verify_chain(rows: Iterable[Mapping[str, Any]], *, without_gaps: bool = False) -> JournalReport:
    """Check a whole chain.

    Args:
        rows: all entries in their order: `seq`, `tenant`, `at`, `actor`, `action`, `subject_id`, `payload`,
            `payload_key`, `payload_hash` and `hash`.
        without_gaps: entries are numbered 1, 2, 3 …; the numbers of a chain that was repaired have gaps.
    """
    previous_hash, entries, redacted = GENESIS, 0, 0

    def broken(row: Mapping[str, Any], reason: str) -> JournalReport:
        return JournalReport(entries=entries, redacted=redacted, broken_at=row["seq"], reason=reason)

    for row in rows:
        entries += 1
        if row["hash"] != _hash_after(previous_hash, row) or (without_gaps and row["seq"] != entries):
            return broken(row, "chain broken")
        if row["payload"] is None:
            redacted += 1
        elif not _is_intact(row):
            return broken(row, "payload changed")
        previous_hash = row["hash"]
    return JournalReport(entries=entries, redacted=redacted, broken_at=None, reason="")


def recompute_chain(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Recompute the chain over these entries alone.

    Returns:
        For each entry its number (`seq`), its new `hash`, and whether to `redact` its payload because it does not
        match its seal.
    """
    previous_hash, entries = GENESIS, list[dict[str, Any]]()
    for row in rows:
        previous_hash = _hash_after(previous_hash, row)
        redact = row["payload"] is not None and not _is_intact(row)
        entries.append({"seq": row["seq"], "hash": previous_hash, "redact": redact})
    return entries


def _entry_from_row(row: Mapping[str, Any]) -> Entry:
    return Entry(
        **pick_columns(row, ("seq", "actor", "action", "subject_id")),
        at=from_text(row["at"]),
        touches=frozenset(json.loads(row["touches"])) | {row["subject_id"]},
        payload=json.loads(row["payload"]) if row["payload"] else None,
    )


def _hash_after(previous_hash: bytes, row: Mapping[str, Any]) -> bytes:
    """Return the hash that an entry has if nothing before it, and nothing in it, was changed."""
    head = {name: row[name] for name in ("tenant", "at", "actor", "action", "subject_id")}
    return chain_hash(previous_hash, head, row["payload_hash"])


def _is_intact(row: Mapping[str, Any]) -> bool:
    try:
        payload = json.loads(row["payload"])
    except ValueError:
        return False
    return matches_seal(row["payload_key"] or b"", row["payload_hash"], payload)


def chain_hash(previous_hash: bytes, head: Mapping[str, str], payload_hash: bytes) -> bytes:
    """Return the hash of an entry: it covers the entry before, who did what when, and the hash of its payload."""
    return hashlib.sha256(previous_hash + canonical(head) + payload_hash).digest()
