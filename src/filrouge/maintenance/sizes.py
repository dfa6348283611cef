"""Disk usage of a home, by part."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

from filrouge.core.paths import BRIEFS, DATABASE, DISK_RESERVE, LOG, SPOOL, WORD_INDEXES

_PARTS: Final = {
    DATABASE: "database",
    WORD_INDEXES: "words",
    SPOOL: "spool",
    BRIEFS: "briefs",
    "backups": "backups",
    LOG: "log",
    DISK_RESERVE: "ballast",
}


def sizes(home: str) -> dict[str, int]:
    """Return bytes by part: database with its log, word index, spool, briefs, backups, log, reserve, and other."""
    found = Counter[str]()
    for directory, _, names in os.walk(home):
        for name in names:
            path = os.path.join(directory, name)
            try:
                found[_part(os.path.relpath(path, home))] += os.lstat(path).st_size
            except OSError:  # deleted meanwhile
                continue
    return dict(found)


def _part(path: str) -> str:
    head = path.split(os.sep, 1)[0]
    return next((part for name, part in _PARTS.items() if head == name or head.startswith(name)), "other")
