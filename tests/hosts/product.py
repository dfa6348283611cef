"""The installed `filrouge`, asked from outside as a user or a script would.

Tests never look into the database: they wait until everything captured is understood, read the lists that
the commands print as JSON, and count on the files of `FILROUGE_HOME` only to prove that something is not
there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

Row = dict[str, Any]

EXECUTABLE: Final = os.path.join(os.path.dirname(sys.executable), "filrouge")
PATIENCE: Final = 30.0


class CommandError(AssertionError):
    """A command of Filrouge ended with an error."""


def eventually(what: str, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Look again and again until `ready`, and fail with what was waited for.

    A command that is refused meanwhile counts as not ready: a daemon that was killed or has just been started
    does not answer yet.
    """
    deadline = time.monotonic() + seconds
    last = ""
    while True:
        try:
            if ready():
                return
        except CommandError as error:
            last = f" ({error})"
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not true: {what}{last}"
        time.sleep(0.1)


@dataclass(frozen=True, kw_only=True)
class Product:
    """One Filrouge with its own directory, as the hooks of one throw-away user see it."""

    home: str
    env: Mapping[str, str]

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run one command: what it prints, or CommandError when it fails and `check` is on."""
        done = subprocess.run(
            [EXECUTABLE, *arguments],
            env=dict(self.env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            raise CommandError(f"filrouge {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def facts(self) -> list[Row]:
        """Every current memory."""
        return [row for row in self.facts_with_history() if row["state"] == "live"]

    def facts_with_history(self) -> list[Row]:
        """Every memory, the superseded ones too."""
        return _rows(self.run("facts", "--all", "--json"))

    def rules(self) -> list[Row]:
        """Every standing instruction."""
        return [row for row in _rows(self.run("rules", "--all", "--json")) if row["state"] == "live"]

    def everything_known(self) -> str:
        """The text of all current memories and rules, a line each."""
        rows = self.facts() + self.rules()
        return "\n".join(f"{row.get('key') or ''}: {row.get('value') or ''} {row.get('text') or ''}" for row in rows)

    def status(self) -> Row:
        """Counts of events and memories, and the work that is waiting."""
        return cast("Row", json.loads(self.run("status", "--json")))

    def understood(self) -> None:
        """Wait until everything captured is understood.

        The queue must be empty twice with nothing captured in between: a hook may have left its event in the
        spool, where the queue does not count it yet.
        """
        seen: list[Row] = []

        def quiet() -> bool:
            seen.append(self.status())
            work = seen[-1]["queue"]
            still = len(seen) > 1 and seen[-1]["events"] == seen[-2]["events"]
            return still and work["waiting"] + work["running"] == 0

        eventually("everything captured is understood", quiet)
        assert seen[-1]["queue"]["dead"] == 0, seen[-1]

    def daemon_pid(self) -> int:
        """The process that owns the store; 0 when none runs."""
        printed = self.run("daemon", "status", "--json", check=False)
        return int(cast("Row", json.loads(printed or "{}")).get("pid") or 0)

    def kill_daemon(self) -> int:
        """End the daemon without a chance to tidy up; the id of the process that is gone."""
        eventually("a daemon runs", lambda: self.daemon_pid() > 0)
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        eventually("the killed daemon is gone", lambda: self.daemon_pid() != pid)
        return pid

    def stop(self) -> None:
        """End the daemon, if one runs."""
        self.run("daemon", "stop", check=False)

    def files_with(self, needle: str) -> list[str]:
        """Every file below the home that holds these bytes, in UTF-8 or as JSON escapes them."""
        forms = {needle.encode(), json.dumps(needle)[1:-1].encode()}
        return [path for path in self._files() if any(form in _bytes(path) for form in forms)]

    def _files(self) -> list[str]:
        names = (os.path.join(top, name) for top, _, found in os.walk(self.home) for name in found)
        return sorted(path for path in names if os.path.isfile(path))


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:  # the daemon drained a spool file since it was listed
        return b""


def _rows(printed: str) -> list[Row]:
    return cast("list[Row]", json.loads(printed))
