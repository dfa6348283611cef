"""Checks of the backups: that there is one, that it is young, and that each is still what was verified."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Final

from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.clock import from_text
from filrouge.store.soundness import progress
from filrouge.transfer import backup

#: A backup is made a day after the one before it, and somebody may not work for a day.
_OLD_DAYS: Final = 3


def _backups(scene: Scene) -> Verdict:
    failed, last = backup.failure(scene.home), backup.newest(scene.home)
    age = _days(scene.now, last.at) if last else 0.0
    found = f"the newest proven one is {age:.1f} days old" if last else "there is none yet"
    if failed:
        return fail(f"{found}; the last one failed: {failed['error']}", "Run `filrouge backup`.")
    if not os.path.exists(scene.database):
        return ok(found)
    with scene.reading() as tx:
        changed, begun = last is None or progress(tx) != last.mark, tx.one("journal.begun")
    waited = age if last else _days(scene.now, begun["at"]) if begun and begun["at"] else 0.0
    if changed and waited > _OLD_DAYS:
        return warn(found, "Run `filrouge backup`, and see `filrouge settings backup_hours`.")
    return ok(found)


def _whole(scene: Scene) -> Verdict:
    folder = backup.folder(scene.home)
    stems = [name.removesuffix(".db") for name in (os.listdir(folder) if os.path.isdir(folder) else [])]
    names = sorted(stem for stem in stems if backup.is_name(stem) and os.path.exists(backup.path_of(scene.home, stem)))
    wrong = [name for name in names if backup.manifest(scene.home, name) is None]
    if wrong:
        return warn(
            f"{len(wrong)} are not what was verified, such as {wrong[0]}",
            f"Make another with `filrouge backup`, then delete {folder}/{wrong[0]}.db.",
        )
    return ok(f"{len(names)}, each with what was verified of it")


def _schedule(scene: Scene) -> Verdict:
    hours = scene.settings().backup_hours
    if not hours:
        return note("no backup is made by itself", "Run `filrouge settings backup_hours 24`.")
    return ok(f"every {hours:g} hours in which something changed")


def _days(now: datetime, at: str) -> float:
    return (now - from_text(at)).total_seconds() / 86_400


CHECKS: Final = (
    Check(name="Backups", look=_backups),
    Check(name="Backups verified", look=_whole),
    Check(name="Backup schedule", look=_schedule),
)
