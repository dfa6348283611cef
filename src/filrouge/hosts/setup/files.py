"""Settings files on the disk: read and written whole, with a manifest of what stood there before."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from filrouge.core.errors import BadInput, CannotWrite
from filrouge.core.paths import SETUP, SETUP_LIST, inside, make_private

# The user's machine, as far as the settings of agents depend on it.

NAME: Final = "filrouge"


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The user's machine as far as the agents' settings depend on it.

    Attributes:
        environ: the environment.
        executable: the absolute path of `filrouge`.
    """

    environ: Mapping[str, str]
    executable: str

    def folder(self, variable: str, *usual: str) -> str:
        """The folder that a variable names, else the usual one below the user's home."""
        named = self.environ.get(variable, "").strip() if variable else ""
        if named:
            return os.path.abspath(os.path.expanduser(named))
        return os.path.join(self.environ.get("HOME") or os.path.expanduser("~"), *usual)

    def program(self, name: str) -> str | None:
        """Where the command of that name is."""
        return shutil.which(name, path=self.environ.get("PATH"))


def this_machine(environ: Mapping[str, str]) -> Machine:
    """The machine this runs on, with the command that is running."""
    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), NAME)
    is_called = os.path.basename(called) == NAME and os.access(called, os.X_OK)
    found = called if is_called else beside if os.access(beside, os.X_OK) else shutil.which(NAME) or beside
    return Machine(environ=environ, executable=os.path.abspath(found))


# Settings files on the disk: read whole, written whole, and with the mode that they had.

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


# What was written into the files of others, and what stood there before: the way back, byte for byte.
#
# `setup.json` in the home lists the files; the folder `setup` holds what each was.


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One file that Filrouge wrote into.

    Attributes:
        path: the file.
        agent: whose it is.
        before: the name of the copy of what it was; empty where there was no file.
        written: the SHA-256 of what was written.
        made: folders that were made for it.
    """

    path: str
    agent: str
    before: str
    written: str
    made: tuple[str, ...]


class Manifest:
    """The records of one home."""

    def __init__(self, home: str) -> None:
        self._home = home

    def records(self) -> dict[str, Record]:
        """Every record by its file.

        Raises:
            BadInput: the list is damaged.
        """
        path = inside(self._home, SETUP_LIST)
        try:
            found: list[Mapping[str, Any]] = json.loads(read(path) or b"[]")
            return {one["path"]: _record(one) for one in found}
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{path} is damaged, so what stood in the settings before is not known.",
                remedy=f"Remove {path}: entries of Filrouge are then found by what they run.",
            ) from error

    def former(self, record: Record) -> bytes | None:
        """What a file was before; None where there was none.

        Raises:
            BadInput: the copy is gone.
        """
        found = read(self._copy(record.before)) if record.before else None
        if record.before and found is None:
            raise BadInput(
                f"The copy of what {record.path} was before is gone.",
                remedy=f"Remove {inside(self._home, SETUP_LIST)}: entries of Filrouge are then found by what they run.",
            )
        return found

    def keep(self, path: str, agent: str, before: bytes | None, written: bytes) -> None:
        """Remember a file before it is written."""
        make_private(self._home)
        name = f"{digest(path.encode())[:16]}.before" if before is not None else ""
        if before is not None:
            write(self._copy(name), before)
        known = self.records()
        made = known[path].made if path in known else tuple(missing_folders(path))
        self._write({**known, path: Record(path=path, agent=agent, before=name, written=digest(written), made=made)})

    def drop(self, path: str) -> None:
        """Forget a file that has nothing of ours any more."""
        known = self.records()
        gone = known.pop(path, None)
        self._write(known)
        if gone is not None and gone.before:
            remove(self._copy(gone.before), [inside(self._home, SETUP)])

    def _copy(self, name: str) -> str:
        return os.path.join(inside(self._home, SETUP), name)

    def _write(self, records: Mapping[str, Record]) -> None:
        listed = [asdict(record) for record in records.values()]
        if listed:
            write(inside(self._home, SETUP_LIST), json.dumps(listed, indent=2).encode())
        else:
            remove(inside(self._home, SETUP_LIST), [])


def digest(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return sha256(content).hexdigest()


def _record(said: Mapping[str, Any]) -> Record:
    return Record(
        path=str(said["path"]),
        agent=str(said["agent"]),
        before=str(said["before"]),
        written=str(said["written"]),
        made=tuple(str(folder) for folder in said["made"]),
    )
