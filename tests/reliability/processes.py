"""Real processes for these tests: daemons, hooks and commands on a throw-away home, and a look at what they left.

Nothing here stands in for a part of Filrouge. A daemon is a fork of an interpreter that has imported it already
(`Forge`): the same `main` in a process of its own, without the second of imports; or `python -m filrouge.server` itself
(`started_daemon`). Who runs for a home is read where the truth is: the owner of the lock on its file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import apsw
import pytest

from filrouge.capture import inbox
from filrouge.capture import repository as turn_repository
from filrouge.capture.repository import Events
from filrouge.core import paths as places
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client, handover
from filrouge.memories import repository
from filrouge.runtime.journal import Journal
from filrouge.runtime.sqlite import Database
from tests.support import shell
from tests.support.ending import at_the_end

EXECUTABLE: Final = os.path.join(os.path.dirname(sys.executable), "filrouge")
PATIENCE: Final = 90.0
Row = dict[str, Any]

_FORGE: Final = """
import json, os, signal, sys
from importlib import import_module
program, *imported = sys.argv[1:]
for name in (program, *imported):
    import_module(name)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        environ, words = json.loads(line)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = [program, *words]
        os._exit(import_module(program).main())
    print(pid, flush=True)
"""
_DAEMON: Final = ("filrouge.server.__main__", "filrouge.server.serving", "filrouge.server.api")


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a process ended."""

    code: int
    out: str
    err: str
    seconds: float


def environment(home: str, **more: str) -> dict[str, str]:
    """What a process of this home sees: nothing of the tester's own Filrouge or agents."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    return {**kept, "HOME": home, "FILROUGE_HOME": home, "FILROUGE_EMBEDDING_MODEL": "hashing", **more}


def run(home: str, *words: str, stdin: bytes = b"", timeout: float = 60.0, **environ: str) -> Done:
    """Run `filrouge` with these words; what is given something to read is started as a program of its own."""
    began = time.monotonic()
    if not stdin:
        typed = shell.typed(*words, environ=environment(home, **environ), folder=workplace(home), timeout=timeout)
        return Done(code=typed.code, out=typed.out, err=typed.err, seconds=time.monotonic() - began)
    done = subprocess.run(
        [EXECUTABLE, *words],
        input=stdin,
        capture_output=True,
        env=environment(home, **environ),
        cwd=workplace(home),
        timeout=timeout,
        check=False,
    )
    took = time.monotonic() - began
    return Done(
        code=done.returncode,
        out=done.stdout.decode("utf-8", "replace"),
        err=done.stderr.decode("utf-8", "replace"),
        seconds=took,
    )


def hook(home: str, payload: Mapping[str, Any] | bytes, host: str = "claude-code", **environ: str) -> Done:
    """Run one hook call as an agent does."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return run(home, "hook", "--host", host, stdin=raw, timeout=60.0, **environ)


def workplace(home: str) -> str:
    """The directory that agents and commands work in: the project `shop`, beside the home."""
    path = os.path.join(os.path.dirname(home), "shop")
    os.makedirs(path, exist_ok=True)
    return path


def prompt(home: str, session: str, number: str, text: str, **more: Any) -> Row:
    """A UserPromptSubmit, as both hosts send it."""
    return _payload(home, session, "UserPromptSubmit", prompt_id=number, turn_id=number, prompt=text, **more)


def reply(home: str, session: str, number: str, text: str, **more: Any) -> Row:
    """A Stop with the agent's last words."""
    return _payload(home, session, "Stop", prompt_id=number, turn_id=number, last_assistant_message=text, **more)


def session_start(home: str, session: str) -> Row:
    """A SessionStart."""
    return _payload(home, session, "SessionStart", source="startup")


def tool(home: str, session: str, number: str, output: str) -> Row:
    """A PostToolUse of a shell command."""
    call = {"tool_name": "Bash", "tool_use_id": number, "tool_input": {"command": "make"}, "tool_response": output}
    return _payload(home, session, "PostToolUse", **call)


def eventually(what: str, true: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Look again and again, and fail with what was waited for."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not true: {what}"
        time.sleep(0.02)


def lock_holder(home: str) -> int:
    """The process that holds the home's lock, as the kernel says; 0 for none."""
    try:
        facts = os.stat(places.inside(home, places.LOCK))
    except OSError:
        return 0
    wanted = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
    with open("/proc/locks", encoding="ascii") as file:
        lines = [line.split() for line in file]
    return next((int(words[4]) for words in lines if words[1] == "FLOCK" and words[5] == wanted), 0)


def alive(pid: int) -> bool:
    """True while that process runs; a zombie does not, once its last thread has let go of files and locks."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def kill(pid: int) -> bool:
    """kill -9, and wait until it is gone; False if it was gone before."""
    if pid <= 0 or not alive(pid):
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    eventually(f"process {pid} is gone", lambda: not alive(pid))
    return True


def servers(home: str) -> list[int]:
    """The processes that were started to serve this home."""
    return [
        pid for pid in _pids() if home.encode() in _words_of(pid, "environ") and b"filrouge.server" in _words_of(pid)
    ]


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _words_of(pid: int, what: str = "cmdline") -> bytes:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def status(home: str, timeout: float = 5.0) -> Row:
    """What the daemon says of itself; empty where none answers."""
    try:
        return client.request(home, "GET", "/daemon/status", timeout=timeout).body
    except DaemonUnavailable:
        return {}


def is_up(home: str) -> bool:
    """True where a daemon answers."""
    try:
        return client.request(home, "GET", "/health", timeout=2.0).status == 200
    except DaemonUnavailable:
        return False


def quiet(home: str) -> bool:
    """True once everything captured, the spool's files too, is understood."""
    found = status(home)
    return bool(
        found and found["resumed"] and found["queue"]["waiting"] + found["queue"]["running"] + found["spooled"] == 0
    )


def rests(pid: int, seconds: float = 20.0) -> bool:
    """Watch a process for so long; True if it hardly computed meanwhile."""
    before = _processor_seconds(pid)
    time.sleep(seconds)
    return _processor_seconds(pid) - before < 0.05 * seconds


def _processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spooled(home: str) -> list[Row]:
    """Every event that waits in the spool, oldest first."""
    files = inbox.waiting_files(places.inside(home, places.SPOOL))
    return [event for file in files for event in inbox.read_spool_file(file).events]


@contextmanager
def daemon(home: str, **environ: str) -> Generator[Forked]:
    """A daemon that answers, forked; ended at the end of the block if it still runs."""
    process = Forked(_forge().daemon(environment(home, **environ)))
    with _serving(home, process):
        yield process


@contextmanager
def started_daemon(home: str, **environ: str) -> Generator[subprocess.Popen[bytes]]:
    """The same as a program of its own: for what is measured, and where its words and its imports count."""
    process = subprocess.Popen(
        [sys.executable, "-m", "filrouge.server"],
        env=environment(home, **environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with _serving(home, process):
        yield process


@contextmanager
def _serving(home: str, process: Forked | subprocess.Popen[bytes]) -> Generator[None]:
    """It answers or has ended before the block, and is ended after it, stopped or not."""
    try:
        eventually("the daemon answers or has ended", lambda: is_up(home) or process.poll() is not None)
        yield
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def throw_away_home() -> Generator[str]:
    """A home on a short path; whoever serves it at the end is ended, and all files go."""
    root = tempfile.mkdtemp(prefix="frl-")
    home = os.path.join(root, "home")
    try:
        yield home
    finally:
        for pid in (lock_holder(home), *servers(home)):  # a hook may have sent for a daemon a moment ago
            kill(pid)
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def tiny_disk(home: str, megabytes: int = 3) -> Generator[Callable[[], None]]:
    """Put the home on a disk of that size; gives what fills it to the last byte with the file `filler`."""
    os.makedirs(home)
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk needs root and mount")
    asked = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", home]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no tmpfs mount")

    def fill() -> None:
        with suppress(OSError), open(os.path.join(home, "filler"), "ab", buffering=0) as file:
            for size in (65536, 4096):
                with suppress(OSError):
                    while file.write(b"\0" * size):
                        pass

    try:
        yield fill
    finally:
        kill(lock_holder(home))
        subprocess.run(["umount", "--lazy", home], check=False)


class Forked:
    """A process that the forge made; it is nobody's child, so how it ended is not known."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None while it runs."""
        return None if os.path.exists(f"/proc/{self.pid}") else 0

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a daemon", timeout)
            time.sleep(0.005)
        return 0


class Forge:
    """Makes processes of a program, the daemon by default, by forking an interpreter that has imported everything."""

    def __init__(self, home: str, program: tuple[str, ...] = _DAEMON, **environ: str) -> None:
        """Take the home, and the modules that are imported; the first is the program."""
        self._environ = environment(home, **environ)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORGE, *program],
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._said() == "ready"

    def daemon(self, environ: Mapping[str, str] | None = None) -> int:
        """Start one, in the forge's own environment or in another; its process id.

        A killed one holds its lock until the last of its threads is gone.
        """
        environ = environ or self._environ
        home, deadline = environ["FILROUGE_HOME"], time.monotonic() + 1.0
        while lock_holder(home) and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.make(environ)

    def make(self, environ: Mapping[str, str], *words: str) -> int:
        """Start a process with these words; its id."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps((dict(environ), words)) + "\n")
            self._process.stdin.flush()
            return int(self._said())

    def close(self) -> None:
        """End the forge; its daemons live on."""
        self._process.communicate(timeout=PATIENCE)

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@cache
def _forge() -> Forge:
    forge = Forge(tempfile.gettempdir())
    at_the_end(forge.close)
    return forge


class Stub:
    """A daemon of another version: takes every event, but no input as it came, and remembers the paths."""

    def __init__(self, home: str, version: str) -> None:
        places.make_private(home)
        self.heard: list[str] = []
        self._version = version
        self._wire = socket.socket(socket.AF_UNIX)
        self._wire.bind(places.socket_path(home))
        self._wire.listen(16)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; the socket's file stays."""
        with suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)
        self._wire.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._wire.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                raw = connection.recv(1 << 20)
                if not raw:  # a look whether anybody listens
                    continue
                self.heard.append(raw.split(b" ", 2)[1].decode())
                status = "404 Not Found" if self.heard[-1] == handover.PATH else "200 OK"
                body = b'{"accepted":1,"duplicates":0,"context":"","status":"healthy"}'
                head = (
                    f"HTTP/1.1 {status}\r\nX-Filrouge-Version: {self._version}\r\nContent-Length: {len(body)}\r\n\r\n"
                )
                connection.sendall(head.encode() + body)


@dataclass(frozen=True, kw_only=True)
class Left:
    """Everything that a stopped Filrouge left in its database."""

    events: list[Row]
    turns: list[Row]
    memories: list[Row]
    journal: list[Row]
    jobs: list[Row]
    recalls: list[Row]

    def event(self, session: str, key: str) -> list[Row]:
        """The events of that session and key."""
        return [row for row in self.events if (row["session_id"], row["key"]) == (session, key)]


def left(home: str) -> Left:
    """Read the database of a home whose daemon has stopped."""
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE))
    try:
        tables = ("events", "turns", "memories", "journal", "jobs", "memory_retrievals")
        found = [_rows(connection, f"select * from {table} order by rowid") for table in tables[:4]]
        found += [_rows(connection, f"select * from {table}") for table in tables[4:]]
    finally:
        connection.close()
    return Left(events=found[0], turns=found[1], memories=found[2], journal=found[3], jobs=found[4], recalls=found[5])


def assert_sound(home: str) -> None:
    """SQLite finds nothing wrong; chain, seals, ledger and full text hold."""
    path = os.path.join(home, places.DATABASE)
    database = Database(path)
    try:
        assert database.check() == []
        assert Journal(database.tx).verify().sound
        ledger = Events(database.tx).ledger()
    finally:
        database.close()
    found = left(home)
    assert [row["id"] for row in found.turns if not turn_repository.turn_intact(row)] == []
    assert [row["id"] for row in found.memories if not repository.is_intact(row)] == []
    connection: Any = apsw.Connection(path)
    try:
        for table in ("memories_fts", "messages_fts"):
            # The rank makes FTS5 compare its index with the rows it stands for, not only with itself.
            connection.execute(f"insert into {table} ({table}, rank) values ('integrity-check', 1)")
        (received,) = connection.execute("select count(*) from events").fetchone()
    finally:
        connection.close()
    assert ledger["queued"] == 0, ledger
    assert received == sum(ledger.values()), ledger


def _rows(connection: Any, query: str) -> list[Row]:
    cursor = connection.execute(query)
    rows: list[tuple[Any, ...]] = list(cursor)
    if not rows:
        return []
    names = [column[0] for column in connection.execute(query).get_description()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _payload(home: str, session: str, event: str, **more: Any) -> Row:
    return {"hook_event_name": event, "session_id": session, "cwd": workplace(home), **more}
