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
from filrouge.core.paths import VAULT_CERTIFICATE, VAULT_KEY, load_secret
from filrouge.core.protocols import Vault
from filrouge.notes.models import Content, Listing, Note
from filrouge.notes.pages import MAX_CHARACTERS, SUFFIX, note_of

MAX_NOTES: Final = 20_000
"""Maximum number of notes in one vault, in case the folder is a whole disk."""
#: A UTF-8 character has at most four bytes.
_MAX_BYTES: Final = 4 * MAX_CHARACTERS
#: Later file dates are cut to this one (year 2100), so that they do not prevent other notes from being read.
_MAX_TIMESTAMP: Final = 4_102_444_800.0
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
        files, problems = dict[str, os.stat_result](), dict[str, str]()
        if within and not os.path.isdir(os.path.join(self._folder, within)):
            if os.path.isdir(self._folder):
                return Listing(stamps={})
            within = ""  # walking the vault itself reports that it is gone
        for path, status in self._walk(within, problems):
            if len(files) >= MAX_NOTES:
                problems[path] = f"there are more than {MAX_NOTES} notes; the others are not read"
                break
            files[path] = status
        paths = sorted(files, key=lambda path: (-files[path].st_mtime_ns, path))
        return Listing(stamps={path: _stamp_of_file(files[path]) for path in paths}, problems=problems)

    def read(self, path: str) -> Note:
        """Read one note.

        Raises:
            NotFound: there is no such note in the vault, or it is being written.
            VaultUnavailable: it cannot be read.
        """
        content, status = self._read_stable(path)
        return note_of(
            path,
            content,
            changed=_modified_at(status),
            stamp=_stamp_of_file(status),
            is_cut=status.st_size > _MAX_BYTES,
        )

    def _read_stable(self, path: str) -> tuple[bytes, os.stat_result]:
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
        raw, status = self._read_stable(path)
        if status.st_size > len(raw):
            raise VaultUnavailable(f"{path!r} is too large for a page.")
        try:
            return Content(text=raw.decode("utf-8"), changed=_modified_at(status))
        except UnicodeDecodeError as error:
            raise VaultUnavailable(f"{path!r} is not UTF-8.") from error

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Replace the text `before` of a file atomically; missing folders are created.

        Raises:
            Stale: the file holds another text by now, which stays.
            VaultUnavailable: it cannot be written.
        """
        folder, _, name = path.rpartition("/")
        try:
            with self._open_folder(folder, make=True) as folder_fd:
                self._write_and_rename(folder_fd, path, name, text.encode("utf-8"), before)
        except OSError as error:
            raise VaultUnavailable(f"{path!r} cannot be written: {error.strerror or error}.") from error

    def _write_and_rename(self, folder_fd: int, path: str, name: str, raw: bytes, before: str | None) -> None:
        """Write a temporary file next to the target, check the target again, and rename."""
        temporary = f".filrouge-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder_fd), "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
                existing = self._read_if_exists(path)
                if existing is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(existing[1].st_mode))
            if (existing[0] if existing else None) != (None if before is None else before.encode("utf-8")):
                raise Stale(f"{path!r} was written meanwhile.")
            os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
            os.fsync(folder_fd)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder_fd)

    def _read_if_exists(self, path: str) -> tuple[bytes, os.stat_result] | None:
        try:
            _, raw, status = self._content(path)
        except FileNotFoundError:
            return None
        return raw, status

    def _content(self, path: str) -> tuple[os.stat_result, bytes, os.stat_result]:
        """Return the bytes of a file, and its status before and after reading."""
        folder, _, name = path.rpartition("/")
        if not path.endswith(SUFFIX) or name.startswith(".") or "\0" in path:
            raise FileNotFoundError(path)
        with self._open_folder(folder) as folder_fd:
            # Without O_NONBLOCK, opening a pipe would block.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise FileNotFoundError(path)
            content = file.read(_MAX_BYTES)
            return before, content, os.fstat(descriptor)

    @contextmanager
    def _open_folder(self, folder: str, *, make: bool = False) -> Generator[int]:
        """Open a folder of the vault step by step from the top, without following links.

        A folder that is replaced by a link meanwhile is not entered.
        """
        names = folder.split("/") if folder else []
        if "\0" in folder or any(not name or name.startswith(".") for name in names):
            raise FileNotFoundError(folder)
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=descriptor)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _walk(self, within: str, problems: dict[str, str]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the Markdown files in a folder and below, in no particular order.

        Paths that cannot be read go into `problems`.
        """
        try:
            with os.scandir(os.path.join(self._folder, within)) as entries:
                visible_entries = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            if not within:
                raise VaultUnavailable(f"The vault {self._folder} cannot be read: {error.strerror}.") from error
            problems[within] = f"it cannot be read: {error.strerror}"
            return
        for entry in visible_entries:
            path = f"{within}/{entry.name}" if within else entry.name
            if not _is_utf8(entry.name):
                problems[path.encode("utf-8", "replace").decode()] = "its name is not UTF-8"
            elif entry.is_symlink():
                if not self._is_inside(entry.path):
                    problems[path] = _OUTSIDE
            elif entry.is_dir(follow_symlinks=False):
                yield from self._walk(path, problems)
            elif entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                try:
                    yield path, entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # deleted in the meantime
                    continue

    def _is_inside(self, link: str) -> bool:
        top = os.path.realpath(self._folder)
        return os.path.commonpath([top, os.path.realpath(link)]) == top


def _modified_at(status: os.stat_result) -> datetime:
    return from_epoch(min(max(status.st_mtime, 0.0), _MAX_TIMESTAMP))


def _stamp_of_file(status: os.stat_result) -> str:
    """Return a stamp that changes when a file is written or replaced."""
    return f"{status.st_mtime_ns}:{status.st_size}:{status.st_ino}"


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# Certificate of Obsidian's plugin.

CERTIFICATE: Final = VAULT_CERTIFICATE
KEY: Final = VAULT_KEY
_CERTIFICATE_PATH: Final = "/obsidian-local-rest-api.crt"
_MAX_CERTIFICATE_BYTES: Final = 64 * 1024
_CERTIFICATE_TIMEOUT_SECONDS: Final = 5.0


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
        raise BadInput(f"{address!r} is not an address of a vault.", remedy="It looks like https://127.0.0.1:27124.")
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
    connection = http.client.HTTPSConnection(host, port, timeout=_CERTIFICATE_TIMEOUT_SECONDS, context=context)
    try:
        connection.request("GET", _CERTIFICATE_PATH)
        answer = connection.getresponse()
        pem = answer.read(_MAX_CERTIFICATE_BYTES).decode("ascii", "replace")
        fingerprint(pem)
    except (OSError, http.client.HTTPException) as error:
        raise VaultUnavailable(
            f"Obsidian does not answer at {address}.", remedy="Start it, with the plugin Local REST API."
        ) from error
    except ValueError as error:
        raise VaultUnavailable(f"The answer of {address} is not a certificate.") from error
    finally:
        connection.close()
    return pem


def fingerprint(pem: str) -> str:
    """Return the SHA-256 fingerprint of a certificate, in the usual notation.

    Raises:
        ValueError: it is not a certificate.
    """
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest().upper()
    return ":".join(digest[start : start + 2] for start in range(0, len(digest), 2))


def ssl_context(pem: str) -> ssl.SSLContext:
    """Return an SSL context that trusts only that certificate."""
    context = ssl.create_default_context(cadata=pem)
    # The plugin's certificate is self-signed, and lacks fields that strict verification requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


# The plugin's listing has only names, so one search returns the times of all notes. It evaluates every note, so it runs
# at most every fifteen seconds. Path segments are encoded separately: the plugin does not treat `%2F` as a separator.

_LISTING_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 5.0
_TIMEOUT_SECONDS: Final = 5.0
_MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
_NOTE_TYPE: Final = "application/vnd.olrapi.note+json"
#: The plugin compares this content type literally.
_JSON_LOGIC_TYPE: Final = "application/vnd.olrapi.jsonlogic+json"
_TIMES_QUERY: Final = b'{"var":"stat.mtime"}'
_MILLISECONDS: Final = 1000.0
_OK: Final = 200


class RestVault:
    """Implements `Vault` over the plugin's address; the certificate and the key are in the home."""

    def __init__(self, address: str, home: str, *, seconds: float = _TIMEOUT_SECONDS) -> None:
        self.address = address
        self._home = home
        self._seconds = seconds
        self._listing: Listing | None = None
        self._error: FilrougeError | None = None
        self._due = 0.0

    def check_connection(self) -> None:
        """Check that Obsidian answers and accepts the key, with a cheap request for the names in the top folder.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: as for `list`.
        """
        self._request("GET", "/vault/", "application/json")

    def list(self, within: str = "") -> Listing:
        """List all notes with their stamps, last written first, or those of one folder; recent answers are cached.

        Raises:
            VaultUnavailable: Obsidian does not run, shows another certificate, or rejects the key.
        """
        if monotonic() >= self._due:
            self._update_listing()
        if self._error is not None:
            raise VaultUnavailable(self._error.message, remedy=self._error.remedy)
        assert self._listing is not None
        if within:
            stamps = self._listing.stamps
            return Listing(stamps={path: stamp for path, stamp in stamps.items() if path.startswith(f"{within}/")})
        return self._listing

    def read(self, path: str) -> Note:
        """Read one note.

        Raises:
            NotFound: there is none (any more), or Obsidian stopped answering; the next listing shows which.
            VaultUnavailable: the answer is not a note.
        """
        text, changed = self._read(path)
        raw = text.encode("utf-8", "replace")
        return note_of(path, raw[: 4 * MAX_CHARACTERS], changed=_time_of(changed), stamp=_stamp_of_header(changed))

    def content(self, path: str) -> Content:
        """Read the text of a whole file; raises as `read` does."""
        text, changed = self._read(path)
        return Content(text=text, changed=_time_of(changed))

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Replace the text `before` of a file.

        The plugin ignores `If-Match`, so the file is read again just before. A change by somebody else in the
        milliseconds between that and the write is lost.

        Raises:
            Stale: the file holds another text by now, which stays.
            VaultUnavailable: it cannot be written, or Obsidian does not answer.
        """
        status, content = self._request("GET", _url_path(path), _NOTE_TYPE)
        if (_parse_note(path, content)[0] if status == _OK else None) != before:
            raise Stale(f"{path!r} was written meanwhile.")
        status, _ = self._request("PUT", _url_path(path), "*/*", text.encode("utf-8"), kind="text/markdown")
        if status not in (_OK, 201, 204):
            raise VaultUnavailable(f"Obsidian did not write {path!r}: it answered {status}.")
        self._due = 0.0

    def _read(self, path: str) -> tuple[str, float]:
        try:
            status, content = self._request("GET", _url_path(path), _NOTE_TYPE)
        except VaultUnavailable as error:
            raise NotFound(error.message, remedy=error.remedy) from error
        if status != _OK:
            raise NotFound(f"There is no note {path!r}.", remedy="See `filrouge notes`.")
        return _parse_note(path, content)

    def _update_listing(self) -> None:
        try:
            self._listing, self._error = self._fetch_listing(), None
            self._due = monotonic() + _LISTING_SECONDS
        except FilrougeError as error:
            self._error = error
            self._due = monotonic() + _RETRY_SECONDS

    def _fetch_listing(self) -> Listing:
        status, content = self._request("POST", "/search/", "application/json", _TIMES_QUERY)
        try:
            rows = cast("list[dict[str, Any]]", json.loads(content))
            times = {str(row["filename"]): float(row["result"]) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise VaultUnavailable(f"The answer of {self.address} ({status}) is not a list of notes.") from error
        paths = sorted(_markdown_paths(times), key=lambda path: (-times[path], path))
        problems = dict.fromkeys(paths[MAX_NOTES : MAX_NOTES + 1], f"there are more than {MAX_NOTES} notes")
        return Listing(stamps={path: _stamp_of_header(times[path]) for path in paths[:MAX_NOTES]}, problems=problems)

    def _request(
        self, method: str, url_path: str, accept: str, body: bytes | None = None, *, kind: str = _JSON_LOGIC_TYPE
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
            connection.request(method, url_path, body, headers)
            answer = connection.getresponse()
            content = answer.read(_MAX_ANSWER_BYTES)
        except ssl.SSLCertVerificationError as error:
            raise VaultUnavailable(
                f"{self.address} shows another certificate, not the one that you trust; nothing was sent.",
                remedy=f"If that is right, trust it: `filrouge notes --trust {self.address}`.",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise VaultUnavailable(
                f"Obsidian does not answer at {self.address}.", remedy="Start it, with the plugin Local REST API."
            ) from error
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise VaultUnavailable(f"{self.address} rejects the key.", remedy="Enter it: `filrouge notes --key`.")
        return answer.status, content

    def _connection(self) -> http.client.HTTPConnection:
        host, port, is_safe = host_and_port(self.address)
        if not is_safe:
            return http.client.HTTPConnection(host, port, timeout=self._seconds)
        pem = load_secret(self._home, CERTIFICATE)
        if not pem:
            raise VaultUnavailable(
                f"You do not trust a certificate of {self.address} yet; nothing was sent.",
                remedy=f"Look at it: `filrouge notes --trust {self.address}`.",
            )
        try:
            context = ssl_context(pem)
        except ssl.SSLError as error:
            raise VaultUnavailable(
                "The certificate in the home is damaged.",
                remedy=f"Trust it again: `filrouge notes --trust {self.address}`.",
            ) from error
        return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)


def _markdown_paths(paths: dict[str, float]) -> list[str]:
    """Return the Markdown files, without Obsidian's own and hidden ones."""
    return [
        path
        for path in paths
        if path.endswith(SUFFIX) and not any(not name or name.startswith(".") for name in path.split("/"))
    ]


def _url_path(path: str) -> str:
    return "/vault/" + "/".join(quote(name, safe="") for name in path.split("/"))


def _parse_note(path: str, content: bytes) -> tuple[str, float]:
    """Return the text of a note and when it was written, in milliseconds."""
    try:
        found = json.loads(content)
        return str(found["content"]), float(found["stat"]["mtime"])
    except (ValueError, KeyError, TypeError) as error:
        raise VaultUnavailable(f"Obsidian's answer for {path!r} is not a note.") from error


def _time_of(changed: float) -> datetime:
    return from_epoch(max(changed, 0.0) / _MILLISECONDS)


def _stamp_of_header(changed: float) -> str:
    return f"rest:{changed:.0f}"


def is_address(location: str) -> bool:
    """Return True if a vault is given as the plugin's address instead of a folder."""
    return location.startswith(("https://", "http://"))


class Vaults:
    """Opens vaults. It keeps the one of an address, because that caches its listing."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._rest: RestVault | None = None

    def __call__(self, location: str) -> Vault:
        """Return the vault at that place, which need not exist."""
        if not is_address(location):
            return FolderVault(location)
        if self._rest is None or self._rest.address != location:
            self._rest = RestVault(location, self._home)
        return self._rest
