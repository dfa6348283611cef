"""Commands as a person types them, each in a process of its own.

The processes are forks of one that has imported the command line already, one for each thread that types: the same
`main` with its own arguments, environment, folder and streams, without the quarter of a second of imports. What a
command loads, and how it starts, is tested with processes that are started in the ordinary way.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.support.ending import at_the_end

_FORKING: Final = """
import importlib, io, json, os, sys, time
from filrouge.cli import commands, main
for name in {*commands.COMMANDS, *(module for module, _ in commands.GROUPS.values())}:
    importlib.import_module(f"filrouge.cli.commands.{name}")

def run(asked):
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, (name, flags) in enumerate((("typed", os.O_RDONLY), ("out", written), ("err", written))):
        file = os.open(asked[name], flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    os.chdir(asked["folder"])
    sys.argv = [main.__file__, *asked["words"]]
    try:
        code = main.main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    sys.stdout.flush()
    return code

for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = run(asked)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Typed:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read."""
        return json.loads(self.out)


def typed(
    *words: str,
    environ: Mapping[str, str],
    folder: str | os.PathLike[str] | None = None,
    said: str = "",
    timeout: float = 60.0,
) -> Typed:
    """Run a command to its end.

    Args:
        environ: its whole environment.
        folder: where it is typed; None = where the tests run.
        said: on its standard input.

    Raises:
        subprocess.TimeoutExpired: it has not ended after so many seconds; it is ended then.
    """
    shell = _shell()
    assert shell.stdin is not None
    assert shell.stdout is not None
    with tempfile.TemporaryDirectory() as streams:
        files = {name: os.path.join(streams, name) for name in ("typed", "out", "err")}
        with open(files["typed"], "w", encoding="utf-8") as file:
            file.write(said)
        asked = {"words": words, "environ": dict(environ), "folder": os.fspath(folder or os.getcwd()), **files}
        shell.stdin.write(json.dumps(asked) + "\n")
        shell.stdin.flush()
        if not select.select([shell.stdout], [], [], timeout)[0]:
            os.killpg(shell.pid, signal.SIGKILL)
            del _own.shell
            raise subprocess.TimeoutExpired(list(words), timeout)
        return Typed(code=int(shell.stdout.readline()), out=_read(files["out"]), err=_read(files["err"]))


def _read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


_own = threading.local()


def _shell() -> subprocess.Popen[str]:
    """That of this thread."""
    shell: subprocess.Popen[str] | None = getattr(_own, "shell", None)
    if shell is None:
        shell = _own.shell = subprocess.Popen(
            [sys.executable, "-c", _FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,
        )
        at_the_end(partial(_end, shell))
    return shell


def _end(shell: subprocess.Popen[str]) -> None:
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.close()
    shell.wait()
    shell.stdout.close()
