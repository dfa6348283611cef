"""Opening a home's database: what was begun with it is finished, and its schema brought up to date, with a way back.

Each migration is one transaction, so a start that is killed goes on with the next. But a program that fails between
two of them would leave a schema that neither it nor its predecessor knows; so a copy is made before the first, and
takes its place again where one fails. Only for the holder of the home's lock.
"""

from __future__ import annotations

import logging
import os

from filrouge.app.backing_up import back_up
from filrouge.clock import Clock
from filrouge.errors import FilrougeError
from filrouge.home import DATABASE, inside
from filrouge.store import copying
from filrouge.store.sql import migrations
from filrouge.store.sqlite import Database
from filrouge.transfer import backup, replacing

_LOG = logging.getLogger(__name__)


def bring_up_to_date(home: str, clock: Clock) -> None:
    """Finish a restore that was interrupted, back up a database of an older schema, and migrate it.

    Raises:
        WrongEngine: a newer Filrouge wrote it.
        CannotWrite: there is no room for the backup; nothing was changed.
        StoreError: a migration failed; the database is what it was.
    """
    if replacing.finish(home):
        _LOG.info("a restore that was interrupted is finished")
    replacing.clear(home)
    path = inside(home, DATABASE)
    before = copying.schema_of(path) if os.path.exists(path) and os.path.getsize(path) else 0
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
        if kept is not None and copying.schema_of(path) != before:
            _LOG.exception("the schema could not be brought up to date; the memory is put back")
            _put_back(home, backup.path_of(home, kept.name))
        raise
    if applied:
        _LOG.info("schema brought up to date: %s", ", ".join(applied))
    if kept is not None:
        backup.rotate(home, keep=1 << 30, weeks=1 << 30)


def _put_back(home: str, path: str) -> None:
    temporary = replacing.begun(home)
    copying.copy(path, temporary)
    replacing.replace(home, temporary)
