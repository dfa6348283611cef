"""Models behind command lines: one child process per question, in its own process group.

When the answer or the time limit is reached, the whole group is killed. The process runs in an empty directory that
only this user can access. It gets the text on standard input, its output is read up to a limit, and its standard error
is discarded.

Its environment is the daemon's without API keys: a user who chose a command line wants its subscription to be used, and
a key that happens to be set would cause costs. One additional variable tells Filrouge's hooks, if any run in the
process, that the caller is Filrouge itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct

from filrouge.capture.events import INTERNAL_VARIABLE
from filrouge.core.errors import BadConfig
from filrouge.providers.language_models import (
    MAX_REPLY_BYTES,
    DefaultModels,
    IdentifiedModel,
    ModelIdentity,
    ModelOptions,
)

_API_KEY_VARIABLES: Final = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "VOYAGE_API_KEY"})
#: Disable update checks and statistics, which do not help an answer.
_QUIET: Final = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
_CHUNK_BYTES: Final = 65_536
_POLL_SECONDS: Final = 0.02
#: Time limit for draining a pipe after the group was killed; only a process that left the group can hold it open.
_DRAIN_SECONDS: Final = 1.0


class ProcessResult(Struct, frozen=True, kw_only=True):
    """The result of a process.

    Attributes:
        code: its exit code; negative if a signal ended it.
        output: what it printed on standard output, up to a little more than `MAX_REPLY_BYTES`.
        is_complete: False if it printed more than `MAX_REPLY_BYTES`.
    """

    code: int
    output: bytes
    is_complete: bool


def program_path(options: ModelOptions, name: str, setting: str) -> str:
    """Return the absolute path of a command line.

    Raises:
        BadConfig: it is not found, or the path is not absolute; the message names the setting.
    """
    configured = options.cli_path.strip()
    if configured and not os.path.isabs(configured):
        raise BadConfig(f"`{setting}` must be an absolute path.", remedy=f"Set it to what `which {name}` prints.")
    found = configured or shutil.which(name, path=options.environ.get("PATH", os.defpath)) or ""
    if not os.access(found, os.X_OK) or os.path.isdir(found):
        where = f"at {configured}" if configured else "on the PATH"
        raise BadConfig(
            f"The program `{name}` is not found {where}.",
            remedy=f"Install it, or set `{setting}` to what `which {name}` prints.",
        )
    return os.path.abspath(found)


def _child_environment(environ: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the environment of a child. Its PATH starts with the program's directory, where npm installs `node`."""
    search_path = os.pathsep.join([os.path.dirname(path), environ.get("PATH", os.defpath)])
    return {name: value for name, value in environ.items() if name not in _API_KEY_VARIABLES} | {
        **_QUIET,
        "PATH": search_path,
        INTERNAL_VARIABLE: "1",
    }


async def run_process(
    command: Sequence[str], *, text: str, directory: str, environ: Mapping[str, str], identity: ModelIdentity
) -> ProcessResult:
    """Run the process to its end; cancelling this kills the whole group.

    Raises:
        ModelUnavailable: it cannot be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=directory,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        failure = identity.failure("configuration", f"cannot be started: {error.strerror or type(error).__name__}")
    else:
        return await _wait_and_kill(process, text)
    raise failure


async def _wait_and_kill(process: asyncio.subprocess.Process, text: str) -> ProcessResult:
    assert process.stdin is not None
    assert process.stdout is not None
    reading = asyncio.create_task(_read_pipe(process.stdout, lambda: _kill(process)))
    writing = asyncio.create_task(_write(process.stdin, text.encode("utf-8", "replace")))
    try:
        # On some Python versions, `wait` would also wait for processes that inherited the pipes.
        while process.returncode is None:
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        _kill(process)
        await asyncio.wait([reading, writing], timeout=_DRAIN_SECONDS)
        reading.cancel()
        writing.cancel()
        await asyncio.wait([reading, writing])
        await process.wait()
    output = b"" if reading.cancelled() else reading.result()
    return ProcessResult(code=process.returncode or 0, output=output, is_complete=len(output) <= MAX_REPLY_BYTES)


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the whole group; processes that have ended are ignored."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _write(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # the process ended without reading; its exit code says more
        pipe.write(data)
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()


async def _read_pipe(pipe: asyncio.StreamReader, stop: Callable[[], None]) -> bytes:
    """Read to the end, discarding bytes beyond the limit; at the limit `stop` is called to stop the process."""
    found = bytearray()
    while chunk := await pipe.read(_CHUNK_BYTES):
        if len(found) <= MAX_REPLY_BYTES:
            found += chunk
        else:
            stop()
    return bytes(found)


class CommandLine(IdentifiedModel):
    """The part of `LanguageModel` that all command lines share. A subclass implements `complete`.

    Attributes:
        label: the program's name for display.
        sizes: its default models.
        program: the name of its executable.
        setting: the setting with the path of the executable.
    """

    label: ClassVar[str]
    sizes: ClassVar[DefaultModels]
    program: ClassVar[str]
    setting: ClassVar[str]

    def __init__(self, options: ModelOptions) -> None:
        """Find the program.

        Raises:
            BadConfig: it is not found.
        """
        super().__init__(options.identity(self.label, self.sizes))
        self._path = program_path(options, self.program, self.setting)
        self._environ = _child_environment(options.environ, self._path)

    def __repr__(self) -> str:
        return f"<{self._identity} at {self._path}>"

    async def check(self) -> None:
        """Run the program with `--version`.

        Raises:
            ModelUnavailable: it cannot be started, or ends with an error.
        """
        result = await self._run(["--version"], "")
        if result.code:
            raise self._identity.failure("configuration", f"ends with {result.code} when asked for its version")

    async def close(self) -> None:
        """Do nothing: no process outlives its answer."""

    async def _run(self, arguments: Sequence[str], text: str) -> ProcessResult:
        """Run the program once, in a new empty directory."""
        with tempfile.TemporaryDirectory(prefix="filrouge-") as empty:
            return await run_process(
                [self._path, *arguments], text=text, directory=empty, environ=self._environ, identity=self._identity
            )
