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


def context_usage(host: str, lines: Iterable[bytes]) -> float | None:
    """Return the share of the model's context window in use; None if the lines do not report it."""
    reader = CONTEXT_USAGE_READERS.get(host)
    return reader(lines) if reader else None


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

ZSTD_SUFFIX: Final = ".zst"
#: A window of 128 MB, the default limit of `zstd -d`. Codex's files use 8 MB at most.
_WINDOW_LOG: Final = 27


def is_compressed(path: str) -> bool:
    """Return True if a transcript is compressed."""
    return path.endswith(ZSTD_SUFFIX)


def uncompressed_path(path: str) -> str:
    """Return the path that a transcript had before it was compressed."""
    return path.removesuffix(ZSTD_SUFFIX)


class ZstdReader(io.RawIOBase):
    """The decompressed bytes of a file, from its beginning. Damaged data ends the stream and sets `problem`.

    Attributes:
        problem: why the stream ended early; empty if the data is intact so far.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.problem = ""
        self._position = 0
        self._compressed = open(path, "rb")  # noqa: SIM115 (closed with this one)
        self._file = zstd.ZstdFile(self._compressed, options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})

    @property
    def compressed_bytes_read(self) -> int:
        """Number of compressed bytes read so far."""
        return self._compressed.tell()

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the decompressed data."""
        return self._position

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read the next decompressed bytes into the buffer; may fill only part of it."""
        try:
            found = self._file.read1(len(buffer))
        except EOFError:
            self.problem = "the file is truncated; its beginning was read"
            return 0
        except zstd.ZstdError:
            self.problem = "the file is damaged (invalid zstd data); its beginning was read"
            return 0
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
            self._compressed.close()
        super().close()


#: The agents with readable transcripts: the variable that sets their directory, and its default below the user's home.
AGENT_FOLDERS: Final[Mapping[str, tuple[str, str]]] = {
    claude_code.NAME: claude_code.FOLDER,
    codex.NAME: codex.FOLDER,
}
_MAX_FIRST_LINE_BYTES: Final = 1024 * 1024
_THREAD_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class TranscriptFile(NamedTuple):
    """One transcript file.

    Attributes:
        size: bytes on disk, compressed or not.
        changed: seconds since 1970.
        cwd: the directory of its session, if the first line names it.
    """

    path: str
    session: str
    size: int
    changed: float
    cwd: str = ""


def agent_directory(agent: str, environ: Mapping[str, str]) -> str:
    """Return the directory in which the agent keeps its transcripts and settings."""
    variable, default = AGENT_FOLDERS[agent]
    return os.path.abspath(environ.get(variable) or os.path.join(os.path.expanduser("~"), default))


def find_transcripts(agent: str, root: str) -> list[TranscriptFile]:
    """Return the transcripts below `root`, the agent's directory or a copy of it, oldest first."""
    find_files = _find_claude_files if agent == claude_code.NAME else _find_codex_files
    folder_names = ("projects",) if agent == claude_code.NAME else ("sessions", "archived_sessions")
    folders = [folder for name in folder_names if os.path.isdir(folder := os.path.join(root, name))]
    found = [file for folder in folders or [root] for file in find_files(folder)]
    return sorted(found, key=lambda file: (file.changed, file.path))


def _find_claude_files(root: str) -> Iterator[TranscriptFile]:
    for path in _paths_below(root):
        parent = os.path.basename(os.path.dirname(path))
        if path.endswith(".jsonl") and parent != "subagents" and not os.path.basename(path).startswith("agent-"):
            session = os.path.basename(path).removesuffix(".jsonl")
            found = _transcript_file(path, session)
            if found is not None and _THREAD_ID.search(session):
                yield found


def _find_codex_files(root: str) -> Iterator[TranscriptFile]:
    for path in _paths_below(root):
        name = uncompressed_path(os.path.basename(path))
        stem = name.removesuffix(".jsonl")
        if not name.endswith(".jsonl") or not stem.startswith("rollout-"):
            continue
        if is_compressed(path) and os.path.exists(uncompressed_path(path)):  # Codex is compressing it
            continue
        meta = _session_meta(path)
        if isinstance(meta.get("source"), dict):  # started by another session, not by a person
            continue
        thread_id = _THREAD_ID.search(stem)
        session = text_field(meta, "session_id") or text_field(meta, "id") or (thread_id[0] if thread_id else stem)
        if (found := _transcript_file(path, session, text_field(meta, "cwd"))) is not None:
            yield found


def _paths_below(root: str) -> Iterator[str]:
    for folder, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name != "subagents")
        yield from (os.path.join(folder, name) for name in sorted(names))


def _transcript_file(path: str, session: str, cwd: str = "") -> TranscriptFile | None:
    try:
        status = os.stat(path)
    except OSError:  # deleted in the meantime
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return TranscriptFile(path, session, status.st_size, status.st_mtime, cwd)


def _session_meta(path: str) -> dict[str, Any]:
    """Return the session metadata in the first line of a rollout; empty if it has none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return {}
        with io.BufferedReader(ZstdReader(path)) if is_compressed(path) else open(path, "rb") as file:
            first = next(objects([file.readline(_MAX_FIRST_LINE_BYTES)]), None) or dict[str, Any]()
    except OSError:
        return {}
    return as_object(first.get("payload")) if first.get("type") == "session_meta" else {}
