"""Access to the vault: a folder of Markdown files, or Obsidian's plugin Local REST API.

A folder needs no app and no key; only its Markdown files are read and written, never anything outside of it.
`.obsidian`, `.trash` and all other names that begin with a dot are skipped. Symbolic links are not followed: a target
inside the vault is listed under its own name, and a link out of the vault is reported.

The plugin (read with 5.1.0) serves vaults that are not in a local folder. It makes its own certificate, so no authority
vouches for it: it is fetched once without a check, the user confirms its fingerprint, and afterwards any other
certificate is rejected.
"""

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
from filrouge.core.paths import VAULT_CERTIFICATE, VAULT_KEY, inside, make_private, open_nofollow
from filrouge.core.protocols import Vault
from filrouge.notes.models import Content, Listing, Note
from filrouge.notes.pages import MAX_CHARACTERS, SUFFIX, note_of

MOST_NOTES: Final = 20_000
"""Limit of notes in one vault, in case the folder is a whole disk."""
#: A UTF-8 character has at most four bytes.
_MOST_BYTES: Final = 4 * MAX_CHARACTERS
#: Limit for implausible file dates (year 2100), so that they do not prevent other notes from being read.
_LAST_MOMENT: Final = 4_102_444_800.0
_OUTSIDE: Final = "it is a link to a file outside of the vault"


class FolderVault:
    """Implements `Vault` for a directory."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(os.path.expanduser(folder))

    def list(self, within: str = "") -> Listing:
        """List all notes with their stamps, last written first, or those of one folder.

        Raises:
            VaultUnavailable: the vault does not exist or cannot be read.
        """
        files, troubles = dict[str, os.stat_result](), dict[str, str]()
        if within and not os.path.isdir(os.path.join(self._folder, within)):
            if os.path.isdir(self._folder):
                return Listing(stamps={})
            within = ""  # walking the vault itself reports that it is gone
        for path, found in self._walk(within, troubles):
            if len(files) >= MOST_NOTES:
                troubles[path] = f"there are more than {MOST_NOTES} notes; the rest is left out"
                break
            files[path] = found
        ordered = sorted(files, key=lambda path: (-files[path].st_mtime_ns, path))
        return Listing(stamps={path: _stamp_of_file(files[path]) for path in ordered}, troubles=troubles)

    def read(self, path: str) -> Note:
        """Read one note.

        Raises:
            NotFound: there is no such note in the vault, or it is being written.
            VaultUnavailable: it cannot be read.
        """
        content, found = self._whole(path)
        return note_of(
            path, content, changed=_changed(found), stamp=_stamp_of_file(found), is_cut=found.st_size > _MOST_BYTES
        )

    def _whole(self, path: str) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a file, up to the limit, if nobody writes it meanwhile; raises as `read` does."""
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
        """Read the text of a whole file.

        Raises:
            NotFound: there is none, or it is being written.
            VaultUnavailable: it cannot be read, is not UTF-8, or is too large for a page.
        """
        raw, found = self._whole(path)
        if found.st_size > len(raw):
            raise VaultUnavailable(f"{path!r} is too large for a page.")
        try:
            return Content(text=raw.decode("utf-8"), changed=_changed(found))
        except UnicodeDecodeError as error:
            raise VaultUnavailable(f"{path!r} is no UTF-8.") from error

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Replace the text `before` of a file atomically; missing folders are created.

        Raises:
            Stale: the file holds another text by now, which stays.
            VaultUnavailable: it cannot be written.
        """
        folder, _, name = path.rpartition("/")
        try:
            with self._opened(folder, make=True) as at:
                self._put(at, path, name, text.encode("utf-8"), before)
        except OSError as error:
            raise VaultUnavailable(f"{path!r} cannot be written: {error.strerror or error}.") from error

    def _put(self, at: int, path: str, name: str, raw: bytes, before: str | None) -> None:
        """Write a temporary file next to the target, check the target again, and rename."""
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
        """Return the bytes of a file, and its status before and after reading."""
        folder, _, name = path.rpartition("/")
        if not path.endswith(SUFFIX) or name.startswith(".") or "\0" in path:
            raise FileNotFoundError(path)
        with self._opened(folder) as at:
            # Without O_NONBLOCK, opening a pipe would block.
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        with os.fdopen(opened, "rb") as file:
            before = os.fstat(opened)
            if not stat.S_ISREG(before.st_mode):
                raise FileNotFoundError(path)
            content = file.read(_MOST_BYTES)
            return before, content, os.fstat(opened)

    @contextmanager
    def _opened(self, folder: str, *, make: bool = False) -> Generator[int]:
        """Open a folder of the vault step by step from the top, without following links.

        A folder that is replaced by a link meanwhile is not entered.
        """
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
        """Yield the Markdown files in a folder and below, in no particular order.

        Paths that cannot be read go into `troubles`.
        """
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
                except FileNotFoundError:  # deleted in the meantime
                    continue

    def _is_inside(self, link: str) -> bool:
        top = os.path.realpath(self._folder)
        return os.path.commonpath([top, os.path.realpath(link)]) == top


def _changed(found: os.stat_result) -> datetime:
    return from_epoch(min(max(found.st_mtime, 0.0), _LAST_MOMENT))


def _stamp_of_file(found: os.stat_result) -> str:
    """Return a stamp that changes when a file is written or replaced."""
    return f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}"


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# Certificate of Obsidian's plugin.

CERTIFICATE: Final = VAULT_CERTIFICATE
KEY: Final = VAULT_KEY
_PLACE: Final = "/obsidian-local-rest-api.crt"
_LARGEST_CERTIFICATE: Final = 64 * 1024
_SECONDS: Final = 5.0


def host_and_port(address: str) -> tuple[str, int, bool]:
    """Return the plugin's host and port, and whether the connection is encrypted.

    Raises:
        BadInput: it is not an address, or an unencrypted one of another machine.
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


def fetch_certificate(address: str) -> str:
    """Fetch the certificate of that address as PEM, without verifying it.

    Raises:
        BadInput: the address has no certificate or is invalid.
        VaultUnavailable: there is no answer, or the answer is not a certificate.
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
    """Return the SHA-256 fingerprint of a certificate, in the usual notation.

    Raises:
        ValueError: it is not a certificate.
    """
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest().upper()
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def store_secret(home: str, name: str, text: str) -> None:
    """Store the certificate or the key in the home, readable only by its user."""
    make_private(home)
    descriptor = open_nofollow(inside(home, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def load_secret(home: str, name: str) -> str:
    """Return the stored certificate or key; empty if there is none."""
    try:
        with open(open_nofollow(inside(home, name), os.O_RDONLY), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def context_of(pem: str) -> ssl.SSLContext:
    """Return an SSL context that trusts only that certificate."""
    context = ssl.create_default_context(cadata=pem)
    # The plugin's certificate is self-signed, and lacks fields that strict verification requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


# The plugin's listing has only names, so one search returns the times of all notes. It evaluates every note, so it runs
# at most every fifteen seconds. Path segments are encoded separately: the plugin does not treat `%2F` as a separator.

_ASK_SECONDS: Final = 15.0
_ASK_AGAIN_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 5.0
_LARGEST_ANSWER: Final = 32 * 1024 * 1024
_NOTE: Final = "application/vnd.olrapi.note+json"
#: The plugin compares this content type literally.
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
        """Check that Obsidian answers and accepts the key, with a cheap request for the names in the top folder.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: as for `list`.
        """
        self._asked("GET", "/vault/", "application/json")

    def list(self, within: str = "") -> Listing:
        """List all notes with their stamps, last written first, or those of one folder; recent answers are cached.

        Raises:
            VaultUnavailable: Obsidian does not run, shows another certificate, or rejects the key.
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
        """Read one note.

        Raises:
            NotFound: there is none (any more), or Obsidian stopped answering; the next listing shows which.
            VaultUnavailable: the answer is not a note.
        """
        text, changed = self._read(path)
        raw = text.encode("utf-8", "replace")
        return note_of(path, raw[: 4 * MAX_CHARACTERS], changed=_moment(changed), stamp=_stamp_of_header(changed))

    def content(self, path: str) -> Content:
        """Read the text of a whole file; raises as `read` does."""
        text, changed = self._read(path)
        return Content(text=text, changed=_moment(changed))

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Replace the text `before` of a file.

        The plugin ignores `If-Match`, so the file is read again just before. A change by somebody else in the
        milliseconds between that and the write is lost.

        Raises:
            Stale: the file holds another text by now, which stays.
            VaultUnavailable: it cannot be written, or Obsidian does not answer.
        """
        status, content = self._asked("GET", _place(path), _NOTE)
        if (_parse_note(path, content)[0] if status == _OK else None) != before:
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
        return _parse_note(path, content)

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
        """Send a request and return the status and the body of the answer.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: there is no answer, the certificate is not trusted, or the key is rejected.
        """
        connection = self._connection()
        headers = {"Accept": accept, "Authorization": f"Bearer {load_secret(self._home, KEY)}"}
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
        pem = load_secret(self._home, CERTIFICATE)
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
    """Return the Markdown files, without Obsidian's own and hidden ones."""
    return [
        path
        for path in paths
        if path.endswith(SUFFIX) and not any(not name or name.startswith(".") for name in path.split("/"))
    ]


def _place(path: str) -> str:
    return "/vault/" + "/".join(quote(name, safe="") for name in path.split("/"))


def _parse_note(path: str, content: bytes) -> tuple[str, float]:
    """Return the text of a note and when it was written, in milliseconds."""
    try:
        found = json.loads(content)
        return str(found["content"]), float(found["stat"]["mtime"])
    except (ValueError, KeyError, TypeError) as error:
        raise VaultUnavailable(f"What Obsidian answered for {path!r} is no note.") from error


def _moment(changed: float) -> datetime:
    return from_epoch(max(changed, 0.0) / _MILLISECONDS)


def _stamp_of_header(changed: float) -> str:
    return f"rest:{changed:.0f}"


def is_address(place: str) -> bool:
    """Return True if a vault is given as the plugin's address instead of a folder."""
    return place.startswith(("https://", "http://"))


class Vaults:
    """Opens vaults. It keeps the one of an address, because that caches its listing."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._rest: RestVault | None = None

    def __call__(self, place: str) -> Vault:
        """Return the vault at that place, which need not exist."""
        if not is_address(place):
            return FolderVault(place)
        if self._rest is None or self._rest.address != place:
            self._rest = RestVault(place, self._home)
        return self._rest
