"""Opening a home's database: what was begun with it is finished, and its schema brought up to date, with a way back.

Each migration is one transaction, so a start that is killed goes on with the next. But a program that fails between
two of them would leave a schema that neither it nor its predecessor knows; so a copy is made before the first, and
takes its place again where one fails. Only for the holder of the home's lock.
"""

from __future__ import annotations

import logging
import os

from filrouge.core.clock import Clock
from filrouge.core.errors import FilrougeError
from filrouge.core.paths import DATABASE, inside
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_service import back_up
from filrouge.runtime.sqlite import Database, migrations

_LOG = logging.getLogger(__name__)


def bring_up_to_date(home: str, clock: Clock) -> None:
    """Finish a restore that was interrupted, back up a database of an older schema, and migrate it.

    Raises:
        WrongEngine: a newer Filrouge wrote it.
        CannotWrite: there is no room for the backup; nothing was changed.
        StoreError: a migration failed; the database is what it was.
    """
    if backup_files.finish(home):
        _LOG.info("a restore that was interrupted is finished")
    backup_files.clear(home)
    path = inside(home, DATABASE)
    before = copies.schema_of(path) if os.path.exists(path) and os.path.getsize(path) else 0
    kept = (
        back_up(home, "before-migration", clock.now(), left=0) if 0 < before < migrations("sqlite")[-1].number else None
    )
    try:
        database = Database(path)
        try:
            applied = database.migrate(clock)
        finally:
            database.close()
    except FilrougeError:
        if kept is not None and copies.schema_of(path) != before:
            _LOG.exception("the schema could not be brought up to date; the memory is put back")
            _put_back(home, backup_files.path_of(home, kept.name))
        raise
    if applied:
        _LOG.info("schema brought up to date: %s", ", ".join(applied))
    if kept is not None:
        backup_files.rotate(home, keep=1 << 30, weeks=1 << 30)


def _put_back(home: str, path: str) -> None:
    temporary = backup_files.begun(home)
    copies.copy(path, temporary)
    backup_files.replace(home, temporary)
