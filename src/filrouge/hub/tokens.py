"""Members of a tenant and their tokens. The journal records each change, never a secret."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadInput, NotFound
from filrouge.hub import journal
from filrouge.hub.database import Connection, Session
from filrouge.hub.models import SCOPES, NewToken, Scope
from filrouge.runtime.repository import hash_secret

#: Prefix of every secret, so that people and secret scanners recognise it.
PREFIX: Final = "frh_"
_MAX_NAME_CHARS: Final = 100
_MAX_DAYS: Final = 3650


def create_token(
    connection: Connection,
    clock: Clock,
    *,
    tenant: str,
    member: str,
    name: str,
    scopes: Sequence[Scope],
    days: int | None = None,
) -> NewToken:
    """Create a token of a member.

    Args:
        days: until it expires; None = never.

    Raises:
        BadInput: there is no scope, a scope is unknown, or `days` is out of range.
    """
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise BadInput(f"Scopes are {', '.join(SCOPES)}; at least one of them is needed.")
    if days is not None and not 1 <= days <= _MAX_DAYS:
        raise BadInput(f"A token is valid for 1 to {_MAX_DAYS} days.")
    secret, id_ = PREFIX + secrets.token_urlsafe(32), new_id(clock.now())
    kept = sorted(set(scopes), key=SCOPES.index)
    connection.execute(
        "INSERT INTO hub.tokens (tenant, token, member, name, hash, scopes, expires_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, now() + %s)",
        [tenant, id_, member, checked_name(name), hash_secret(secret), kept, timedelta(days=days) if days else None],
    )
    return NewToken(token=id_, tenant=tenant, member=member, name=name, scopes=tuple(kept), secret=secret)


def checked_name(text: str) -> str:
    """Return a name of a tenant, a member or a token.

    Raises:
        BadInput: it is empty, too long, or not one printable line.
    """
    if not text.strip() or len(text) > _MAX_NAME_CHARS or not text.isprintable():
        raise BadInput(f"A name is one line of at most {_MAX_NAME_CHARS} characters.")
    return text.strip()


def invite(session: Session, clock: Clock, name: str, scopes: Sequence[Scope], days: int | None = None) -> NewToken:
    """Add a member, or find the one with this name, and create a token for it.

    Raises:
        Forbidden: the caller is no admin.
    """
    session.require("admin")
    tenant, name = session.identity.tenant, checked_name(name)
    found = session.connection.execute(
        "SELECT member FROM hub.members WHERE tenant = %s AND lower(name) = lower(%s) AND removed_at IS NULL",
        [tenant, name],
    ).fetchone()
    member = found["member"] if found else new_id(clock.now())
    if not found:
        session.connection.execute(
            "INSERT INTO hub.members (tenant, member, name) VALUES (%s, %s, %s)", [tenant, member, name]
        )
    token = create_token(session.connection, clock, tenant=tenant, member=member, name=name, scopes=scopes, days=days)
    journal.append(session, clock, action="member_invite", subject=member, payload={"token": token.token})
    return token


def remove(session: Session, clock: Clock, name: str) -> None:
    """Remove a member: their tokens are refused from now on, and what they shared stays.

    Raises:
        Forbidden: the caller is no admin.
        NotFound: there is no such member.
        BadInput: it is the caller.
    """
    session.require("admin")
    row = session.connection.execute(
        "UPDATE hub.members SET removed_at = now() WHERE lower(name) = lower(%s) AND removed_at IS NULL"
        " RETURNING member",
        [name],
    ).fetchone()
    if row is None:
        raise NotFound(f"No member is called {name}.", remedy="List them with `filrouge hub member list`.")
    if row["member"] == session.identity.member:
        raise BadInput("An admin cannot remove themselves.", remedy="Ask another admin.")
    session.connection.execute(
        "UPDATE hub.tokens SET revoked_at = now() WHERE member = %s AND revoked_at IS NULL", [row["member"]]
    )
    journal.append(session, clock, action="member_remove", subject=row["member"], payload={})


def revoke(session: Session, clock: Clock, token: str) -> None:
    """Revoke a token: one's own, or any as an admin.

    Raises:
        NotFound: there is none with this id.
        Forbidden: it is another member's, and the caller is no admin.
    """
    row = session.connection.execute("SELECT member FROM hub.tokens WHERE token = %s", [token]).fetchone()
    if row is None:
        raise NotFound(f"There is no token {token}.", remedy="List them with `filrouge hub member list`.")
    if row["member"] != session.identity.member:
        session.require("admin")
    session.connection.execute(
        "UPDATE hub.tokens SET revoked_at = now() WHERE token = %s AND revoked_at IS NULL", [token]
    )
    journal.append(session, clock, action="token_revoke", subject=token, payload={})


def members(session: Session) -> list[dict[str, Any]]:
    """Return each member with their valid tokens and devices."""
    return list(
        session.connection.execute(
            """
            SELECT member, name, created_at, removed_at,
              (SELECT count(*) FROM hub.tokens WHERE tokens.member = members.member AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > now())) AS tokens,
              (SELECT count(*) FROM hub.devices WHERE devices.member = members.member) AS devices
            FROM hub.members ORDER BY removed_at IS NOT NULL, name
            """
        )
    )
