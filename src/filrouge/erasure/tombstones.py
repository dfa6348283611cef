"""Tombstones: recognising forgotten content without storing it, and refusing it when it comes again.

A tombstone is an HMAC-SHA-256, under a key that exists only in this home, of a row's id, of the key by which a host
knows a message, or of a folded text. Tombstones are stored in a table and also in a small file beside the database,
because a restored older database has an older table.

The gate refuses forgotten content that is delivered again by a transcript, the spool or an old copy. A message is
recognised by its host key, or by its text if it was said before it was forgotten, because a resumed session copies its
earlier messages under other keys. Stating something again after it was forgotten creates a new memory.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from threading import Lock
from typing import Any, Final, Literal, cast

from msgspec import Struct

from filrouge.capture.events import Event
from filrouge.capture.intake import turns_from_event
from filrouge.capture.models import Turn
from filrouge.capture.repository import event_key
from filrouge.core.clock import from_epoch, from_text, to_text
from filrouge.core.paths import FORGET_KEY, FORGOTTEN, open_nofollow
from filrouge.core.protocols import Tx
from filrouge.memories.models import normalised

TombstoneKind = Literal["row", "key", "text"]
KEY, FILE = FORGET_KEY, FORGOTTEN
_KEY_BYTES: Final = 32


class Tombstone(Struct, frozen=True, kw_only=True):
    """The hash of one thing that must not come back.

    Attributes:
        hash: 32 bytes, under the key of the home.
        kind: what was hashed: a row's id, a host's key or a text.
        at: when it was forgotten.
    """

    hash: bytes
    kind: TombstoneKind
    at: datetime


class HomeKey:
    """The secret key of one home, created when it is first needed."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, KEY)

    def read(self) -> bytes | None:
        """Return the key, or None if nothing was ever forgotten here."""
        try:
            with open(open_nofollow(self._path, os.O_RDONLY), "rb") as file:
                key = file.read()
        except FileNotFoundError:
            return None
        return key if len(key) == _KEY_BYTES else None

    def get_or_create(self) -> bytes:
        """Return the key, creating it if needed.

        Raises:
            OSError: the home cannot be written; no partial file is left.
        """
        key = self.read()
        if key is None:
            key = secrets.token_bytes(_KEY_BYTES)
            temporary = f"{self._path}.new"
            descriptor = open_nofollow(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                _append_synced(descriptor, key)
                os.replace(temporary, self._path)
            except OSError:
                os.unlink(temporary)
                raise
            finally:
                os.close(descriptor)
        return key


class TombstoneHasher:
    """Computes tombstone hashes under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def row(self, id_: str) -> bytes:
        """Return the hash of a row's id."""
        return self._of("row", id_)

    def key(self, host: str, session: str, key: str) -> bytes:
        """Return the hash of the key of an event or a turn."""
        return self._of("key", "\0".join((host, session, key)))

    def text(self, text: str) -> bytes:
        """Return the hash of a text, ignoring case and white space as `normalised` does."""
        return self._of("text", normalised(text))

    def _of(self, kind: TombstoneKind, content: str) -> bytes:
        return hmac.digest(self._key, f"{kind}\0{content}".encode("utf-8", "surrogatepass"), hashlib.sha256)


class Tombstones:
    """The table of tombstones."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def any(self) -> bool:
        """Return True if anything was ever forgotten."""
        return self._tx.one("tombstones.any") is not None

    def add(self, tombstones: Iterable[Tombstone]) -> None:
        """Store tombstones; an existing one gets the later date."""
        self._tx.many(
            "tombstones.add",
            [{"hash": tombstone.hash, "kind": tombstone.kind, "at": to_text(tombstone.at)} for tombstone in tombstones],
        )

    def of(self, hashes: Collection[bytes]) -> dict[bytes, datetime]:
        """Return the dates of those of these hashes that have a tombstone."""
        dates = dict[bytes, datetime]()
        for hash_ in hashes:
            row = self._tx.one("tombstones.of", {"hash": hash_})
            if row:
                dates[hash_] = from_text(row["at"])
        return dates

    def all(self) -> list[Tombstone]:
        """Return all tombstones."""
        rows = self._tx.all("tombstones.all")
        return [Tombstone(hash=row["hash"], kind=row["kind"], at=from_text(row["at"])) for row in rows]


class TombstoneFile:
    """The file of tombstones beside the database: one line each with kind, hash and date."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, FILE)

    def read(self) -> dict[bytes, Tombstone]:
        """Return the tombstones in the file, by hash; skip an incomplete line."""
        try:
            with open(open_nofollow(self._path, os.O_RDONLY), encoding="ascii", errors="replace") as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            return {}
        found = dict[bytes, Tombstone]()
        for line in lines:
            try:
                kind, hex_hash, at = line
                tombstone = Tombstone(hash=bytes.fromhex(hex_hash), kind=_TOMBSTONE_KINDS[kind], at=from_text(at))
            except (KeyError, ValueError):
                continue
            found[tombstone.hash] = tombstone
        return found

    def append(self, tombstones: Iterable[Tombstone]) -> None:
        """Append tombstones, synced to disk before this returns.

        Raises:
            OSError: the home cannot be written; the file is unchanged.
        """
        lines = "".join(
            f"{tombstone.kind} {tombstone.hash.hex()} {to_text(tombstone.at)}\n" for tombstone in tombstones
        )
        if not lines:
            return
        descriptor = open_nofollow(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            _append_synced(descriptor, f"\n{lines}".encode("ascii"))  # the previous line may be incomplete
        finally:
            os.close(descriptor)


def _append_synced(descriptor: int, content: bytes) -> None:
    """Append all of the content to an open file and sync it, or restore the file and raise."""
    size = os.fstat(descriptor).st_size
    try:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


_TOMBSTONE_KINDS: Final[Mapping[str, TombstoneKind]] = {"row": "row", "key": "key", "text": "text"}


class TombstoneFilter:
    """Checks deliveries against the tombstones of one home. Thread-safe."""

    def __init__(self, home: str) -> None:
        self._key = HomeKey(home)
        self._creation_lock = Lock()
        key = self._key.read()
        self._hasher = TombstoneHasher(key) if key else None

    @property
    def secret(self) -> bytes | None:
        """The key of the home, or None if nothing was ever forgotten."""
        return self._key.read()

    @property
    def hasher(self) -> TombstoneHasher | None:
        """The tombstone hasher of this home; None if nothing was ever forgotten."""
        return self._hasher

    def get_or_create(self) -> tuple[bytes, TombstoneHasher]:
        """Return the key of the home and its hasher, creating the key if needed."""
        with self._creation_lock:  # concurrent calls would create two keys
            key = self._key.get_or_create()
        self._hasher = TombstoneHasher(key)
        return key, self._hasher

    def without_forgotten(self, tx: Tx, event: Event) -> Event | None:
        """Return the event without its forgotten parts; None if nothing else remains."""
        hasher = self._active_hasher(tx)
        if hasher is None:
            return event
        if Tombstones(tx).of([hasher.key(event.host, event.session, event_key(event)), hasher.row(event.id)]):
            return None
        if event.kind != "tools":
            return None if any(self.refuses(tx, turn, turn.at) for turn in turns_from_event(event, "")) else event
        calls = event.data.get("calls")
        listed = cast("list[object]", calls) if isinstance(calls, list) else []
        remaining = [call for call in listed if not self._refuses_call(tx, event, call)]
        if not remaining and listed:
            return None
        return event if len(remaining) == len(listed) else event._replace(data={**event.data, "calls": remaining})

    def refuses(self, tx: Tx, turn: Turn, said_at: datetime | None) -> bool:
        """Return True if this turn was forgotten.

        Args:
            said_at: None if unknown; then its text alone decides.
        """
        hasher = self._active_hasher(tx)
        if hasher is None:
            return False
        table = Tombstones(tx)
        if table.of([hasher.key(turn.host, turn.scope.session, turn.key)]):
            return True
        dates = table.of([hasher.text(turn.text)])
        return any(said_at is None or said_at <= at for at in dates.values())

    def _refuses_call(self, tx: Tx, event: Event, call: object) -> bool:
        if not isinstance(call, dict):
            return False
        single_call = event._replace(data={"calls": [cast("Mapping[str, Any]", call)]})
        return any(self.refuses(tx, turn, from_epoch(event.at)) for turn in turns_from_event(single_call, ""))

    def _active_hasher(self, tx: Tx) -> TombstoneHasher | None:
        return self._hasher if self._hasher and Tombstones(tx).any() else None
