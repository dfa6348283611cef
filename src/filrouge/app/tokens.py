"""Tokens: made, revoked, and turned into a browser's session. What is done with them is in the journal; they are not.

A browser cannot be handed a token without leaving it in a history, so it gets a link that works once and within
minutes, and holds a session afterwards.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any

from filrouge.app.parts import Parts
from filrouge.clock import new_id, to_text
from filrouge.errors import BadInput, Unauthorized
from filrouge.model.token import Allowed, Kind, Token
from filrouge.ports import Tx
from filrouge.store.journal import Journal
from filrouge.store.tokens import Tokens, hashed

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


def _made(parts: Parts, tx: Tx, kind: Kind, name: str, scope: Allowed, holds: timedelta | None) -> tuple[Token, str]:
    now = parts.clock.now()
    expires = now + holds if holds else None
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(id=new_id(now), kind=kind, name=name, scope=scope, created_at=now, expires_at=expires)
    Tokens(tx).put(token, secret)
    return token, secret


def _note(tx: Tx, at: datetime, action: str, token: Token) -> None:
    payload = {"name": token.name, "scope": token.scope}
    Journal(tx).append(at=at, actor="user", action=action, subject_id=token.id, payload=payload)
