"""Erase: what is named leaves the tables, the indexes in memory, the small files and the write-ahead log.

The lowest step of forgetting, without preview or receipt. `store.erasing` says what goes along and what is refused.
Afterwards no file of the home holds the words, unless somebody read the database so long that the log could not be
emptied: then it is when the daemon stops, or at the next erasure, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from filrouge.app.ballast import with_room
from filrouge.app.digests import queue_digest
from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.syntheses import queue_synthesis
from filrouge.app.thread_upkeep import refit
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses
from filrouge.store.erasing import Doomed, Erasing
from filrouge.store.syntheses import Syntheses
from filrouge.store.thread_erasing import ThreadErasing
from filrouge.store.threads import Threads


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """What went.

    Attributes:
        redacted: entries of the journal that lost their payload.
        out_of_files: False while the write-ahead log could not be emptied, because somebody was reading.
    """

    what: Doomed
    redacted: int
    out_of_files: bool


def erase(parts: Parts, ids: Collection[str], *, actor: str = "user") -> Erased:
    """Erase the memories and turns of these ids for good; there is no way back.

    Raises:
        BadInput: a memory that is not among them rests on what would go, and on nothing else.
        Busy: a transcript that may hold one of the turns is about to be read, and would bring it back.
        NotFound: there is no memory and no turn of one of these ids.
    """

    def write(tx: Tx) -> tuple[Doomed, int]:
        erasing = Erasing(tx, parts.analyser)
        doomed = erasing.reach(ids)
        sessions = Analyses(tx, parts.analyser).about((), doomed.turns)
        threads = ThreadErasing(tx).of(doomed.turns)
        worked = Syntheses(tx).sessions(doomed.turns)
        redacted = erasing.carry_out(doomed, at=parts.clock.now(), actor=actor)
        for session in sessions:  # what is left of them is summed up anew
            queue_digest(parts, tx, session)
        for session in worked:
            queue_synthesis(parts, tx, session, "quiet")
        refit(parts, tx, Threads(tx).some(threads), parts.meaning.space.id)
        return doomed, redacted

    doomed, redacted = with_room(parts.home, lambda: parts.writer.run(write))
    leave_indexes(parts, doomed)
    write_briefs(parts, None, everywhere=True)
    return Erased(what=doomed, redacted=redacted, out_of_files=parts.writer.checkpoint())


def leave_indexes(parts: Parts, doomed: Doomed) -> None:
    """Take what is gone out of everything that is derived from rows and not one of their tables."""
    meaning = parts.meaning
    for id_ in doomed.memories:
        meaning.memory_index.remove(id_)
    for id_ in doomed.turns:
        meaning.turn_index.remove(id_)
    parts.words.forget("memory", doomed.memories)
    parts.words.forget("turn", doomed.turns)
    parts.embedders.forget_texts()
    parts.grounds.forget()
    parts.noted.forget()
