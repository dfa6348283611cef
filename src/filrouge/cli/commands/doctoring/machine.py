"""Checks of the machine: Python, the system, SQLite, the clock, room on the disk."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

from filrouge import installation
from filrouge._version import __version__
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.clock import from_text
from filrouge.home import BALLAST
from filrouge.store.sqlite import check_engine

_OLDEST_PYTHON: Final = (3, 11)
_LEAST_FREE_BYTES: Final = 200 * 1024 * 1024
_NEEDED_OPTIONS: Final = frozenset({"ENABLE_FTS5"})
#: The daemon holds connections of clients, of the database and of word indexes at once.
_LEAST_OPEN_FILES: Final = 256
_CLOCK_SLACK: Final = timedelta(hours=1)


def _python(scene: Scene) -> Verdict:
    found = ".".join(map(str, scene.machine.python))
    if scene.machine.python < _OLDEST_PYTHON:
        return fail(f"{found} is too old", "Install Filrouge with Python 3.11 or newer.")
    return ok(f"{found}, filrouge {__version__}")


def _platform(scene: Scene) -> Verdict:
    machine = scene.machine
    if machine.system not in ("Linux", "Darwin"):
        return fail(f"{machine.system} is not supported", "Use Linux or macOS; on Windows, use WSL 2.")
    if machine.bits < 64:
        return warn(
            f"Python has {machine.bits} bits, for which there are no wheels of what is needed",
            "Install a Python of 64 bits.",
        )
    return ok(f"{machine.system}, {machine.bits} bits")


def _sqlite(scene: Scene) -> Verdict:
    check_engine(scene.machine.sqlite)
    return ok(f"{scene.machine.sqlite}, new enough to be safe")


def _sqlite_features(scene: Scene) -> Verdict:
    missing = sorted(_NEEDED_OPTIONS - scene.machine.sqlite_options)
    if missing:
        return fail(
            f"SQLite was built without {', '.join(missing)}",
            f"Install the wheel: `{installation.reinstall('apsw-sqlite3mc')}`.",
        )
    return ok("full-text search is there")


def _space(scene: Scene) -> Verdict:
    there = scene.home
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = scene.machine.free(there)
    if free < _LEAST_FREE_BYTES:
        return fail(f"{free >> 20} MB are free", "Free some space: capture stops without it.")
    return ok(f"{free >> 30} GB free")


def _ballast(scene: Scene) -> Verdict:
    if not os.path.exists(scene.database) or os.path.exists(scene.path(BALLAST)):
        return ok("the disk was not full")
    return warn(
        "the file that keeps room on a full disk is gone: the disk was full once, or nearly",
        "Free some space, then run `filrouge daemon stop` and `filrouge daemon start`, which make it again.",
    )


def _open_files(scene: Scene) -> Verdict:
    if scene.machine.open_files < _LEAST_OPEN_FILES:
        return warn(f"a process may open {scene.machine.open_files} files", "Raise it: `ulimit -n 1024`.")
    return ok("a process may open enough")


def _clock(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        newest = (tx.one("events.last") or {"at": None})["at"]
    if newest and from_text(newest) > scene.now + _CLOCK_SLACK:
        return warn(
            f"it says {scene.now:%Y-%m-%d %H:%M}, before the newest event, of {newest[:16].replace('T', ' ')}",
            "Set the clock: what is newer replaces what is older.",
        )
    return ok("it does not run backwards")


CHECKS: Final = (
    Check(name="Python", look=_python),
    Check(name="Platform", look=_platform),
    Check(name="SQLite", look=_sqlite),
    Check(name="SQLite features", look=_sqlite_features),
    Check(name="Disk space", look=_space),
    Check(name="Ballast", look=_ballast),
    Check(name="Open files", look=_open_files),
    Check(name="Clock", look=_clock),
)
