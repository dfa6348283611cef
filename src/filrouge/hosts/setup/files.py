"""Settings files on the disk: read whole, written whole, and with the mode that they had."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from filrouge.errors import BadInput, CannotWrite

_LARGEST = 64 * 1024 * 1024
_PRIVATE = 0o600
_PRIVATE_FOLDER = 0o700


def read(path: str) -> bytes | None:
    """The bytes of a file, None where there is none; a link is followed.

    Raises:
        BadInput: it cannot be read, or is too large for settings.
    """
    try:
        with open(path, "rb") as file:
            found = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    if len(found) > _LARGEST:
        raise BadInput(f"{path} is too large for a file of settings.")
    return found


def text_of(content: bytes | None, path: str) -> str:
    """The text of a file; of none an empty one.

    Raises:
        BadInput: it is not UTF-8.
    """
    try:
        return (content or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8.", remedy="Save it as UTF-8.") from error


def write(path: str, content: bytes) -> None:
    """Put a file there at once, or nothing; a link keeps pointing where it does.

    Raises:
        CannotWrite: the disk or the permissions refuse.
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    try:
        for missing in missing_folders(real):
            os.mkdir(missing, _PRIVATE_FOLDER)
        mode = os.stat(real).st_mode & 0o7777 if os.path.exists(real) else _PRIVATE
        descriptor, part = tempfile.mkstemp(prefix=".filrouge-", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(part, mode)
            os.replace(part, real)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
    except OSError as error:
        raise CannotWrite(
            f"{path} cannot be written: {error.strerror}.", remedy="Mend its permissions and run it again."
        ) from error


def remove(path: str, made: Iterable[str]) -> None:
    """Take a file away, and the folders that were made for it if nothing else is in them.

    Raises:
        CannotWrite: the permissions refuse.
    """
    try:
        os.unlink(os.path.realpath(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CannotWrite(f"{path} cannot be removed: {error.strerror}.") from error
    for folder in reversed(list(made)):
        with suppress(OSError):
            os.rmdir(folder)


def missing_folders(path: str) -> list[str]:
    """The folders that writing a file would make, the outermost first."""
    found = list[str]()
    folder = os.path.dirname(os.path.realpath(path))
    while folder and not os.path.isdir(folder):
        found.insert(0, folder)
        folder = os.path.dirname(folder)
    return found
