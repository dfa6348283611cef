"""The vault: a folder of Markdown files, or Obsidian through its plugin Local REST API (read with 5.1.0)."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import secrets
import ssl
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

from filrouge.core.clock import from_epoch, monotonic
from filrouge.core.errors import BadInput, FilrougeError, NotFound, Stale, VaultUnavailable
from filrouge.core.network import is_loopback
from filrouge.core.paths import VAULT_CERTIFICATE, VAULT_KEY, inside, make_private, open_own
from filrouge.core.protocols import Vault
from filrouge.notes.models import Content, Listing, Note
from filrouge.notes.pages import MOST_CHARACTERS, SUFFIX, note_of

# A vault as a folder: no app, no key. Its Markdown files are read and written, and nothing outside of it ever is.
#
# `.obsidian`, `.trash` and every other folder or file that begins with a dot is none of it. A symbolic link is not
# followed: what it leads to within the vault is there under its own name, and what lies outside is refused and said.

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
        return Listing(stamps={path: _stamp_of_file(files[path]) for path in ordered}, troubles=troubles)

    def read(self, path: str) -> Note:
        """One note.

        Raises:
            NotFound: there is no such note in the vault, or it is being written.
            VaultUnavailable: it cannot be read.
        """
        content, found = self._whole(path)
        return note_of(
            path, content, changed=_changed(found), stamp=_stamp_of_file(found), is_cut=found.st_size > _MOST_BYTES
        )

    def _whole(self, path: str) -> tuple[bytes, os.stat_result]:
        """The bytes of a file that nobody writes meanwhile, as many as are read; raises as `read` does."""
        try:
            before, content, after = self._content(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no note {path!r}.", remedy="See `filrouge notes`.") from None
        except OSError as error:
            raise VaultUnavailable(f"The note {path!r} cannot be read: {error.strerror or error}.") from error
        if _stamp_of_file(before) != _stamp_of_file(after):
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


def _stamp_of_file(found: os.stat_result) -> str:
    """Another one when a file was written, or exchanged for another."""
    return f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}"


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# The certificate of Obsidian's plugin: trusted once, by the person who looks at its fingerprint, and nobody else's.
#
# The plugin makes its own certificate, so no authority vouches for it. It is fetched without a check a single time;
# from then on whoever shows another one is refused.

CERTIFICATE: Final = VAULT_CERTIFICATE
KEY: Final = VAULT_KEY
_PLACE: Final = "/obsidian-local-rest-api.crt"
_LARGEST_CERTIFICATE: Final = 64 * 1024
_SECONDS: Final = 5.0


def host_and_port(address: str) -> tuple[str, int, bool]:
    """Where the plugin listens, and whether the way there is encrypted.

    Raises:
        BadInput: it is no address, or an unencrypted one of another machine.
    """
    parts = urlsplit(address)
    is_safe = parts.scheme == "https"
    try:
        port = parts.port or (27124 if is_safe else 27123)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port or parts.path.strip("/"):
        raise BadInput(f"{address!r} is no address of a vault.", remedy="It looks like https://127.0.0.1:27124.")
    if not is_safe and not is_loopback(address):
        raise BadInput(f"{address} would send your notes unencrypted.", remedy="Name it with https.")
    return parts.hostname, port, is_safe


def fetched(address: str) -> str:
    """The certificate that is shown there, as PEM; it proves nothing yet.

    Raises:
        BadInput: it is no address with a certificate.
        VaultUnavailable: nobody answers, or what is answered is no certificate.
    """
    host, port, is_safe = host_and_port(address)
    if not is_safe:
        raise BadInput(f"{address} has no certificate.", remedy="Name it with https.")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
    try:
        connection.request("GET", _PLACE)
        answer = connection.getresponse()
        pem = answer.read(_LARGEST_CERTIFICATE).decode("ascii", "replace")
        fingerprint(pem)
    except (OSError, http.client.HTTPException) as error:
        raise VaultUnavailable(
            f"Obsidian does not answer at {address}.", remedy="Start it, with the plugin Local REST API."
        ) from error
    except ValueError as error:
        raise VaultUnavailable(f"What {address} answered is no certificate.") from error
    finally:
        connection.close()
    return pem


def fingerprint(pem: str) -> str:
    """The SHA-256 of a certificate, as people compare it.

    Raises:
        ValueError: it is no certificate.
    """
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest().upper()
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def keep(home: str, name: str, text: str) -> None:
    """Keep the certificate or the key in the home, readable by its user alone."""
    make_private(home)
    descriptor = open_own(inside(home, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def kept(home: str, name: str) -> str:
    """What is kept; empty where nothing is."""
    try:
        with open(open_own(inside(home, name), os.O_RDONLY), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def context_of(pem: str) -> ssl.SSLContext:
    """Trusts that certificate, and no other."""
    context = ssl.create_default_context(cadata=pem)
    # The plugin's certificate is its own authority, with less in it than strict checks of authorities ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


# A vault as Obsidian's plugin Local REST API gives it (read with 5.1.0), for one that lies where no folder is named.
#
# One search tells the times of all notes, because the plugin lists names alone; it evaluates every note, so it is
# asked every fifteen seconds. A path is sent segment by segment: `%2F` is no separator there.

_ASK_SECONDS: Final = 15.0
_ASK_AGAIN_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 5.0
_LARGEST_ANSWER: Final = 32 * 1024 * 1024
_NOTE: Final = "application/vnd.olrapi.note+json"
#: The plugin compares this type letter by letter.
_LOGIC: Final = "application/vnd.olrapi.jsonlogic+json"
_TIMES: Final = b'{"var":"stat.mtime"}'
_MILLISECONDS: Final = 1000.0
_OK: Final = 200


class RestVault:
    """Implements `Vault` over the plugin's address; the certificate and the key are in the home."""

    def __init__(self, address: str, home: str, *, seconds: float = _WAIT_SECONDS) -> None:
        self.address = address
        self._home = home
        self._seconds = seconds
        self._listing: Listing | None = None
        self._trouble: FilrougeError | None = None
        self._due = 0.0

    def greet(self) -> None:
        """Ask for the names at its top, which is little work for Obsidian, to see that it answers and takes the key.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: as for `list`.
        """
        self._asked("GET", "/vault/", "application/json")

    def list(self, within: str = "") -> Listing:
        """Every note with its stamp, or those in one folder, those written last first; what was said a moment ago is
        said again.

        Raises:
            VaultUnavailable: Obsidian does not run, shows another certificate, or does not take the key.
        """
        if monotonic() >= self._due:
            self._look()
        if self._trouble is not None:
            raise VaultUnavailable(self._trouble.message, remedy=self._trouble.remedy)
        assert self._listing is not None
        if within:
            stamps = self._listing.stamps
            return Listing(stamps={path: one for path, one in stamps.items() if path.startswith(f"{within}/")})
        return self._listing

    def read(self, path: str) -> Note:
        """One note.

        Raises:
            NotFound: there is none (any more), or Obsidian went meanwhile: the next look tells which.
            VaultUnavailable: what is answered is no note.
        """
        text, changed = self._read(path)
        raw = text.encode("utf-8", "replace")
        return note_of(path, raw[: 4 * MOST_CHARACTERS], changed=_moment(changed), stamp=_stamp_of_header(changed))

    def content(self, path: str) -> Content:
        """A whole file; raises as `read` does."""
        text, changed = self._read(path)
        return Content(text=text, changed=_moment(changed))

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Put a text in the place of the one that was read.

        The plugin has no condition for that (it passes `If-Match` over), so the file is read once more just before: who
        writes it between that and the answer, some milliseconds, is overwritten.

        Raises:
            Stale: something else is there by now; it stays.
            VaultUnavailable: it cannot be written, or Obsidian is gone.
        """
        status, content = self._asked("GET", _place(path), _NOTE)
        if (_said(path, content)[0] if status == _OK else None) != before:
            raise Stale(f"{path!r} was written meanwhile.")
        status, _ = self._asked("PUT", _place(path), "*/*", text.encode("utf-8"), kind="text/markdown")
        if status not in (_OK, 201, 204):
            raise VaultUnavailable(f"Obsidian did not write {path!r}: it answered {status}.")
        self._due = 0.0

    def _read(self, path: str) -> tuple[str, float]:
        try:
            status, content = self._asked("GET", _place(path), _NOTE)
        except VaultUnavailable as error:
            raise NotFound(error.message, remedy=error.remedy) from error
        if status != _OK:
            raise NotFound(f"There is no note {path!r}.", remedy="See `filrouge notes`.")
        return _said(path, content)

    def _look(self) -> None:
        try:
            self._listing, self._trouble = self._listed(), None
            self._due = monotonic() + _ASK_SECONDS
        except FilrougeError as error:
            self._trouble = error
            self._due = monotonic() + _ASK_AGAIN_SECONDS

    def _listed(self) -> Listing:
        status, content = self._asked("POST", "/search/", "application/json", _TIMES)
        try:
            rows = cast("list[dict[str, Any]]", json.loads(content))
            times = {str(row["filename"]): float(row["result"]) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise VaultUnavailable(f"What {self.address} answered ({status}) is no list of notes.") from error
        ordered = sorted(_notes(times), key=lambda path: (-times[path], path))
        troubles = dict.fromkeys(ordered[MOST_NOTES : MOST_NOTES + 1], f"there are more than {MOST_NOTES} notes")
        return Listing(stamps={path: _stamp_of_header(times[path]) for path in ordered[:MOST_NOTES]}, troubles=troubles)

    def _asked(
        self, method: str, place: str, accept: str, body: bytes | None = None, *, kind: str = _LOGIC
    ) -> tuple[int, bytes]:
        """The status and the body of an answer.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: there is no answer, or no leave to ask.
        """
        connection = self._connection()
        headers = {"Accept": accept, "Authorization": f"Bearer {kept(self._home, KEY)}"}
        headers |= {"Content-Type": kind} if body is not None else {}
        try:
            connection.request(method, place, body, headers)
            answer = connection.getresponse()
            content = answer.read(_LARGEST_ANSWER)
        except ssl.SSLCertVerificationError as error:
            raise VaultUnavailable(
                f"{self.address} shows another certificate than the one that you trust; nothing was sent.",
                remedy=f"If that is right, trust it: `filrouge notes --trust {self.address}`.",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise VaultUnavailable(
                f"Obsidian does not answer at {self.address}.", remedy="Start it, with the plugin Local REST API."
            ) from error
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise VaultUnavailable(f"{self.address} does not take the key.", remedy="Enter it: `filrouge notes --key`.")
        return answer.status, content

    def _connection(self) -> http.client.HTTPConnection:
        host, port, is_safe = host_and_port(self.address)
        if not is_safe:
            return http.client.HTTPConnection(host, port, timeout=self._seconds)
        pem = kept(self._home, CERTIFICATE)
        if not pem:
            raise VaultUnavailable(
                f"You trust no certificate of {self.address} yet; nothing was sent.",
                remedy=f"Look at it: `filrouge notes --trust {self.address}`.",
            )
        try:
            context = context_of(pem)
        except ssl.SSLError as error:
            raise VaultUnavailable(
                "The certificate in the home is damaged.",
                remedy=f"Trust it again: `filrouge notes --trust {self.address}`.",
            ) from error
        return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)


def _notes(paths: dict[str, float]) -> list[str]:
    """The Markdown files that are no part of Obsidian's own."""
    return [
        path
        for path in paths
        if path.endswith(SUFFIX) and not any(not name or name.startswith(".") for name in path.split("/"))
    ]


def _place(path: str) -> str:
    return "/vault/" + "/".join(quote(name, safe="") for name in path.split("/"))


def _said(path: str, content: bytes) -> tuple[str, float]:
    """The text of a note and when it was written, in milliseconds."""
    try:
        found = json.loads(content)
        return str(found["content"]), float(found["stat"]["mtime"])
    except (ValueError, KeyError, TypeError) as error:
        raise VaultUnavailable(f"What Obsidian answered for {path!r} is no note.") from error


def _moment(changed: float) -> datetime:
    return from_epoch(max(changed, 0.0) / _MILLISECONDS)


def _stamp_of_header(changed: float) -> str:
    return f"rest:{changed:.0f}"


# The vault that the settings name: a folder, or the address of Obsidian's plugin.


def is_address(place: str) -> bool:
    """Whether a vault is named by the address of the plugin, and not by its folder."""
    return place.startswith(("https://", "http://"))


class Vaults:
    """Opens vaults; that of an address is kept, because it is not asked at every look."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._rest: RestVault | None = None

    def __call__(self, place: str) -> Vault:
        """The vault at that place, which need not be there."""
        if not is_address(place):
            return FolderVault(place)
        if self._rest is None or self._rest.address != place:
            self._rest = RestVault(place, self._home)
        return self._rest
