"""The messages in a host's transcript file, for the daemon.

A reader takes whole lines, in order, from any place of the file, and yields records whose keys are the
same at every reading; it keeps nothing between two calls. A line that is no JSON object is passed over,
and so is every record that a person, an agent or a tool did not cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from filrouge.capture.models import TranscriptRecord
from filrouge.hosts import claude_code, claude_transcript, codex, codex_transcript

Reader = Callable[[Iterable[bytes]], Iterator[TranscriptRecord]]

READERS: Final[dict[str, Reader]] = {
    claude_code.NAME: claude_transcript.records,
    codex.NAME: codex_transcript.records,
}

#: Claude Code counts tokens and does not say how many the model takes; it announces a compaction by a hook.
COUNTERS: Final[dict[str, Callable[[Iterable[bytes]], float | None]]] = {codex.NAME: codex_transcript.fullness}


def fullness(host: str, lines: Iterable[bytes]) -> float | None:
    """How full the model's context is, as a share, by `lines` of a transcript of `host`; None where they do not
    tell."""
    counter = COUNTERS.get(host)
    return counter(lines) if counter else None


def records(host: str, lines: Iterable[bytes]) -> Iterator[TranscriptRecord]:
    """The messages that `lines` of a transcript of `host` tell; none for a host without transcripts."""
    reader = READERS.get(host)
    return reader(lines) if reader else iter(())
