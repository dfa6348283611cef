"""A young thread may turn out to continue an older one: its first prompt said little, all of them say more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Routing
from filrouge.threads.weighing import Item, Known, weighed

#: A thread is young with this many prompts and fewer; it is looked at after each of them but the first.
YOUNG: Final = 4
JOINED: Final = 0.55


def join(young: Known, older: Sequence[Known], space: EmbeddingSpace) -> Routing | None:
    """The older thread that this one continues, as a routing with the action `join`; None where there is none.

    Args:
        young: a thread of 2 to `YOUNG` prompts, with its vector.
        older: every other live thread of its project, opened before it.
    """
    thread = young.thread
    item = Item(text=thread.title, topics=thread.topics, vector=young.vector, at=thread.last_active)
    found = weighed(item, [one for one in older if one.thread.id != thread.id], space)
    if not found or found[0].similarity < JOINED:
        return None
    best = found[0]
    reason = f"With {thread.turns} prompts it has {best.similarity:.2f} with an older thread."
    return Routing(
        action="join", thread_id=best.thread_id, similarity=best.similarity, weighed=found[:3], reason=reason
    )
