"""`filrouge hub backup-check` says of a restored database whether it is sound and complete, and what is not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from filrouge.cli.commands.hub import hub_app
from filrouge.core.errors import BadInput, StoreError
from filrouge.hub import backup, schema, service
from filrouge.hub.database import HubDatabase
from filrouge.hub.models import Device
from tests.support.postgres import Hub, program

from .shared import CLOCK, follow, pairs, push, team, ulid, version


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A database that a dump of a hub was restored into."""

    name: str
    hub: Hub
    ana: str

    @property
    def owner(self) -> str:
        return make_conninfo(self.hub.owner, dbname=self.name)


@pytest.fixture(scope="module")
def restored(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Generator[Restored]:
    """Two teams with shared, corrected and forgotten memories, a device and a member; dumped, and restored."""
    ana, _ = team(hub, "Ana", "Ben")
    kept, gone = version("Kept."), version("Gone.")
    push(hub, ana, kept, gone)
    push(hub, ana, version("Corrected.", memory=kept.memory, version=2))
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [gone.memory])
        service.join(session, CLOCK, Device(device=ulid(), name="laptop"))
    team(hub, "Carla")
    name = f"{hub.name}_restored"
    _restore(hub, _dump(hub, tmp_path_factory.mktemp("dump") / "hub.dump"), name)
    yield Restored(name=name, hub=hub, ana=ana)
    _drop(hub, name)


def _dump(hub: Hub, file: Path) -> Path:
    command = [program("pg_dump"), "--format=custom", f"--file={file}", make_conninfo(hub.superuser, dbname=hub.name)]
    subprocess.run(command, check=True, timeout=60)
    return file


def _restore(hub: Hub, file: Path, name: str) -> None:
    """Restore as the guide says: as superuser, into an empty database of the owner."""
    with psycopg.connect(hub.superuser, autocommit=True) as connection:
        owner = sql.Identifier(f"{hub.name}_owner")
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), owner))
    target = make_conninfo(hub.superuser, dbname=name)
    command = [program("pg_restore"), "--exit-on-error", "--single-transaction", f"--dbname={target}", file]
    subprocess.run(command, check=True, timeout=60)


def _drop(hub: Hub, name: str) -> None:
    with psycopg.connect(hub.superuser, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def copy(restored: Restored) -> Generator[Restored]:
    """A copy of the restored database, to damage."""
    name = f"{restored.name}_copy"
    with psycopg.connect(restored.hub.superuser, autocommit=True) as connection:
        names = sql.Identifier(name), sql.Identifier(restored.name), sql.Identifier(f"{restored.hub.name}_owner")
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(*names))
    yield Restored(name=name, hub=restored.hub, ana=restored.ana)
    _drop(restored.hub, name)


def run(restored: Restored, *words: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    command = ["backup-check", "--database", restored.owner, "--role", restored.hub.role, *words]
    done = CliRunner().invoke(hub_app, command)
    return done.exit_code, done.stdout


def test_a_restored_dump_is_sound_with_the_counts_of_each_tenant(restored: Restored) -> None:
    code, printed = run(restored, "--json")
    found = json.loads(printed)
    assert (code, found["sound"], found["problems"]) == (0, True, [])
    assert found["schema"] == found["known_schema"]
    first, second = found["tenants"]
    assert first["rows"] | {"tokens": 2, "members": 2, "versions": 3, "devices": 1, "conflicts": 0} == first["rows"]
    assert (first["entries"], second["entries"]) == (5, 0)  # an invitation, two shares, a forgetting, a device
    assert second["rows"]["versions"] == 0
    assert "Sound and complete" in run(restored)[1]


DAMAGE: list[tuple[LiteralString, str]] = [
    ("ALTER TABLE hub.versions DISABLE ROW LEVEL SECURITY", "Row security is off for versions"),
    ("ALTER TABLE hub.tokens NO FORCE ROW LEVEL SECURITY", "Row security is off for tokens"),
    ("DROP POLICY of_tenant ON hub.journal", "The policy of_tenant on journal is missing"),
    ("CREATE POLICY all_rows ON hub.versions USING (true)", "The policy all_rows on versions is none of Filrouge's"),
    ("ALTER POLICY of_tenant ON hub.versions USING (true)", "The policy of_tenant on versions is not the one of"),
    ("GRANT SELECT ON hub.installation TO PUBLIC", "The grant of SELECT on installation to everyone is none of"),
    ("DROP FUNCTION hub.enter(bytea)", "The function enter(token_hash bytea) is missing"),
    ("ALTER TABLE hub.tokens DROP CONSTRAINT tokens_hash_key", "The constraint tokens_hash_key of tokens is missing"),
    ("ALTER TABLE hub.versions DROP COLUMN evidence", "The column versions.evidence is missing"),
    ("DROP INDEX hub.versions_by_position", "The index hub.versions_by_position is missing"),
    ("DROP TABLE hub.receipts", "The table receipts is missing"),
    ("DELETE FROM hub.versions WHERE text = 'Kept.'", "Shared versions that its journal names are missing: 1"),
    ("UPDATE hub.versions SET state = 'live' WHERE state = 'forgotten'", "Tombstones of forgotten memories"),
    ("DELETE FROM hub.devices", "Devices that its journal names are missing: 1"),
    ("DELETE FROM hub.tokens; DELETE FROM hub.members WHERE name = 'Ben'", "Members that its journal names"),
    ("UPDATE hub.journal SET payload = '{}' WHERE number = 2", "breaks at entry 2: payload changed"),
    ("DELETE FROM hub.journal WHERE number = 2", "breaks at entry 3: chain broken"),
]


@pytest.mark.parametrize(("statement", "said"), DAMAGE)
def test_what_is_missing_or_open_is_named_with_exit_code_1(copy: Restored, statement: LiteralString, said: str) -> None:
    with psycopg.connect(copy.owner) as connection:
        for one in statement.split(";"):
            connection.execute(sql.SQL(one))
    code, printed = run(copy)
    assert (code, "Sound" in printed) == (1, False)
    assert said in " ".join(printed.split())


def test_a_serving_role_that_is_missing_is_named(restored: Restored) -> None:
    with schema.connect(restored.owner) as connection:
        found = backup.check(connection, role="nobody_serves")
    assert found.problems == ("The role nobody_serves, which serves, is missing: create it, then restore again.",)


def test_the_check_leaves_the_database_as_it_was(restored: Restored) -> None:
    run(restored)
    with psycopg.connect(restored.owner) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'hub_expected'").fetchone()
    assert found is None


def test_only_the_owner_of_a_hub_can_check_it(restored: Restored) -> None:
    with (
        schema.connect(make_conninfo(restored.hub.serving, dbname=restored.name)) as connection,
        pytest.raises(BadInput, match=f"belongs to the role {restored.hub.name}_owner"),
    ):
        backup.check(connection)
    with schema.connect(restored.hub.superuser) as connection, pytest.raises(StoreError, match="has no hub"):
        backup.check(connection)


def test_after_a_restore_a_new_epoch_shows_every_change_to_a_device_that_was_ahead(copy: Restored) -> None:
    hub = copy.hub
    database = HubDatabase(make_conninfo(hub.serving, dbname=copy.name))
    database.open()
    back = Hub(name=copy.name, role=hub.role, superuser=hub.superuser, owner=copy.owner, serving="", database=database)
    epoch, xid, seq = follow(back, copy.ana)[1].split(".")
    ahead = f"{epoch}.{int(xid) + 1_000_000}.{seq}"  # what it saw last is not in the backup
    with schema.connect(copy.owner) as connection:
        schema.init(connection, role=hub.role, new_epoch=True)
    after = version("After the restore.")
    push(back, copy.ana, after)
    assert pairs(follow(back, copy.ana, ahead)[0]) == [(after.memory, 1)]
    database.close()
