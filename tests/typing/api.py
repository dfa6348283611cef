"""What a type checker must know of the public API. It is never run: `make check` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from filrouge import (
    Embedder,
    EmbeddingSpace,
    Event,
    Evidence,
    FilrougeError,
    Fused,
    Hit,
    Memory,
    Opened,
    Ranking,
    Scope,
    Settings,
    Span,
    Statement,
    Turn,
    __version__,
    diverse,
    hybrid_fusion,
    opened,
)
from filrouge.testing import StableHash


class Mine:
    """An embedder as a stranger writes it."""

    @property
    def space(self) -> EmbeddingSpace:
        return StableHash().space

    def query(self, text: str) -> NDArray[np.float32]:
        return np.zeros(len(text), dtype=np.float32)

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.zeros((len(texts), 3), dtype=np.float32)


own: Embedder = Mine()
fake: Embedder = StableHash()
assert_type(own.query("a"), NDArray[np.float32])
assert_type(fake.space.calibrated(0.9), float)
VERSION: str = __version__

now = datetime.now(UTC)
memory = Memory(
    id="m",
    scope=Scope(project="p"),
    scope_name="project",
    kind="decision",
    text="We use Drizzle.",
    trust=2,
    created_at=now,
    valid_from=now,
    evidence=(Evidence(turn_id="t", span=Span(start=0, end=4)),),
)
turn = Turn(id="t", key="k", scope=Scope(), host="cli", role="user", source="prompt", text="", at=now, trust=2)
hit = Hit(item=memory, bm25_score=1, vector_score=0, score=0.5, similarity=None, coverage=1, relevance=0.5)
ranking = Ranking(query="orm?", hits=(hit,))

assert_type(hit.item, Memory | Turn)
assert_type(memory.valid_to, datetime | None)
assert_type(ranking.recut(0.5).top(4).hits, tuple[Hit, ...])
assert_type(hit.explain(), dict[str, Any])
assert_type(Settings().auto_retrieve_min_score, float)
assert_type(Statement(kind="fact", text="x", span=Span(start=0, end=1)).corrects, tuple[str, ...])
assert_type(FilrougeError("no").remedy, str)


assert_type(hybrid_fusion({"a": "text"}, "text", {"a": 0.5}), list[Fused])
assert_type(diverse([hit], {"m": own.query("a")}, 3), tuple[Hit, ...])


def asks(memory: Opened) -> None:
    """A home that a program opened."""
    assert_type(memory.hybrid_query("turns", "port?", where_filter={"kind": "fact"}), Ranking)
    assert_type(memory.remember("The port is 9443.")[0], Memory)
    memory.hybrid_query("turns", "port?", fusion="sum")  # pyright: ignore[reportArgumentType]


with opened("/home") as memory_of_a_program:
    assert_type(memory_of_a_program, Opened)


def kinds_are_closed(event: Event) -> str:
    """A kind is one of the known words, so a comparison with any other is an error."""
    if event.kind == "prompt":
        return event.host
    Memory(id="m", scope=Scope(), scope_name="user", kind="gossip", text="", trust=2, created_at=now, valid_from=now)  # pyright: ignore[reportArgumentType]
    return ""
