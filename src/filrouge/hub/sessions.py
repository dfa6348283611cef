"""Transactions that see one tenant. `database` opens them; the verbs of the hub work within them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.rows import DictRow

from filrouge.core.errors import Forbidden, Unauthorized
from filrouge.hub.models import Identity, Scope
from filrouge.runtime.repository import hash_secret

Connection = psycopg.Connection[DictRow]


class Session(Struct, frozen=True, kw_only=True):
    """A transaction that sees the rows of one tenant.

    Attributes:
        has_joined: the transaction made its member, so it ends before any work: the journal is locked until then.
    """

    identity: Identity
    connection: Connection
    has_joined: bool = False

    def require(self, scope: Scope) -> None:
        """Check that the token has a scope.

        Raises:
            Forbidden: it has not.
        """
        if scope not in self.identity.scopes:
            raise Forbidden(f"This needs a token with the scope {scope}.", remedy="Ask an admin of the team for one.")


def enter_with_token(connection: Connection, secret: str) -> Session:
    """Seal the tenant of a hub's token into the transaction.

    Raises:
        Unauthorized: no valid token has this secret.
    """
    row = connection.execute("SELECT * FROM hub.enter(%s)", [hash_secret(secret)]).fetchone()
    if row is None:
        raise Unauthorized(
            "The token is unknown, has expired or was revoked.", remedy="Ask an admin of the team for a new one."
        )
    return Session(identity=identity_of(row), connection=connection)


def identity_of(row: Mapping[str, Any]) -> Identity:
    """Return who the row of an `enter` function names."""
    names = ("tenant", "tenant_name", "member", "member_name", "token")
    return Identity(**{name: row[name] for name in names}, scopes=frozenset(row["scopes"]))
