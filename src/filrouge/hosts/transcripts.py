"""Finds the transcript files that agents left on this disk, oldest first, and reads them.

Claude Code writes `projects/<directory>/<session>.jsonl` below `CLAUDE_CONFIG_DIR` (`~/.claude`). Codex writes
`sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl` below `CODEX_HOME` (`~/.codex`), moves archived sessions to
`archived_sessions`, and compresses old files to `….jsonl.zst`. Transcripts of helper agents are skipped, because they
are not conversations with the user.

A reader takes whole lines, in order, from any position of a file, keeps no state between calls, and yields records with
the same keys at every reading. It skips lines that are not JSON objects, and records that no person, agent or tool
caused.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from filrouge.capture.models import TranscriptRecord
from filrouge.hosts import claude_code, claude_transcript, codex, codex_transcript
from filrouge.hosts.command_hooks import as_object, text_field
from filrouge.hosts.transcript_lines import objects

Reader = Callable[[Iterable[bytes]], Iterator[TranscriptRecord]]

READERS: Final[dict[str, Reader]] = {
    claude_code.NAME: claude_transcript.records,
    codex.NAME: codex_transcript.records,
}

#: Only Codex reports the context window's size. Claude Code counts tokens without it, and announces a compaction by a
#: hook.
CONTEXT_USAGE_READERS: Final[dict[str, Callable[[Iterable[bytes]], float | None]]] = {
    codex.NAME: codex_transcript.context_usage
}


def fullness(host: str, lines: Iterable[bytes]) -> float | None:
    """Return the share of the model's context window in use; None if the lines do not report it."""
    counter = CONTEXT_USAGE_READERS.get(host)
    return counter(lines) if counter else None


def records(host: str, lines: Iterable[bytes]) -> Iterator[TranscriptRecord]:
    """Yield the messages in `lines` of a transcript of `host`; nothing for a host without a reader."""
    reader = READERS.get(host)
    return reader(lines) if reader else iter(())


# Transcripts compressed by Codex (`rollout-….jsonl.zst`) are decompressed as they are read. Memory use is limited to
# one window, whatever size the file claims to unpack to.

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:
    from compression import zstd

SUFFIX: Final = ".zst"
#: A window of 128 MB, the default limit of `zstd -d`. Codex's files use 8 MB at most.
_WINDOW_LOG: Final = 27


def is_compressed(path: str) -> bool:
    """Return True if a transcript is compressed."""
    return path.endswith(SUFFIX)


def uncompressed_path(path: str) -> str:
    """Return the path that a transcript had before it was compressed."""
    return path.removesuffix(SUFFIX)


class ZstdReader(io.RawIOBase):
    """The decompressed bytes of a file, from its beginning. Damaged data ends the stream and sets `trouble`.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.trouble = ""
        self._place = 0
        self._packed = open(path, "rb")  # noqa: SIM115 (closed with this one)
        self._file = zstd.ZstdFile(self._packed, options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})

    @property
    def taken(self) -> int:
        """Number of compressed bytes read so far."""
        return self._packed.tell()

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the decompressed data."""
        return self._place

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read the next decompressed bytes into the buffer; may fill only part of it."""
        try:
            found = self._file.read1(len(buffer))
        except EOFError:
            self.trouble = "the file is truncated; its beginning was read"
            return 0
        except zstd.ZstdError:
            self.trouble = "the file is damaged (invalid zstd data); its beginning was read"
            return 0
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
            self._packed.close()
        super().close()


#: The agents with readable history: the variable that sets their directory, and its default below the user's home.
AGENTS: Final[Mapping[str, tuple[str, str]]] = {
    claude_code.NAME: claude_code.FOLDER,
    codex.NAME: codex.FOLDER,
}
_FIRST_LINE: Final = 1024 * 1024
_THREAD: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class TranscriptFile(NamedTuple):
    """One transcript file."""

    path: str
    session: str
    size: int
    changed: float
    """Seconds since 1970."""
    cwd: str = ""
    """The directory of its session, if the first line names it."""


def directory(agent: str, environ: Mapping[str, str]) -> str:
    """Return the agent's directory."""
    variable, usual = AGENTS[agent]
    return os.path.abspath(environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))


def find_transcripts(agent: str, root: str) -> list[TranscriptFile]:
    """Return the transcripts below `root`, the agent's directory or a copy of it, oldest first."""
    read = _claude if agent == claude_code.NAME else _codex
    places = ("projects",) if agent == claude_code.NAME else ("sessions", "archived_sessions")
    inside = [place for name in places if os.path.isdir(place := os.path.join(root, name))]
    found = [one for place in inside or [root] for one in read(place)]
    return sorted(found, key=lambda one: (one.changed, one.path))


def _claude(root: str) -> Iterator[TranscriptFile]:
    for path in _below(root):
        above = os.path.basename(os.path.dirname(path))
        if path.endswith(".jsonl") and above != "subagents" and not os.path.basename(path).startswith("agent-"):
            session = os.path.basename(path).removesuffix(".jsonl")
            found = _history(path, session)
            if found is not None and _THREAD.search(session):
                yield found


def _codex(root: str) -> Iterator[TranscriptFile]:
    for path in _below(root):
        name = uncompressed_path(os.path.basename(path))
        stem = name.removesuffix(".jsonl")
        if not name.endswith(".jsonl") or not stem.startswith("rollout-"):
            continue
        if is_compressed(path) and os.path.exists(uncompressed_path(path)):  # Codex is compressing it
            continue
        meta = _meta(path)
        if isinstance(meta.get("source"), dict):  # started by another session, not by a person
            continue
        thread = _THREAD.search(stem)
        session = text_field(meta, "session_id") or text_field(meta, "id") or (thread[0] if thread else stem)
        if (found := _history(path, session, text_field(meta, "cwd"))) is not None:
            yield found


def _below(root: str) -> Iterator[str]:
    for place, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name != "subagents")
        yield from (os.path.join(place, name) for name in sorted(names))


def _history(path: str, session: str, cwd: str = "") -> TranscriptFile | None:
    try:
        facts = os.stat(path)
    except OSError:  # deleted in the meantime
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return TranscriptFile(path, session, facts.st_size, facts.st_mtime, cwd)


def _meta(path: str) -> dict[str, Any]:
    """Return the session metadata in the first line of a rollout; empty if it has none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return {}
        with io.BufferedReader(ZstdReader(path)) if is_compressed(path) else open(path, "rb") as file:
            first = next(objects([file.readline(_FIRST_LINE)]), None) or dict[str, Any]()
    except OSError:
        return {}
    return as_object(first.get("payload")) if first.get("type") == "session_meta" else {}
