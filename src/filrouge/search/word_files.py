"""The files of the word indexes: one directory each, with a header about its origin.

A directory with any defect (no header, another format, another analyser version, a truncated or altered file) is
removed and rebuilt from the store; it holds no data of its own. tantivy ends every file with a checksum but does not
verify it on its own, so this module does.
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
from filrouge.search.models import IndexPosition

_LOG = logging.getLogger(__name__)
#: Increment this when the schema or the labels of rows change.
_FORMAT: Final = 1
_HEADER: Final = "header.json"
_FOOTER_MARK: Final = 1337


class WordFiles:
    """Implements `WordIndexes` in one directory. Only the holder of the home's lock uses it.

    Args:
        analyser: the version of the tokens; an index of another version is not used.
    """

    def __init__(self, directory: str, analyser: int) -> None:
        self._directory, self._analyser = directory, analyser

    def open(self, name: str) -> WordIndex | None:
        """Return the existing index; None if there is none, it is damaged, or another analyser version built it."""
        directory = self._path(name)
        if not os.path.isdir(directory):
            return None
        try:
            mark = _read_header(directory, self._analyser)
            _check(directory)
            return _words(directory, self._analyser, mark)
        except Exception as error:  # tantivy raises many exception types; all of them mean an unusable index
            _LOG.warning("the word index of %ss is made again: %s", name, error)
            return None

    def create(self, name: str) -> WordIndex:
        """Create an empty index, replacing an existing one."""
        self.drop(name)
        directory = self._path(name)
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        os.mkdir(directory, mode=0o700)
        return _words(directory, self._analyser, IndexPosition(row=0, change=0))

    def drop(self, name: str) -> None:
        """Delete all files of the index."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def is_possible() -> bool:
    """Return True if tantivy is installed."""
    return find_spec("tantivy") is not None


def _write_header(directory: str, analyser: int, mark: IndexPosition) -> None:
    about = {"format": _FORMAT, "analyser": analyser, "row": mark.row, "change": mark.change}
    path = os.path.join(directory, _HEADER)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(about, file)
    os.replace(f"{path}.new", path)


def _words(directory: str, analyser: int, mark: IndexPosition) -> WordIndex:
    def keep(reached: IndexPosition) -> None:
        _write_header(directory, analyser, reached)

    made: WordIndex = import_module("filrouge.search.tantivy_words").TantivyWords(directory, mark, keep)
    return made


def _read_header(directory: str, analyser: int) -> IndexPosition:
    with open(os.path.join(directory, _HEADER), encoding="utf-8") as file:
        about: dict[str, Any] = json.load(file)
    if (about.get("format"), about.get("analyser")) != (_FORMAT, analyser):
        raise ValueError("it was made by another version")
    return IndexPosition(row=int(about["row"]), change=int(about["change"]))


def _check(directory: str) -> None:
    """Verify the checksum of every file of the last commit; files left by a killed writer are ignored.

    Raises:
        ValueError: a file was altered.
        OSError: the list of files is missing.
    """
    with open(os.path.join(directory, "meta.json"), encoding="utf-8") as file:
        segments = {str(one["segment_id"]).replace("-", "") for one in json.load(file)["segments"]}
    for name in sorted(os.listdir(directory)):
        if name.partition(".")[0] in segments and not _is_whole(os.path.join(directory, name)):
            raise ValueError(f"{name} is damaged")


def _is_whole(path: str) -> bool:
    # tantivy's footer: its JSON, the length of that, and a mark; the last two have four bytes each.
    with open(path, "rb") as file:
        content = file.read()
    length, mark = (int.from_bytes(content[start : start + 4], "little") for start in (-8, -4 + len(content)))
    if len(content) < 8 or mark != _FOOTER_MARK or length > len(content) - 8:
        return False
    body, footer = content[: -8 - length], json.loads(content[-8 - length : -8])
    return footer["crc"] == zlib.crc32(body)
