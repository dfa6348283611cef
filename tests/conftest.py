"""What all tests share: a directory for each run, one built model, the number of examples, and a look at what is left.

Everything a run writes goes into one directory, in memory where the machine has room for it (the tests wait for
`fsync` thousands of times), and that directory goes when the run ends. HOME points into it: no test sees the user's
own home, agents or caches. A process that the run started and that is still there at the end is an error.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.ending import end
from tests.support.tiers import examples, is_proof

#: The directory of the run; the workers of pytest-xdist and every process that a test starts inherit it.
RUN: Final = "FILROUGE_TEST_RUN"
_PREFIX: Final = "frt-"
_ROOM: Final = 4 << 30
_SHARED_MEMORY: Final = "/dev/shm"
#: Seconds that a daemon which was asked to stop may take, on a machine that is busy elsewhere.
_LEAVING: Final = 20.0
_LOG_LINES: Final = 40

settings.register_profile(
    "filrouge",
    max_examples=examples(100) if is_proof() else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("filrouge")


def pytest_configure(config: pytest.Config) -> None:
    """Make the directory of the run, before any test module is imported."""
    # Several workers share the processors: threads of the linear algebra in each of them only wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if RUN not in os.environ:
        place = _place()
        _remove_abandoned(place)
        # Real, because macOS keeps its temporary directories behind a link.
        _prepare(config, os.path.realpath(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)))
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what runs in its background so, and every process that a test interrupts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        os.environ["TMPDIR"] = os.path.join(os.environ[RUN], worker)
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)
        tempfile.tempdir = None


def _place() -> str:
    """Memory with room for all that the tests write at a time; else the usual place."""
    with suppress(OSError):
        facts = os.statvfs(_SHARED_MEMORY)
        if facts.f_bavail * facts.f_frsize >= _ROOM and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
            return _SHARED_MEMORY
    return tempfile.gettempdir()


def _remove_abandoned(place: str) -> None:
    """Remove the directories of runs that were killed."""
    for name in os.listdir(place):
        pid = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and pid.isdecimal():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
            except PermissionError:
                pass


def _prepare(config: pytest.Config, run: str) -> None:
    user = os.path.join(run, "user")
    os.mkdir(user)
    # The agents are installed once for all runs, so they stay where they are; found before HOME is another.
    os.environ.setdefault("FILROUGE_HOST_CACHE", os.path.expanduser("~/.cache/filrouge-hosts"))
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    os.environ |= {RUN: run, "HOME": user, "TMPDIR": run, "FILROUGE_MODELS": os.path.join(run, "models")}
    tempfile.tempdir = None
    if config.option.basetemp is None:
        config.option.basetemp = os.path.join(run, "t")
    # Every process that a test starts compiles what it imports, unless somebody keeps it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are processors: tests wait for other processes about a third of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the operation to the id of a test of schemathesis: since pytest 9.2 all have the id of their function."""
    label = getattr(item, "operation_label", None)
    if label and f"[{label}]" not in item.nodeid:
        item._id = item.id.with_params(label)  # pyright: ignore  (there is no other way, and pytest 9.1 needs none)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several tests with one id, pytest-xdist runs the first and says nothing."""
    seen: set[str] = set()
    twice = {item.nodeid for item in items if item.nodeid in seen or seen.add(item.nodeid)}
    if twice:
        raise pytest.UsageError(f"Several tests have the same id: {', '.join(sorted(twice))}")


def pytest_collection_finish() -> None:
    """Keep the collector of garbage away from what stays to the end: thousands of tests and all that they import.

    Going through it again and again took a tenth of the run, and a fork copies every page that the collector marks.
    """
    gc.collect()
    gc.freeze()


# ------------------------------------------------------------------------------------------------ a failure


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Show the end of the logs that were written while a test failed."""
    report = yield
    if isinstance(report, pytest.TestReport) and report.failed:
        for path in sorted(_logs(os.environ["TMPDIR"], call.start)):
            with suppress(OSError):
                report.sections.append((f"log of {os.path.dirname(path)}", tail(path)))
    return report


def _logs(directory: str, since: float) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        path = os.path.join(folder, "filrouge.log")
        with suppress(OSError):
            if "filrouge.log" in names and os.stat(path).st_mtime >= since:
                yield path


def tail(path: str) -> str:
    """The last lines of a file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-_LOG_LINES:])


# ------------------------------------------------------------------------------------------------ the end


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """No process outlives the run; whatever is left is ended, and named as an error."""
    result = yield
    end()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return result
    left = _left()
    deadline = time.monotonic() + _LEAVING
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = _left()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if left:
        told = "\n".join(f"{pid}: {command}" for pid, command in left.items())
        _error(session, f"{len(left)} processes that the tests started were still running at the end:\n{told}")
    shutil.rmtree(os.environ[RUN], ignore_errors=True)
    return result


def _error(session: pytest.Session, text: str) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        report = pytest.CollectReport("processes left behind", "failed", longrepr=text, result=[])
        reporter.stats.setdefault("error", []).append(report)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left() -> dict[int, str]:
    """The processes that know the directory of the run, by id, with their command lines."""
    mark = os.environ[RUN].encode()
    own = {os.getpid(), os.getppid()}
    found: dict[int, str] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        with suppress(OSError, ValueError):
            if int(name) in own or _zombie(name):
                continue
            command = _read(name, "cmdline")
            if mark in command or mark in _read(name, "environ"):
                found[int(name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def _read(pid: str, what: str) -> bytes:
    with open(f"/proc/{pid}/{what}", "rb") as file:
        return file.read()


def _zombie(pid: str) -> bool:
    return _read(pid, "stat").rpartition(b")")[2].split()[0] == b"Z"
