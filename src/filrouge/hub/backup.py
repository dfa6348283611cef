"""Checks whether a restored database holds a whole hub: `filrouge hub backup-check`.

The schema is compared with one that the same migrations create under another name, in a transaction that is rolled
back. What is stored is compared with the journals: they are hash chains, and name every shared version, every forgotten
memory, every invited member and every device. The check changes nothing.
"""

from __future__ import annotations

from typing import Final, cast

from msgspec import Struct
from psycopg import IsolationLevel, sql

from filrouge.core.errors import BadInput, StoreError
from filrouge.hub import journal
from filrouge.hub.database import Connection, tables_without_security, translated
from filrouge.hub.schema import SERVING_ROLE, create_copy, schema_numbers

#: The name of the schema to compare with.
_COPY: Final = "hub_expected"


class TenantCheck(Struct, frozen=True, kw_only=True):
    """What is stored of a tenant.

    Attributes:
        rows: the number of rows in each table.
        entries: the number of entries of its journal that were verified.
    """

    name: str
    rows: dict[str, int]
    entries: int


class BackupCheck(Struct, frozen=True, kw_only=True):
    """What was found in a database.

    Attributes:
        schema: the number of its schema.
        known_schema: the number of this program's schema; a lower `schema` is complete, but needs `init`.
        needs_epoch: whether stored transaction ids are ahead of the server's, so that no hub serves it before `init`.
        tenants: empty if the schema has a problem, because then nothing else was checked.
        problems: a sentence for each thing that is missing or wrong; empty if the database is sound and complete.
    """

    schema: int
    known_schema: int
    needs_epoch: bool
    tenants: tuple[TenantCheck, ...]
    problems: tuple[str, ...]


def check(connection: Connection, *, role: str = SERVING_ROLE) -> BackupCheck:
    """Check a database as its owner.

    Args:
        role: the serving role.

    Raises:
        StoreError: there is no hub.
        BadInput: another role owns the hub.
        WrongEngine: the schema is newer than this program.
    """
    connection.isolation_level = IsolationLevel.REPEATABLE_READ  # versions and journals of one moment
    with translated(), connection.transaction(force_rollback=True):
        _require_owner(connection)
        found, known = schema_numbers(connection)
        if not found:
            raise _no_hub()
        problems = _schema_problems(connection, role)
        if problems:
            return BackupCheck(schema=found, known_schema=known, needs_epoch=False, tenants=(), problems=problems)
        checked = [_check_tenant(connection, *tenant) for tenant in _tenants(connection)]
        return BackupCheck(
            schema=found,
            known_schema=known,
            needs_epoch=_needs_epoch(connection),
            tenants=tuple(tenant for tenant, _ in checked),
            problems=tuple(problem for _, problems in checked for problem in problems),
        )


def _require_owner(connection: Connection) -> None:
    row = connection.execute(
        "SELECT nspowner::regrole::text AS owner, current_user::regrole::text AS me FROM pg_namespace"
        " WHERE nspname = 'hub'"
    ).fetchone()
    if row is None:
        raise _no_hub()
    if row["owner"] != row["me"]:
        raise BadInput(
            f"This hub belongs to the role {row['owner']}, and this is {row['me']}.", remedy="Connect as its owner."
        )


def _no_hub() -> StoreError:
    return StoreError("This database has no hub.", remedy="Restore the backup into it first.")


# The schema.

#: Everything that the migrations create in a schema: a name for each, and its definition.
_CONTENTS: Final = """
WITH relations AS (SELECT * FROM pg_class WHERE relnamespace = %(schema)s::text::regnamespace),
  tables AS (SELECT * FROM relations WHERE relkind IN ('r', 'p', 'v', 'm')),
  sequences AS (SELECT * FROM relations WHERE relkind = 'S'),
  functions AS (SELECT *, proname || '(' || pg_get_function_identity_arguments(oid) || ')' AS signature
                FROM pg_proc WHERE pronamespace = %(schema)s::text::regnamespace AND prokind IN ('f', 'p'))
SELECT 'The table ' || relname AS name, relkind::text AS definition FROM tables
UNION ALL SELECT 'The sequence ' || relname, '' FROM sequences
UNION ALL SELECT 'The column ' || relname || '.' || attname,
    concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attgenerated, pg_get_expr(adbin, adrelid))
  FROM tables JOIN pg_attribute ON attrelid = tables.oid AND attnum > 0 AND NOT attisdropped
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
UNION ALL SELECT 'The constraint ' || conname || ' of ' || relname, pg_get_constraintdef(pg_constraint.oid)
  FROM tables JOIN pg_constraint ON conrelid = tables.oid AND contype <> 'n'
UNION ALL SELECT 'The index ' || indexrelid::regclass::text, pg_get_indexdef(indexrelid) || indisvalid
  FROM tables JOIN pg_index ON indrelid = tables.oid
UNION ALL SELECT 'The trigger ' || tgname || ' of ' || relname, pg_get_triggerdef(pg_trigger.oid)
  FROM tables JOIN pg_trigger ON tgrelid = tables.oid AND NOT tgisinternal
UNION ALL SELECT 'The function ' || signature, pg_get_functiondef(oid) FROM functions
UNION ALL SELECT 'The policy ' || policyname || ' on ' || tablename,
    concat_ws(' ', permissive, roles, cmd, 'USING', qual, 'CHECK', with_check)
  FROM pg_policies WHERE schemaname = %(schema)s::text
UNION ALL SELECT 'The grant of ' || privilege_type || ' on ' || owned.name || ' to '
    || CASE WHEN grantee = 0 THEN 'everyone' ELSE grantee::regrole::text END, ''
  FROM (SELECT relname::text AS name, coalesce(relacl, acldefault('r', relowner)) AS acl FROM tables
        UNION ALL SELECT relname, coalesce(relacl, acldefault('s', relowner)) FROM sequences
        UNION ALL SELECT relname || '.' || attname, attacl FROM tables JOIN pg_attribute ON attrelid = tables.oid
        UNION ALL SELECT signature, coalesce(proacl, acldefault('f', proowner)) FROM functions
        UNION ALL SELECT 'the schema', coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace
        WHERE nspname = %(schema)s::text) AS owned, aclexplode(acl)
UNION ALL SELECT 'The owner of ' || name, owner::regrole::text
  FROM (SELECT relname::text AS name, relowner AS owner FROM tables UNION ALL SELECT relname, relowner FROM sequences
        UNION ALL SELECT signature, proowner FROM functions) AS owned
"""
#: An addition of these kinds opens something of the hub; any other is the business of who runs the server.
_OPENING: Final = ("The policy", "The grant")


def _schema_problems(connection: Connection, role: str) -> tuple[str, ...]:
    """Return what of the schema is missing, changed, or open to others."""
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        return (f"The role {role}, which serves, is missing: create it, then restore again.",)
    unsafe = tuple(f"Row security is off for {table}." for table in tables_without_security(connection))
    create_copy(connection, _COPY, role=role)
    expected, found = _contents(connection, _COPY), _contents(connection, "hub")
    missing = tuple(f"{name} is missing." for name in sorted(expected.keys() - found.keys()))
    changed = tuple(
        f"{name} is not the one of Filrouge."
        for name in sorted(expected)
        if found.get(name) not in (None, expected[name])
    )
    opened = tuple(
        f"{name} is none of Filrouge's." for name in sorted(found.keys() - expected.keys()) if name.startswith(_OPENING)
    )
    return unsafe + missing + changed + opened


def _contents(connection: Connection, schema: str) -> dict[str, str]:
    rows = connection.execute(_CONTENTS, {"schema": schema})
    return {row["name"].replace(_COPY, "hub"): row["definition"].replace(_COPY, "hub") for row in rows}


def _needs_epoch(connection: Connection) -> bool:
    row = connection.execute("SELECT hub.needs_epoch() AS needed").fetchone()
    return row is not None and bool(row["needed"])


# What is stored.

_TABLES: Final = """
SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant'
WHERE relnamespace = 'hub'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname
"""
#: What a tenant's journal names and its tables do not have: a sentence for each kind, and its number.
_LOST: Final = """
SELECT 'Shared versions' AS what, count(*) AS number
  FROM hub.journal CROSS JOIN LATERAL jsonb_array_elements(payload::jsonb -> 'versions') AS shared
  WHERE tenant = %(tenant)s AND action = 'share' AND NOT EXISTS (
    SELECT 1 FROM hub.versions WHERE versions.tenant = journal.tenant AND memory = shared ->> 0
    AND (state = 'forgotten' OR version = (shared ->> 1)::integer))
UNION ALL SELECT 'Tombstones of forgotten memories', count(*) FROM hub.journal
  WHERE tenant = %(tenant)s AND action = 'forget' AND NOT EXISTS (
    SELECT 1 FROM hub.versions
    WHERE versions.tenant = journal.tenant AND memory = journal.subject AND state = 'forgotten')
UNION ALL SELECT 'Members', count(*) FROM hub.journal
  WHERE tenant = %(tenant)s AND action = 'member_invite' AND NOT EXISTS (
    SELECT 1 FROM hub.members WHERE members.tenant = journal.tenant AND member = journal.subject)
UNION ALL SELECT 'Devices', count(*) FROM hub.journal
  WHERE tenant = %(tenant)s AND action = 'join' AND NOT EXISTS (
    SELECT 1 FROM hub.devices WHERE devices.tenant = journal.tenant AND device = journal.subject)
"""


def _tenants(connection: Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT tenant, name FROM hub.tenants ORDER BY name")
    return [(row["tenant"], row["name"]) for row in rows]


def _check_tenant(connection: Connection, tenant: str, name: str) -> tuple[TenantCheck, tuple[str, ...]]:
    """Return what is stored of a tenant, and a sentence for each thing that is wrong."""
    report = journal.verify(connection, tenant)
    if not report.sound:
        broken = (f"{name}: its journal breaks at entry {report.broken_at}: {report.reason}.",)
    else:
        lost = connection.execute(_LOST, {"tenant": tenant})
        broken = tuple(
            f"{name}: {row['what']} that its journal names are missing: {row['number']}."
            for row in lost
            if row["number"]
        )
    return TenantCheck(name=name, rows=_count_rows(connection, tenant), entries=report.entries), broken


def _count_rows(connection: Connection, tenant: str) -> dict[str, int]:
    counts = dict[str, int]()
    for table in [cast(str, row["relname"]) for row in connection.execute(_TABLES)]:
        query = sql.SQL("SELECT count(*) AS number FROM hub.{} WHERE tenant = %s").format(sql.Identifier(table))
        row = connection.execute(query, [tenant]).fetchone()
        counts[table] = 0 if row is None else int(row["number"])
    return counts
