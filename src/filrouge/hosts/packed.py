"""Transcripts that Codex compressed (`rollout-….jsonl.zst`): a stream of their bytes, unpacked as they are read.

Never more than a window of what was packed is held, whatever the file claims to unpack to.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:
    from compression import zstd

SUFFIX: Final = ".zst"
#: What `zstd -d` takes too without being asked: a window of 128 MB. Codex's own are of 8 MB at the most.
_WINDOW_LOG: Final = 27


def is_packed(path: str) -> bool:
    """Whether a transcript is compressed."""
    return path.endswith(SUFFIX)


def plain(path: str) -> str:
    """What a transcript was called before it was compressed."""
    return path.removesuffix(SUFFIX)


class Unpacked(io.RawIOBase):
    """The bytes of a compressed file from its beginning on. What is damaged ends it, and `trouble` says how.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.trouble = ""
        self._place = 0
        self._packed = open(path, "rb")  # noqa: SIM115 (closed with this one)
        self._file = zstd.ZstdFile(self._packed, options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})

    @property
    def taken(self) -> int:
        """How many bytes of the file itself were read."""
        return self._packed.tell()

    def readable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place in what is unpacked."""
        return self._place

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Fill a buffer as far as one step goes."""
        try:
            found = self._file.read1(len(buffer))
        except EOFError:
            self.trouble = "it is cut off; what stands before is read"
            return 0
        except zstd.ZstdError:
            self.trouble = "it is damaged (no zstd that can be read); what stands before is read"
            return 0
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def close(self) -> None:
        """Let the file go."""
        if not self.closed:
            self._file.close()
            self._packed.close()
        super().close()
