"""Who holds what: secrets checked against the store, and remembered for some seconds so that a check costs nothing.

Revoking forgets them at once. When a token was used last is noted once a minute, behind the answer.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime, timedelta

from filrouge.app.parts import Parts
from filrouge.errors import Busy, NotFound, TooMany, Unauthorized
from filrouge.model.token import Kind, Token
from filrouge.server.access import settled
from filrouge.store.tokens import Tokens, hashed

_REMEMBERED_SECONDS = 5.0
_NOTED_EVERY = timedelta(minutes=1)
_MOST_REMEMBERED = 1000
_LONGEST_SECRET = 200


class Keys:
    """The tokens of one daemon, as its door knows them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[bytes, tuple[float, Token]] = {}
        self._noted: dict[str, datetime] = {}
        self._revoked = 0

    async def verified(self, secret: str, kind: Kind) -> Token:
        """The token of that kind with that secret.

        Raises:
            Unauthorized: there is none that holds.
        """
        token = await self._found(secret) if len(secret) <= _LONGEST_SECRET else None
        if token is None or token.kind != kind or not token.holds(self._parts.clock.now()):
            raise Unauthorized("The token is not known here, or holds no more.")
        self._note(token)
        return token

    async def holds(self, id_: str) -> bool:
        """Whether the token or session with that id still lets its holder in; what ends later asks again."""
        try:
            token = await settled(self._parts.readers.submit(lambda tx: Tokens(tx).get(id_)))
        except NotFound:  # a session that ended long ago is dropped
            return False
        return token.holds(self._parts.clock.now())

    def forget(self) -> None:
        """Look everything up again: something was revoked."""
        self._revoked += 1
        self._known.clear()

    async def _found(self, secret: str) -> Token | None:
        key, now = hashed(secret), time.monotonic()
        until, known = self._known.get(key, (0.0, None))
        if known is not None and now < until:
            return known
        revoked = self._revoked
        token = await settled(self._parts.readers.submit(lambda tx: Tokens(tx).find(key)))
        if token is not None and revoked == self._revoked:  # what was read before a revocation is not remembered
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = (now + _REMEMBERED_SECONDS, token)
        return token

    def _note(self, token: Token) -> None:
        now = self._parts.clock.now()
        last = self._noted.get(token.id, token.last_used_at)
        if last is not None and now - last < _NOTED_EVERY:
            return
        self._noted[token.id] = now
        with suppress(Busy):  # it is stopping
            self._parts.writer.submit(lambda tx: Tokens(tx).touch(token.id, now))


class Pace:
    """How fast large bodies are read, those of all requests together: what is busy with one must answer others, too.

    The first megabyte comes at once.
    """

    _BYTES_A_SECOND = 2_500_000.0
    _AT_ONCE = 1_000_000.0

    def __init__(self) -> None:
        self._left = self._AT_ONCE
        self._at = time.monotonic()

    async def take(self, size: int) -> None:
        """Wait until so many bytes may be read."""
        now = time.monotonic()
        self._left = min(self._AT_ONCE, self._left + (now - self._at) * self._BYTES_A_SECOND) - size
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._BYTES_A_SECOND)


class Rates:
    """So many requests a second for each token; a second's worth may come at once."""

    def __init__(self, per_second: int) -> None:
        self._rate = float(per_second)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> None:
        """Count one request.

        Raises:
            TooMany: there were too many.
        """
        now = time.monotonic()
        left, at = self._left.get(who, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        self._left[who] = (max(0.0, left - 1.0), now)
        if left < 1.0:
            raise TooMany(f"More than {self._rate:.0f} requests came in a second.")
