"""Checks of what waits: events in the spool, jobs in the outbox, and how long they have waited."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

from filrouge.capture import inbox, losses
from filrouge.cli.commands.doctoring.finding import START, Check, Verdict, note, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.clock import from_text
from filrouge.daemon.waking import wake
from filrouge.home import SPOOL
from filrouge.store.jobs import Jobs

#: Whatever is due is begun within seconds; what has waited for so long, nobody begins.
_LONGEST_WAIT: Final = timedelta(hours=1)
#: A hook writes its file within milliseconds.
_UNFINISHED_SECONDS: Final = 300
#: Files that are read to see whether they are whole.
_LOOKED_INTO: Final = 2000


def _spool(scene: Scene) -> Verdict:
    waiting = inbox.waiting(scene.path(SPOOL))
    if waiting and scene.daemon.is_absent():
        return warn(
            f"{len(waiting)} events wait for a daemon", "Run `filrouge daemon start`, or `filrouge doctor --fix`."
        )
    return ok(f"{len(waiting)} events waiting")


def _mend_spool(scene: Scene) -> list[str]:
    waiting = len(inbox.waiting(scene.path(SPOOL)))
    if not waiting or not scene.daemon.is_absent():
        return []
    wake(scene.home)
    return [f"started the daemon, which takes in {waiting} events"]


def _unreadable(scene: Scene) -> Verdict:
    path = scene.path(SPOOL)
    names = os.listdir(path) if os.path.isdir(path) else []
    if aside := [name for name in names if name.endswith(inbox.ASIDE)]:
        return warn(
            f"{len(aside)} files could not be read and were put aside", f"Look at {path}/*.aside, then delete them."
        )
    damaged = [file for file in inbox.waiting(path)[:_LOOKED_INTO] if _is_damaged(file)]
    if damaged:
        return warn(
            f"{len(damaged)} files hold records that are damaged or cut off, such as {os.path.basename(damaged[0])}",
            f"{START} It takes in what is whole, and puts aside what nobody can read.",
        )
    return ok("every one can be read")


def _is_damaged(file: str) -> bool:
    found = inbox.read(file)
    return found.torn or found.bad > 0


def _unfinished(scene: Scene) -> Verdict:
    path = scene.path(SPOOL)
    entries = list(os.scandir(path)) if os.path.isdir(path) else []
    parts = [entry for entry in entries if entry.name.endswith(inbox.PART)]
    old = [entry for entry in parts if scene.now.timestamp() - entry.stat().st_mtime > _UNFINISHED_SECONDS]
    if old:
        return note(f"{len(old)} hooks were ended while they wrote", f"{START} It takes in what is whole.")
    return ok("no hook was ended while it wrote")


def _lost(scene: Scene) -> Verdict:
    lost = losses.read(scene.home)
    if lost.events:
        return warn(
            lost.sentence(),
            "See that the disk has room and the home can be written; `filrouge doctor --fix` starts counting again.",
        )
    return ok("no event was lost")


def _mend_lost(scene: Scene) -> list[str]:
    count = losses.read(scene.home).events
    if not count:
        return []
    losses.clear(scene.home)
    return [f"set the count of {count} lost events back to 0"]


def _queue(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        count = Jobs(tx).count()
        kinds = sorted({row["kind"] for row in tx.all("jobs.kinds") if row["state"] == "dead"})
    if count.dead:
        return warn(
            f"{count.dead} jobs were set aside after eight tries: {', '.join(kinds)}",
            "See why in `filrouge logs`; `GET /api/memory/dead-letters` lists them; POST .../ID/retry tries one again.",
        )
    return ok(f"{count.waiting} waiting")


def _age(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        due = Jobs(tx).next_due()
    waited = scene.now - from_text(due) if due else timedelta()
    if waited <= _LONGEST_WAIT:
        return ok("nothing has waited long")
    cause = f"the first in it has been due for {waited.total_seconds() / 3600:.0f} hours"
    if scene.daemon.is_absent():
        return warn(f"{cause}, and no daemon runs", START)
    return warn(cause, "See `filrouge logs`, then run `filrouge daemon stop` and `filrouge daemon start`.")


def _unread(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        number = (tx.one("unread.count") or {"n": 0})["n"]
    if number:
        return note(f"{number} answers of models could not be read", "See them with `filrouge extract --dead`.")
    return ok("every answer could be read")


CHECKS: Final = (
    Check(name="Spool", look=_spool, mend=_mend_spool),
    Check(name="Spool records", look=_unreadable),
    Check(name="Unfinished records", look=_unfinished),
    Check(name="Lost events", look=_lost, mend=_mend_lost),
    Check(name="Queue", look=_queue),
    Check(name="Queue age", look=_age),
    Check(name="Unread answers", look=_unread),
)
