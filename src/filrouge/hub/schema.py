"""Roles, schema and migrations of a hub's database, run by its owner; and what only the owner may do: add tenants.

The owner is the role that creates the schema. The serving role is another: it owns nothing, so forced row security
binds it.
"""

from __future__ import annotations

import re
import secrets
from functools import cache
from importlib.resources import files
from typing import Any, Final, LiteralString, cast

from msgspec import Struct
from psycopg import errors, sql
from psycopg.rows import dict_row

from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadInput, NotFound, StoreError, WrongEngine
from filrouge.hub import journal, queue, search
from filrouge.hub.database import Connection, translated
from filrouge.hub.models import SCOPES, NewToken
from filrouge.hub.tokens import checked_name, create_token
from filrouge.runtime.journal import JournalReport
from filrouge.runtime.repository import hash_secret

SERVING_ROLE: Final = "filrouge_hub"
#: Prefix of the secret of an installation's processes, so that people and secret scanners recognise it.
PROCESS_PREFIX: Final = "frp_"
_MIN_SECRET_CHARS: Final = 32
_MIN_POSTGRESQL: Final = 150_000
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Installation(Struct, frozen=True, kw_only=True):
    """What `init` did.

    Attributes:
        password: of the serving role if it was created; empty if it existed.
        process_secret: of the installation's processes, if one was made now; it is stored as a hash.
        applied: the migrations that ran.
    """

    role: str
    password: str
    process_secret: str
    applied: tuple[str, ...]


def connect(url: str) -> Connection:
    """Connect as the owner.

    Raises:
        HubUnavailable: the server does not answer, or refuses the role.
    """
    with translated():
        return Connection.connect(url, row_factory=dict_row, connect_timeout=5)


def init(
    connection: Connection,
    *,
    role: str = SERVING_ROLE,
    new_epoch: bool = False,
    process_secret: str = "",
    new_process_secret: bool = False,
) -> Installation:
    """Create the serving role and the schema, and bring an older schema up to date. Repeating it changes nothing.

    Memories whose words another version of the analyser made, or none, are analysed.

    Args:
        new_epoch: begin an epoch, so that devices whose cursors are ahead of this database miss no change. Needed
            after every restore, because only cursors elsewhere may show that the database went back in time.
        process_secret: the secret of the installation's processes; empty = the one it has, or a new one if it has none.
            Processes with another one are refused from now on.
        new_process_secret: make a new one.

    Raises:
        BadInput: the name of the role is invalid, or the secret is too short.
        WrongEngine: the server is too old, or the schema is newer than this program.
    """
    if not _NAME.fullmatch(role):
        raise BadInput(f"{role!r} is no name for a role: lower-case letters, digits and underscores.")
    if process_secret and len(process_secret) < _MIN_SECRET_CHARS:
        raise BadInput(
            f"A secret of the hub's processes has at least {_MIN_SECRET_CHARS} characters.",
            remedy="Make one with `openssl rand -hex 24`.",
        )
    with translated(), connection.transaction():
        if connection.info.server_version < _MIN_POSTGRESQL:
            raise WrongEngine("The hub needs PostgreSQL 15 or newer.", remedy="Upgrade the server.")
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('filrouge hub init'))")
        password = _create_role(connection, role)
        found, _ = schema_numbers(connection)
        steps = _migrations()
        if not found:
            _require_vectors(connection)
            connection.execute("CREATE SCHEMA hub")
        for _, text in steps[found:]:
            connection.execute(cast(LiteralString, text.replace("{serving}", role)))
        if found:
            connection.execute("UPDATE hub.installation SET schema = %s", [len(steps)])
            _begin_epoch(connection, always=new_epoch)
        else:
            connection.execute(
                "INSERT INTO hub.installation (secret, schema) VALUES (%s, %s)", [secrets.token_bytes(32), len(steps)]
            )
        queue.migrate(connection, role=role)
        made = "" if process_secret else PROCESS_PREFIX + secrets.token_urlsafe(32)
        is_replaced = bool(process_secret) or new_process_secret
        is_stored = _store_process_secret(connection, process_secret or made, replace=is_replaced)
    with translated():
        search.analyse_all(connection)
    return Installation(
        role=role,
        password=password,
        process_secret=made if is_stored else "",
        applied=tuple(name for name, _ in steps[found:]),
    )


def _require_vectors(connection: Connection) -> None:
    """Create the extension for vectors, if it is missing.

    Raises:
        StoreError: only a superuser may create it here, or the server has no pgvector.
    """
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.InsufficientPrivilege, errors.UndefinedFile, errors.FeatureNotSupported) as error:
        remedy = "Install pgvector on the server, and run `CREATE EXTENSION vector` in this database as a superuser."
        raise StoreError("The extension `vector` is missing, and this role cannot create it.", remedy=remedy) from error


def _create_role(connection: Connection, role: str) -> str:
    """Create the serving role; return its password, or an empty text if it exists."""
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        return ""
    password = secrets.token_urlsafe(24)
    connection.execute(
        sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE PASSWORD {}").format(
            sql.Identifier(role), sql.Literal(password)
        )
    )
    return password


def _store_process_secret(connection: Connection, secret: str, *, replace: bool) -> bool:
    """Store the hash of the secret of the installation's processes, if it has none or a new one replaces it."""
    changed = connection.execute(
        "UPDATE hub.installation SET process_hash = %s WHERE process_hash IS NULL OR %s", [hash_secret(secret), replace]
    )
    return bool(changed.rowcount)


def _schema_number(connection: Connection) -> int:
    """Return the number of the latest migration; 0 without a schema."""
    row = connection.execute("SELECT to_regclass('hub.installation') IS NOT NULL AS exists").fetchone()
    if row is None or not row["exists"]:
        return 0
    number = connection.execute("SELECT schema FROM hub.installation").fetchone()
    return int(number["schema"]) if number else 0


def schema_numbers(connection: Connection) -> tuple[int, int]:
    """Return the number of the database's schema, 0 without one, and that of this program.

    Raises:
        WrongEngine: the schema is newer than this program.
    """
    found, known = _schema_number(connection), len(_migrations())
    if found > known:
        raise WrongEngine(f"The schema is number {found}; this program knows {known}.")
    return found, known


def create_copy(connection: Connection, name: str, *, role: str) -> None:
    """Create an empty schema like the database's, of the same number, under another name; to compare with."""
    found, _ = schema_numbers(connection)
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    for _, text in _migrations()[:found]:
        renamed = re.sub(r"\bhub\b", name, text).replace("{serving}", role)
        connection.execute(cast(LiteralString, renamed))


def _begin_epoch(connection: Connection, *, always: bool) -> None:
    """Begin a new epoch, always or if stored transaction ids are ahead of the server's, as after restoring a dump."""
    connection.execute("UPDATE hub.installation SET epoch = epoch + 1 WHERE %s OR hub.needs_epoch()", [always])


@cache
def _migrations() -> tuple[tuple[str, str], ...]:
    """Return every migration in order: name and SQL."""
    folder = files("filrouge.hub") / "migrations"
    found = sorted(
        (file.name, file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name[-4:] == ".sql"
    )
    return tuple((name[:-4], text) for name, text in found)


def add_tenant(connection: Connection, clock: Clock, name: str, admin: str) -> NewToken:
    """Add a tenant with its first member, and return a token with all scopes for that member.

    Raises:
        BadInput: a name is empty, too long or taken.
    """
    name, admin = checked_name(name), checked_name(admin)
    tenant, member = new_id(clock.now()), new_id(clock.now())
    with translated(), connection.transaction():
        if connection.execute("SELECT 1 FROM hub.tenants WHERE name = %s", [name]).fetchone():
            raise BadInput(f"There is a team {name} already.")
        connection.execute("INSERT INTO hub.tenants (tenant, name) VALUES (%s, %s)", [tenant, name])
        connection.execute(
            "INSERT INTO hub.members (tenant, member, name) VALUES (%s, %s, %s)", [tenant, member, admin]
        )
        return create_token(connection, clock, tenant=tenant, member=member, name="first", scopes=SCOPES)


def tenant_named(connection: Connection, name: str) -> str:
    """Return the id of the tenant with this name.

    Raises:
        NotFound: there is no such tenant.
        StoreError: the database has no hub.
    """
    with translated():
        _require_schema(connection)
        row = connection.execute("SELECT tenant FROM hub.tenants WHERE name = %s", [name]).fetchone()
    if row is None:
        raise NotFound(f"There is no team {name}.", remedy="List them with `filrouge hub tenant list`.")
    return str(row["tenant"])


def audit(connection: Connection, name: str) -> JournalReport:
    """Verify the journal of the tenant with this name.

    Raises:
        NotFound: there is no such tenant.
        StoreError: the database has no hub.
    """
    tenant = tenant_named(connection, name)
    with translated():
        return journal.verify(connection, tenant)


def _require_schema(connection: Connection) -> None:
    if not _schema_number(connection):
        raise StoreError("This database has no hub.", remedy="Create it with `filrouge hub init`.")


def tenants(connection: Connection) -> list[dict[str, Any]]:
    """Return each tenant with its numbers of members, devices and live memories."""
    with translated():
        _require_schema(connection)
        return list(
            connection.execute(
                """
                SELECT tenant, name, created_at,
                  (SELECT count(*) FROM hub.members WHERE members.tenant = tenants.tenant
                   AND removed_at IS NULL) AS members,
                  (SELECT count(*) FROM hub.devices WHERE devices.tenant = tenants.tenant) AS devices,
                  (SELECT count(*) FROM hub.versions WHERE versions.tenant = tenants.tenant AND is_latest
                   AND state = 'live') AS memories
                FROM hub.tenants ORDER BY name
                """
            )
        )
