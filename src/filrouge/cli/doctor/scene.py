"""What a check of `filrouge doctor` looks at, and what it finds.

A check is a name, a function that looks, and a remedy; others are asked for a sign of life with little patience.
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
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.runtime.soundness import schema_number
from filrouge.runtime.sqlite import Database, migrations

# What every check looks at: a home, its surroundings, this machine, and the daemon, each question to it asked once.
#
# A check that cannot know raises `NotKnown`; another one says why that is so.

HEALTH_SECONDS: Final = 1.0
ASK_SECONDS: Final = 1.5
_MANAGED: Final = {"Linux": "/etc/claude-code", "Darwin": "/Library/Application Support/ClaudeCode"}


class NotKnown(Exception):
    """This cannot be said now; the words are for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The facts of a machine that no test can change."""

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
    """The one that this runs on."""
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
    """The daemon of a home. One that hangs costs a second in all, however many checks ask it."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._lock = Lock()
        self._asked: dict[str, Future[Reply]] = {}

    def health(self) -> Reply:
        """Its sign of life.

        Raises:
            DaemonUnavailable: it gives none.
        """
        return self._once("/health", HEALTH_SECONDS)

    def ask(self, path: str) -> dict[str, Any]:
        """What a route answers.

        Raises:
            NotKnown: nobody answers, or with something else.
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
        """True where nobody listens."""
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
    """What is looked at.

    Attributes:
        cwd: where the command runs, for the files of a project.
        deep: look as long as it takes.
    """

    home: str
    environ: Mapping[str, str]
    cwd: str
    daemon: Daemon
    now: datetime = field(default_factory=lambda: SystemClock().now())
    machine: Machine = field(default_factory=this_machine)
    deep: bool = False

    def path(self, *names: str) -> str:
        """A path in the home."""
        return os.path.join(self.home, *names)

    @property
    def database(self) -> str:
        """The path of the database."""
        return inside(self.home, DATABASE)

    @property
    def user_home(self) -> str:
        """The user's own directory."""
        return self.environ.get("HOME", "").strip() or os.path.expanduser("~")

    @contextmanager
    def reading(self) -> Generator[Tx]:
        """The database, for as long as the block runs.

        Raises:
            NotKnown: there is none of this version's schema that can be opened.
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
        """Settings and where they come from.

        Raises:
            NotKnown: they cannot be read.
        """
        try:
            return resolve(self.stored(), home=self.home, environ=self.environ)
        except BadConfig as error:
            raise NotKnown("unknown while the settings cannot be read") from error

    def settings(self) -> Settings:
        """The settings that hold, but for those of a project.

        Raises:
            NotKnown: they cannot be read.
        """
        return self.effective().settings

    def stored(self) -> dict[str, Any]:
        """The settings in the database; none where it cannot be read."""
        try:
            with self.reading() as tx:
                return StoredSettings(tx).all()
        except NotKnown:
            return {}


def scene_of(home: str, *, environ: Mapping[str, str] | None = None, cwd: str = "", deep: bool = False) -> Scene:
    """What there is to look at for a home."""
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
    except OSError:  # another system has no such list
        return ""


# What a check of `filrouge doctor` finds, and what a check is: a name, a look, and for safe ones a way to mend.

State = Literal["ok", "note", "warn", "fail"]

MEND: Final = "See what `filrouge repair --dry-run` saves, or put the newest backup there: `filrouge restore latest`."
START: Final = "Run `filrouge daemon start`."
INIT: Final = "Run `filrouge init`, or see docs/guides/connect-an-agent.md."


class Verdict(NamedTuple):
    """How one thing stands: `note` is worth knowing and harmless, `warn` wants something done, `fail` is broken."""

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
        """Whether something is to be done."""
        return self.state in ("warn", "fail")

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return self._asdict()


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One entry of the table.

    Attributes:
        name: what it is about, as people read it.
        look: finds out; it changes nothing.
        mend: does what is safe about it and says what it did, a line for each; None where that is for a person.
    """

    name: str
    look: Callable[[Scene], Verdict]
    mend: Callable[[Scene], list[str]] | None = None


def ok(cause: str) -> Verdict:
    """All is well."""
    return Verdict("ok", cause)


def note(cause: str, remedy: str = "") -> Verdict:
    """Worth knowing."""
    return Verdict("note", cause, remedy)


def warn(cause: str, remedy: str) -> Verdict:
    """Something is to be done."""
    return Verdict("warn", cause, remedy)


def fail(cause: str, remedy: str) -> Verdict:
    """Something does not work."""
    return Verdict("fail", cause, remedy)


# Asking others for a sign of life, with little patience: servers by one empty request, programs by `--version`.
#
# What a server answers does not matter here, only that it does. No key goes along.

SECONDS: Final = 1.5
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")


def answers(address: str, environ: Mapping[str, str], seconds: float = SECONDS) -> str:
    """Why a server does not answer, in words that name its host and nothing else; empty where it does.

    Raises:
        NotKnown: a proxy stands between, which only the daemon's own client asks.
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
    """Where a program is that is named so, by its path or through PATH; empty where it is nowhere."""
    if os.path.isabs(program):
        return program if os.path.isfile(program) and os.access(program, os.X_OK) else ""
    return shutil.which(program, path=environ.get("PATH", "")) or ""


def version_of(path: str, environ: Mapping[str, str], seconds: float = SECONDS) -> tuple[int, ...] | None:
    """What a program says of its version; None where it does not, or not in time."""
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
    """Whether a program can be started; one that takes longer to say its version has started."""
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
