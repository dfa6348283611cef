"""The input and output types of the checks of `filrouge doctor`.

A check gets a `Scene`: the home, its environment, this machine and the daemon, which is asked each question only once.
It returns a `CheckResult`. A check that cannot determine its answer raises `NotKnown`; another check reports the cause.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from datetime import datetime
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import apsw
from msgspec import Struct, field

from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadConfig, DaemonUnavailable, StoreError
from filrouge.core.paths import DATABASE
from filrouge.core.protocols import Tx
from filrouge.core.settings import Effective, Settings, resolve
from filrouge.daemon import client
from filrouge.daemon.reply import Reply
from filrouge.runtime.services import StoredSettings
from filrouge.runtime.soundness import schema_number
from filrouge.runtime.sqlite import Database, migrations

HEALTH_SECONDS: Final = 1.0
ASK_SECONDS: Final = 1.5

# The input of the checks.

_MANAGED_SETTINGS_FOLDERS: Final = {"Linux": "/etc/claude-code", "Darwin": "/Library/Application Support/ClaudeCode"}


class NotKnown(Exception):
    """The answer cannot be determined now. The message is shown to the user."""


def _free(path: str) -> int:
    return shutil.disk_usage(path).free


def _has(module: str) -> bool:
    return find_spec(module) is not None


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _mounts() -> str:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # macOS has no /proc
        return ""


class Machine(Struct, frozen=True, kw_only=True):
    """The facts about this machine, collected here so that tests can replace them.

    Attributes:
        has: whether a module of that name is installed.
        managed: where an administrator puts settings of Claude Code.
    """

    python: tuple[int, int, int] = sys.version_info[:3]
    system: str = platform.system()
    bits: int = 64 if sys.maxsize > 2**32 else 32
    sqlite: str = apsw.sqlite_lib_version()
    sqlite_options: frozenset[str] = frozenset(apsw.compile_options)
    open_files: int = field(default_factory=_open_files)
    user: int = field(default_factory=os.getuid)
    mounts: str = field(default_factory=_mounts)
    free: Callable[[str], int] = _free
    has: Callable[[str], bool] = _has
    managed: str = _MANAGED_SETTINGS_FOLDERS.get(platform.system(), "")


class Daemon:
    """Asks the daemon of a home. Answers are cached, so a daemon that hangs delays all checks together by a second."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._lock = Lock()
        self._replies: dict[str, Future[Reply]] = {}

    def health(self) -> Reply:
        """Return the daemon's answer to `/health`.

        Raises:
            DaemonUnavailable: it does not answer.
        """
        return self._request_once("/health", HEALTH_SECONDS)

    def ask(self, path: str) -> dict[str, Any]:
        """Return the body that a route answers.

        Raises:
            NotKnown: the daemon does not answer, or not with status 200.
        """
        try:
            self.health()
            reply = self._request_once(path, ASK_SECONDS)
        except DaemonUnavailable as error:
            raise NotKnown("unknown while no daemon answers") from error
        if reply.status != 200:
            raise NotKnown(f"the daemon answered {path} with {reply.status}")
        return reply.body

    def is_absent(self) -> bool:
        """Return True if no daemon listens."""
        return client.is_absent(self._home)

    def _request_once(self, path: str, seconds: float) -> Reply:
        with self._lock:
            first = path not in self._replies
            answer = self._replies.setdefault(path, Future())
        if first:
            try:
                answer.set_result(client.request(self._home, "GET", path, None, seconds))
            except DaemonUnavailable as error:
                answer.set_exception(error)
        return answer.result()


class Scene(Struct, frozen=True, kw_only=True):
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
    machine: Machine = field(default_factory=Machine)
    deep: bool = False

    def path(self, name: str) -> str:
        """Return a path in the home."""
        return os.path.join(self.home, name)

    def variable(self, name: str) -> str:
        """Return the value of an environment variable without surrounding spaces; empty if it is not set."""
        return self.environ.get(name, "").strip()

    @property
    def database(self) -> str:
        """The path of the database."""
        return self.path(DATABASE)

    @property
    def user_home(self) -> str:
        """The user's home directory."""
        return self.variable("HOME") or os.path.expanduser("~")

    @contextmanager
    def opening(self) -> Generator[str]:
        """Yield the path of the database, for a block that opens it.

        Raises:
            NotKnown: it does not exist, or the block cannot read it.
        """
        if not os.path.exists(self.database):
            raise NotKnown("there is no memory yet")
        try:
            yield self.database
        except StoreError as error:
            raise NotKnown("unknown while the database cannot be read") from error

    @contextmanager
    def reading(self) -> Generator[Tx]:
        """Open the database read-only for the block.

        Raises:
            NotKnown: it does not exist, has another schema version, or cannot be read.
        """
        with self.opening() as path:
            if schema_number(path) != migrations("sqlite")[-1].number:
                raise NotKnown("unknown while the database has another schema")
            database = Database(path, readonly=True)
        with closing(database):
            yield database.tx

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


# Checks and their results.

State = Literal["ok", "note", "warn", "fail"]
#: The groups of checks, in the order of their findings. Those of the last one run only with `--deep`.
Group = Literal["home", "settings", "database", "daemon", "models", "agents", "deep"]

REPAIR_REMEDY: Final = (
    "See what `filrouge repair --dry-run` saves, or restore the newest backup: `filrouge restore latest`."
)
START_REMEDY: Final = "Run `filrouge daemon start`."
INIT_REMEDY: Final = "Run `filrouge init`, or see docs/guides/connect-an-agent.md."


class CheckResult(NamedTuple):
    """The result of a check. `note`: harmless information. `warn`: needs attention. `fail`: broken."""

    state: State
    cause: str
    remedy: str = ""


class Finding(NamedTuple):
    """A result with the name of its check."""

    check: str
    state: State
    cause: str
    remedy: str = ""

    @property
    def needs_action(self) -> bool:
        """True if the user needs to do something."""
        return self.state in ("warn", "fail")

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `--json` prints it."""
        return self._asdict()


#: The function of a check, and the function that repairs what it found.
Look: TypeAlias = Callable[[Scene], CheckResult]
Mend: TypeAlias = Callable[[Scene], list[str]]


class Check(NamedTuple):
    """One check of `filrouge doctor`.

    Attributes:
        name: name shown to the user.
        look: runs the check; it changes nothing.
        mend: repairs what is safe to repair and returns one line per change; None if only the user can do it.
    """

    name: str
    group: Group
    look: Look
    mend: Mend | None = None


class CheckList(list[Check]):
    """The checks of a module, in the order in which their functions are defined."""

    def check(self, name: str, group: Group, *, mend: Mend | None = None) -> Callable[[Look], Look]:
        """Return a decorator that adds a check to this list and leaves its function as it is."""

        def add(look: Look) -> Look:
            self.append(Check(name, group, look, mend))
            return look

        return add


def ok(cause: str) -> CheckResult:
    """Return a result: nothing is wrong."""
    return CheckResult("ok", cause)


def note(cause: str, remedy: str = "") -> CheckResult:
    """Return a result: harmless, but worth knowing."""
    return CheckResult("note", cause, remedy)


def warn(cause: str, remedy: str) -> CheckResult:
    """Return a result: the user needs to do something."""
    return CheckResult("warn", cause, remedy)


def fail(cause: str, remedy: str) -> CheckResult:
    """Return a result: something does not work."""
    return CheckResult("fail", cause, remedy)
