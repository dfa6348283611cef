"""Replay of tombstones: an older database that is put back loses what was forgotten since.

The table of tombstones goes back in time with its database, the file beside it does not. `filrouge restore` replays
them on the copy before that takes the memory's place. A file that was put back by hand is compared at every start: what
only the file of tombstones knows was forgotten after this database was made. The rows are found by their ids, the keys
of their hosts and their texts, and are forgotten again with all that depends on them here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from filrouge.core.clock import from_text
from filrouge.core.errors import StoreError
from filrouge.core.protocols import Tx
from filrouge.erasure.deletion import carry_out
from filrouge.erasure.old_backups import Sought, sweep
from filrouge.erasure.repository import Forgetting, Reach
from filrouge.erasure.service import leave_indexes
from filrouge.erasure.tombstone_repository import HomeKey, StoneFile, Stones, Tombstone, Tombstones
from filrouge.runtime.services import Parts, StoreContext
from filrouge.runtime.sqlite import Database
from filrouge.search.vector_repository import Spaces

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
    space_id = parts.meaning.space.id
    buried = {one: known[one] for one in missing}
    reach = parts.writer.run(lambda tx: _taken_out(parts, tx, stones, buried, space_id))
    if reach is None:
        return 0
    leave_indexes(parts, reach.doomed)
    parts.writer.checkpoint()
    # It may have been backed up as it was, before it was replaced in its turn.
    ids = (*reach.doomed.memories, *reach.doomed.turns, *reach.doomed.events)
    sweep(parts, Sought(ids=ids, words=(*reach.notes, *reach.passages)), at=parts.clock.now(), actor=_ACTOR)
    return len(reach.doomed.memories) + len(reach.doomed.turns)


def replay(parts: StoreContext, present: Database | None, restored: Database) -> int:
    """Take out of a database that is about to be restored what this home forgot.

    Args:
        present: the database that it replaces, whose table may know more than the file; None where it cannot be read.
        restored: of the present schema, open for writing by nobody else.

    Returns:
        How many rows were taken out with their words: memories, turns, notes of the vault and parts of these.
    """
    key, known = HomeKey(parts.home).read(), StoneFile(parts.home).read()
    if present is not None:
        with suppress(StoreError):  # of an older schema, or damaged: the file knows them
            known = {one.hash: one for one in Tombstones(present.tx).all()} | known
    if key is None or not known:
        return 0
    with restored.transaction() as tx:
        # What its own table knows was taken out of it before it was copied.
        known = {hash_: known[hash_] for hash_ in known.keys() - {one.hash for one in Tombstones(tx).all()}}
        current = Spaces(tx).current()
        reach = _taken_out(parts, tx, Stones(key), known, current.space.id if current else "")
    restored.checkpoint()
    if reach is None:
        return 0
    return len(reach.doomed.memories) + len(reach.doomed.turns) + len(reach.notes) + len(reach.chunks)


def _taken_out(
    parts: StoreContext, tx: Tx, stones: Stones, known: Mapping[bytes, Tombstone], space_id: str
) -> Reach | None:
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
        # Of a note nothing is read again that was forgotten, so there is no date to compare.
        if stone and (row["at"] is None or _of_before(row["at"], stone.at)):
            found.setdefault(row["place"], []).append(row["id"])
    Tombstones(tx).add(known.values())
    if not found:
        return None
    forgetting = Forgetting(tx, parts.analyser)
    reach = forgetting.reach({table: list(dict.fromkeys(ids)) for table, ids in found.items()})
    carry_out(parts, tx, reach, at=parts.clock.now(), actor=_ACTOR, space_id=space_id)
    return reach


def _of_before(said: str, buried: datetime) -> bool:
    return from_text(said) <= buried
