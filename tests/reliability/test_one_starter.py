"""One daemon comes up, however many miss it at once and however slowly, and none comes after it was stopped.

The lock that elects the starter is taken before a process is made, so the number of daemon processes is counted where
they begin: each appends a line to a file before it does anything else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from filrouge.core import paths as places
from filrouge.core.errors import Busy
from filrouge.daemon import client, starting
from filrouge.daemon.process import PROGRAM, home_lock

from .processes import EXECUTABLE, environment, eventually, is_up, kill, lock_holder, run, servers, workplace

FIRST_COMMANDS = 50
#: Runnable processes beside the commands.
BUSY = 10
PATIENCE = 240.0
#: Run by every Python process of a home that is given it: a daemon is one that is to run `filrouge.server`.
_COUNTER = """
import os, sys
if "filrouge.server" in sys.orig_argv:
    with open(os.environ["DAEMONS"], "a") as file:
        file.write(f"{os.getpid()}\\n")
"""
_HOLDER = """
import sys, time
from filrouge.daemon import starting
starting.acquire(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def busy_machine(loops: int) -> Generator[None]:
    """Processes that compute without end beside the block."""
    beside = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in beside:
            one.kill()
            one.wait()


def counted(home: str, tmp_path: Path) -> tuple[dict[str, str], Path]:
    """The environment of commands whose daemons are counted, and the file with a line for each."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(_COUNTER)
    daemons = tmp_path / "daemons"
    return environment(home, PYTHONPATH=str(hooks), DAEMONS=str(daemons)), daemons


def first_commands(home: str, environ: dict[str, str], number: int) -> list[subprocess.CompletedProcess[str]]:
    """Commands that are the first to need a daemon, all at once."""

    def one(index: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EXECUTABLE, "remember", f"The number {index} service listens on port {20_000 + index}."],
            env=environ, cwd=workplace(home), capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


@pytest.mark.proof
def test_fifty_first_commands_on_a_busy_machine_make_one_daemon_and_all_succeed(home: str, tmp_path: Path) -> None:
    environ, daemons = counted(home, tmp_path)
    with busy_machine(BUSY):
        done = first_commands(home, environ, FIRST_COMMANDS)
    assert [one.stderr for one in done if one.returncode] == []
    assert len(daemons.read_text().splitlines()) == 1
    assert servers(home) == [lock_holder(home)]
    assert run(home, "daemon", "stop").code == 0
    eventually("no process is left", lambda: servers(home) == [])
    assert lock_holder(home) == 0


def test_eight_first_commands_make_one_daemon_and_none_is_left_after_the_stop(home: str, tmp_path: Path) -> None:
    environ, daemons = counted(home, tmp_path)
    done = first_commands(home, environ, 8)
    assert [one.stderr for one in done if one.returncode] == []
    assert len(daemons.read_text().splitlines()) == 1
    assert run(home, "daemon", "stop").code == 0
    eventually("no process is left", lambda: servers(home) == [])
    assert lock_holder(home) == 0


def test_a_starter_that_dies_is_replaced_at_once_by_one_that_waits(home: str, tmp_path: Path) -> None:
    environ, daemons = counted(home, tmp_path)
    places.make_private(home)
    with home_lock(home):  # so that the starter cannot come up before it is killed
        command = subprocess.Popen(
            [EXECUTABLE, "recall", "anything"],
            env=environ, cwd=workplace(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        eventually("a daemon has been started", daemons.exists)
        assert client.is_starting(home)
        kill(int(daemons.read_text()))
    assert command.wait(PATIENCE) == 0
    assert len(daemons.read_text().splitlines()) == 2


def test_a_stop_while_a_daemon_comes_up_stops_that_one(home: str) -> None:
    places.make_private(home)
    assert client.start(home) == "started"
    stopped = run(home, "daemon", "stop")
    assert (stopped.code, stopped.out) == (0, "The daemon has stopped.\n")
    eventually("no process is left", lambda: servers(home) == [])
    assert (lock_holder(home), client.is_starting(home)) == (0, False)


def test_a_successor_that_is_not_needed_leaves_and_does_not_wait_for_the_stop(home: str) -> None:
    assert run(home, "daemon", "start").code == 0
    (first,) = servers(home)
    assert client.start(home, client.SUCCESSOR) == "started"
    eventually("the successor has left", lambda: servers(home) == [first])
    assert run(home, "daemon", "stop").code == 0
    eventually("no process is left", lambda: servers(home) == [])
    assert lock_holder(home) == 0


def test_the_lock_is_free_again_when_its_process_is_killed(home: str) -> None:
    places.make_private(home)
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, home], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert starting.acquire(home) is None
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    held = starting.acquire(home)
    assert held is not None
    starting.release(home, held)
    assert os.listdir(home) == []


def test_a_home_that_a_program_has_open_is_said_to_be_at_once(home: str) -> None:
    with home_lock(home, owner=PROGRAM):
        done = run(home, "recall", "anything", timeout=15.0)
    assert done.code == Busy.exit_code
    assert "program" in done.err
    assert not is_up(home)
