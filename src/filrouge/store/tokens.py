"""Tokens at rest: their SHA-256, never they themselves.

A plain hash is right here, where it would be wrong for a password: a token is 256 random bits, which nobody guesses
however fast they hash.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime
from typing import Any

from filrouge.clock import from_text, to_text
from filrouge.errors import NotFound
from filrouge.model.token import Token
from filrouge.ports import Tx


def hashed(secret: str) -> bytes:
    """What is kept of a secret: 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Tokens:
    """The table."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, token: Token, secret: str) -> None:
        """Keep a new one."""
        row = dict(token.to_json()) | {"hash": hashed(secret)}
        self._tx.run("tokens.put", {name: row[name] for name in _WRITTEN})

    def find(self, hash_: bytes) -> Token | None:
        """The token whose secret has that hash, whether it still holds or not."""
        row = self._tx.one("tokens.by_hash", {"hash": hash_})
        return _token(row) if row is not None and hmac.compare_digest(row["hash"], hash_) else None

    def get(self, id_: str) -> Token:
        """One of them.

        Raises:
            NotFound: naming the id.
        """
        row = self._tx.one("tokens.get", {"id": id_})
        if row is None:
            raise NotFound(f"There is no token {id_!r}.", remedy="List them with `filrouge token list`.")
        return _token(row)

    def all(self) -> list[Token]:
        """Tokens and sessions, the newest first; those that hold no more, too."""
        return [_token(row) for row in self._tx.all("tokens.all")]

    def revoke(self, id_: str, at: datetime) -> None:
        """Let nobody in with it any more; the first time counts."""
        self._tx.run("tokens.revoke", {"id": id_, "at": to_text(at)})

    def redeem(self, hash_: bytes, at: datetime) -> Token | None:
        """Use up the link with that hash; None where it is unknown, used or too old."""
        row = self._tx.one("tokens.redeem", {"hash": hash_, "at": to_text(at)})
        return _token(row) if row is not None else None

    def touch(self, id_: str, at: datetime) -> None:
        """Note that it was used."""
        self._tx.run("tokens.touch", {"id": id_, "at": to_text(at)})

    def any_lives(self) -> bool:
        """Whether there is a token of a program that holds."""
        row = self._tx.one("tokens.count_live")
        return bool(row and row["n"])

    def prune(self, before: datetime) -> None:
        """Drop the links and sessions that ended before that."""
        self._tx.run("tokens.prune", {"before": to_text(before)})


_WRITTEN = ("id", "kind", "name", "scope", "hash", "created_at", "expires_at")


def _token(row: dict[str, Any]) -> Token:
    return Token(
        id=row["id"],
        kind=row["kind"],
        name=row["name"],
        scope=row["scope"],
        created_at=from_text(row["created_at"]),
        expires_at=_when(row["expires_at"]),
        last_used_at=_when(row["last_used_at"]),
        revoked_at=_when(row["revoked_at"]),
    )


def _when(text: str | None) -> datetime | None:
    return from_text(text) if text else None
