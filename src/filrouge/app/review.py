"""Review: what contradicts a pinned or undecided memory, or lacks its proof, waits here until the user settles it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from filrouge.app.by_hand import changing, the_users
from filrouge.app.memory_report import memory_json, quotes
from filrouge.app.parts import Parts
from filrouge.app.report import names_of
from filrouge.clock import to_text
from filrouge.model.review import Review
from filrouge.ports import Tx
from filrouge.store.reviews import Reviews


def waiting(parts: Parts, tx: Tx, *, settled: bool = False, limit: int = 200) -> list[dict[str, Any]]:
    """What waits, newest first; with `settled` also what no longer does."""
    found = Reviews(tx, parts.analyser).all(settled=settled, limit=limit)
    return [_described(parts, tx, one) for one in found]


def one(parts: Parts, tx: Tx, memory_id: str) -> dict[str, Any]:
    """One entry of the queue.

    Raises:
        NotFound: nothing waits, or waited, under this id.
    """
    return _described(parts, tx, Reviews(tx, parts.analyser).get(memory_id))


def settle(parts: Parts, memory_id: str, how: str) -> dict[str, Any]:
    """Settle what waits: `old`, `new` or `both` of a conflict, `accept` or `dismiss` of what lacks proof.

    `new` ends the live version of what the statement speaks against, pinned or not. Nothing is decided again.

    Raises:
        NotFound: nothing waits under this id.
        BadInput: it is settled already, or cannot be settled so.
    """

    def write(tx: Tx) -> tuple[None, Collection[str], Collection[str]]:
        _, after = Reviews(tx, parts.analyser).settle(memory_id, how, the_users(parts))
        begun = [id_ for id_, life in after.items() if life.state == "live"]
        return None, begun, after.keys() - set(begun)

    changing(parts, write)
    return parts.readers.here(lambda tx: one(parts, tx, memory_id))


def _described(parts: Parts, tx: Tx, review: Review) -> dict[str, Any]:
    store, names, now = parts.memories(tx), names_of(tx), parts.clock.now()
    memory = store.get(review.id)
    return {
        "id": review.id,
        "kind": review.kind,
        "outcome": review.outcome,
        "reason": review.reason,
        "at": to_text(review.at),
        "settled_at": to_text(review.settled_at) if review.settled_at else None,
        "text": memory.text,
        "statement": memory_json(memory, names, now),
        "quotes": quotes(parts, tx, memory),
        "against": memory_json(review.against, names, now) if review.against else None,
    }
