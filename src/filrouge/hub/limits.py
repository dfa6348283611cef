"""Limits of a tenant: requests and pushed versions a minute, live memories, and stored bytes.

PostgreSQL counts, so any number of instances share a limit. Writing there for every request would make the readers of a
tenant wait for one row (16 readers at once were half as fast), and would give each of them a transaction id, which
holds changes back. So an instance reserves a hundredth of a minute's requests at once, in a transaction of its own, and
serves from that: one write for 200 requests at the default limit. No more than the limit is reserved in a minute; with
several instances, some of the last hundredths may stay unused. Versions are counted in the push itself, and what is
stored by the transactions that store and erase.
"""

from __future__ import annotations

import math
from threading import Lock
from typing import Any, Final, LiteralString

from msgspec import Struct
from psycopg import sql

from filrouge.core.clock import monotonic
from filrouge.core.errors import BadInput, TooMany
from filrouge.hub.models import Version
from filrouge.hub.sessions import Connection, Session

_REMEDY: Final = "Try again after the time in Retry-After, or ask the hub's operator for a higher limit."
#: What a version counts besides its text and its evidence.
_VERSION_BYTES: Final = 1000
#: More than this many reservations are looked through for ones that are over.
_MAX_RESERVATIONS: Final = 1000
_MAX_A_MINUTE: Final = 2**31 - 1
_MAX_STORED: Final = 2**62


class _Reservation(Struct, kw_only=True):
    left: int
    ends: float


class RequestLimit:
    """The requests that this instance has reserved for each tenant. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reservations = dict[str, _Reservation]()

    def take(self, tenant: str) -> bool:
        """Use one reserved request; return False if there is none."""
        with self._lock:
            reservation = self._reservations.get(tenant)
            if reservation is None or reservation.left == 0 or monotonic() >= reservation.ends:
                return False
            reservation.left -= 1
            return True

    def reserve(self, session: Session) -> None:
        """Reserve more requests for the tenant of a session, whose transaction must end at once.

        Raises:
            TooMany: the requests of this minute are used up.
        """
        row = session.connection.execute("SELECT granted, seconds FROM hub.reserve_requests()").fetchone()
        assert row is not None
        if not row["granted"]:
            raise _too_many("requests", row["seconds"])
        now, tenant = monotonic(), session.identity.tenant
        with self._lock:
            if len(self._reservations) > _MAX_RESERVATIONS:
                self._reservations = {key: kept for key, kept in self._reservations.items() if kept.ends > now}
            old = self._reservations.get(tenant)
            left = old.left if old is not None and old.ends > now else 0
            self._reservations[tenant] = _Reservation(left=left + row["granted"], ends=now + row["seconds"])


def spend_versions(session: Session, count: int) -> None:
    """Count versions that a member pushes.

    Raises:
        TooMany: the tenant has not that many left in this minute.
    """
    row = session.connection.execute("SELECT granted, seconds FROM hub.spend_versions(%s)", [count]).fetchone()
    assert row is not None
    if not row["granted"]:
        raise _too_many("versions", row["seconds"])


def _too_many(what: str, seconds: float) -> TooMany:
    return TooMany(
        f"The team has used up its {what} of this minute.", remedy=_REMEDY, retry_after=max(1, math.ceil(seconds))
    )


def stored_bytes(text: str, evidence: str) -> int:
    """Return what a version counts: its text and evidence, and a flat amount for its row and its vector."""
    return _VERSION_BYTES + len(text.encode()) + len(evidence.encode())


class Quota:
    """What a tenant stores and may store, for one transaction that holds the tenant's lock.

    It is read when the transaction begins to store or erase, counted here, and written once by `save`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        row = session.connection.execute(
            "SELECT max_memories, max_bytes, coalesce(memories, 0) AS memories, coalesce(bytes, 0) AS bytes"
            " FROM hub.tenants LEFT JOIN hub.totals USING (tenant)"
        ).fetchone()
        assert row is not None
        self._max_memories, self._max_bytes = row["max_memories"], row["max_bytes"]
        self._memories, self._bytes = row["memories"], row["bytes"]

    def refusal(self, version: Version, *, replaces_live: bool) -> str:
        """Return why a version does not fit. If it does, count it and return an empty text.

        Args:
            replaces_live: whether the memory is live already.
        """
        size = stored_bytes(version.text, version.evidence)
        memories = (version.state == "live") - replaces_live
        if memories > 0 and self._memories + memories > self._max_memories:
            return f"the team shares all {self._max_memories} memories that it may; forget some first"
        if self._bytes + size > self._max_bytes:
            return f"the team's memories have all {self._max_bytes} bytes that they may; forget some first"
        self._memories += memories
        self._bytes += size
        return ""

    def free(self, *, memories: int, bytes_: int) -> None:
        """Count what was erased."""
        self._memories -= memories
        self._bytes -= bytes_

    def save(self) -> None:
        """Write the totals."""
        self._session.connection.execute(
            "INSERT INTO hub.totals (tenant, memories, bytes) VALUES (%s, %s, %s)"
            " ON CONFLICT (tenant) DO UPDATE SET memories = excluded.memories, bytes = excluded.bytes",
            [self._session.identity.tenant, self._memories, self._bytes],
        )


#: What `set_limits` sets: the column, and the maximum.
_LIMITS: Final[dict[str, tuple[LiteralString, int]]] = {
    "requests": ("max_requests", _MAX_A_MINUTE),
    "versions": ("max_versions", _MAX_A_MINUTE),
    "memories": ("max_memories", _MAX_STORED),
    "bytes": ("max_bytes", _MAX_STORED),
}


def set_limits(connection: Connection, tenant: str, **limits: int | None) -> dict[str, Any]:
    """Change limits of a tenant, as the owner: `requests`, `versions`, `memories`, `bytes`; None keeps one.

    Returns:
        All limits, and `stored_memories` and `stored_bytes`.

    Raises:
        BadInput: a limit is below one or too large.
    """
    for name, limit in limits.items():
        column, maximum = _LIMITS[name]
        if limit is None:
            continue
        if not 1 <= limit <= maximum:
            raise BadInput(f"The limit of {name} is 1 to {maximum}.")
        update = sql.SQL("UPDATE hub.tenants SET {} = %s WHERE tenant = %s").format(sql.Identifier(column))
        connection.execute(update, [limit, tenant])
    row = connection.execute(
        "SELECT max_requests AS requests, max_versions AS versions, max_memories AS memories, max_bytes AS bytes,"
        " coalesce(totals.memories, 0) AS stored_memories, coalesce(totals.bytes, 0) AS stored_bytes"
        " FROM hub.tenants LEFT JOIN hub.totals USING (tenant) WHERE tenant = %s",
        [tenant],
    ).fetchone()
    assert row is not None
    return row
