"""A vault as a folder: no app, no key. Its Markdown files are read and written, and nothing outside of it ever is.

`.obsidian`, `.trash` and every other folder or file that begins with a dot is none of it. A symbolic link is not
followed: what it leads to within the vault is there under its own name, and what lies outside is refused and said.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final

from filrouge.clock import from_epoch
from filrouge.errors import NotFound, Stale, VaultUnavailable
from filrouge.model.note import Content, Listing, Note
from filrouge.notes.chunks import MOST_CHARACTERS
from filrouge.notes.reading import SUFFIX, note_of

MOST_NOTES: Final = 20_000
"""Notes of one vault; whoever names his whole disk has that many."""
#: Four bytes a character at the most.
_MOST_BYTES: Final = 4 * MOST_CHARACTERS
#: A date of a file that is none (year 2100) must not keep the others from being read.
_LAST_MOMENT: Final = 4_102_444_800.0
_OUTSIDE: Final = "it is a link that leads out of the vault"


class FolderVault:
    """Implements `Vault` over a directory."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(os.path.expanduser(folder))

    def list(self, within: str = "") -> Listing:
        """Every note with its stamp, those written last first; or those in one of its folders.

        Raises:
            VaultUnavailable: the folder is not there, or cannot be read.
        """
        files, troubles = dict[str, os.stat_result](), dict[str, str]()
        if within and not os.path.isdir(os.path.join(self._folder, within)):
            if os.path.isdir(self._folder):
                return Listing(stamps={})
            within = ""  # whoever walks there says that the vault is gone
        for path, found in self._walk(within, troubles):
            if len(files) >= MOST_NOTES:
                troubles[path] = f"there are more than {MOST_NOTES} notes; the rest is left out"
                break
            files[path] = found
        ordered = sorted(files, key=lambda path: (-files[path].st_mtime_ns, path))
        return Listing(stamps={path: _stamp(files[path]) for path in ordered}, troubles=troubles)

    def read(self, path: str) -> Note:
        """One note.

        Raises:
            NotFound: there is no such note in the vault, or it is being written.
            VaultUnavailable: it cannot be read.
        """
        content, found = self._whole(path)
        return note_of(path, content, changed=_changed(found), stamp=_stamp(found), is_cut=found.st_size > _MOST_BYTES)

    def _whole(self, path: str) -> tuple[bytes, os.stat_result]:
        """The bytes of a file that nobody writes meanwhile, as many as are read; raises as `read` does."""
        try:
            before, content, after = self._content(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no note {path!r}.", remedy="See `filrouge notes`.") from None
        except OSError as error:
            raise VaultUnavailable(f"The note {path!r} cannot be read: {error.strerror or error}.") from error
        if _stamp(before) != _stamp(after):
            raise NotFound(f"The note {path!r} is being written.", remedy="It is read again in a second.")
        return content, after

    def content(self, path: str) -> Content:
        """A whole file.

        Raises:
            NotFound: there is none, or it is being written.
            VaultUnavailable: it cannot be read, is no UTF-8, or is larger than any page.
        """
        raw, found = self._whole(path)
        if found.st_size > len(raw):
            raise VaultUnavailable(f"{path!r} is too large for a page.")
        try:
            return Content(text=raw.decode("utf-8"), changed=_changed(found))
        except UnicodeDecodeError as error:
            raise VaultUnavailable(f"{path!r} is no UTF-8.") from error

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Put a text in the place of the one that was read, whole or not at all; folders are made.

        Raises:
            Stale: something else is there by now; it stays.
            VaultUnavailable: it cannot be written.
        """
        folder, _, name = path.rpartition("/")
        try:
            with self._opened(folder, make=True) as at:
                self._put(at, path, name, text.encode("utf-8"), before)
        except OSError as error:
            raise VaultUnavailable(f"{path!r} cannot be written: {error.strerror or error}.") from error

    def _put(self, at: int, path: str, name: str, raw: bytes, before: str | None) -> None:
        """Write beside the file, look at it once more, and rename."""
        new = f".filrouge-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(new, flags, 0o666, dir_fd=at), "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
                there = self._there(path)
                if there is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(there[1].st_mode))
            if (there[0] if there else None) != (None if before is None else before.encode("utf-8")):
                raise Stale(f"{path!r} was written meanwhile.")
            os.rename(new, name, src_dir_fd=at, dst_dir_fd=at)
            os.fsync(at)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=at)

    def _there(self, path: str) -> tuple[bytes, os.stat_result] | None:
        try:
            _, raw, found = self._content(path)
        except FileNotFoundError:
            return None
        return raw, found

    def _content(self, path: str) -> tuple[os.stat_result, bytes, os.stat_result]:
        """The bytes of a file, and what it looked like before and after."""
        folder, _, name = path.rpartition("/")
        if not path.endswith(SUFFIX) or name.startswith(".") or "\0" in path:
            raise FileNotFoundError(path)
        with self._opened(folder) as at:
            # A pipe would keep whoever opens it waiting.
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        with os.fdopen(opened, "rb") as file:
            before = os.fstat(opened)
            if not stat.S_ISREG(before.st_mode):
                raise FileNotFoundError(path)
            content = file.read(_MOST_BYTES)
            return before, content, os.fstat(opened)

    @contextmanager
    def _opened(self, folder: str, *, make: bool = False) -> Generator[int]:
        """A folder of the vault, step by step from its top and no step through a link: whoever exchanges a folder for
        one gets nothing."""
        names = folder.split("/") if folder else []
        if "\0" in folder or any(not name or name.startswith(".") for name in names):
            raise FileNotFoundError(folder)
        at = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=at)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)

    def _walk(self, within: str, troubles: dict[str, str]) -> Iterator[tuple[str, os.stat_result]]:
        """The Markdown files of a folder and those below, in no order; what cannot be read is noted."""
        try:
            with os.scandir(os.path.join(self._folder, within)) as entries:
                found = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            if not within:
                raise VaultUnavailable(f"The vault {self._folder} cannot be read: {error.strerror}.") from error
            troubles[within] = f"it cannot be read: {error.strerror}"
            return
        for entry in found:
            path = f"{within}/{entry.name}" if within else entry.name
            if not _is_utf8(entry.name):
                troubles[path.encode("utf-8", "replace").decode()] = "its name is no UTF-8"
            elif entry.is_symlink():
                if not self._is_inside(entry.path):
                    troubles[path] = _OUTSIDE
            elif entry.is_dir(follow_symlinks=False):
                yield from self._walk(path, troubles)
            elif entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                try:
                    yield path, entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # it went while we looked
                    continue

    def _is_inside(self, link: str) -> bool:
        top = os.path.realpath(self._folder)
        return os.path.commonpath([top, os.path.realpath(link)]) == top


def _changed(found: os.stat_result) -> datetime:
    return from_epoch(min(max(found.st_mtime, 0.0), _LAST_MOMENT))


def _stamp(found: os.stat_result) -> str:
    """Another one when a file was written, or exchanged for another."""
    return f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}"


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
