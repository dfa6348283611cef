"""Repairing a damaged memory, and taking a repair back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from filrouge.core.clock import Clock, from_text, to_text
from filrouge.core.errors import Corrupt, FilrougeError, NotFound
from filrouge.core.paths import DATABASE, inside
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_files import GO, Manifest
from filrouge.maintenance.copies import differing
from filrouge.maintenance.restore import keep_files, keep_present
from filrouge.maintenance.salvage import Salvage, Unreadable, drop_vectors, fill_words, relink, schema_in, wrong_vectors
from filrouge.runtime.soundness import broken_by_table, faults
from filrouge.runtime.sqlite import Database, migrations
from filrouge.runtime.wiring import analyser

# Taking a repair back: the damaged files that it kept are the memory again, and the repaired memory is kept.
#
# A repair that lost too much can so be followed by something better: another program for damaged files, an older
# disk. Only the newest repair can be taken back, and once. For the holder of the home's lock.

#: In the manifest of what a repair kept, until that repair is taken back.
REPAIRED: Final = "repaired"
#: The copy that is put back, and the memory that is kept.
_ROOM: Final = 2


def undo(home: str, clock: Clock, *, dry_run: bool, agreed: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Put the files back that the newest repair kept.

    Args:
        dry_run: only say which.
        agreed: shown what would be done, before anything is.

    Returns:
        `undone`, what is put back; `at`, when it was repaired; `bytes`; `log`, false where what stood in its log can
        no longer be read; `kept`, the backup of the memory that was there.

    Raises:
        NotFound: there is no repair to take back.
        CannotWrite: there is no room; nothing was changed.
    """
    backup_files.finish(home)
    about = newest(home)
    path = backup_files.path_of(home, about.name)
    backup_files.check_space(
        home, _ROOM * (backup_files.bytes_of(path) + backup_files.bytes_of(inside(home, DATABASE)))
    )
    with _copied(home, path) as (new, log):
        plan = {"undone": about.name, "at": about.at, "bytes": backup_files.bytes_of(path), "log": log, "kept": None}
        if dry_run or not agreed(plan):
            return plan
        kept = keep_present(home, clock)
        backup_files.replace(home, new)
    # A second time would throw away what was learnt since.
    backup_files.describe(path, replace(about, mark=""))
    return plan | {"kept": kept}


def newest(home: str) -> Manifest:
    """What the newest repair kept.

    Raises:
        NotFound: none did, it was put back already, or a restore has kept damaged files since.
    """
    last = next((one for one in backup_files.listed(home) if one.kind == "damaged"), None)
    if last is None or last.mark != REPAIRED:
        raise NotFound("There is no repair to take back.", remedy="See what is kept in `filrouge backup --list`.")
    return last


@contextmanager
def _copied(home: str, path: str) -> Generator[tuple[str, bool]]:
    """A copy of the damaged files that is one file, and whether what stood in their log is in it."""
    new = backup_files.begun(home)
    try:
        backup_files.private_copy(path, new)
        log = True
        if os.path.exists(f"{path}-wal"):
            backup_files.private_copy(f"{path}-wal", f"{new}-wal")
            try:
                copies.merge_log(new)
            except FilrougeError:  # the log is no better than the file; it stays beside what was kept
                log = False
                backup_files.remove_database(new)
                backup_files.private_copy(path, new)
        yield new, log
    finally:
        backup_files.remove_database(new)


# Repairing: what is still there of a damaged memory becomes a sound one, and what is lost is listed.
#
# The damaged files are never written: their rows are read out of the pages of a copy (`maintenance.salvage`), put into
# a new database whose indexes and full text are made anew, and only when that is sound does it take their place, while
# they are kept among the backups. It runs in a process of its own, so that a crash in native code is told and not
# suffered.
#
#     python -m filrouge.maintenance.repair HOME MOMENT [--ask] [--undo] [--dry-run] [--vectors] [--all]
#
# With `--ask` it prints a line with the plan when the new database is made, and goes on only if it is told `GO`.

_REMEDY: Final = "`filrouge restore latest` puts the newest backup in its place."
#: The new database and the copy that is read, beside the damaged files that are kept.
_REPAIRING_ROOM: Final = 3

Agreed = Callable[[dict[str, Any]], bool]
"""Is shown what would be done, in the form of what is returned, and says whether it may."""


def always(plan: dict[str, Any]) -> bool:
    """Leave was given before."""
    del plan
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """A clock for one moment."""

    moment: datetime

    def now(self) -> datetime:
        """That moment."""
        return self.moment


def diagnose(home: str) -> list[str]:
    """What is wrong with the home's database; empty where it is sound.

    Raises:
        NotFound: there is none.
    """
    path = inside(home, DATABASE)
    if not os.path.exists(path):
        raise NotFound("There is no memory to repair.", remedy="It begins with the first hook or `remember`.")

    def rows() -> list[str]:
        database = Database(path, readonly=True)
        try:
            wrong = wrong_vectors(database.tx)
            return faults(database.tx) + ([f"{len(wrong)} vectors are none"] if wrong else [])
        finally:
            database.close()

    found = list[str]()
    for look in (lambda: copies.complaints(path), lambda: copies.schema_faults(path), rows):
        try:
            found += look()
        except FilrougeError as error:
            found.append(error.message)
        except Exception as error:  # a damaged row, or a damaged name of a column, can be anything
            found.append(f"a row cannot be read: {type(error).__name__}: {error}")
    try:
        differ = _differing(home)
        found += [f"{rows} rows of {table} are not what the newest backup says" for table, rows in differ.items()]
    except FilrougeError:
        pass  # that it cannot be read is told already
    return found


def _differing(home: str) -> dict[str, int]:
    """Rows that never change and are not what they were, by table; empty where no backup can tell."""
    path, last = inside(home, DATABASE), backup_files.newest(home)
    if last is None or last.schema != copies.schema_of(path):
        return {}
    return differing(path, backup_files.path_of(home, last.name))


def repair(
    home: str,
    at: datetime,
    *,
    dry_run: bool = False,
    vectors: bool = False,
    all_anew: bool = False,
    agreed: Agreed = always,
) -> dict[str, Any]:
    """Make a sound database of what is left of the home's. For the holder of the home's lock.

    Args:
        dry_run: do all of it on copies, and replace nothing.
        vectors: have every vector made again, also those that look right.
        all_anew: do it also where nothing is found to be wrong.
        agreed: shown what is found, saved and lost, once that is known and before anything is replaced.

    Returns:
        `found`, what was wrong; `tables`, for each what was saved and lost; `vectors`, how many are made again;
        `redacted`, entries of the journal that lost their payload; `kept`, the backup that holds the damaged files.

    Raises:
        Corrupt: not even its first page can be read; nothing was changed.
    """
    backup_files.finish(home)
    path, found = inside(home, DATABASE), diagnose(home)
    if not found and not vectors and not all_anew:
        return {"found": [], "tables": {}, "vectors": 0, "redacted": 0, "kept": None}
    backup_files.check_space(home, _REPAIRING_ROOM * backup_files.bytes_of(path))
    clock, vectors = At(moment=at), vectors or _vectors_differ(home)
    with _temporary(home, clear=True) as copy, _temporary(home) as new:
        content = _content_of(path, copy)
        salvage, again, redacted = _made_anew(content, new, clock, vectors=vectors)
        if left := copies.complaints(new):
            raise Corrupt(f"What was saved is not sound: {left[0]}.", remedy=_REMEDY)
        tables = {name: one.to_json() for name, one in salvage.saved.items()}
        plan = {"found": found, "tables": tables, "vectors": again, "redacted": redacted, "kept": None}
        if dry_run or not agreed(plan):
            return plan
        kept = keep_files(home, clock, mark=REPAIRED)
        backup_files.replace(home, new)
    return plan | {"kept": kept}


def _vectors_differ(home: str) -> bool:
    """True where some vector is not what it was: which of them are right is not known, so all are made again."""
    try:
        return "vectors" in _differing(home)
    except FilrougeError:
        return False


def _content_of(path: str, copy: str) -> bytes:
    """The bytes of a copy of the database, with what stands in its log where that can still be merged."""
    backup_files.private_copy(path, copy)
    if os.path.exists(f"{path}-wal"):
        backup_files.private_copy(f"{path}-wal", f"{copy}-wal")
        with suppress(FilrougeError):
            copies.merge_log(copy)
    with open(copy, "rb") as file:
        return file.read()


def _made_anew(content: bytes, path: str, clock: Clock, *, vectors: bool) -> tuple[Salvage, int, int]:
    """Fill a new database with what is left; how many vectors and payloads went."""
    database = Database(path)
    try:
        try:
            known = range(1, migrations("sqlite")[-1].number + 1)
            schema = schema_in(content)
            database.migrate(clock, upto=schema if schema in known else None)
            salvage = Salvage(content=content, target=database.bare, at=to_text(clock.now()))
            salvage.run()
        except Unreadable as error:
            raise Corrupt(f"The memory database cannot be read any more: {error}.", remedy=_REMEDY) from error
        database.migrate(clock)
        for table, broken in broken_by_table(database.tx).items():
            salvage.drop(table, broken)
        entries = salvage.saved["journal"]
        again = _without_vectors(database, everything=vectors)
        with database.transaction() as tx:
            redacted = relink(tx, at=clock.now(), lost=entries.unreadable + entries.refused)
        fill_words(database, analyser())
    finally:
        database.close()
    copies.merge_log(path)
    return salvage, again, redacted


def _without_vectors(database: Database, *, everything: bool) -> int:
    """Take out the vectors that are to be made again: the next daemon makes what is missing."""
    with database.transaction() as tx:
        if everything:
            return tx.run("vectors.clear")
        wrong = wrong_vectors(tx)
        drop_vectors(tx, wrong)
        return len(wrong)


@contextmanager
def _temporary(home: str, *, clear: bool = False) -> Generator[str]:
    path = backup_files.begun(home) if clear else backup_files.unfinished(home)
    try:
        yield path
    finally:
        backup_files.remove_database(path)


def _asked(plan: dict[str, Any]) -> bool:
    """Show the plan to the process that started this one; it may be gone, which is no leave."""
    sys.stdout.write(json.dumps({"plan": plan}) + "\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip() == GO


def main(words: list[str]) -> int:
    """Repair one home, or take its repair back, and print what came of it, or what went wrong."""
    home, at, *ways = words
    os.umask(0o077)
    agreed, dry_run = _asked if "--ask" in ways else always, "--dry-run" in ways
    said: dict[str, Any]
    try:
        if "--undo" in ways:
            said = undo(home, At(moment=from_text(at)), dry_run=dry_run, agreed=agreed)
        else:
            said = repair(
                home,
                from_text(at),
                dry_run=dry_run,
                vectors="--vectors" in ways,
                all_anew="--all" in ways,
                agreed=agreed,
            )
    except FilrougeError as error:
        said = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    sys.stdout.write(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
