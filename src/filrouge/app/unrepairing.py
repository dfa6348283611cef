"""Taking a repair back: the damaged files that it kept are the memory again, and the repaired memory is kept.

A repair that lost too much can so be followed by something better: another program for damaged files, an older disk.
Only the newest repair can be taken back, and once. For the holder of the home's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from filrouge.app.restoring import keep_present
from filrouge.clock import Clock
from filrouge.errors import FilrougeError, NotFound
from filrouge.home import DATABASE, inside
from filrouge.store import copying
from filrouge.transfer import backup, files, replacing
from filrouge.transfer.backup import Manifest

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
    replacing.finish(home)
    about = newest(home)
    path = backup.path_of(home, about.name)
    files.check_space(home, _ROOM * (files.bytes_of(path) + files.bytes_of(inside(home, DATABASE))))
    with _copied(home, path) as (new, log):
        plan = {"undone": about.name, "at": about.at, "bytes": files.bytes_of(path), "log": log, "kept": None}
        if dry_run or not agreed(plan):
            return plan
        kept = keep_present(home, clock)
        replacing.replace(home, new)
    # A second time would throw away what was learnt since.
    backup.describe(path, replace(about, mark=""))
    return plan | {"kept": kept}


def newest(home: str) -> Manifest:
    """What the newest repair kept.

    Raises:
        NotFound: none did, it was put back already, or a restore has kept damaged files since.
    """
    last = next((one for one in backup.listed(home) if one.kind == "damaged"), None)
    if last is None or last.mark != REPAIRED:
        raise NotFound("There is no repair to take back.", remedy="See what is kept in `filrouge backup --list`.")
    return last


@contextmanager
def _copied(home: str, path: str) -> Generator[tuple[str, bool]]:
    """A copy of the damaged files that is one file, and whether what stood in their log is in it."""
    new = replacing.begun(home)
    try:
        files.private_copy(path, new)
        log = True
        if os.path.exists(f"{path}-wal"):
            files.private_copy(f"{path}-wal", f"{new}-wal")
            try:
                copying.merge_log(new)
            except FilrougeError:  # the log is no better than the file; it stays beside what was kept
                log = False
                files.remove_database(new)
                files.private_copy(path, new)
        yield new, log
    finally:
        files.remove_database(new)
