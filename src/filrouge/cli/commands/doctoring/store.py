"""Checks of the database: that it opens, is sound, of this version, nobody's prisoner, and accounts for every event."""

from __future__ import annotations

import os
from typing import Final

from filrouge import installation
from filrouge.cli.commands.doctoring.finding import MEND, START, Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import NotKnown, Scene
from filrouge.errors import StoreError
from filrouge.store.events import Events
from filrouge.store.looking import complaints, journal_mode, may_be_written, schema_number
from filrouge.store.sql import migrations

#: Up to this size, SQLite's whole check takes no second.
_WHOLE_CHECK_BYTES: Final = 32_000_000
#: And beyond this one even the quick check takes longer than anybody waits.
_ANY_CHECK_BYTES: Final = 500_000_000
_LARGEST_LOG_BYTES: Final = 256_000_000
#: Whoever writes holds the database for milliseconds; our longest batch for less than this.
_LOCK_MILLISECONDS: Final = 1500


def _database(scene: Scene) -> Verdict:
    if not os.path.exists(scene.database):
        return note("there is none yet", START)
    size = os.path.getsize(scene.database)
    if size > _ANY_CHECK_BYTES and not scene.deep:
        schema_number(scene.database)  # it opens, and its first pages can be read
        return note(f"it opens; {size >> 20} MB are too much to check in passing", "Run `filrouge doctor --deep`.")
    if found := complaints(scene.database, quick=not scene.deep and size > _WHOLE_CHECK_BYTES):
        return fail(found[0], MEND)
    return ok(f"sound, {size >> 10} KB")


def _schema(scene: Scene) -> Verdict:
    found, known = _number(scene), migrations("sqlite")[-1].number
    if found > known:
        return fail(
            f"the database was written by a newer Filrouge: schema {found}, known here {known}",
            f"Run `{installation.upgrade()}`.",
        )
    if found < known:
        return note(f"schema {found}; this version has {known}", "Run `filrouge daemon start`, which brings it up.")
    return ok(f"schema {found}")


def _journal_mode(scene: Scene) -> Verdict:
    _there(scene)
    try:
        mode = journal_mode(scene.database)
    except StoreError as error:
        raise NotKnown("unknown while the database cannot be read") from error
    if mode != "wal":
        return note(f"it is `{mode}`, not `wal`: the database was put there by hand, or restored", START)
    return ok("wal")


def _write_lock(scene: Scene) -> Verdict:
    _number(scene)
    if not may_be_written(scene.database, milliseconds=_LOCK_MILLISECONDS):
        return warn(
            f"another program holds the database and lets nobody write for {_LOCK_MILLISECONDS / 1000:g} seconds",
            f"See who: `fuser {scene.database}`; close that program, or stop a daemon that hangs.",
        )
    return ok("whoever wants to write may")


def _log_of_changes(scene: Scene) -> Verdict:
    path = f"{scene.database}-wal"
    size = os.path.getsize(path) if os.path.exists(path) else 0
    if size > _LARGEST_LOG_BYTES:
        return warn(
            f"it has {size >> 20} MB: a reader keeps it from being emptied",
            "Close programs that have the database open, then run `filrouge daemon stop`.",
        )
    return ok(f"{size >> 10} KB")


def _ledger(scene: Scene) -> Verdict:
    if not os.path.exists(scene.database):
        return ok("nothing was taken in yet")
    with scene.reading() as tx:
        ledger, received, abandoned = Events(tx).ledger(), Events(tx).received(), Events(tx).abandoned()
    sums = " + ".join(f"{number} {state}" for state, number in ledger.items())
    if received != sum(ledger.values()):
        return fail(f"{received} events received, but {sums}", MEND)
    if abandoned:
        cause = f"{abandoned} events wait to be understood, and no job will do it"
        return fail(cause, "What was said is kept; say so in a report, with filrouge.log.")
    return ok(f"{received} events received = {sums}")


def _word_index(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        counts = {row["analyser"]: int(row["n"]) for row in tx.all("turns.analysers")}
    newest, every = max(counts, default=0), sum(counts.values())
    stale = every - counts.get(newest, 0) if newest else every
    if stale:
        return note(
            f"{stale} of {every} turns are indexed as an earlier version did, and found by whole words only",
            "Run `filrouge daemon start`, which indexes them again beside its work.",
        )
    return ok(f"the words of {every} turns are indexed")


def _number(scene: Scene) -> int:
    """The schema's number.

    Raises:
        NotKnown: there is none, or it cannot be read.
    """
    _there(scene)
    try:
        return schema_number(scene.database)
    except StoreError as error:
        raise NotKnown("unknown while the database cannot be read") from error


def _there(scene: Scene) -> None:
    if not os.path.exists(scene.database):
        raise NotKnown("there is no memory yet")


CHECKS: Final = (
    Check(name="Database", look=_database),
    Check(name="Schema version", look=_schema),
    Check(name="Journal mode", look=_journal_mode),
    Check(name="Write lock", look=_write_lock),
    Check(name="Write-ahead log", look=_log_of_changes),
    Check(name="Ledger", look=_ledger),
    Check(name="Word index", look=_word_index),
)
