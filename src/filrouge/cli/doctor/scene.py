"""The input and output types of the checks of `filrouge doctor`.

A check gets a `Scene`: the home, its environment, this machine and the daemon, which is asked each question only once.
It returns a `CheckResult`. A check that cannot determine its answer raises `NotKnown`; another check reports the cause.

Servers are probed with one HEAD request without a key, and programs with `--version`, both with short timeouts. For a
server only the fact that it answers counts.
"""

from __future__ import annotations

import http.client
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import apsw

from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadConfig, DaemonUnavailable, StoreError
from filrouge.core.network import checked_address, is_loopback
from filrouge.core.paths import DATABASE, inside
from filrouge.core.protocols import Tx
from filrouge.core.settings import Effective, Settings, resolve
from filrouge.daemon import client
from filrouge.daemon.reply import Reply
from filrouge.runtime.services import StoredSettings
from filrouge.runtime.soundness import schema_number
from filrouge.runtime.sqlite import Database, migrations

# The input of the checks.

HEALTH_SECONDS: Final = 1.0
ASK_SECONDS: Final = 1.5
_MANAGED: Final = {"Linux": "/etc/claude-code", "Darwin": "/Library/Application Support/ClaudeCode"}


class NotKnown(Exception):
    """The answer cannot be determined now. The message is shown to the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The facts about this machine, collected here so that tests can replace them."""

    python: tuple[int, int, int]
    system: str
    bits: int
    sqlite: str
    sqlite_options: frozenset[str]
    open_files: int
    user: int
    mounts: str
    free: Callable[[str], int]
    has: Callable[[str], bool]
    """Whether a module of that name is installed."""
    managed: str = ""
    """Where an administrator puts settings of Claude Code."""


def this_machine() -> Machine:
    """Return the facts about the machine that this process runs on."""
    return Machine(
        python=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
        system=platform.system(),
        bits=64 if sys.maxsize > 2**32 else 32,
        sqlite=apsw.sqlite_lib_version(),
        sqlite_options=frozenset(apsw.compile_options),
        open_files=_open_files(),
        user=os.getuid(),
        mounts=_mounts(),
        free=lambda path: shutil.disk_usage(path).free,
        has=lambda name: find_spec(name) is not None,
        managed=_MANAGED.get(platform.system(), ""),
    )


class Daemon:
    """Asks the daemon of a home. Answers are cached, so a daemon that hangs delays all checks together by a second."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._lock = Lock()
        self._asked: dict[str, Future[Reply]] = {}

    def health(self) -> Reply:
        """Return the daemon's answer to `/health`.

        Raises:
            DaemonUnavailable: it does not answer.
        """
        return self._once("/health", HEALTH_SECONDS)

    def ask(self, path: str) -> dict[str, Any]:
        """Return the body that a route answers.

        Raises:
            NotKnown: the daemon does not answer, or not with status 200.
        """
        try:
            self.health()
            reply = self._once(path, ASK_SECONDS)
        except DaemonUnavailable as error:
            raise NotKnown("unknown while no daemon answers") from error
        if reply.status != 200:
            raise NotKnown(f"the daemon answered {path} with {reply.status}")
        return reply.body

    def is_absent(self) -> bool:
        """Return True if no daemon listens."""
        return client.is_absent(self._home)

    def _once(self, path: str, seconds: float) -> Reply:
        with self._lock:
            first = path not in self._asked
            answer = self._asked.setdefault(path, Future())
        if first:
            try:
                answer.set_result(client.request(self._home, "GET", path, None, seconds))
            except DaemonUnavailable as error:
                answer.set_exception(error)
        return answer.result()


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """The input of every check.

    Attributes:
        cwd: the directory in which the command runs; project files are searched from there.
        deep: run long checks in full.
    """

    home: str
    environ: Mapping[str, str]
    cwd: str
    daemon: Daemon
    now: datetime = field(default_factory=lambda: SystemClock().now())
    machine: Machine = field(default_factory=this_machine)
    deep: bool = False

    def path(self, *names: str) -> str:
        """Return a path in the home."""
        return os.path.join(self.home, *names)

    @property
    def database(self) -> str:
        """The path of the database."""
        return inside(self.home, DATABASE)

    @property
    def user_home(self) -> str:
        """The user's home directory."""
        return self.environ.get("HOME", "").strip() or os.path.expanduser("~")

    @contextmanager
    def reading(self) -> Generator[Tx]:
        """Open the database read-only for the block.

        Raises:
            NotKnown: it does not exist, has another schema version, or cannot be read.
        """
        if not os.path.exists(self.database):
            raise NotKnown("there is no memory yet")
        try:
            number = schema_number(self.database)
            if number != migrations("sqlite")[-1].number:
                raise NotKnown("unknown while the database has another schema")
            database = Database(self.database, readonly=True)
        except StoreError as error:
            raise NotKnown("unknown while the database cannot be read") from error
        try:
            yield database.tx
        finally:
            database.close()

    def effective(self) -> Effective:
        """Return the settings with their origins.

        Raises:
            NotKnown: they cannot be read.
        """
        try:
            return resolve(self.stored(), home=self.home, environ=self.environ)
        except BadConfig as error:
            raise NotKnown("unknown while the settings cannot be read") from error

    def settings(self) -> Settings:
        """Return the settings in force, without those of a project.

        Raises:
            NotKnown: they cannot be read.
        """
        return self.effective().settings

    def stored(self) -> dict[str, Any]:
        """Return the settings stored in the database; empty if it cannot be read."""
        try:
            with self.reading() as tx:
                return StoredSettings(tx).all()
        except NotKnown:
            return {}


def scene_of(home: str, *, environ: Mapping[str, str] | None = None, cwd: str = "", deep: bool = False) -> Scene:
    """Return the scene for a home; by default with this process's environment and directory."""
    env = dict(os.environ if environ is None else environ)
    return Scene(home=home, environ=env, cwd=cwd or os.getcwd(), daemon=Daemon(home), deep=deep)


def _open_files() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _mounts() -> str:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # macOS has no /proc
        return ""


# Checks and their results.

State = Literal["ok", "note", "warn", "fail"]

MEND: Final = "See what `filrouge repair --dry-run` saves, or put the newest backup there: `filrouge restore latest`."
START: Final = "Run `filrouge daemon start`."
INIT: Final = "Run `filrouge init`, or see docs/guides/connect-an-agent.md."


class CheckResult(NamedTuple):
    """The result of a check. `note`: harmless information. `warn`: needs attention. `fail`: broken."""

    state: State
    cause: str
    remedy: str = ""


class Finding(NamedTuple):
    """A verdict with the name of its check."""

    check: str
    state: State
    cause: str
    remedy: str = ""

    @property
    def is_trouble(self) -> bool:
        """True if the user needs to do something."""
        return self.state in ("warn", "fail")

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `--json` prints it."""
        return self._asdict()


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check of `filrouge doctor`.

    Attributes:
        name: name shown to the user.
        look: runs the check; it changes nothing.
        mend: repairs what is safe to repair and returns one line per change; None if only the user can do it.
    """

    name: str
    look: Callable[[Scene], CheckResult]
    mend: Callable[[Scene], list[str]] | None = None


def ok(cause: str) -> CheckResult:
    """Return a verdict: nothing is wrong."""
    return CheckResult("ok", cause)


def note(cause: str, remedy: str = "") -> CheckResult:
    """Return a verdict: harmless, but worth knowing."""
    return CheckResult("note", cause, remedy)


def warn(cause: str, remedy: str) -> CheckResult:
    """Return a verdict: the user needs to do something."""
    return CheckResult("warn", cause, remedy)


def fail(cause: str, remedy: str) -> CheckResult:
    """Return a verdict: something does not work."""
    return CheckResult("fail", cause, remedy)


# Probing servers and programs.

SECONDS: Final = 1.5
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")


def answers(address: str, environ: Mapping[str, str], seconds: float = SECONDS) -> str:
    """Probe a server. Returns why it does not answer, naming only its host; empty if it answers.

    Raises:
        NotKnown: a proxy is configured, which this probe does not use but the daemon's client does.
    """
    try:
        parts = urlsplit(checked_address(address, setting="its address"))
    except BadConfig as error:
        return error.message.rstrip(".")
    if not is_loopback(address) and any(environ.get(name) for name in _PROXIES):
        raise NotKnown("unknown here: a proxy stands between")
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    wire = kind(host, parts.port, timeout=seconds)
    try:
        wire.request("HEAD", parts.path or "/")
        wire.getresponse()
    except TimeoutError:
        return f"{parts.netloc} does not answer within {seconds:g} seconds"
    except (OSError, http.client.HTTPException) as error:
        return f"{parts.netloc} cannot be reached ({type(error).__name__})"
    finally:
        wire.close()
    return ""


def which(program: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program, given as an absolute path or searched on PATH; empty if it is not found."""
    if os.path.isabs(program):
        return program if os.path.isfile(program) and os.access(program, os.X_OK) else ""
    return shutil.which(program, path=environ.get("PATH", "")) or ""


def version_of(path: str, environ: Mapping[str, str], seconds: float = SECONDS) -> tuple[int, ...] | None:
    """Return the version that a program prints for `--version`; None if it prints none or takes too long."""
    try:
        said = subprocess.run(  # noqa: S603 (a program of the user's own PATH or settings)
            [path, "--version"],
            env={**environ, "FILROUGE_INTERNAL": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _NUMBERS.search(said.stdout.decode("utf-8", "replace"))
    return tuple(int(part) for part in found[0].split(".")) if found and not said.returncode else None


def starts(path: str, environ: Mapping[str, str], seconds: float = SECONDS) -> bool:
    """Return True if a program starts: `--version` succeeds, or still runs after `seconds`."""
    try:
        command = [path, "--version"]
        quiet = subprocess.DEVNULL
        env = {**environ, "FILROUGE_INTERNAL": "1"}
        done = subprocess.run(command, env=env, stdin=quiet, stdout=quiet, stderr=quiet, timeout=seconds, check=False)  # noqa: S603
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False
