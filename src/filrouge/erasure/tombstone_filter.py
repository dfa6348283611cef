"""The gate: what was forgotten and comes again, from a transcript, the spool or an old copy, is recognised and refused.

A message is known by the key that its host gave it, or by its text where it was said before it was forgotten: a session
that is resumed copies its past under other keys. Who says it again afterwards, says it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from threading import Lock
from typing import Any, cast

from filrouge.capture.event_repository import event_key
from filrouge.capture.events import Event
from filrouge.capture.intake import turns_of
from filrouge.capture.models import Turn
from filrouge.core.clock import from_epoch
from filrouge.core.protocols import Tx
from filrouge.erasure.tombstone_repository import HomeKey, Stones, Tombstones


class Gate:
    """Asks the tombstones of one home. Safe for several threads."""

    def __init__(self, home: str) -> None:
        self._key = HomeKey(home)
        self._making = Lock()
        key = self._key.read()
        self._stones = Stones(key) if key else None

    @property
    def secret(self) -> bytes | None:
        """The key of the home, or None where nothing was ever to be forgotten."""
        return self._key.read()

    @property
    def stones(self) -> Stones | None:
        """What makes this home's tombstones; None where nothing was ever to be forgotten."""
        return self._stones

    def made(self) -> tuple[bytes, Stones]:
        """The key of the home, made if need be, and what makes tombstones with it."""
        with self._making:  # two that make it at once would make two
            key = self._key.made()
        self._stones = Stones(key)
        return key, self._stones

    def passed(self, tx: Tx, event: Event) -> Event | None:
        """The event without what was forgotten; None where that is all it holds."""
        stones = self._in_force(tx)
        if stones is None:
            return event
        if Tombstones(tx).of([stones.key(event.host, event.session, event_key(event)), stones.row(event.id)]):
            return None
        if event.kind != "tools":
            return None if any(self.refuses(tx, turn, turn.at) for turn in turns_of(event, "")) else event
        calls = event.data.get("calls")
        listed = cast("list[object]", calls) if isinstance(calls, list) else []
        left = [call for call in listed if not self._refuses_call(tx, event, call)]
        if not left and listed:
            return None
        return event if len(left) == len(listed) else event._replace(data={**event.data, "calls": left})

    def refuses(self, tx: Tx, turn: Turn, said_at: datetime | None) -> bool:
        """True if this turn was forgotten.

        Args:
            said_at: None where nobody knows; then its text alone tells.
        """
        stones = self._in_force(tx)
        if stones is None:
            return False
        table = Tombstones(tx)
        if table.of([stones.key(turn.host, turn.scope.session, turn.key)]):
            return True
        buried = table.of([stones.text(turn.text)])
        return any(said_at is None or said_at <= at for at in buried.values())

    def _refuses_call(self, tx: Tx, event: Event, call: object) -> bool:
        if not isinstance(call, dict):
            return False
        alone = event._replace(data={"calls": [cast("Mapping[str, Any]", call)]})
        return any(self.refuses(tx, turn, from_epoch(event.at)) for turn in turns_of(alone, ""))

    def _in_force(self, tx: Tx) -> Stones | None:
        return self._stones if self._stones and Tombstones(tx).any() else None
