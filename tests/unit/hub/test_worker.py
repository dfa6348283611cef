"""Workers embed what came without a vector, tidy up, and check journals: only with the secret, one tenant at a time."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.resources import files
from typing import Any, LiteralString, cast

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from filrouge.core.errors import BadInput, FilrougeError, Unauthorized
from filrouge.core.protocols import Vector, Vectors
from filrouge.hub import queue, schema, service, worker
from filrouge.hub.database import Connection, HubDatabase
from filrouge.hub.models import Device, Receipt, decoded_vector
from filrouge.hub.worker import HubWorker
from filrouge.providers.embedders import create_embedder
from filrouge.providers.models import EmbeddingSpace
from tests.support.postgres import Hub
from tests.support.served_hub import served

from .shared import CLOCK, follow, push, team, ulid, version

HASHING = create_embedder("hashing")
SECRET_TEXT = "Kingfisher nests by the weir."
SECONDS = 60.0


@pytest.fixture(scope="module")
def hub_worker(hub: Hub) -> HubWorker:
    found = HubWorker(database=hub.database, embedder=HASHING, process_secret=hub.process_secret)
    found.start()
    return found


@pytest.fixture(autouse=True)
def _empty_queue(hub: Hub, hub_worker: HubWorker) -> None:
    empty_queue(hub)


def empty_queue(hub: Hub) -> None:
    run_sql(hub, "TRUNCATE hub_jobs.procrastinate_jobs CASCADE")


def run_sql(hub: Hub, statement: LiteralString, *values: Any) -> list[dict[str, Any]]:
    """Run a statement as the superuser, whom row security does not bind."""
    options = "-c search_path=hub_jobs,public"  # procrastinate's triggers need it
    with Connection.connect(hub.superuser, dbname=hub.name, row_factory=dict_row, options=options) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def jobs(hub: Hub) -> list[dict[str, Any]]:
    return run_sql(hub, "SELECT task_name, args, status::text, attempts FROM hub_jobs.procrastinate_jobs ORDER BY id")


def embeddings(hub: Hub, secret: str) -> list[dict[str, Any]]:
    """Return the jobs that embed memories of the member's tenant."""
    tenant = tenant_of(hub, secret)
    return [job for job in jobs(hub) if job["task_name"] == "embed" and job["args"]["tenant"] == tenant]


def tenant_of(hub: Hub, secret: str) -> str:
    with hub.database.session(secret) as session:
        return session.identity.tenant


def vectors(hub: Hub, secret: str) -> dict[str, Vector | None]:
    contents = [change.content for change in follow(hub, secret)[0] if change.content]
    return {one.memory: decoded_vector(one.vector) for one in contents}


def status(hub: Hub, secret: str) -> dict[str, Any]:
    with hub.database.session(secret) as session:
        return service.status(session)


def drain(hub: Hub, hub_worker: HubWorker) -> None:
    worker.run(hub.serving, hub_worker, wait=False)


class Failing:
    """An embedder that fails as often as it is told to, and quotes the text in its error."""

    def __init__(self, failures: int, then: Callable[[], None] = lambda: None) -> None:
        self.failures, self.then = failures, then

    @property
    def space(self) -> EmbeddingSpace:
        return HASHING.space

    def query(self, text: str) -> Vector:
        return HASHING.query(text)

    def passages(self, texts: Sequence[str]) -> Vectors:
        if self.failures:
            self.failures -= 1
            raise RuntimeError(f"no vector for {texts}")
        self.then()
        return HASHING.passages(texts)


# Vectors.


def test_what_is_pushed_without_a_vector_gets_the_embedders(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    plain = [version(f"The API of part {n} listens on port {n}.") for n in range(40)]
    ended = version("The old port is 80.", state="ended")
    push(hub, ana, *plain, ended)
    assert status(hub, ana)["waiting"] == 40
    assert [len(job["args"]["memories"]) for job in embeddings(hub, ana)] == [32, 8]

    drain(hub, hub_worker)

    found = vectors(hub, ana)
    for one in plain:
        stored = found[one.memory]
        assert stored is not None
        np.testing.assert_allclose(stored, HASHING.passages([one.text])[0], atol=1e-3)
    assert found[ended.memory] is None
    assert status(hub, ana)["waiting"] == 0
    hub_worker.catch_up()
    assert {job["status"] for job in embeddings(hub, ana)} == {"succeeded"}
    tenant = tenant_of(hub, ana)
    assert hub_worker.embed(tenant, [one.memory for one in plain]) == 0


def test_a_push_with_vectors_defers_nothing(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    push(hub, ana, version(space="any", vector="ADwAPA=="))
    assert jobs(hub) == []
    assert status(hub, ana)["waiting"] == 0


def test_nothing_is_deferred_before_the_first_worker_starts(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    run_sql(hub, "UPDATE hub.installation SET has_workers = false")
    push(hub, ana, version())
    assert jobs(hub) == []
    hub_worker.start()
    push(hub, ana, version())
    assert len(embeddings(hub, ana)) == 1


def test_a_push_that_is_rolled_back_defers_nothing(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]

    def fail_after_a_push() -> None:
        with hub.database.session(ana) as session:
            service.push(session, CLOCK, [version()])
            assert session.connection.execute("SELECT task_name FROM hub_jobs.procrastinate_jobs").fetchall()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_a_push()
    assert jobs(hub) == []


def test_a_job_of_one_tenant_touches_nothing_of_another(hub: Hub, hub_worker: HubWorker) -> None:
    ana, zoe = team(hub, "Ana")[0], team(hub, "Zoe")[0]
    same, other = version(), version()
    push(hub, ana, same)
    push(hub, zoe, version("Zoe's text.", memory=same.memory), other)
    assert hub_worker.embed(tenant_of(hub, ana), [same.memory, other.memory]) == 1
    assert vectors(hub, ana)[same.memory] is not None
    assert vectors(hub, zoe) == {same.memory: None, other.memory: None}


@pytest.mark.parametrize("what", ["forgotten", "superseded"])
def test_a_memory_that_changes_while_it_is_embedded_keeps_the_change(
    hub: Hub, hub_worker: HubWorker, what: str
) -> None:
    ana, one = team(hub, "Ana")[0], version(SECRET_TEXT)
    push(hub, ana, one)

    def change() -> None:
        if what == "superseded":
            push(hub, ana, version(SECRET_TEXT, memory=one.memory, version=2, state="ended"))
            return
        with hub.database.session(ana) as session:
            service.forget(session, CLOCK, [one.memory])

    late = HubWorker(database=hub.database, embedder=Failing(0, change), process_secret=hub.process_secret)
    assert late.embed(tenant_of(hub, ana), [one.memory]) == 0
    stored = run_sql(hub, "SELECT vector FROM hub.versions WHERE memory = %s", one.memory)
    assert {row["vector"] for row in stored} == {None}


def test_what_no_push_deferred_is_caught_up_with_once(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    push(hub, ana, version(), version())
    hub_worker.catch_up()
    assert len(embeddings(hub, ana)) == 1, "its job is in the queue already"
    empty_queue(hub)
    hub_worker.catch_up()
    assert len(embeddings(hub, ana)) == 1
    drain(hub, hub_worker)
    assert all(vector is not None for vector in vectors(hub, ana).values())


def test_a_worker_leaves_a_tenant_with_another_space_alone(hub: Hub, hub_worker: HubWorker) -> None:
    class Other(Failing):
        @property
        def space(self) -> EmbeddingSpace:
            return EmbeddingSpace(id="other/384", model="other", revision="1", dimension=384, pooling="sum", prefix="")

    ana, first, second = team(hub, "Ana")[0], version(), version()
    push(hub, ana, first)
    other = HubWorker(database=hub.database, embedder=Other(0), process_secret=hub.process_secret)
    tenant = tenant_of(hub, ana)
    assert other.embed(tenant, [first.memory]) == 1
    assert run_sql(hub, "SELECT space, dimension FROM hub.tenants WHERE tenant = %s", tenant) == [
        {"space": "other/384", "dimension": 384}
    ]
    push(hub, ana, second)
    assert hub_worker.embed(tenant, [second.memory]) == 0
    empty_queue(hub)
    hub_worker.catch_up()
    assert embeddings(hub, ana) == []
    other.catch_up()
    assert len(embeddings(hub, ana)) == 1
    assert other.embed(tenant, [second.memory]) == 1


def test_a_space_that_is_decided_while_the_model_works_holds(hub: Hub, hub_worker: HubWorker) -> None:
    ana, one = team(hub, "Ana")[0], version()
    tenant = tenant_of(hub, ana)
    push(hub, ana, one)

    def decide() -> None:
        run_sql(hub, "UPDATE hub.tenants SET space = 'other', dimension = 2 WHERE tenant = %s", tenant)

    late = HubWorker(database=hub.database, embedder=Failing(0, decide), process_secret=hub.process_secret)
    assert late.embed(tenant, [one.memory]) == 0
    assert vectors(hub, ana) == {one.memory: None}


# The queue.


def test_a_failing_embedder_is_asked_again_later_and_no_text_is_logged(
    hub: Hub, hub_worker: HubWorker, caplog: pytest.LogCaptureFixture
) -> None:
    ana = team(hub, "Ana")[0]
    push(hub, ana, version(SECRET_TEXT))
    caplog.set_level(logging.DEBUG)
    failing = HubWorker(database=hub.database, embedder=Failing(1), process_secret=hub.process_secret)
    drain(hub, failing)
    [job] = embeddings(hub, ana)
    assert (job["status"], job["attempts"]) == ("todo", 1)
    run_sql(hub, "UPDATE hub_jobs.procrastinate_jobs SET scheduled_at = now()")
    drain(hub, failing)
    assert all(vector is not None for vector in vectors(hub, ana).values())
    assert "The job embed failed: The embedder failed: RuntimeError." in caplog.text
    assert "Kingfisher" not in caplog.text


def test_the_queue_holds_ids_and_nothing_else(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    push(hub, ana, version(SECRET_TEXT, evidence=SECRET_TEXT))
    hub_worker.catch_up()
    drain(hub, hub_worker)
    tables = [
        row["relname"]
        for row in run_sql(
            hub, "SELECT relname FROM pg_class WHERE relnamespace = 'hub_jobs'::regnamespace AND relkind IN ('r', 'p')"
        )
    ]
    assert sorted(tables) == [f"procrastinate_{name}" for name in ("events", "jobs", "periodic_defers", "workers")]
    with psycopg.connect(hub.superuser, dbname=hub.name) as connection:
        dumped = [
            str(row)
            for table in tables
            for row in connection.execute(sql.SQL("SELECT * FROM hub_jobs.{}").format(sql.Identifier(table)))
        ]
    assert not any(word in row for row in dumped for word in ("Kingfisher", "harbour", "Ana"))
    for job in jobs(hub):
        assert set(job["args"]) <= {"tenant", "memories", "timestamp"}, job
    assert {job["task_name"] for job in jobs(hub)} >= {"embed", "verify"}


def test_an_older_queue_is_brought_up_to_date(hub: Hub) -> None:
    latest = run_sql(hub, "SELECT queue FROM hub.installation")[0]["queue"]
    run_sql(hub, "UPDATE hub.installation SET queue = '03.04.00_01_pre_add_retry_failed_job_procedure.sql'")
    run_sql(hub, "DROP FUNCTION hub_jobs.procrastinate_trigger_function_status_events_update_v1 CASCADE")
    with schema.connect(hub.owner) as connection:
        made = schema.init(connection, role=hub.role)
    assert (made.process_secret, made.applied) == ("", ())
    found = run_sql(hub, "SELECT to_regproc('procrastinate_trigger_function_status_events_update_v1')::text AS name")
    assert found[0]["name"]
    assert run_sql(hub, "SELECT queue FROM hub.installation")[0]["queue"] == latest


def test_a_hub_of_the_first_schema_gets_its_queue_and_its_secret(hub: Hub) -> None:
    first = (files("filrouge.hub") / "migrations" / "0001_baseline.sql").read_text(encoding="utf-8")
    owner_name = sql.Identifier(f"{hub.name}_owner")
    with psycopg.connect(hub.superuser, autocommit=True) as superuser:
        superuser.execute(sql.SQL("CREATE DATABASE old_hub OWNER {}").format(owner_name))
    try:
        with psycopg.connect(hub.superuser, dbname="old_hub") as superuser:
            superuser.execute("CREATE EXTENSION vector")
        with schema.connect(make_conninfo(hub.owner, dbname="old_hub")) as owner:
            owner.execute("CREATE SCHEMA hub")
            owner.execute(cast(LiteralString, first.replace("{serving}", hub.role)))
            owner.execute("INSERT INTO hub.installation (secret, schema) VALUES ('secret', 1)")
            ana = schema.add_tenant(owner, CLOCK, "acme", "Ana")
            made = schema.init(owner, role=hub.role)
        assert "0004_work" in made.applied
        database = HubDatabase(make_conninfo(hub.serving, dbname="old_hub"))
        database.open()
        hub_worker = HubWorker(database=database, embedder=HASHING, process_secret=made.process_secret)
        hub_worker.start()
        with database.session(ana.secret) as session:
            one = version()
            service.push(session, CLOCK, [one])
        assert hub_worker.embed(ana.tenant, [one.memory]) == 1
        database.close()
    finally:
        with psycopg.connect(hub.superuser, autocommit=True) as superuser:
            superuser.execute("DROP DATABASE old_hub WITH (FORCE)")


@contextmanager
def working(hub: Hub) -> Generator[subprocess.Popen[bytes]]:
    """A worker as a program of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "filrouge.cli.main", "hub", "work", "--embedder", "hashing"],
        env={
            **os.environ,
            "FILROUGE_HUB_DATABASE": hub.serving,
            "FILROUGE_HUB_PROCESS_SECRET": hub.process_secret,
        },
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_job_of_a_killed_worker_is_run_again(hub: Hub, hub_worker: HubWorker) -> None:
    ana, one = team(hub, "Ana")[0], version()
    push(hub, ana, one)
    with psycopg.connect(hub.superuser, dbname=hub.name) as blocking, working(hub) as first:
        blocking.execute("SELECT pg_advisory_xact_lock(hashtextextended('versions ' || %s, 0))", [tenant_of(hub, ana)])
        wait_for(
            first,
            lambda: bool(run_sql(hub, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")),
        )
        first.kill()
        first.wait()
    assert vectors(hub, ana)[one.memory] is None
    run_sql(hub, "UPDATE hub_jobs.procrastinate_workers SET last_heartbeat = now() - interval '31 seconds'")
    with working(hub) as second:
        wait_for(second, lambda: vectors(hub, ana)[one.memory] is not None)
        second.terminate()
        assert second.wait(SECONDS) == 0
    assert run_sql(hub, "SELECT 1 FROM hub_jobs.procrastinate_workers") == []


def test_a_worker_that_loses_its_connections_goes_on(hub: Hub, hub_worker: HubWorker) -> None:
    ana, one = team(hub, "Ana")[0], version()
    with working(hub) as process:
        wait_for(process, lambda: bool(run_sql(hub, "SELECT 1 FROM hub_jobs.procrastinate_workers")))
        run_sql(
            hub,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = %s AND datname = %s AND application_name = 'filrouge hub work'",
            hub.role,
            hub.name,
        )
        push(hub, ana, one)
        wait_for(process, lambda: vectors(hub, ana)[one.memory] is not None)


# Tidying, and checks.


def test_tidying_deletes_what_is_over_and_keeps_the_rest(hub: Hub, hub_worker: HubWorker) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    shared, devices = version(), {ana: ulid(), ben: ulid()}
    for secret, device in devices.items():
        with hub.database.session(secret) as session:
            service.join(session, CLOCK, Device(device=device, name="desk"))
    push(hub, ana, shared)
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [shared.memory])
    for secret, device in devices.items():
        with hub.database.session(secret) as session:
            service.confirm(session, device, [Receipt(memory=shared.memory, left_over=0)])
    tenant = tenant_of(hub, ana)
    member = run_sql(hub, "SELECT member FROM hub.members WHERE tenant = %s AND name = 'Ben'", tenant)[0]["member"]
    run_sql(hub, "UPDATE hub.members SET removed_at = now() WHERE member = %s", member)
    for days in (-1, 29, 31):
        run_sql(
            hub,
            "INSERT INTO hub.tokens (tenant, token, member, name, hash, scopes, expires_at)"
            " VALUES (%s, %s, %s, 'old', %s, '{read}', now() - %s)",
            tenant,
            f"expired {days}",
            member,
            os.urandom(32),
            timedelta(days=days),
        )
    tokens = run_sql(hub, "SELECT count(*) AS n FROM hub.tokens")[0]["n"]
    run_sql(
        hub,
        "WITH old AS (INSERT INTO hub_jobs.procrastinate_jobs (queue_name, task_name, status)"
        " VALUES ('default', 'old', 'failed'), ('default', 'young', 'succeeded') RETURNING id, task_name)"
        " INSERT INTO hub_jobs.procrastinate_events (job_id, type, at) SELECT id, 'succeeded',"
        " now() - CASE WHEN task_name = 'old' THEN interval '25 hours' ELSE interval '23 hours' END FROM old",
    )
    run_sql(
        hub,
        "INSERT INTO hub_jobs.procrastinate_jobs (queue_name, task_name, args) VALUES ('default', 'tidy', %s)",
        Jsonb({"timestamp": 0}),
    )

    drain(hub, hub_worker)

    left = {row["token"] for row in run_sql(hub, "SELECT token FROM hub.tokens WHERE tenant = %s", tenant)}
    assert {"expired -1", "expired 29"} <= left
    assert run_sql(hub, "SELECT count(*) AS n FROM hub.tokens")[0]["n"] == tokens - 1
    kept = run_sql(hub, "SELECT device FROM hub.receipts WHERE tenant = %s", tenant)
    assert kept == [{"device": devices[ana]}]
    assert {job["task_name"] for job in jobs(hub)} & {"old", "young"} == {"young"}


def test_a_device_that_was_away_for_90_days_is_lost_but_still_there(hub: Hub) -> None:
    ana, shared, device = team(hub, "Ana")[0], version(), ulid()
    with hub.database.session(ana) as session:
        service.join(session, CLOCK, Device(device=device, name="desk"))
    push(hub, ana, shared)
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [shared.memory])
    for days, lost in ((89, False), (91, True)):
        run_sql(hub, "UPDATE hub.devices SET seen_at = now() - %s WHERE device = %s", timedelta(days=days), device)
        told = status(hub, ana)
        assert (told["devices"], told["lost"], [one["lost"] for one in told["unconfirmed"]]) == (1, int(lost), [lost])


def test_journals_are_checked_once_a_day_and_a_broken_one_is_told_loudly(
    hub: Hub, hub_worker: HubWorker, caplog: pytest.LogCaptureFixture
) -> None:
    ana, zoe = team(hub, "Ana")[0], team(hub, "Zoe")[0]
    for secret in (ana, zoe):
        push(hub, secret, version())
        push(hub, secret, version())
    assert status(hub, ana)["journal"] is None
    hub_worker.catch_up()
    drain(hub, hub_worker)
    found = status(hub, ana)["journal"]
    assert (found["entries"], found["broken_at"]) == (2, None)
    assert "broken" not in caplog.text
    empty_queue(hub)
    hub_worker.catch_up()
    assert [job for job in jobs(hub) if job["task_name"] == "verify"] == [], "the check is not a day old"

    run_sql(hub, "UPDATE hub.journal_checks SET checked_at = now() - interval '25 hours'")
    run_sql(hub, "UPDATE hub.journal SET actor = 'x' WHERE tenant = %s AND number = 1", tenant_of(hub, ana))
    hub_worker.catch_up()
    drain(hub, hub_worker)
    told = {name: status(hub, ana)["journal"][name] for name in ("entries", "broken_at", "reason")}
    assert told == {"entries": 2, "broken_at": 1, "reason": "chain broken"}
    assert f"The journal of team {tenant_of(hub, ana)} is broken at entry 1: chain broken" in caplog.text
    assert status(hub, zoe)["journal"]["broken_at"] is None


@pytest.mark.parametrize("pushes", [0, 1, 2])
def test_a_journal_whose_end_was_cut_off_is_broken_even_if_it_grew_again(
    hub: Hub, hub_worker: HubWorker, pushes: int
) -> None:
    ana = team(hub, "Ana")[0]
    tenant = tenant_of(hub, ana)
    push(hub, ana, version())
    push(hub, ana, version())
    assert hub_worker.verify(tenant).sound
    assert hub_worker.verify(tenant).sound
    run_sql(hub, "DELETE FROM hub.journal WHERE tenant = %s AND number = 2", tenant)
    for _ in range(pushes):
        push(hub, ana, version())
    for _ in range(2):
        report = hub_worker.verify(tenant)
        assert (report.broken_at, report.reason) == (2, "entries that were checked are gone")


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "filrouge.cli.main", "hub", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_the_status_command_warns_of_a_broken_journal_and_counts_what_waits(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    push(hub, ana, version())
    run_sql(hub, "UPDATE hub.journal SET actor = 'x' WHERE tenant = %s", tenant_of(hub, ana))
    hub_worker.verify(tenant_of(hub, ana))
    with served(hub) as url:
        told = command("status", "--url", url, "--token", ana)
    assert told.returncode == 0, told.stderr
    assert "WARNING: THE JOURNAL IS BROKEN at entry 1: chain broken" in told.stdout
    assert "1 memories wait for a vector" in told.stdout


def test_the_work_command_says_what_it_lacks(hub: Hub) -> None:
    told = command("work", "--database", hub.serving, "--embedder", "hashing", FILROUGE_HUB_PROCESS_SECRET="frp_wrong")
    assert told.returncode != 0
    assert "its secret is missing or wrong" in told.stderr
    assert "not a setting" not in told.stderr


# Who may work.


FUNCTIONS: tuple[LiteralString, ...] = (
    "SELECT hub.enter_work(%s, %s)",
    "SELECT hub.start_work(%s), %s",
    "SELECT * FROM hub.waiting(%s, %s, 1)",
    "SELECT hub.unchecked(%s), %s",
    "SELECT hub.tidy(%s), %s",
)


def test_the_login_of_a_worker_reads_no_tenant_without_the_secret(hub: Hub, hub_worker: HubWorker) -> None:
    ana = team(hub, "Ana")[0]
    push(hub, ana, version(SECRET_TEXT))
    tenant = tenant_of(hub, ana)
    wrong = [None, "", hashlib.sha256(hub.process_secret.encode()).hexdigest(), "frp_guess"]
    with Connection.connect(hub.serving, row_factory=dict_row) as stolen:
        for given in wrong:
            for statement in FUNCTIONS:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not the secret"):
                    stolen.execute(statement, [given, tenant])
                stolen.rollback()
        for table in ("versions", "journal_checks", "journal", "tokens", "members"):
            found = stolen.execute(sql.SQL("SELECT * FROM hub.{}").format(sql.Identifier(table))).fetchall()
            assert found == [], table
        for statement in ("SELECT process_hash FROM hub.installation", "SELECT hub.require_process('x')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                stolen.execute(statement)
            stolen.rollback()
        # With the secret a transaction sees one tenant, and the next one none.
        stolen.execute("SELECT hub.enter_work(%s, %s)", [hub.process_secret, tenant])
        seen = stolen.execute("SELECT DISTINCT tenant FROM hub.versions").fetchall()
        assert seen == [{"tenant": tenant}]
        stolen.rollback()
        assert stolen.execute("SELECT * FROM hub.versions").fetchall() == []


def test_a_new_process_secret_ends_the_old_one(hub: Hub, hub_worker: HubWorker) -> None:
    def working_with(secret: str) -> HubWorker:
        return HubWorker(database=hub.database, embedder=HASHING, process_secret=secret)

    with schema.connect(hub.owner) as connection:
        made = schema.init(connection, role=hub.role, new_process_secret=True)
    try:
        working_with(made.process_secret).start()
        with pytest.raises(Unauthorized, match="secret"):
            working_with(hub.process_secret).start()
        with pytest.raises(FilrougeError):
            working_with("").tidy()
    finally:
        # The operator may give one, and it is not shown then.
        given = {"FILROUGE_HUB_PROCESS_SECRET": hub.process_secret}
        told = command("init", "--database", hub.owner, "--role", hub.role, **given)
    assert (told.returncode, told.stderr) == (0, "")
    assert "Secret" not in told.stdout
    working_with(hub.process_secret).start()
    with pytest.raises(Unauthorized, match="secret"):
        working_with(made.process_secret).start()


def test_a_short_process_secret_is_refused(hub: Hub) -> None:
    with schema.connect(hub.owner) as connection, pytest.raises(BadInput, match="at least 32"):
        schema.init(connection, role=hub.role, process_secret="x" * 31)


def test_the_serving_role_may_only_use_the_queue(hub: Hub, hub_worker: HubWorker) -> None:
    statements: tuple[LiteralString, ...] = (
        "CREATE TABLE hub_jobs.more (text text)",
        "ALTER TABLE hub_jobs.procrastinate_jobs ADD COLUMN text text",
        "DROP FUNCTION hub_jobs.procrastinate_retry_job_v2",
        "TRUNCATE hub_jobs.procrastinate_jobs CASCADE",
    )
    with psycopg.connect(hub.serving) as connection:
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()
    ana = team(hub, "Ana")[0]
    with hub.database.session(ana) as session:
        queue.defer_embedding(session.connection, session.identity.tenant, [])
    assert jobs(hub) == []
