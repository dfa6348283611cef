"""The deed of forgetting, in one transaction of one database: the rows go, what they were summed up in is queued anew.

The same is done in the database that is in use, in every backup of the home, and in an older database that was put
back: there the work that it leaves waits until somebody opens it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from filrouge.core.protocols import Tx
from filrouge.erasure.repository import Forgetting, Reach
from filrouge.erasure.tombstone_repository import Stones, Tombstone
from filrouge.extraction.schedule import EXTRACT
from filrouge.extraction.sessions import queue_digest
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import StoreContext
from filrouge.threads.links import queue_ties
from filrouge.threads.repository import Threads
from filrouge.threads.synthesis_service import queue_synthesis
from filrouge.threads.upkeep import refit

#: What a thread is called of which neither a turn nor its own title is left.
_NAMELESS = "…"


def carry_out(parts: StoreContext, tx: Tx, reach: Reach, *, at: datetime, actor: str, space_id: str) -> None:
    """Take out everything in a reach, and queue the work that makes again what was derived from it.

    Args:
        space_id: the embedding space in which threads get their vectors.
    """
    reading = [f"{EXTRACT}:{one.host}:{one.id}" for one in reach.worked]
    waited = [name for name in reading if Jobs(tx).known_as(name)]
    Jobs(tx).drop(waited)  # a model may be reading just now what goes: what it answers is not written
    Forgetting(tx, parts.analyser).carry_out(reach, at=at, actor=actor)
    for session in reach.sessions:
        queue_digest(parts, tx, session)
    for session in reach.worked:
        queue_synthesis(parts, tx, session, "quiet")
        name = f"{EXTRACT}:{session.host}:{session.id}"
        if name in waited:
            Jobs(tx).enqueue(EXTRACT, {"host": session.host, "session": session.id}, dedupe=name, at=at)
    changed = Threads(tx).some(reach.changed)
    own = set(reach.renamed)
    nameless = [
        replace(one, title=_NAMELESS, title_by="rules", summary="", topics=()) for one in changed if one.id in own
    ]
    for thread in nameless:
        Threads(tx).update(thread)
    refit(parts, tx, [*nameless, *(one for one in changed if one.id not in own)], space_id)
    for thread in changed:
        if thread.merged_into is None:
            queue_ties(parts, tx, thread.id)


def tombstones_of(reach: Reach, stones: Stones, at: datetime) -> list[Tombstone]:
    """What must not come back: the rows, the keys that hosts know them by, and every text that went."""
    rows = [*reach.doomed.memories, *reach.doomed.turns, *reach.doomed.events, *reach.syntheses, *reach.reasons]
    rows += [*reach.recalls, *reach.unread, *reach.informed]
    found = [Tombstone(hash=stones.row(id_), kind="row", at=at) for id_ in rows]
    found += [Tombstone(hash=stones.key(*key), kind="key", at=at) for key in reach.keys]
    texts = dict.fromkeys((*reach.texts, *reach.sayings, *reach.passages, *reach.notes))
    # A file may be cut otherwise in an older database, so there all of a note goes of which a part went.
    cut = dict.fromkeys(path for path, _, _ in (id_.rpartition("#") for id_ in reach.chunks))
    found += [Tombstone(hash=stones.row(path), kind="row", at=at) for path in cut]
    return found + [Tombstone(hash=stones.text(text), kind="text", at=at) for text in texts if text.strip()]


def rebuilt(reach: Reach) -> tuple[str, ...]:
    """What is made anew without it, in words."""
    said = [
        _many(len(reach.changed), "thread is named anew and its vectors, bridges and summary are made again"),
        _many(len(reach.sessions), "session is summed up anew, with its concepts"),
        _many(len(reach.worked), "session is asked again where its work stood"),
        _many(len(reach.recounted), "concept is counted again"),
        "the briefs of all projects are written again",
    ]
    if reach.doomed.memories or reach.doomed.turns:
        said.append("the word index of a large table is made again")
    return tuple(line for line in said if line)


def _many(n: int, what: str) -> str:
    return f"{n} × {what}" if n else ""
