"""The queue of background jobs: procrastinate's tables in the schema `hub_jobs`, and how a transaction defers a job.

The tables have no row security, and need none. A worker takes the next job of any tenant, so it must see all of them
before it has entered one. A row has the name of a task, ids of a tenant and of memories, and times: no text, no name,
no vector. What an id stands for is in the schema `hub`, behind row security. Whoever plants a job only makes a worker
do what it does anyway, in the tenant that the job names.

A job is deferred on the connection of a session, so it exists only if the session's transaction commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, LiteralString, cast

import psycopg
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.schema import SchemaManager
from procrastinate.types import JSONDict
from psycopg import sql

from filrouge.hub.database import CONNECT_SECONDS, Connection

#: The number of versions that one job embeds.
BATCH: Final = 32
#: A check of a journal waits for vectors, which somebody searches for.
_PRIORITIES: Final = {"embed": 0, "verify": -1}
_OPTIONS: Final = "-c search_path=hub_jobs -c statement_timeout=30s -c lock_timeout=10s"
_GRANTS: Final = """
GRANT USAGE ON SCHEMA hub_jobs TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON hub_jobs.procrastinate_jobs, hub_jobs.procrastinate_workers,
  hub_jobs.procrastinate_periodic_defers TO {role};
GRANT SELECT, INSERT ON hub_jobs.procrastinate_events TO {role};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA hub_jobs TO {role};
"""
#: Never opened: every job is deferred on a given connection.
_deferring = App(connector=SyncPsycopgConnector())


def migrate(connection: Connection, *, role: str) -> None:
    """Create the tables as their owner, or bring them up to date, and let the serving role use them."""
    folder = Path(SchemaManager.get_migrations_path())
    steps = sorted(file.name for file in folder.glob("*.sql"))
    row = connection.execute("SELECT queue FROM hub.installation").fetchone()
    assert row is not None
    applied = str(row["queue"])
    if applied:
        scripts = [(folder / step).read_text(encoding="utf-8") for step in steps if step > applied]
    else:
        connection.execute("CREATE SCHEMA hub_jobs")
        scripts = [SchemaManager.get_schema()]
    connection.execute("SET LOCAL search_path = hub_jobs")
    for script in scripts:
        connection.execute(cast(LiteralString, script))
    connection.execute("SET LOCAL search_path TO DEFAULT")
    connection.execute("UPDATE hub.installation SET queue = %s", [max(applied, steps[-1])])
    connection.execute(sql.SQL(_GRANTS).format(role=sql.Identifier(role)))


def connector(url: str) -> PsycopgConnector:
    """Return a worker's connections to the queue: one or two, and a third that listens for new jobs."""
    return PsycopgConnector(
        conninfo=url,
        min_size=1,
        max_size=2,
        kwargs={"options": _OPTIONS, "connect_timeout": CONNECT_SECONDS, "application_name": "filrouge hub work"},
    )


def defer_embedding(connection: Connection, tenant: str, memories: Sequence[str]) -> None:
    """Let a worker embed these memories of a tenant, once this transaction commits."""
    batches = (list(memories[start : start + BATCH]) for start in range(0, len(memories), BATCH))
    _defer(connection, "embed", [{"tenant": tenant, "memories": cast(Any, batch)} for batch in batches])


def defer_checks(connection: Connection, tenants: Sequence[str]) -> None:
    """Let a worker verify the journals of these tenants, once this transaction commits."""
    _defer(connection, "verify", [{"tenant": tenant} for tenant in tenants])


def _defer(connection: Connection, task: str, jobs: Sequence[JSONDict]) -> None:
    if not jobs:
        return
    deferrer = _deferring.configure_task(task, priority=_PRIORITIES[task], connection=connection)
    try:
        deferrer.batch_defer(*jobs)
    except ConnectorException as error:
        if isinstance(error.__cause__, psycopg.Error):
            raise error.__cause__ from None
        raise
