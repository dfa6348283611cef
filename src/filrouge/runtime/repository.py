"""Tokens, idempotent answers and short ids: small tables and helpers shared by the surfaces.

Answers to idempotent requests are kept for a day, so that a repeated request has no second effect. Short ids resolve
a prefix to the one id that begins with it. Tokens are stored as SHA-256 hashes; a login link becomes a browser
session. The module also has helpers that pass lists into queries as JSON.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

from filrouge.core.clock import Clock, new_id, text_or_none, time_or_none, to_text
from filrouge.core.errors import BadInput, Unauthorized
from filrouge.core.protocols import Tx
from filrouge.core.rows import fields_of, number_of, pick_columns, require_row
from filrouge.extraction.repository import Session
from filrouge.runtime.journal import Journal

# Answers to idempotent requests.
#
# Keys and requests are stored as hashes only. An answer is stored as it was sent and may contain the user's words. So
# forgetting anything clears all stored answers; a repeated request then only learns that it was carried out.

ANSWER_LIFETIME: Final = timedelta(hours=24)
#: Maximum number of rows; the oldest are deleted first.
_MAX_ANSWERS: Final = 10_000


class StoredAnswer(Struct, frozen=True, kw_only=True):
    """The stored state of a request.

    Attributes:
        request: the hash of the request; None if something was forgotten since.
        status: 0 while the request is running, or if the daemon ended during it.
        body: None if it was cleared by forgetting, or too long to be stored.
    """

    request: bytes | None
    status: int
    type: str
    body: bytes | None


class IdempotentRequests:
    """The table `answered` of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def get(self, key: bytes, now: datetime) -> StoredAnswer | None:
        """Return the stored state for a key, or None."""
        row = self._tx.one("answered.get", {"key": key, "since": to_text(now - ANSWER_LIFETIME)})
        return StoredAnswer(**row) if row else None

    def begin(self, key: bytes, request: bytes, now: datetime) -> None:
        """Record that the request is running; delete rows that are too old or too many."""
        self._tx.run("answered.prune", {"since": to_text(now - ANSWER_LIFETIME), "most": _MAX_ANSWERS})
        self._tx.run("answered.begin", {"key": key, "at": to_text(now), "request": request})

    def end(self, key: bytes, status: int, type_: str, body: bytes | None) -> None:
        """Record the answer."""
        self._tx.run("answered.end", {"key": key, "status": status, "type": type_, "body": body})

    def drop(self, key: bytes) -> None:
        """Delete the row, so that the request may be tried again as new."""
        self._tx.run("answered.drop", {"key": key})


# Helpers for lists in query parameters, passed as JSON.


def by_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the ids of rows, grouped by table (the column `place`)."""
    ids_by_table: dict[str, list[str]] = {}
    for row in rows:
        ids_by_table.setdefault(row["place"], []).append(row["id"])
    return ids_by_table


def session_pairs(sessions: Collection[Session]) -> list[list[str]]:
    """Return host and id of each session."""
    return [[session.host, session.id] for session in sessions]


def as_json(**lists: Collection[object]) -> dict[str, object]:
    """Return lists as query parameters, each encoded as JSON."""
    return {name: json.dumps(list(values)) for name, values in lists.items()}


def unique(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids without duplicates, in order."""
    return tuple(dict.fromkeys(ids))


# Short ids: a prefix stands for an id if exactly one row begins with it.

RecordKind = Literal["memory", "turn", "thread", "bridge", "garden", "receipt", "recall", "token", "job"]
#: Minimum characters. Ids created within one hour share the first six, so users rarely need fewer.
MIN_ID_CHARS: Final = 4
_ID_CHARS: Final = 26
_MAX_SHOWN_IDS: Final = 5


def resolve_id(tx: Tx, id_or_prefix: str, kinds: Sequence[RecordKind]) -> str:
    """Return the only id that begins with this prefix, or the argument itself if it is a full id or nothing matches.

    Raises:
        BadInput: several ids begin with it; the message lists them.
    """
    prefix = id_or_prefix.strip().lower()
    if not MIN_ID_CHARS <= len(prefix) < _ID_CHARS or not prefix.isalnum():
        return id_or_prefix
    parameters = {"prefix": prefix, "limit": _MAX_SHOWN_IDS + 1}
    matches = {str(row["id"]): str(row["what"]) for kind in kinds for row in tx.all(f"ids.{kind}", parameters)}
    if prefix in matches or id_or_prefix in matches or not matches:
        return id_or_prefix
    if len(matches) == 1:
        return next(iter(matches))
    shown = "; ".join(f"{id_} ({what})" for id_, what in list(matches.items())[:_MAX_SHOWN_IDS])
    more = " and more" if len(matches) > _MAX_SHOWN_IDS else ""
    raise BadInput(f"Several ids begin with {id_or_prefix!r}: {shown}{more}.", remedy="Give more of the id.")


# Tokens grant access over TCP. The secret is shown once and never stored.
#
# A `token` belongs to a program and is valid until revoked. A `link` signs a browser in, once, within minutes. The
# browser then has a `session`, as a cookie.

TokenScope = Literal["read", "write", "admin"]
"""What a token allows; each scope includes the one before it."""
TokenKind = Literal["token", "link", "session"]


class Token(Struct, frozen=True, kw_only=True):
    """A token without its secret.

    Attributes:
        kind: a program's token, a login link, or a browser session.
        name: chosen by its owner.
        scope: what it allows.
        expires_at: None if it is valid until revoked.
        last_used_at: to the minute; None if it was never used.
        revoked_at: None if it was not revoked.
    """

    id: str
    kind: TokenKind
    name: str
    scope: TokenScope
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """Return True if the token is valid at that time. A browser session also ends when it is not used for hours."""
        if self.revoked_at is not None or (self.expires_at is not None and at >= self.expires_at):
            return False
        return self.kind != "session" or at - (self.last_used_at or self.created_at) < SESSION_IDLE_TIMEOUT

    def to_json(self) -> Mapping[str, Any]:
        """Return the token as the API returns it."""
        return fields_of(self, _PLAIN_FIELDS) | {name: text_or_none(getattr(self, name)) for name in _TIME_FIELDS}


_PLAIN_FIELDS = ("id", "kind", "name", "scope")
_TIME_FIELDS = ("created_at", "expires_at", "last_used_at", "revoked_at")


# Only the SHA-256 of a secret is stored.
#
# A plain hash would be wrong for a password, but is right for a token: its 256 random bits cannot be guessed, however
# fast the hash is.


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a secret: 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Tokens:
    """The table `tokens` of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, token: Token, secret: str) -> None:
        """Store a new token."""
        row = dict(token.to_json()) | {"hash": hash_secret(secret)}
        self._tx.run("tokens.put", {name: row[name] for name in _WRITTEN_FIELDS})

    def find(self, hash_: bytes) -> Token | None:
        """Return the token whose secret has that hash, valid or not; None if there is none."""
        row = self._tx.one("tokens.by_hash", {"hash": hash_})
        return _token_from_row(row) if row is not None and hmac.compare_digest(row["hash"], hash_) else None

    def get(self, id_: str) -> Token:
        """Return the token with that id.

        Raises:
            NotFound: there is none; the message names the id.
        """
        remedy = "List them with `filrouge token list`."
        return _token_from_row(require_row(self._tx, "tokens.get", {"id": id_}, what=f"token {id_!r}", remedy=remedy))

    def all(self) -> list[Token]:
        """Return tokens and sessions, newest first, including those no longer valid."""
        return [_token_from_row(row) for row in self._tx.all("tokens.all")]

    def revoke(self, id_: str, at: datetime) -> None:
        """Revoke a token; an earlier revocation keeps its time."""
        self._tx.run("tokens.revoke", {"id": id_, "at": to_text(at)})

    def redeem(self, hash_: bytes, at: datetime) -> Token | None:
        """Use up the link with that hash; None if it is unknown, used or expired."""
        row = self._tx.one("tokens.redeem", {"hash": hash_, "at": to_text(at)})
        return _token_from_row(row) if row is not None else None

    def touch(self, id_: str, at: datetime) -> None:
        """Record that the token was used."""
        self._tx.run("tokens.touch", {"id": id_, "at": to_text(at)})

    def has_valid_token(self) -> bool:
        """Return True if any program token is valid."""
        return bool(number_of(self._tx, "tokens.count_live"))

    def prune(self, before: datetime) -> None:
        """Delete the links and sessions that expired before that time."""
        self._tx.run("tokens.prune", {"before": to_text(before)})


_WRITTEN_FIELDS = ("id", "kind", "name", "scope", "hash", "created_at", "expires_at")


def _token_from_row(row: dict[str, Any]) -> Token:
    times: dict[str, Any] = {name: time_or_none(row[name]) for name in _TIME_FIELDS}
    return Token(**pick_columns(row, _PLAIN_FIELDS), **times)


# Creating and revoking tokens, and browser sessions. The journal records each action, never the secret.
#
# A token handed to a browser would stay in its history. So the browser gets a link that works once and within
# minutes, and has a session afterwards.

#: Prefix of every secret, so that people and secret scanners recognise it.
PREFIX = "frg_"
LINK_MINUTES = 5
SESSION_HOURS = 12
SESSION_IDLE_TIMEOUT = timedelta(hours=4)
_MAX_NAME_CHARS = 100
_EXPIRED_TOKEN_DAYS = 30


def create_token(clock: Clock, tx: Tx, name: str, scope: TokenScope) -> dict[str, Any]:
    """Create a token and return it as the API does, with its secret, which is never shown again.

    Raises:
        BadInput: the name is too long or contains unprintable characters.
    """
    name = name.strip() or "token"
    if len(name) > _MAX_NAME_CHARS or not name.isprintable():
        raise BadInput(f"A token's name is one line of at most {_MAX_NAME_CHARS} characters.")
    token, secret = _store_token(clock, tx, "token", name, scope, None)
    _log_action(tx, clock.now(), "token_create", token)
    return {**token.to_json(), "token": secret}


def revoke_token(clock: Clock, tx: Tx, id_: str) -> dict[str, Any]:
    """Revoke a token or session and return it as the API does.

    Raises:
        NotFound: there is no such token.
    """
    tokens, now = Tokens(tx), clock.now()
    token = tokens.get(id_)
    if token.revoked_at is None:
        tokens.revoke(id_, now)
        _log_action(tx, now, "token_revoke", token)
    return dict(tokens.get(id_).to_json())


def create_login_link(clock: Clock, tx: Tx, scope: TokenScope) -> tuple[str, str]:
    """Return a secret that signs a browser in once with that scope, and when it expires."""
    now = clock.now()
    Tokens(tx).prune(now - timedelta(days=_EXPIRED_TOKEN_DAYS))
    link, secret = _store_token(clock, tx, "link", "login link", scope, timedelta(minutes=LINK_MINUTES))
    return secret, to_text(link.expires_at or now)


def redeem_login_link(clock: Clock, tx: Tx, secret: str) -> str:
    """Exchange a login link for a browser session; returns the session's secret.

    Raises:
        Unauthorized: the link is unknown, was used, or has expired.
    """
    link = Tokens(tx).redeem(hash_secret(secret), clock.now())
    if link is None:
        raise Unauthorized(
            "This login link was already used or has expired.", remedy="Make another: `filrouge dashboard`."
        )
    session, session_secret = _store_token(clock, tx, "session", "browser", link.scope, timedelta(hours=SESSION_HOURS))
    _log_action(tx, clock.now(), "session_create", session)
    return session_secret


def _store_token(
    clock: Clock, tx: Tx, kind: TokenKind, name: str, scope: TokenScope, lifetime: timedelta | None
) -> tuple[Token, str]:
    now = clock.now()
    expires_at = now + lifetime if lifetime else None
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(id=new_id(now), kind=kind, name=name, scope=scope, created_at=now, expires_at=expires_at)
    Tokens(tx).put(token, secret)
    return token, secret


def _log_action(tx: Tx, at: datetime, action: str, token: Token) -> None:
    payload = {"name": token.name, "scope": token.scope}
    Journal(tx).append(at=at, actor="user", action=action, subject_id=token.id, payload=payload)
