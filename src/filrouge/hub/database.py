"""Connections of the serving role, and transactions that see one tenant.

A transaction begins with a token, the hub's own or an identity provider's. A function of the database finds its tenant
and seals it into the transaction; from then on row security shows only that tenant's rows. A connection that never
entered sees no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from filrouge.core.errors import Busy, FilrougeError, HubUnavailable, StoreError, Unauthorized
from filrouge.hub.limits import RequestLimit
from filrouge.hub.oidc import IdentityProviders, is_jwt
from filrouge.hub.sessions import Connection, Session, enter_with_token

#: A writer that hangs would hold back all changes, so the server ends transactions that wait, and slow statements.
#: Times are answered in UTC, whatever the server's own zone is.
_OPTIONS: Final = (
    "-c timezone=UTC -c idle_in_transaction_session_timeout=10s -c statement_timeout=30s -c lock_timeout=10s"
)
_POOL_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 5
#: Errors that the next try may not have.
_TRANSIENT: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
)


class HubDatabase:
    """A pool of connections of the serving role."""

    def __init__(self, url: str, *, max_connections: int = 10, providers: IdentityProviders | None = None) -> None:
        self._providers = providers
        self._request_limit = RequestLimit()
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
            HubUnavailable: the server does not answer, or the secret for identity providers is wrong.
            StoreError: the schema is missing, or the role could read other tenants' rows.
        """
        with translated():
            self._pool.open(wait=True, timeout=_POOL_SECONDS)
            with self._pool.connection() as connection:
                refuse_bypass(connection)
            if self._providers is not None:
                self._knows_issuer("")

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
    def session(self, bearer: str) -> Generator[Session]:
        """A transaction of the member whose token this is; it counts as a request of their tenant.

        Args:
            bearer: a token of the hub, or a JWT of an identity provider.

        Raises:
            Unauthorized: the token is not valid.
            TooMany: the tenant's requests of this minute are used up.
            HubUnavailable: the server does not answer, or the identity provider's keys cannot be fetched.
            Busy: another transaction held what this one needs.
        """
        enter = self._entrance(bearer)  # this may ask an identity provider, so no connection is held meanwhile
        with translated(), self._pool.connection() as connection:
            while True:
                with connection.transaction():
                    session = enter(connection)
                    if session.has_joined:
                        continue
                    if self._request_limit.take(session.identity.tenant):
                        yield session
                        return
                with connection.transaction():
                    self._request_limit.reserve(enter(connection))

    def _entrance(self, bearer: str) -> Callable[[Connection], Session]:
        if not is_jwt(bearer):
            return partial(enter_with_token, secret=bearer)
        if self._providers is None:
            raise Unauthorized(
                "This hub takes no tokens of identity providers.", remedy="Ask an admin of the team for a hub's token."
            )
        return partial(self._providers.enter, person=self._providers.verify(bearer, self._knows_issuer))

    def _knows_issuer(self, issuer: str) -> bool:
        assert self._providers is not None
        with translated(), self._pool.connection() as connection, connection.transaction():
            return self._providers.knows_issuer(connection, issuer)


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


def tables_without_security(connection: psycopg.Connection[Any]) -> list[str]:
    """Return the tables of tenants' rows that row security does not protect from every role."""
    return [row["relname"] for row in connection.execute(_TABLES_WITHOUT_SECURITY)]


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
    if unsafe := tables_without_security(connection):
        raise StoreError(f"Row security is off for {', '.join(unsafe)}.", remedy=remedy)
    epoch = connection.execute("SELECT hub.needs_epoch() AS needed").fetchone()
    if epoch is None or epoch["needed"]:
        raise StoreError("This database is a restored dump.", remedy="Run `filrouge hub init` once before serving.")
