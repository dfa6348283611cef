"""The scripts of docker/archive and docker/postgres, on a real server: a hub goes back to a moment, and serves on."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from filrouge.hub import backup, schema
from filrouge.hub.database import HubDatabase
from tests.support import postgres
from tests.support.postgres import Cluster, Hub
from tests.support.waiting import eventually
from tests.support.wheels import ROOT

from .shared import follow, pairs, push, team, version

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Generator[Cluster]:
    """An empty server of this test alone, with the scripts where its user can read them."""
    postgres.required(own=True)
    with tempfile.TemporaryDirectory(prefix="filrouge-pitr-", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(ROOT / "docker", folder / "docker")
        found = Cluster(folder)
        found.create()
        yield found


def test_a_hub_goes_back_to_a_moment_before_a_mistake_and_its_devices_miss_nothing(cluster: Cluster) -> None:
    scripts = cluster.data.parent / "docker"
    environ = {"ARCHIVE": str(cluster.directory("archive")), "PGDATA": str(cluster.data)}
    archiving = (
        "--archive_mode=on",
        "--archive_timeout=60",
        f"--archive_command=sh {scripts}/archive/archive-segment.sh %p %f",
    )
    kept, late = version("Kept."), version("Kept, after the base backup.")
    with cluster.running(*archiving, **environ) as superuser:
        connection = {"PGHOST": "127.0.0.1", "PGPORT": str(conninfo_to_dict(superuser)["port"])}
        passwords = {"HUB_OWNER_PASSWORD": "a'b", "HUB_SERVING_PASSWORD": "c d"}
        cluster.run(
            "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--username=postgres", "--dbname=postgres",
            f"--file={scripts}/postgres/create-hub.sql", **connection, **passwords,
        )  # fmt: skip
        hub = _open(superuser)
        ana = team(hub, "Ana")[0]
        push(hub, ana, kept)
        cluster.run("sh", f"{scripts}/archive/base-backup.sh", **environ, **connection)
        push(hub, ana, late)
        moment = str(_value(superuser, "SELECT clock_timestamp()"))
        for _ in range(20):
            push(hub, ana, version("A mistake."))
        _, ahead = follow(hub, ana)
        hub.database.close()
        segment = _value(superuser, "SELECT pg_walfile_name(pg_switch_wal())")
        archived = "SELECT last_archived_wal FROM pg_stat_archiver"
        eventually("the log is archived", lambda: str(_value(superuser, archived)) >= str(segment))
    [base] = Path(environ["ARCHIVE"]).glob("base-*")
    # As in the container: as the user who owns the folder above the data.
    command = ["sh", f"{scripts}/archive/restore.sh", str(base), moment]
    subprocess.run(command, env={"PATH": os.defpath} | environ, check=True, timeout=60)

    with cluster.running(*archiving, **environ) as superuser:
        eventually("the server has recovered", lambda: not _value(superuser, "SELECT pg_is_in_recovery()"))
        owner = make_conninfo(superuser, dbname="hub", user="hub_owner")
        with schema.connect(owner) as connected:
            assert backup.check(connected).problems == ()
            schema.init(connected, new_epoch=True)
        hub = _open(superuser)
        assert pairs(follow(hub, ana)[0]) == [(kept.memory, 1), (late.memory, 1)]
        after = version("After the restore.")
        push(hub, ana, after)
        assert pairs(follow(hub, ana, ahead)[0]) == [(after.memory, 1)]
        hub.database.close()


def _open(superuser: str) -> Hub:
    """Bring the schema up to date, and open the hub as the role that serves."""
    owner = make_conninfo(superuser, dbname="hub", user="hub_owner")
    serving = make_conninfo(superuser, dbname="hub", user="filrouge_hub")
    with schema.connect(owner) as connection:
        assert schema.init(connection).password == ""  # the role is there already
    database = HubDatabase(serving)
    database.open()
    return Hub(name="hub", role="filrouge_hub", superuser=superuser, owner=owner, serving=serving, database=database)


def _value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
