"""The files of a home beside its database: what holds the words is taken out of them, and all are searched afterwards.

A text may stand in a file as it is, in other letters, escaped as in JSON, as UTF-16 or as base64. Files of models are
not looked into: nobody's words get there. The log is never to hold what was said, but a failing job's error may repeat
it; there the words are overwritten in place, so that who writes the log meanwhile is not disturbed.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from filrouge.capture import inbox
from filrouge.home import FAILURE, LOG, SPOOL, inside
from filrouge.model.sameness import folded, holds

#: Folders that hold nobody's words.
_NOT_OURS: Final = ("models",)
#: A long text is looked for by pieces of it, since a database cuts it into pages.
_PIECE: Final = 40
_SHORTEST: Final = 3
#: So many bytes do not stand in a file by chance; fewer count only where they are a word by themselves.
_SURE: Final = 8
#: A file is read piece by piece: a database may be larger than what this process should take.
_CHUNK, _OVERLAP = 8 << 20, 1024
#: So many of the texts that went are looked for in the files; of rows all of them are.
MOST_TEXTS: Final = 12


def clean_beside(home: str, words: Sequence[str]) -> list[str]:
    """Take these words out of the spool's left files and the log; the names of the files that held them."""
    changed: list[str] = []
    spool = inside(home, SPOOL)
    for name in _names(spool):
        path = os.path.join(spool, name)
        if _spooled_holds(path, words):
            inbox.remove(path)
            changed.append(f"{SPOOL}/{name}")
    for name in _names(home):
        if (name.startswith(LOG) or name == FAILURE) and _overwritten(inside(home, name), words):
            changed.append(name)
    return changed


def traces(home: str, texts: Sequence[str]) -> list[str]:
    """The names of the files of a home in which one of these texts stands, in whatever writing."""
    pieces = list(dict.fromkeys(piece for text in texts for piece in _pieces(text)))
    plain = list(dict.fromkeys(form for piece in pieces for form in _plain(piece)))
    exact = list(dict.fromkeys(form for text in texts for piece in _pieces(text)[:1] for form in _encoded(piece)))
    return sorted(os.path.relpath(path, home) for path in _files(home) if pieces and _holds(path, plain, exact))


def _holds(path: str, plain: Sequence[bytes], exact: Sequence[bytes]) -> bool:
    """True if a file holds one of these; the plain ones in letters of any case."""
    before = b""
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                content = before + chunk
                lower = content.lower()
                if any(_stands_in(form, lower) for form in plain) or any(form in content for form in exact):
                    return True
                before = content[-_OVERLAP:]
    except OSError:
        pass  # it went meanwhile
    return False


def _plain(text: str) -> Iterator[bytes]:
    """A text as it is and escaped as in JSON, in UTF-8 and UTF-16, letters that are not ASCII's in either case."""
    for one in (text, folded(text), text.lower(), text.upper()):
        for written in (one, json.dumps(one)[1:-1]):
            for code in ("utf-8", "utf-16-le", "utf-16-be"):
                yield written.encode(code, "surrogatepass").lower()


def _encoded(text: str) -> Iterator[bytes]:
    """A text in base64, wherever in what was encoded it begins."""
    for one in dict.fromkeys((text, folded(text))):
        for shift in range(3):
            encoded = base64.b64encode(b"\0" * shift + one.encode("utf-8", "surrogatepass"))
            if len(encoded) > _SURE + 8:
                yield encoded[4 if shift else 0 : -4]


def _stands_in(form: bytes, content: bytes) -> bool:
    if len(form) >= _SURE:
        return form in content
    place = content.find(form)
    while place >= 0:
        around = content[max(place - 1, 0) : place] + content[place + len(form) : place + len(form) + 1]
        if not any(chr(byte).isalnum() for byte in around):
            return True
        place = content.find(form, place + 1)
    return False


def _pieces(text: str) -> list[str]:
    """The text, or its beginning and end: a database cuts a long one into pages."""
    plain = text.strip()
    if len(plain) < _SHORTEST:
        return []
    return [plain] if len(plain) <= 2 * _PIECE else [plain[:_PIECE], plain[-_PIECE:]]


def _files(directory: str) -> Iterator[str]:
    for place, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _names(directory: str) -> list[str]:
    with suppress(OSError):
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False))
    return []


def _spooled_holds(path: str, words: Sequence[str]) -> bool:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return False
    events = inbox.decode(raw).events
    said = "\n".join(json.dumps(event.get("data"), ensure_ascii=False) for event in events)
    return holds(said, words) or holds(raw.decode("utf-8", "replace"), words)


def _overwritten(path: str, words: Sequence[str]) -> bool:
    """Blank these words in a file, byte for byte; True if it held any."""
    changed = False
    with suppress(OSError), open(path, "r+b") as file:
        content = file.read()
        lower, pieces = content.lower(), [piece for text in words for piece in _pieces(text)]
        found = [(form, lower) for piece in pieces for form in _plain(piece) if _stands_in(form, lower)]
        found += [(form, content) for piece in pieces for form in _encoded(piece) if form in content]
        for form, within in found:
            place = within.find(form)
            while place >= 0:
                file.seek(place)
                file.write(b"x" * len(form))
                changed, place = True, within.find(form, place + 1)
        file.flush()
        os.fsync(file.fileno())
    return changed
