"""What surrounds the verbs of a hub: the size of a body, errors that nobody expected, the commands of its owner."""

from __future__ import annotations

import http.client
import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from filrouge.cli.commands.hub import hub_app
from filrouge.core.errors import BadInput, FilrougeError, NotFound, TooLarge
from filrouge.hub import schema
from filrouge.hub.client import HubClient
from filrouge.hub.database import HubDatabase
from filrouge.hub.models import Device
from filrouge.server.hub import MAX_BODY
from tests.support.postgres import Hub

from .shared import push, team, ulid, version

CANARY = "The vault opens with Kingfisher-7731."
PIECE = b" " * 1_000_000


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in chunks"])
@pytest.mark.parametrize(("size", "status"), [(MAX_BODY, 400), (MAX_BODY + 1, 413)])
def test_a_body_over_the_maximum_is_refused_as_too_large(
    hub: Hub, url: str, declared: bool, size: int, status: int
) -> None:
    headers = {"Authorization": f"Bearer {team(hub, 'Ana')[0]}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    length = {"Content-Length": str(size)} if declared else {"Transfer-Encoding": "chunked"}
    with suppress(ConnectionError):  # it is answered before all is sent
        connection.request("POST", "/hub/v1/push", pieces(size), headers | length, encode_chunked=not declared)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert ("at most 32 MB" in said, "limit_body_mb" in said) == (status == 413, False)


def test_a_client_hears_that_its_push_is_too_large(hub: Hub, url: str) -> None:
    large = version("x" * 50_000, evidence="y" * 50_000)
    with pytest.raises(TooLarge, match="at most 32 MB") as refused:
        HubClient(url, team(hub, "Ana")[0]).push([large] * 400)
    assert refused.value.remedy == "Send fewer versions at once."


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // len(PIECE)):
        yield PIECE
    if size % len(PIECE):
        yield PIECE[: size % len(PIECE)]


def test_an_unexpected_error_quotes_no_memory_in_the_answer_or_the_log(
    hub: Hub, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret, stored = team(hub, "Ana")[0], version()
    push(hub, secret, stored)
    with psycopg.connect(hub.superuser, dbname=hub.name) as connection:  # longer than a hub would accept
        connection.execute("UPDATE hub.versions SET text = repeat(%s, 2000) WHERE memory = %s", [CANARY, stored.memory])
    with caplog.at_level(logging.DEBUG), pytest.raises(FilrougeError, match="The hub failed") as failed:
        HubClient(url, secret).changes(after="")
    assert failed.value.http_status == 500
    assert "ValidationError at:" in caplog.text
    assert "_version_change" in caplog.text
    assert "Kingfisher" not in caplog.text + str(failed.value)


def test_times_are_in_utc_whatever_the_zone_of_the_server_is(hub: Hub) -> None:
    with psycopg.connect(hub.superuser, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER ROLE {} SET timezone = 'Asia/Tokyo'").format(sql.Identifier(hub.role)))
    secret, database = team(hub, "Ana")[0], HubDatabase(hub.serving, max_connections=1)
    database.open()
    try:
        with database.session(secret) as session:
            row = session.connection.execute("SELECT now() AS now").fetchone()
    finally:
        database.close()
    assert row is not None
    assert row["now"].utcoffset() == timedelta(0)
    assert abs(row["now"] - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_owner_audits_a_team_by_its_name(hub: Hub) -> None:
    secret = hub.add_tenant("Audited").secret
    push(hub, secret, version())
    with schema.connect(hub.owner) as connection:
        report = schema.audit(connection, "Audited")
        assert (report.sound, report.entries) == (True, 1)
        with pytest.raises(NotFound, match="no team Nobody"):
            schema.audit(connection, "Nobody")


def test_the_commands_ask_a_hub_that_runs(hub: Hub, url: str) -> None:
    secret = team(hub, "Ana", "Ben")[0]
    HubClient(url, secret).join(Device(device=ulid(), name="laptop"))

    def run(*words: str) -> str:
        done = CliRunner().invoke(hub_app, [*words, "--url", url, "--token", secret])
        if done.exception is not None:
            raise done.exception
        return done.output

    assert "Cleo may read, forget." in run("member", "invite", "Cleo", "--scope", "forget", "--scope", "read")
    assert "0 memories, 3 members, 1 devices" in run("status")
    assert "Ben is removed" in run("member", "remove", "Ben")
    assert "removed" in run("member", "list")
    with pytest.raises(BadInput, match=r"--scope is share, read, forget or admin, not 'shared'\.") as refused:
        run("member", "invite", "Dana", "--scope", "shared")
    assert refused.value.exit_code == 2
