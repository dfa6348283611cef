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
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.core.clock import monotonic
from filrouge.core.errors import Busy, FilrougeError
from filrouge.core.paths import BACKUPS, sync
from filrouge.core.protocols import Analyser, Tx
from filrouge.erasure.models import AffectedBackup, count_effects
from filrouge.erasure.repository import ForgetRepository, RowIds, carry_out
from filrouge.maintenance import backup_files
from filrouge.maintenance.copies import content
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database

_SUFFIX: Final = ".db"
_MAX_WAIT_SECONDS, _RETRY_SECONDS = 120.0, 0.2


class Removal(Struct, frozen=True, kw_only=True):
    """What to delete from every backup.

    Attributes:
        ids: of memories, turns and events.
        search_texts: every row that contains one of these texts is deleted too.
    """

    ids: tuple[str, ...]
    search_texts: tuple[str, ...]


class SweepResult(Struct, frozen=True, kw_only=True):
    """The result for one backup.

    Attributes:
        backup: its name, and the rows that were deleted or changed in the copy.
        rewritten: True if the copy replaced the backup; otherwise the backup is unchanged.
        problem: why it was not rewritten; empty if it was.
    """

    backup: AffectedBackup
    rewritten: bool
    problem: str = ""


def backup_paths(home: str) -> list[str]:
    """Return the paths of the backups in the home."""
    directory = backup_files.backup_directory(home)
    with suppress(OSError):
        names = [
            name
            for name in os.listdir(directory)
            if name.endswith(_SUFFIX) and not name.startswith(backup_files.TEMPORARY_PREFIX)
        ]
        return sorted(os.path.join(directory, name) for name in names)
    return []


def affected_backups(analyser: Analyser, home: str, removal: Removal) -> list[AffectedBackup]:
    """Return the backups that contain affected rows.

    A backup of an older schema is listed without counts, because it can be searched only when it is swept.
    """
    affected: list[AffectedBackup] = []
    for path in backup_paths(home):
        name = os.path.basename(path)
        try:
            database = Database(path, readonly=True)
        except FilrougeError:
            continue
        try:
            rows = _find_affected(analyser, database.tx, removal)[1]
        except FilrougeError:
            affected.append(AffectedBackup(name=name, rows={}))
        else:
            if rows:
                affected.append(AffectedBackup(name=name, rows=rows))
        finally:
            database.close()
            _remove_empty_logs(path)
    return affected


def sweep(parts: Parts, removal: Removal, *, at: datetime, actor: str) -> list[SweepResult]:
    """Delete from every backup; return a result for each backup that contained affected rows or failed."""
    if not backup_paths(parts.home):
        return []
    with _lock(parts.home):
        return _sweep_all(parts, removal, at, actor)


@contextmanager
def _lock(home: str) -> Generator[None]:
    """Wait for the lock of the backups. A backup that is being made may contain the rows, so it must be swept too.

    Raises:
        Busy: the wait timed out.
    """
    deadline = monotonic() + _MAX_WAIT_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(backup_files.backup_lock(home))
                break
            except Busy:
                if monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)
        yield


def _sweep_all(parts: Parts, removal: Removal, at: datetime, actor: str) -> list[SweepResult]:
    results: list[SweepResult] = []
    for path in backup_paths(parts.home):
        name = os.path.basename(path)
        try:
            result = _rewrite(parts, path, removal, at, actor)
        except (FilrougeError, OSError) as error:
            problem = error.message if isinstance(error, FilrougeError) else str(error.strerror)
            result = SweepResult(backup=AffectedBackup(name=name, rows={}), rewritten=False, problem=problem)
        if result is not None:
            results.append(result)
    return results


def _rewrite(parts: Parts, path: str, removal: Removal, at: datetime, actor: str) -> SweepResult | None:
    """Rewrite one backup; return None if it contains no affected row."""
    new = backup_files.temporary_path(backup_files.backup_directory(parts.home))
    try:
        backup_files.private_copy(path, new)
        with suppress(FileNotFoundError):
            backup_files.private_copy(f"{path}-wal", f"{new}-wal")
        database = Database(new)
        try:
            database.migrate(parts.clock)
            rows = _delete_rows(parts, database, removal, at, actor)
            if not rows:
                return None
            problem = "; ".join(database.check())
            database.checkpoint()
            remaining = _find_affected(parts.analyser, database.tx, removal)[1]
            database.disable_wal()
        finally:
            database.close()
        if problem or remaining:
            return SweepResult(
                backup=AffectedBackup(name=os.path.basename(path), rows=rows),
                rewritten=False,
                problem=problem or "the copy still contains forgotten rows",
            )
        _replace_backup(new, path)
        return SweepResult(backup=AffectedBackup(name=os.path.basename(path), rows=rows), rewritten=True)
    finally:
        _remove_files(new, *_logs(new))


def _delete_rows(parts: Parts, database: Database, removal: Removal, at: datetime, actor: str) -> dict[str, int]:
    with database.transaction() as tx:
        found, rows = _find_affected(parts.analyser, tx, removal)
        if rows:
            plan = ForgetRepository(tx, parts.analyser).plan(found)
            carry_out(parts, tx, plan, at=at, actor=actor, space_id=parts.vectors.space.id)
    return rows


def _find_affected(analyser: Analyser, tx: Tx, removal: Removal) -> tuple[RowIds, dict[str, int]]:
    """Return the matching rows of a copy, and how many rows of each table forgetting them would delete or change."""
    forgetting = ForgetRepository(tx, analyser)
    found: dict[str, list[str]] = {
        table: list(ids) for table, ids in forgetting.rows_containing(removal.search_texts).items()
    }
    for table, ids in forgetting.present(removal.ids).items():
        found[table] = list(dict.fromkeys([*found.get(table, []), *ids]))
    if not any(found.values()):
        return found, {}
    rows = forgetting.rows(forgetting.plan(found), {}, {})
    return found, {table: sum(effects.values()) for table, effects in count_effects(rows).items()}


def _replace_backup(new: str, path: str) -> None:
    """Replace the backup with the copy and update its manifest; a backup without a manifest gets none."""
    manifest = backup_files.read_manifest(path)
    if manifest is None:
        sync(new)
        os.replace(new, path)
        sync(os.path.dirname(path))
    else:
        new_content = content(new)
        size = os.path.getsize(new)
        sync(new)
        backup_files.publish(
            new,
            path,
            replace(manifest, bytes=size, rows=new_content.rows, hash=new_content.hash, schema=new_content.schema),
        )
    _remove_files(*_logs(path))


def _logs(path: str) -> tuple[str, ...]:
    return f"{path}-wal", f"{path}-shm", f"{path}-journal"


def _remove_files(*paths: str) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _remove_empty_logs(path: str) -> None:
    """Remove the empty log that SQLite creates when it opens a copy in WAL mode."""
    with suppress(FileNotFoundError):
        if os.path.getsize(f"{path}-wal") == 0:
            _remove_files(*_logs(path))


def rewritten_files(swept: Sequence[SweepResult]) -> list[str]:
    """Return the names of the files that were rewritten."""
    return [f"{BACKUPS}/{result.backup.name}" for result in swept if result.rewritten]
