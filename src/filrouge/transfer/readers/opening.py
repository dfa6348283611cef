"""Opening what was given: a file, the members of a zip, the files of a folder; and JSON in pieces.

An export may be gigabytes of one JSON list. Its elements are decoded one by one from a buffer, and one element, one
line or one whole document has a largest size: whatever claims more is refused by name before it fills the memory.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, Final, Protocol, cast

from filrouge.errors import BadInput
from filrouge.model.imported import Trouble

#: Characters of one element, of one line, and of a document that is read as a whole.
LARGEST: Final = 64 * 1024 * 1024
#: What a zip may say that it holds.
_LARGEST_MEMBER: Final = 8 * 1024**3
_STEP: Final = 1024 * 1024
_BLANK: Final = " \t\r\n\ufeff"


def as_object(value: Any) -> dict[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """`value` if it is a JSON list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(value: Any, *names: str) -> str:
    """The first of these fields of an object that holds text; empty for none."""
    fields = as_object(value)
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), "")


def seconds(value: Any) -> float:
    """Seconds since 1970 of a number (milliseconds, too) or an ISO 8601 text, which is UTC where it names no zone; 0.0
    for anything else."""
    if isinstance(value, bool):
        return 0.0
    if isinstance(value, int | float):
        number = float(value)
        return 0.0 if not 0 < number < 1e15 else number / 1000 if number > 1e11 else number
    try:
        at = datetime.fromisoformat(value)
        return max(0.0, (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def blocks_text(content: Any) -> str:
    """The words of a message: text itself, or a list whose parts are texts or objects with a `text`."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else text_of(part, "text") for part in as_list(content)]
    return "\n".join(part for part in parts if part.strip())


@contextmanager
def opened(path: str) -> Generator[IO[bytes]]:
    """A regular file, to be read.

    Raises:
        BadInput: it cannot be.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path} is no file.", remedy="Name the file itself.")
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", remedy="Check the path and its rights.") from error
    with file:
        yield file


class Readable(Protocol):
    """What a reader needs of a file."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        ...

    def readline(self, size: int = -1, /) -> bytes:
        """The next line."""
        ...


def documents(path: str, wanted: str) -> Iterator[tuple[str, Readable]]:
    """The files of an export whose name matches the pattern `wanted`: in a zip, in a folder, or the one that is named.

    Raises:
        BadInput: there is none, or the zip is damaged.
    """
    found = False
    for name, file in _zipped(path, wanted) if _is_zip(path) else _plain(path, wanted):
        found = True
        yield name, file
    if not found:
        raise BadInput(f"{path} holds nothing that is called {wanted}.", remedy="Give the export as it came.")


def _is_zip(path: str) -> bool:
    return os.path.isfile(path) and zipfile.is_zipfile(path)


def _plain(path: str, wanted: str) -> Iterator[tuple[str, Readable]]:
    places = [path] if not os.path.isdir(path) else [one for one in below(path) if re.search(wanted, one)]
    for place in places:
        with opened(place) as file:
            yield place, file


def _zipped(path: str, wanted: str) -> Iterator[tuple[str, Readable]]:
    with _unpacking(path):
        archive = zipfile.ZipFile(path)
    with archive:
        for member in sorted(archive.infolist(), key=lambda one: one.filename):
            if not re.search(wanted, member.filename) or member.is_dir():
                continue
            if member.file_size > _LARGEST_MEMBER:
                raise BadInput(
                    f"{member.filename} in {path} says that it is {member.file_size / 1e9:.0f} GB.",
                    remedy="No export is that large; unpack it and look at it first.",
                )
            with _unpacking(path):
                file = archive.open(member)
            with file:
                yield f"{path}:{member.filename}", _Member(file, path)


class _Member:
    """A member of a zip; damage shows while it is read."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file, self._path = file, path

    def read(self, size: int = -1, /) -> bytes:
        with _unpacking(self._path):
            return self._file.read(size)

    def readline(self, size: int = -1, /) -> bytes:
        with _unpacking(self._path):
            return self._file.readline(size)


@contextmanager
def _unpacking(path: str) -> Generator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadInput(
            f"{path} cannot be unpacked: {error}.", remedy="Download the export again, or give the unpacked file."
        ) from error


def below(root: str) -> Iterator[str]:
    """The files of a folder in the order of their names; hidden folders and links to folders are left out."""
    for place, directories, names in os.walk(root):
        directories[:] = sorted(one for one in directories if not one.startswith(".") and one != "node_modules")
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def lines(file: Readable, name: str) -> Iterator[tuple[int, Any | Trouble]]:
    """Each line that is JSON, with its number; what is none, or too long, is a trouble."""
    number = 0
    while line := file.readline(LARGEST + 1):
        number += 1
        if len(line) > LARGEST:
            yield number, Trouble(f"{name}:{number}", "the line is longer than 64 MB, and what follows was not read")
            return
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            yield number, Trouble(f"{name}:{number}", "the line is no JSON")


def whole(file: Readable, name: str) -> Any:
    """A small document.

    Raises:
        BadInput: it is no JSON, or too large.
    """
    raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise BadInput(f"{name} is larger than 64 MB.", remedy="Split it, or export less at once.")
    try:
        return json.loads(raw.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise _no_json(name, "") from error


def elements(file: Readable, name: str) -> Iterator[Any]:
    """The elements of a JSON list one by one; a document that is none is its only element.

    Raises:
        BadInput: it ends early, is no JSON, or one element is too large; what was yielded stands.
    """
    text = _Text(file, name)
    if text.next() != "[":
        yield text.value()
        return
    text.skip()
    while (mark := text.next()) != "]":
        if mark == ",":
            text.skip()
        elif mark:
            yield text.value()
        else:
            raise _no_json(name, "it ends in the middle: ")


class _Text:
    """The text of a file, of which no more is held than the element at hand."""

    def __init__(self, file: Readable, name: str) -> None:
        self._file, self._name = file, name
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._json = json.JSONDecoder()
        self._held, self._place, self._ended = "", 0, False

    def next(self) -> str:
        """The next character that is no blank, which stays; empty at the end."""
        while True:
            while self._place < len(self._held):
                if self._held[self._place] not in _BLANK:
                    return self._held[self._place]
                self._place += 1
            if self._ended:
                return ""
            self._more(_STEP)

    def skip(self) -> None:
        """Go behind it."""
        self._place += 1

    def value(self) -> Any:
        """The JSON value that begins here."""
        while True:
            try:
                value, end = self._json.raw_decode(self._held, self._place)
            except RecursionError as error:
                raise _no_json(self._name, "it is nested too deeply: ") from error
            except ValueError as error:
                if self._ended:
                    raise _no_json(self._name, "") from error
            else:
                if end < len(self._held) or self._ended:  # a number might go on
                    self._place = end
                    return value
            if len(self._held) - self._place > LARGEST:
                raise _no_json(self._name, "an element is larger than 64 MB, or ")
            self._more(max(_STEP, len(self._held) - self._place))  # doubling: decoding again costs no more than once

    def _more(self, count: int) -> None:
        raw = self._file.read(count)
        self._ended = len(raw) < count
        self._held = self._held[self._place :] + self._decoder.decode(raw, self._ended)
        self._place = 0


def _no_json(name: str, why: str) -> BadInput:
    return BadInput(
        f"{name} cannot be read: {why}it is no JSON from there on.",
        remedy="Export it anew; what stands before it was read in, and is not doubled by another run.",
    )
