"""The recall log keeps what explains a block, and little more."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from filrouge.context.log import MAX_BYTES, Recalls
from filrouge.search.models import Recall, RecallItem
from filrouge.testing import memory_database

BOOSTS = {f"feature_{n}": 0.123 for n in range(8)}


def item(n: int, *, injected: bool) -> RecallItem:
    scores = {"section": "memories", "value": round(1 / (n + 1), 4), "relevance": 0.5, "boosts": BOOSTS}
    reason = "injected" if injected else "below the threshold"
    return RecallItem(id=f"01k{n:023}", kind="memory", injected=injected, reason=reason, scores=scores)


def recall() -> Recall:
    return Recall(
        id="01k0000000000000000000000a",
        at=datetime(2026, 5, 1, tzinfo=UTC),
        channel="codex",
        session="s",
        project=None,
        preview="Which port?",
        memories_injected=4,
        tokens_added=200,
        items=tuple(item(n, injected=n < 4) for n in range(120)),
        notices=(),
        nonce="",
        latency_ms=3.0,
    )


def test_a_row_keeps_all_that_was_injected_and_the_best_of_the_rest_and_counts_what_is_left_out() -> None:
    with memory_database().transaction() as tx:
        Recalls(tx).add(recall())
        [row] = tx.all("recalls.last", {"limit": 1, "before": "~", "outcome": ""})
        kept = json.loads(row["items"])
        assert len(row["items"].encode()) <= MAX_BYTES
        assert [one["id"] for one in kept[:4]] == [f"01k{n:023}" for n in range(4)]
        assert [one["id"] for one in kept[4:]] == [f"01k{n:023}" for n in range(4, len(kept))]
        assert len(kept) + sum(json.loads(row["omitted"]).values()) == 120


def test_a_row_of_an_earlier_release_is_shortened_once() -> None:
    with memory_database().transaction() as tx:
        Recalls(tx).add(recall())
        whole = json.dumps([one.to_json() for one in recall().items], ensure_ascii=False)
        tx.run("recalls.shorten", {"id": recall().id, "items": whole, "omitted": "{}"})
        assert len(whole) > 20_000
        assert Recalls(tx).shrink(10) == 1
        assert Recalls(tx).shrink(10) == 0
        [row] = tx.all("recalls.last", {"limit": 1, "before": "~", "outcome": ""})
        assert len(row["items"].encode()) <= MAX_BYTES
