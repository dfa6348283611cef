"""What was written into the files of others, and what stood there before: the way back, byte for byte.

`setup.json` in the home lists the files; the folder `setup` holds what each was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from filrouge.errors import BadInput
from filrouge.home import SETUP, SETUP_LIST, inside, make_private
from filrouge.hosts.setup import files


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
            found: list[Mapping[str, Any]] = json.loads(files.read(path) or b"[]")
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
        found = files.read(self._copy(record.before)) if record.before else None
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
            files.write(self._copy(name), before)
        known = self.records()
        made = known[path].made if path in known else tuple(files.missing_folders(path))
        self._write({**known, path: Record(path=path, agent=agent, before=name, written=digest(written), made=made)})

    def drop(self, path: str) -> None:
        """Forget a file that has nothing of ours any more."""
        known = self.records()
        gone = known.pop(path, None)
        self._write(known)
        if gone is not None and gone.before:
            files.remove(self._copy(gone.before), [inside(self._home, SETUP)])

    def _copy(self, name: str) -> str:
        return os.path.join(inside(self._home, SETUP), name)

    def _write(self, records: Mapping[str, Record]) -> None:
        listed = [asdict(record) for record in records.values()]
        if listed:
            files.write(inside(self._home, SETUP_LIST), json.dumps(listed, indent=2).encode())
        else:
            files.remove(inside(self._home, SETUP_LIST), [])


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
