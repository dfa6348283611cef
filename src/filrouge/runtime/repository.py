"""Tokens: made, revoked, stored as SHA-256, and turned into a browser's session."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from filrouge.core.clock import from_text, new_id, to_text
from filrouge.core.errors import BadInput, NotFound, Unauthorized
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import Session
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts

# What was answered to requests that may come again: kept for a day, so that a repetition does nothing twice.
#
# Keys and requests are held as hashes alone. An answer is held as it was, and may hold words: whatever is forgotten,
# all answers are emptied, and a repetition then learns that it was done and no more.

KEPT: Final = timedelta(hours=24)
#: Rows; the oldest go first.
_MOST: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What is known of a request.

    Attributes:
        request: the hash of what was asked; None where something was forgotten since.
        status: 0 while it is being carried out, or where the daemon ended meanwhile.
        body: None where it was forgotten, or too long to be kept.
    """

    request: bytes | None
    status: int
    type: str
    body: bytes | None


class AnsweredRequests:
    """The table of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def get(self, key: bytes, now: datetime) -> Answered | None:
        """What is known of a key."""
        row = self._tx.one("answered.get", {"key": key, "since": to_text(now - KEPT)})
        return Answered(**row) if row else None

    def begin(self, key: bytes, request: bytes, now: datetime) -> None:
        """It is being carried out. What is too old, or too much, goes."""
        self._tx.run("answered.prune", {"since": to_text(now - KEPT), "most": _MOST})
        self._tx.run("answered.begin", {"key": key, "at": to_text(now), "request": request})

    def end(self, key: bytes, status: int, type_: str, body: bytes | None) -> None:
        """It was answered."""
        self._tx.run("answered.end", {"key": key, "status": status, "type": type_, "body": body})

    def drop(self, key: bytes) -> None:
        """It may be tried again as if it had never come."""
        self._tx.run("answered.drop", {"key": key})


# Lists on their way into a query, and short ids.

# Lists on their way into a query and out of it: as JSON, each value once, by table.


def by_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The ids of rows, by their tables."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(row["id"])
    return found


def pairs(sessions: Collection[Session]) -> list[list[str]]:
    """Host and id of each session."""
    return [[one.host, one.id] for one in sessions]


def as_json(**lists: Collection[object]) -> dict[str, object]:
    """Lists as the parameters of a query."""
    return {name: json.dumps(list(values)) for name, values in lists.items()}


def once(ids: Sequence[str]) -> tuple[str, ...]:
    """Each id once."""
    return tuple(dict.fromkeys(ids))


# Short ids: the beginning of an id stands for it where one row alone begins so.

Kind = Literal["memory", "turn", "thread", "bridge", "garden", "receipt", "recall", "token", "job"]
#: Characters. Ids of one hour have the first six in common, so a person rarely needs fewer.
SHORTEST: Final = 4
_LENGTH: Final = 26
_MOST_SHOWN: Final = 5


def whole_id(tx: Tx, given: str, kinds: Sequence[Kind]) -> str:
    """The id that begins so; what is given where none does, or where it is whole.

    Raises:
        BadInput: several begin so; it lists them.
    """
    begin = given.strip().lower()
    if not SHORTEST <= len(begin) < _LENGTH or not begin.isalnum():
        return given
    asked = {"prefix": begin, "limit": _MOST_SHOWN + 1}
    found = {str(row["id"]): str(row["what"]) for kind in kinds for row in tx.all(f"ids.{kind}", asked)}
    if begin in found or given in found or not found:
        return given
    if len(found) == 1:
        return next(iter(found))
    shown = "; ".join(f"{id_} ({what})" for id_, what in list(found.items())[:_MOST_SHOWN])
    more = " and more" if len(found) > _MOST_SHOWN else ""
    raise BadInput(f"Several ids begin with {given!r}: {shown}{more}.", remedy="Give more of the id.")


# A token: who may come in over TCP, and how far. The secret itself is shown once and kept nowhere.
#
# Three kinds: a `token` is a program's and holds until it is revoked; a `link` signs a browser in, once, within
# minutes; a `session` is what a browser then holds as a cookie.

Allowed = Literal["read", "write", "admin"]
"""How far a token reaches, each holding the one before."""
TokenKind = Literal["token", "link", "session"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token, without its secret.

    Attributes:
        name: what its owner called it.
        expires_at: None where it holds until it is revoked.
        last_used_at: to the minute; None where it never was.
    """

    id: str
    kind: TokenKind
    name: str
    scope: Allowed
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def holds(self, at: datetime) -> bool:
        """Whether it lets anybody in at that moment."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)

    def to_json(self) -> Mapping[str, Any]:
        """As the API answers it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "scope": self.scope,
            "created_at": to_text(self.created_at),
            "expires_at": _when(self.expires_at),
            "last_used_at": _when(self.last_used_at),
            "revoked_at": _when(self.revoked_at),
        }


def _when(at: datetime | None) -> str | None:
    return to_text(at) if at else None


# Tokens at rest: their SHA-256, never they themselves.
#
# A plain hash is right here, where it would be wrong for a password: a token is 256 random bits, which nobody guesses
# however fast they hash.


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
        expires_at=_tokens_when(row["expires_at"]),
        last_used_at=_tokens_when(row["last_used_at"]),
        revoked_at=_tokens_when(row["revoked_at"]),
    )


def _tokens_when(text: str | None) -> datetime | None:
    return from_text(text) if text else None


# Tokens: made, revoked, and turned into a browser's session. What is done with them is in the journal; they are not.
#
# A browser cannot be handed a token without leaving it in a history, so it gets a link that works once and within
# minutes, and holds a session afterwards.

#: Before a token: people and scanners of secrets see what it is.
PREFIX = "frg_"
LINK_MINUTES = 5
SESSION_HOURS = 12
_LONGEST_NAME = 100
_KEPT_DAYS = 30


def create(parts: Parts, tx: Tx, name: str, scope: Allowed) -> dict[str, Any]:
    """Make a token; what the API answers, the secret with it, this once.

    Raises:
        BadInput: the name is too long or cannot be shown on a line.
    """
    name = name.strip() or "token"
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise BadInput(f"A token's name is one line of at most {_LONGEST_NAME} characters.")
    token, secret = _made(parts, tx, "token", name, scope, None)
    _note(tx, parts.clock.now(), "token_create", token)
    return {**token.to_json(), "token": secret}


def revoke(parts: Parts, tx: Tx, id_: str) -> dict[str, Any]:
    """Let nobody in with that token or session any more.

    Raises:
        NotFound: there is no such token.
    """
    tokens, now = Tokens(tx), parts.clock.now()
    before = tokens.get(id_)
    if before.revoked_at is None:
        tokens.revoke(id_, now)
        _note(tx, now, "token_revoke", before)
    return dict(tokens.get(id_).to_json())


def new_link(parts: Parts, tx: Tx, scope: Allowed) -> tuple[str, str]:
    """A secret that signs a browser in, once, with that scope; and until when."""
    now = parts.clock.now()
    Tokens(tx).prune(now - timedelta(days=_KEPT_DAYS))
    link, secret = _made(parts, tx, "link", "login link", scope, timedelta(minutes=LINK_MINUTES))
    return secret, to_text(link.expires_at or now)


def redeem(parts: Parts, tx: Tx, secret: str) -> str:
    """Turn a link into the session of a browser; the secret of that session.

    Raises:
        Unauthorized: the link is unknown, was used, or is too old.
    """
    link = Tokens(tx).redeem(hashed(secret), parts.clock.now())
    if link is None:
        raise Unauthorized("This login link was used or is too old.", remedy="Make another: `filrouge token login`.")
    session, own = _made(parts, tx, "session", "browser", link.scope, timedelta(hours=SESSION_HOURS))
    _note(tx, parts.clock.now(), "session_create", session)
    return own


def _made(
    parts: Parts, tx: Tx, kind: TokenKind, name: str, scope: Allowed, holds: timedelta | None
) -> tuple[Token, str]:
    now = parts.clock.now()
    expires = now + holds if holds else None
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(id=new_id(now), kind=kind, name=name, scope=scope, created_at=now, expires_at=expires)
    Tokens(tx).put(token, secret)
    return token, secret


def _note(tx: Tx, at: datetime, action: str, token: Token) -> None:
    payload = {"name": token.name, "scope": token.scope}
    Journal(tx).append(at=at, actor="user", action=action, subject_id=token.id, payload=payload)
