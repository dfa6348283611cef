"""Tombs: an older database that is put back loses what was forgotten since, before anybody is served from it.

The table of tombstones goes back in time with its database, the file beside it does not. At every start the two are
held against each other: what only the file knows was forgotten after this database was made, so its rows are looked
for, by their ids, the keys of their hosts and their texts, and forgotten again with all that hangs on them here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from filrouge.app.erase import leave_indexes
from filrouge.app.forgetting_deed import carry_out
from filrouge.app.old_copies import Sought, sweep
from filrouge.app.parts import Parts
from filrouge.clock import from_text
from filrouge.ports import Tx
from filrouge.store.forgetting import Forgetting, Reach
from filrouge.store.sqlite import Database
from filrouge.store.tombstones import StoneFile, Stones, Tombstone, Tombstones

_LOG = logging.getLogger(__name__)
_ACTOR = "tombstones"


def bring_up(parts: Parts) -> int:
    """Hold the home's database against its tombstones; how many memories and turns were taken out again."""
    file = StoneFile(parts.home)
    known, table = file.read(), parts.readers.here(lambda tx: Tombstones(tx).all())
    file.append([one for one in table if one.hash not in known])
    missing = known.keys() - {one.hash for one in table}
    if not missing:
        return 0
    stones = parts.gate.stones
    if stones is None:
        _LOG.warning("forget.key is gone: what was forgotten cannot be recognised in this database")
        return 0
    reach = parts.writer.run(lambda tx: _taken_out(parts, tx, stones, {one: known[one] for one in missing}))
    if reach is None:
        return 0
    leave_indexes(parts, reach.doomed)
    parts.writer.checkpoint()
    # It may have been backed up as it was, before it was replaced in its turn.
    ids = (*reach.doomed.memories, *reach.doomed.turns, *reach.doomed.events)
    sweep(parts, Sought(ids=ids, words=()), at=parts.clock.now(), actor=_ACTOR)
    return len(reach.doomed.memories) + len(reach.doomed.turns)


def apply(parts: Parts, path: str) -> int:
    """Take out of a database that is about to be put back what this home forgot; how many memories and turns went.

    Raises:
        StoreError: it cannot be opened, is damaged, or is newer than this program.
    """
    stones, known = parts.gate.stones, StoneFile(parts.home).read()
    if stones is None or not known:
        return 0
    database = Database(path)
    try:
        database.migrate(parts.clock)
        with database.transaction() as tx:
            reach = _taken_out(parts, tx, stones, known)
        database.checkpoint()
        database.lay_flat()
    finally:
        database.close()
    return len(reach.doomed.memories) + len(reach.doomed.turns) if reach else 0


def _taken_out(parts: Parts, tx: Tx, stones: Stones, known: Mapping[bytes, Tombstone]) -> Reach | None:
    """Forget again what these stand for, and set them; None where nothing of it is there."""
    found: dict[str, list[str]] = {}
    for row in tx.all("tombstones.ids"):
        if stones.row(row["id"]) in known:
            found.setdefault(row["place"], []).append(row["id"])
    for row in tx.all("tombstones.keys"):
        stone = known.get(stones.key(row["host"], row["session_id"], row["key"]))
        if stone and _of_before(row["at"], stone.at):
            found.setdefault(row["place"], []).append(row["id"])
    for row in tx.all("tombstones.texts"):
        stone = known.get(stones.text(row["text"])) if row["text"] else None
        if stone and _of_before(row["at"], stone.at):
            found.setdefault(row["place"], []).append(row["id"])
    Tombstones(tx).add(known.values())
    if not found:
        return None
    forgetting = Forgetting(tx, parts.analyser)
    reach = forgetting.reach({table: list(dict.fromkeys(ids)) for table, ids in found.items()})
    carry_out(parts, tx, reach, at=parts.clock.now(), actor=_ACTOR)
    return reach


def _of_before(said: str, buried: datetime) -> bool:
    return from_text(said) <= buried
