"""Connections of the serving role, and transactions that see one tenant.

A transaction begins with a token. `hub.enter` finds its tenant and seals it into the transaction; from then on row
security shows only that tenant's rows. A connection that never entered sees no rows.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from filrouge.core.errors import Busy, FilrougeError, Forbidden, HubUnavailable, StoreError, Unauthorized
from filrouge.hub.models import Identity, Scope
from filrouge.runtime.repository import hash_secret

Connection = psycopg.Connection[DictRow]

#: A writer that hangs would hold back all changes, so the server ends transactions that wait, and slow statements.
#: Compiling a query (`jit`) takes longer than any of them.
_OPTIONS: Final = "-c idle_in_transaction_session_timeout=10s -c statement_timeout=30s -c lock_timeout=10s -c jit=off"
_POOL_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 5
#: Errors that the next try may not have.
_TRANSIENT: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A transaction that sees the rows of one tenant."""

    identity: Identity
    connection: Connection

    def require(self, scope: Scope) -> None:
        """Check that the token has a scope.

        Raises:
            Forbidden: it has not.
        """
        if scope not in self.identity.scopes:
            raise Forbidden(f"This needs a token with the scope {scope}.", remedy="Ask an admin of the team for one.")


class HubDatabase:
    """A pool of connections of the serving role."""

    def __init__(self, url: str, *, max_connections: int = 10) -> None:
        self._pool = ConnectionPool(
            url,
            connection_class=Connection,
            min_size=1,
            max_size=max_connections,
            timeout=_POOL_SECONDS,
            open=False,
            check=ConnectionPool[Connection].check_connection,
            kwargs={"row_factory": dict_row, "options": _OPTIONS, "connect_timeout": _CONNECT_SECONDS},
        )

    def open(self) -> None:
        """Connect, and check that row security binds the role.

        Raises:
            HubUnavailable: the server does not answer.
            StoreError: the schema is missing, or the role could read other tenants' rows.
        """
        with translated():
            self._pool.open(wait=True, timeout=_POOL_SECONDS)
            with self._pool.connection() as connection:
                refuse_bypass(connection)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def ping(self) -> None:
        """Check that the server answers.

        Raises:
            HubUnavailable: it does not.
        """
        with translated(), self._pool.connection() as connection:
            connection.execute("SELECT 1")

    @contextmanager
    def session(self, secret: str) -> Generator[Session]:
        """A transaction of the member whose token has this secret.

        Raises:
            Unauthorized: no valid token has this secret.
            HubUnavailable: the server does not answer.
            Busy: another transaction held what this one needs.
        """
        with translated(), self._pool.connection() as connection, connection.transaction():
            row = connection.execute("SELECT * FROM hub.enter(%s)", [hash_secret(secret)]).fetchone()
            if row is None:
                raise Unauthorized(
                    "The token is unknown, has expired or was revoked.",
                    remedy="Ask an admin of the team for a new one.",
                )
            identity = Identity(
                **{name: value for name, value in row.items() if name != "scopes"}, scopes=frozenset(row["scopes"])
            )
            yield Session(identity=identity, connection=connection)


@contextmanager
def translated() -> Generator[None]:
    """Turn the driver's errors into Filrouge's."""
    try:
        yield
    except FilrougeError:
        raise
    except _TRANSIENT as error:
        raise Busy("Another transaction holds what this one needs.", remedy="Try again in a moment.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
        raise HubUnavailable("PostgreSQL does not answer.") from error
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL refused the operation: {type(error).__name__}.") from error


_TABLES_WITHOUT_SECURITY: Final = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'hub' AND relkind IN ('r', 'p') AND relname <> 'installation'
  AND NOT (relrowsecurity AND relforcerowsecurity)
"""
_ROLE: Final = """
SELECT rolname, rolsuper OR rolbypassrls AS bypasses,
  EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'hub') AS has_schema,
  EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'hub' AND pg_has_role(current_user, nspowner, 'MEMBER')) AS owns,
  EXISTS (SELECT 1 FROM pg_roles AS other WHERE (other.rolsuper OR other.rolbypassrls)
          AND pg_has_role(current_user, other.oid, 'MEMBER')) AS may_become
FROM pg_roles WHERE rolname = current_user
"""


def refuse_bypass(connection: psycopg.Connection[Any]) -> None:
    """Check that row security binds this connection's role.

    Raises:
        StoreError: it does not, or there is no schema.
    """
    remedy = "Create roles and schema with `filrouge hub init`, and serve with the role that it prints."
    role = connection.execute(_ROLE).fetchone()
    if role is None or not role["has_schema"]:
        raise StoreError("This database has no hub.", remedy=remedy)
    if role["bypasses"] or role["owns"] or role["may_become"]:
        raise StoreError(f"The role {role['rolname']} could bypass row security, so it may not serve.", remedy=remedy)
    unsafe = [row["relname"] for row in connection.execute(_TABLES_WITHOUT_SECURITY)]
    if unsafe:
        raise StoreError(f"Row security is off for {', '.join(unsafe)}.", remedy=remedy)
    epoch = connection.execute("SELECT hub.needs_epoch() AS needed").fetchone()
    if epoch is None or epoch["needed"]:
        raise StoreError("This database is a restored dump.", remedy="Run `filrouge hub init` once before serving.")
