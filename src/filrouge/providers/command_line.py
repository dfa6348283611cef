"""Models behind command lines: one child process a question, in a process group that ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.capture.events import INTERNAL
from filrouge.core.errors import BadConfig
from filrouge.providers.language_models import MOST_REPLY, ModelOptions, Who

# A command line asked once: a process of its own group, that ends with everything it started when time is over.
#
# It works in an empty directory of this user alone, gets its text on standard input, and is read up to a bound; what
# it says to standard error is dropped. Its environment is the daemon's without the keys: who chose a command line
# chose its subscription, and a key that happens to be set would make it spend. One variable more tells Filrouge's
# hooks, should any run in there, that they see Filrouge itself.

_KEYS: Final = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "VOYAGE_API_KEY"})
#: Nothing of these helps an answer: news of versions, statistics.
_QUIET: Final = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
_CHUNK: Final = 65_536
_LOOK_SECONDS: Final = 0.02
#: For what is left in a pipe after the group has been killed; only who left the group can hold it open.
_DRAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """How a process ended, and what it printed; `whole` is False where it printed more than the bound."""

    code: int
    printed: bytes
    whole: bool


def program(options: ModelOptions, name: str, setting: str) -> str:
    """The absolute path of a command line.

    Raises:
        BadConfig: it is not found, or the path is not absolute; names the setting.
    """
    given = options.cli_path.strip()
    if given and not os.path.isabs(given):
        raise BadConfig(f"`{setting}` must be an absolute path.", remedy=f"Set it to what `which {name}` prints.")
    found = given or shutil.which(name, path=options.environ.get("PATH", os.defpath)) or ""
    if not os.access(found, os.X_OK) or os.path.isdir(found):
        where = f"at {given}" if given else "on the PATH"
        raise BadConfig(
            f"The program `{name}` is not found {where}.",
            remedy=f"Install it, or set `{setting}` to what `which {name}` prints.",
        )
    return os.path.abspath(found)


def environment(environ: Mapping[str, str], path: str) -> dict[str, str]:
    """What a child is given. Programs of npm start `node`, which stands beside them."""
    places = os.pathsep.join([os.path.dirname(path), environ.get("PATH", os.defpath)])
    return {name: value for name, value in environ.items() if name not in _KEYS} | {
        **_QUIET,
        "PATH": places,
        INTERNAL: "1",
    }


async def run(command: Sequence[str], *, text: str, directory: str, environ: Mapping[str, str], who: Who) -> Done:
    """Run it to its end; whoever cancels this ends the whole group.

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
        failed = who.failure("configuration", f"cannot be started: {error.strerror or type(error).__name__}")
    else:
        return await _followed(process, text)
    raise failed


async def _followed(process: asyncio.subprocess.Process, text: str) -> Done:
    assert process.stdin is not None
    assert process.stdout is not None
    reading = asyncio.create_task(_read(process.stdout, lambda: _kill(process)))
    writing = asyncio.create_task(_write(process.stdin, text.encode("utf-8", "replace")))
    try:
        # `wait` would also wait for whoever inherited the pipes, on some versions of Python.
        while process.returncode is None:
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        _kill(process)
        await asyncio.wait([reading, writing], timeout=_DRAIN_SECONDS)
        reading.cancel()
        writing.cancel()
        await asyncio.wait([reading, writing])
        await process.wait()
    printed = b"" if reading.cancelled() else reading.result()
    return Done(code=process.returncode or 0, printed=printed, whole=len(printed) <= MOST_REPLY)


def _kill(process: asyncio.subprocess.Process) -> None:
    """End everything in the group; whoever has ended already stays ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _write(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it ended without reading; its exit code says more
        pipe.write(data)
        await pipe.drain()
        pipe.close()
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader, enough: Callable[[], None]) -> bytes:
    """To the end, which comes soon after there was enough: what is more than that is not kept."""
    found = bytearray()
    while chunk := await pipe.read(_CHUNK):
        if len(found) <= MOST_REPLY:
            found += chunk
        else:
            enough()
    return bytes(found)


# What models behind command lines have in common: who they are, a process for each answer, a check for free.


class CommandLine:
    """The part of `LanguageModel` that is the same for every command line; a question is put by who inherits."""

    def __init__(self, who: Who, path: str, environ: Mapping[str, str]) -> None:
        self._who = who
        self._path = path
        self._environ = environ

    def __repr__(self) -> str:
        return f"<{self._who} at {self._path}>"

    @property
    def provider(self) -> str:
        """The provider's name in settings."""
        return self._who.provider

    @property
    def model(self) -> str:
        """The model's name, or its alias."""
        return self._who.model

    async def check(self) -> None:
        """Ask for its version.

        Raises:
            ModelUnavailable: it cannot be started, or ends with an error.
        """
        done = await self._run(["--version"], "")
        if done.code:
            raise self._who.failure("configuration", f"ends with {done.code} when asked for its version")

    async def close(self) -> None:
        """Nothing to end: its processes end with their answers."""

    async def _run(self, arguments: Sequence[str], text: str) -> Done:
        """Run it once, in a directory of its own that is empty."""
        with tempfile.TemporaryDirectory(prefix="filrouge-") as empty:
            return await run([self._path, *arguments], text=text, directory=empty, environ=self._environ, who=self._who)
