"""Repairing: what is still there of a damaged memory becomes a sound one, and what is lost is listed.

The damaged files are never written: their rows are read out of the pages of a copy (`store.pages`), put into a new
database whose indexes and full text are made anew, and only when that is sound does it take their place, while they
are kept among the backups. It runs in a process of its own, so that a crash in native code is told and not suffered.

    python -m filrouge.app.repairing HOME MOMENT [--ask] [--undo] [--dry-run] [--vectors] [--all]

With `--ask` it prints a line with the plan when the new database is made, and goes on only if it is told `GO`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.app import unrepairing
from filrouge.app.restoring import keep_files
from filrouge.app.unrepairing import REPAIRED
from filrouge.app.wiring import analyser
from filrouge.clock import Clock, from_text, to_text
from filrouge.errors import Corrupt, FilrougeError, NotFound
from filrouge.home import DATABASE, inside
from filrouge.store import copying
from filrouge.store.comparing import differing
from filrouge.store.mending import drop_vectors, relink, wrong_vectors
from filrouge.store.pages import Unreadable
from filrouge.store.salvage import Salvage, fill_words, schema_in
from filrouge.store.soundness import broken_by_table, faults
from filrouge.store.sql import migrations
from filrouge.store.sqlite import Database
from filrouge.transfer import backup, files, replacing
from filrouge.transfer.replacing import GO

_REMEDY: Final = "`filrouge restore latest` puts the newest backup in its place."
#: The new database and the copy that is read, beside the damaged files that are kept.
_ROOM: Final = 3

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
    for look in (lambda: copying.complaints(path), lambda: copying.schema_faults(path), rows):
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
    path, last = inside(home, DATABASE), backup.newest(home)
    if last is None or last.schema != copying.schema_of(path):
        return {}
    return differing(path, backup.path_of(home, last.name))


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
    replacing.finish(home)
    path, found = inside(home, DATABASE), diagnose(home)
    if not found and not vectors and not all_anew:
        return {"found": [], "tables": {}, "vectors": 0, "redacted": 0, "kept": None}
    files.check_space(home, _ROOM * files.bytes_of(path))
    clock, vectors = At(moment=at), vectors or _vectors_differ(home)
    with _temporary(home, clear=True) as copy, _temporary(home) as new:
        content = _content_of(path, copy)
        salvage, again, redacted = _made_anew(content, new, clock, vectors=vectors)
        if left := copying.complaints(new):
            raise Corrupt(f"What was saved is not sound: {left[0]}.", remedy=_REMEDY)
        tables = {name: one.to_json() for name, one in salvage.saved.items()}
        plan = {"found": found, "tables": tables, "vectors": again, "redacted": redacted, "kept": None}
        if dry_run or not agreed(plan):
            return plan
        kept = keep_files(home, clock, mark=REPAIRED)
        replacing.replace(home, new)
    return plan | {"kept": kept}


def _vectors_differ(home: str) -> bool:
    """True where some vector is not what it was: which of them are right is not known, so all are made again."""
    try:
        return "vectors" in _differing(home)
    except FilrougeError:
        return False


def _content_of(path: str, copy: str) -> bytes:
    """The bytes of a copy of the database, with what stands in its log where that can still be merged."""
    files.private_copy(path, copy)
    if os.path.exists(f"{path}-wal"):
        files.private_copy(f"{path}-wal", f"{copy}-wal")
        with suppress(FilrougeError):
            copying.merge_log(copy)
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
    copying.merge_log(path)
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
    path = replacing.begun(home) if clear else files.unfinished(home)
    try:
        yield path
    finally:
        files.remove_database(path)


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
            said = unrepairing.undo(home, At(moment=from_text(at)), dry_run=dry_run, agreed=agreed)
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
