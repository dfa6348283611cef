"""Forgetting in the backups of the home.

Each backup is copied and migrated to the present schema. The same rows and texts are deleted there, with everything
that depends on them in that copy. If the copy is sound and no longer contains any of them, it replaces the backup. If
anything fails, the backup stays as it was and the receipt names it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from filrouge.core.clock import monotonic
from filrouge.core.errors import Busy, FilrougeError
from filrouge.core.paths import BACKUPS, sync
from filrouge.core.protocols import Tx
from filrouge.erasure.models import AffectedBackup, counted
from filrouge.erasure.repository import ForgetRepository, RowIds, carry_out
from filrouge.maintenance import backup_files
from filrouge.maintenance.copies import content
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database

_ENDING: Final = ".db"
_LONGEST_WAIT, _LOOK_SECONDS = 120.0, 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """What to delete from a backup: rows by id, and every row that contains these words."""

    ids: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepResult:
    """The result for one backup: rewritten, or why not."""

    copy: AffectedBackup
    rewritten: bool
    trouble: str = ""


def copies(home: str) -> list[str]:
    """Return the paths of the backups in the home."""
    folder = backup_files.folder(home)
    with suppress(OSError):
        found = [
            name for name in os.listdir(folder) if name.endswith(_ENDING) and not name.startswith(backup_files.NEW)
        ]
        return sorted(os.path.join(folder, name) for name in found)
    return []


def affected_backups(parts: Parts, sought: Removal) -> list[AffectedBackup]:
    """Return the backups that contain affected rows; one of an older schema is listed without counts.

    Such a backup is searched when it is swept.
    """
    found: list[AffectedBackup] = []
    for path in copies(parts.home):
        name = os.path.basename(path)
        try:
            database = Database(path, readonly=True)
        except FilrougeError:
            continue
        try:
            rows = _reach(parts, database.tx, sought)[1]
        except FilrougeError:
            found.append(AffectedBackup(name=name, rows={}))
        else:
            if rows:
                found.append(AffectedBackup(name=name, rows=rows))
        finally:
            database.close()
            _remove_empty_logs(path)
    return found


def sweep(parts: Parts, sought: Removal, *, at: datetime, actor: str) -> list[SweepResult]:
    """Delete from every backup; return a result for each backup that contained any of it, or failed."""
    if not copies(parts.home):
        return []
    with _lock(parts.home):
        return _swept(parts, sought, at, actor)


@contextmanager
def _lock(home: str) -> Generator[None]:
    """Wait for the lock of the backups. A backup being made may still contain the rows and must be swept too.

    Raises:
        Busy: the wait timed out.
    """
    deadline = monotonic() + _LONGEST_WAIT
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(backup_files.backup_lock(home))
                break
            except Busy:
                if monotonic() > deadline:
                    raise
            time.sleep(_LOOK_SECONDS)
        yield


def _swept(parts: Parts, sought: Removal, at: datetime, actor: str) -> list[SweepResult]:
    done: list[SweepResult] = []
    for path in copies(parts.home):
        name = os.path.basename(path)
        try:
            swept = _rewrite(parts, path, sought, at, actor)
        except (FilrougeError, OSError) as error:
            said = error.message if isinstance(error, FilrougeError) else str(error.strerror)
            swept = SweepResult(copy=AffectedBackup(name=name, rows={}), rewritten=False, trouble=said)
        if swept is not None:
            done.append(swept)
    return done


def _rewrite(parts: Parts, path: str, sought: Removal, at: datetime, actor: str) -> SweepResult | None:
    """Rewrite one backup; return None if it contains none of it."""
    new = backup_files.temporary_path(backup_files.folder(parts.home))
    try:
        backup_files.private_copy(path, new)
        with suppress(FileNotFoundError):
            backup_files.private_copy(f"{path}-wal", f"{new}-wal")
        database = Database(new)
        try:
            database.migrate(parts.clock)
            rows = _taken_out(parts, database, sought, at, actor)
            if not rows:
                return None
            trouble = "; ".join(database.check())
            database.checkpoint()
            left = _reach(parts, database.tx, sought)[1]
            database.disable_wal()
        finally:
            database.close()
        if trouble or left:
            return SweepResult(
                copy=AffectedBackup(name=os.path.basename(path), rows=rows),
                rewritten=False,
                trouble=trouble or "held on",
            )
        _put_in_place(new, path)
        return SweepResult(copy=AffectedBackup(name=os.path.basename(path), rows=rows), rewritten=True)
    finally:
        _remove(new, *_logs(new))


def _taken_out(parts: Parts, database: Database, sought: Removal, at: datetime, actor: str) -> dict[str, int]:
    with database.transaction() as tx:
        found, rows = _reach(parts, tx, sought)
        if rows:
            reach = ForgetRepository(tx, parts.analyser).reach(found)
            carry_out(parts, tx, reach, at=at, actor=actor, space_id=parts.vectors.space.id)
    return rows


def _reach(parts: Parts, tx: Tx, sought: Removal) -> tuple[RowIds, dict[str, int]]:
    """Return the matching rows of a copy, and how many rows of each table forgetting them would touch."""
    forgetting = ForgetRepository(tx, parts.analyser)
    found: dict[str, list[str]] = {table: list(ids) for table, ids in forgetting.exact(sought.words).items()}
    for table, ids in forgetting.present(sought.ids).items():
        found[table] = list(dict.fromkeys([*found.get(table, []), *ids]))
    if not any(found.values()):
        return found, {}
    rows = forgetting.rows(forgetting.reach(found), {}, {})
    return found, {table: sum(deeds.values()) for table, deeds in counted(rows).items()}


def _put_in_place(new: str, path: str) -> None:
    """Replace the backup with the copy and update its manifest; a backup without a manifest gets none."""
    about = backup_files.read_manifest(path)
    if about is None:
        sync(new)
        os.replace(new, path)
        sync(os.path.dirname(path))
    else:
        held = content(new)
        size = os.path.getsize(new)
        sync(new)
        backup_files.publish(new, path, replace(about, bytes=size, rows=held.rows, hash=held.hash, schema=held.schema))
    _remove(*_logs(path))


def _logs(path: str) -> tuple[str, ...]:
    return f"{path}-wal", f"{path}-shm", f"{path}-journal"


def _remove(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _remove_empty_logs(path: str) -> None:
    """Remove the empty log that SQLite creates when it opens a copy in WAL mode."""
    with suppress(FileNotFoundError):
        if os.path.getsize(f"{path}-wal") == 0:
            _remove(*_logs(path))


def names_of(swept: Sequence[SweepResult]) -> list[str]:
    """Return the names of the files that were rewritten."""
    return [f"{BACKUPS}/{one.copy.name}" for one in swept if one.rewritten]
