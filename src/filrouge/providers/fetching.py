"""Download of a published model, only with the user's consent.

Files are downloaded into a directory next to the model's and survive a kill there. They become the model when all of
them are verified. Only `filrouge model fetch` calls this; it shows what is downloaded from where, and asks for consent.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import httpx
from msgspec import Struct

from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.network import is_loopback
from filrouge.providers.e5 import ensure_model
from filrouge.providers.published_e5 import PublishedModel

# Download of one file with a known size and SHA-256, which decide whether it is accepted.
#
# Received bytes are kept in `NAME.part`, with the server's ETag next to it, so an interrupted or killed download
# continues (Range with If-Range). If the server has another version or ignores Range, it sends the whole file, and the
# part starts again. A file gets its final name only when its sum is right; a file with a wrong sum is removed. Only
# encrypted redirects are followed: the sum protects the content, and encryption hides what is downloaded. The caller
# has obtained the user's consent.

#: Called with the number of bytes of this file received so far.
BytesReceived = Callable[[int], None]
_MAX_ATTEMPTS: Final = 5
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class WantedFile(Struct, frozen=True, kw_only=True):
    """A file to download.

    Attributes:
        size: in bytes.
        sha256: in hexadecimal digits.
    """

    address: str
    size: int
    sha256: str


class _ConnectionLost(Exception):
    """The connection ended early; received bytes are kept."""


def download(target: WantedFile, path: str, on_received: BytesReceived) -> None:
    """Make sure that the complete file is at `path`. The caller holds a lock, so only one process downloads.

    Raises:
        EmbedderUnavailable: no network, no such file, or unexpected content; the message says which.
        OSError: it cannot be written.
    """
    if _matches(target, path):
        on_received(target.size)
        return
    part = f"{path}.part"
    _check_disk_space(target, part)
    with httpx.Client(timeout=_TIMEOUT, trust_env=not is_loopback(target.address)) as client:
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            size_before = _file_size(part)
            try:
                _resume(client, target, part, on_received)
                break
            except _ConnectionLost as error:
                # Retry only if this attempt received some bytes.
                if not attempts_left or _file_size(part) <= size_before:
                    raise EmbedderUnavailable(
                        f"{target.address} broke off after {_file_size(part)} of {target.size} bytes: {error}.",
                        remedy="Check the network and run the command again: what has arrived is kept.",
                    ) from error.__cause__
    if not _matches(target, part):
        _remove_part(part)
        raise EmbedderUnavailable(
            f"What {target.address} sent is not the file that was expected (its SHA-256 differs). It was removed.",
            remedy="Try again. If it fails again, use another mirror or network, because this one alters files.",
        )
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
    _remove_part(part)


def _resume(client: httpx.Client, target: WantedFile, part: str, on_received: BytesReceived) -> None:
    """Send one request: append what is missing, or start again."""
    received = _file_size(part)
    tag = _read_tag(part)
    if received >= target.size or (received and not tag):
        _remove_part(part)
        received = 0
    headers = {"Accept-Encoding": "identity"}
    if received:
        headers |= {"Range": f"bytes={received}-", "If-Range": tag}
    try:
        with _following(client, target.address, headers) as response:
            if response.status_code == 416:  # the server's file is shorter than the part
                _remove_part(part)
                raise _ConnectionLost("the server has another file now")
            continues = response.status_code == 206 and _range_start(response) == received
            if not continues and response.status_code != 200:
                raise _error_of_status(response.status_code, target.address)
            if not continues:
                received = 0
                _remove_part(part)
                _store_tag(part, response.headers.get("ETag", ""))
            _append(response, target, part, received, on_received)
    except httpx.TransportError as error:
        raise _ConnectionLost(str(error) or type(error).__name__) from error


def _append(response: httpx.Response, target: WantedFile, part: str, received: int, on_received: BytesReceived) -> None:
    with open(part, "ab" if received else "wb") as file:
        on_received(received)
        for chunk in response.iter_raw():  # no fixed chunk size: it would lose the last chunk of a broken connection
            received += len(chunk)
            if received > target.size:  # more than expected, so the sum cannot match
                file.truncate(0)
                raise EmbedderUnavailable(
                    f"{target.address} sent more than the {target.size} bytes of the file that was expected.",
                    remedy="The mirror holds another file: use another mirror.",
                )
            file.write(chunk)
            file.flush()
            on_received(received)
    if received < target.size:
        raise _ConnectionLost("the reply was too short")


@contextmanager
def _following(client: httpx.Client, address: str, headers: dict[str, str]) -> Generator[httpx.Response]:
    """Yield the reply at the end of the redirects; each step must be encrypted, or on this machine."""
    for _ in range(_MAX_REDIRECTS + 1):
        if not address.startswith("https:") and not is_loopback(address):
            raise EmbedderUnavailable(
                f"{address} is not encrypted, so nothing is fetched from there.", remedy="Use an address with https://."
            )
        with client.stream("GET", address, headers=headers) as response:
            if response.status_code not in _REDIRECTS:
                yield response
                return
            address = str(response.url.join(response.headers.get("Location", "")))
    raise EmbedderUnavailable(f"{address} only redirects elsewhere.", remedy="Check the mirror's address.")


def _error_of_status(status: int, address: str) -> EmbedderUnavailable:
    if status == 404:
        return EmbedderUnavailable(
            f"{address} was not found (404).", remedy="Check FILROUGE_MODEL_MIRROR, if it is set."
        )
    return EmbedderUnavailable(f"{address} answered {status}.", remedy="Try again later; what has arrived is kept.")


def _range_start(response: httpx.Response) -> int:
    """Return the start of the range, as in `Content-Range: bytes 100-199/200`; -1 if there is none."""
    unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
    first = rest.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdecimal() else -1


def _check_disk_space(target: WantedFile, part: str) -> None:
    needed = target.size - min(target.size, _file_size(part))
    free = shutil.disk_usage(os.path.dirname(part)).free
    if free < needed:
        raise EmbedderUnavailable(
            f"There is no room for the model: {needed >> 20} MB are needed, {free >> 20} MB are free.",
            remedy="Free disk space, or set FILROUGE_MODELS to another directory.",
        )


def _matches(target: WantedFile, path: str) -> bool:
    if _file_size(path) != target.size:
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == target.sha256


def _file_size(path: str) -> int:
    return os.path.getsize(path) if os.path.isfile(path) else 0


def _read_tag(part: str) -> str:
    """Return the strong ETag of the part; a weak one does not guarantee the same bytes."""
    with suppress(OSError, UnicodeDecodeError), open(f"{part}.etag", encoding="ascii") as file:
        tag = file.read()
        return tag if tag.startswith('"') and tag.endswith('"') and tag.isprintable() else ""
    return ""


def _store_tag(part: str, tag: str) -> None:
    """Store the ETag before the first byte, so that a part is never continued with another version."""
    with open(f"{part}.etag", "w", encoding="ascii", errors="replace") as file:
        file.write(tag)


def _remove_part(part: str) -> None:
    for path in (part, f"{part}.etag"):
        with suppress(FileNotFoundError):
            os.remove(path)


#: Called with a file's name, its bytes received so far, and its total bytes.
Progress = Callable[[str, int, int], None]


def fetch(model: PublishedModel, path: str, progress: Progress, *, consent: bool) -> None:
    """Make sure that the complete model is at `path`; wait if another process is downloading it.

    Args:
        model: what to download.
        path: its directory.
        progress: called for every chunk received.
        consent: True if the user agreed to this download.

    Raises:
        EmbedderUnavailable: it could not be downloaded or stored; the message gives the reason.
        PermissionError: there is no consent.
    """
    if not consent:
        raise PermissionError("a model is fetched only with consent")
    download_directory = f"{path}.arriving"

    def write(directory: str) -> None:
        os.makedirs(download_directory, exist_ok=True)
        for file in model.files:
            download_path = os.path.join(download_directory, file.name)
            target = WantedFile(address=model.address(file), size=file.size, sha256=file.sha256)
            download(target, download_path, lambda received, file=file: progress(file.name, received, file.size))
            _link(download_path, os.path.join(directory, file.name))

    ensure_model(path, write)
    shutil.rmtree(download_directory, ignore_errors=True)


def _link(path: str, other: str) -> None:
    """Link the file under a second name, so that a kill before the model is complete loses nothing."""
    try:
        os.link(path, other)
    except OSError:  # not every file system has hard links
        shutil.copyfile(path, other)
