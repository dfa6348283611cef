"""The files of the word indexes: a directory each, with a header that says what it was made from.

Whatever is wrong with a directory (no header, another format, another analyser, a torn or altered file), it is removed
and made again from the store: nothing is only there. tantivy ends every file with a checksum, which it does not look
at by itself.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from filrouge.core.protocols import WordIndex
from filrouge.search.models import Mark

_LOG = logging.getLogger(__name__)
#: Another one with every change of the schema or of what rows are labelled with.
_FORMAT: Final = 1
_HEADER: Final = "header.json"
_FOOTER_MARK: Final = 1337


class WordFiles:
    """Implements `WordIndexes` under one directory. The holder of the home's lock is the only one to use it.

    Args:
        analyser: the version of the tokens; an index of another is as good as none.
    """

    def __init__(self, directory: str, analyser: int) -> None:
        self._directory, self._analyser = directory, analyser

    def open(self, name: str) -> WordIndex | None:
        """The index that is there, None where there is none or it is damaged or made by another analyser."""
        directory = self._path(name)
        if not os.path.isdir(directory):
            return None
        try:
            mark = _read_header(directory, self._analyser)
            _check(directory)
            return _words(directory, self._analyser, mark)
        except Exception as error:  # tantivy raises whatever it likes; all of it means the same
            _LOG.warning("the word index of %ss is made again: %s", name, error)
            return None

    def create(self, name: str) -> WordIndex:
        """A new one, in the place of what may be there."""
        self.drop(name)
        directory = self._path(name)
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        os.mkdir(directory, mode=0o700)
        return _words(directory, self._analyser, Mark(row=0, change=0))

    def drop(self, name: str) -> None:
        """Remove every file of it."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def is_possible() -> bool:
    """True where tantivy is installed."""
    return find_spec("tantivy") is not None


def _write_header(directory: str, analyser: int, mark: Mark) -> None:
    about = {"format": _FORMAT, "analyser": analyser, "row": mark.row, "change": mark.change}
    path = os.path.join(directory, _HEADER)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(about, file)
    os.replace(f"{path}.new", path)


def _words(directory: str, analyser: int, mark: Mark) -> WordIndex:
    def keep(reached: Mark) -> None:
        _write_header(directory, analyser, reached)

    made: WordIndex = import_module("filrouge.search.tantivy_words").TantivyWords(directory, mark, keep)
    return made


def _read_header(directory: str, analyser: int) -> Mark:
    with open(os.path.join(directory, _HEADER), encoding="utf-8") as file:
        about: dict[str, Any] = json.load(file)
    if (about.get("format"), about.get("analyser")) != (_FORMAT, analyser):
        raise ValueError("it was made by another version")
    return Mark(row=int(about["row"]), change=int(about["change"]))


def _check(directory: str) -> None:
    """Hold every file of the last commit against the checksum at its end; what a killed writer left is no part of it.

    Raises:
        ValueError: one is not what was written.
        OSError: the list of them is missing.
    """
    with open(os.path.join(directory, "meta.json"), encoding="utf-8") as file:
        segments = {str(one["segment_id"]).replace("-", "") for one in json.load(file)["segments"]}
    for name in sorted(os.listdir(directory)):
        if name.partition(".")[0] in segments and not _is_whole(os.path.join(directory, name)):
            raise ValueError(f"{name} is damaged")


def _is_whole(path: str) -> bool:
    # tantivy's footer: its JSON, the length of that, and a mark, both of four bytes.
    with open(path, "rb") as file:
        content = file.read()
    length, mark = (int.from_bytes(content[start : start + 4], "little") for start in (-8, -4 + len(content)))
    if len(content) < 8 or mark != _FOOTER_MARK or length > len(content) - 8:
        return False
    body, footer = content[: -8 - length], json.loads(content[-8 - length : -8])
    return footer["crc"] == zlib.crc32(body)
