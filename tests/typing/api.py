"""What a type checker must know of the public API. It is never run: `make check` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from filrouge import (
    BlockingMemory,
    Embedder,
    EmbeddingSpace,
    Event,
    Evidence,
    FilrougeError,
    Fused,
    Hit,
    Memory,
    MemoryItem,
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
from filrouge.sdk.values import (
    Action,
    Context,
    Extracted,
    Forgotten,
    Found,
    History,
    Message,
    Observed,
    Recalled,
    Remembered,
    Rule,
    Superseded,
    Team,
    TeamMemory,
    Thread,
    Timeline,
    Topic,
    Undone,
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
memory = MemoryItem(
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

assert_type(hit.item, MemoryItem | Turn)
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
    assert_type(memory.remember("The port is 9443.")[0], MemoryItem)
    memory.hybrid_query("turns", "port?", fusion="sum")  # pyright: ignore[reportArgumentType]


with opened("/home") as memory_of_a_program:
    assert_type(memory_of_a_program, Opened)


def kinds_are_closed(event: Event) -> str:
    """A kind is one of the known words, so a comparison with any other is an error."""
    if event.kind == "prompt":
        return event.host
    Statement(kind="gossip", text="x", span=Span(start=0, end=1))  # pyright: ignore[reportArgumentType]
    return ""


async def the_verbs_of_the_sdk(memory: Memory) -> None:
    """Every verb gives what its page says."""
    assert_type(await memory.remember("a", project="p", scope="user", channel="c", timeout=1.0), list[Action])
    assert_type(
        await memory.observe([{"role": "user", "content": "a", "at": now}], channel="c", session_id="s"), Observed
    )
    assert_type(await memory.extract("a", source="bot/shop", context=""), Extracted)
    assert_type(await memory.supersede("m", "b", source="me"), Superseded)
    assert_type(await memory.forget("a", dry_run=True), Forgotten)
    assert_type(await memory.pin("m", pinned=False), Action)
    assert_type(await memory.bin("m"), Action)
    assert_type(await memory.restore("m"), Action)
    assert_type(await memory.undo("m", dry_run=True), Undone)
    assert_type(await memory.set_fact("k", "v"), None)
    assert_type(await memory.change_fact("k", "v"), None)
    assert_type(await memory.remove_fact("k"), None)
    assert_type(await memory.add_rule("r", scope="user"), Rule)
    assert_type(await memory.change_rule("r", enabled=False), Rule)
    assert_type(await memory.remove_rule("r"), Action)
    assert_type(
        await memory.search("q", "hybrid", 3, as_of=now, kind=["fact", "turn"], project="p", role="user"), list[Found]
    )
    assert_type(await memory.recall("q", threshold=0.5, since="2026-05-01"), Recalled)
    assert_type(await memory.context("p", channel="c", session_id="s"), Context)
    assert_type(await memory.recent("c", 5), list[Message])
    assert_type(await memory.is_novel("a", 0.9), bool)
    assert_type(await memory.facts(history=True), list[Remembered])
    assert_type(await memory.rules(trust=3), list[Rule])
    assert_type(await memory.history("m"), History)
    assert_type(await memory.threads(status="active", as_of="2026-05-01"), list[Thread])
    assert_type(await memory.thread("t"), Thread)
    assert_type(await memory.topics("month"), list[Topic])
    assert_type(await memory.timeline(language="fr"), Timeline)
    assert_type(await memory.team(), Team)
    assert_type(await memory.team_memories("shared"), list[TeamMemory])
    assert_type(await memory.share(["m"]), list[TeamMemory])
    assert_type(await memory.unshare(["m"]), list[TeamMemory])
    assert_type(await memory.share_project("p", "ask", with_evidence=True), Team)
    assert_type(await memory.settings({"budget": 1000}), dict[str, Any])
    assert_type(await memory.status(), dict[str, Any])
    assert_type(await memory.health(), dict[str, Any])
    await memory.share_project("p", "everything")  # pyright: ignore[reportArgumentType]
    await memory.search("q", mode="words")  # pyright: ignore[reportArgumentType]
    await memory.search("q", colour="red")  # pyright: ignore[reportCallIssue]


def the_verbs_of_its_blocking_twin(memory: BlockingMemory) -> None:
    """The same verbs, which give the same."""
    assert_type(memory.remember("a", project="p", scope="user", channel="c", timeout=1.0), list[Action])
    assert_type(memory.observe([{"role": "user", "content": "a", "at": now}], channel="c", session_id="s"), Observed)
    assert_type(memory.extract("a", source="bot/shop", context=""), Extracted)
    assert_type(memory.supersede("m", "b", source="me"), Superseded)
    assert_type(memory.forget("a", dry_run=True), Forgotten)
    assert_type(memory.pin("m", pinned=False), Action)
    assert_type(memory.bin("m"), Action)
    assert_type(memory.restore("m"), Action)
    assert_type(memory.undo("m", dry_run=True), Undone)
    assert_type(memory.set_fact("k", "v"), None)
    assert_type(memory.change_fact("k", "v"), None)
    assert_type(memory.remove_fact("k"), None)
    assert_type(memory.add_rule("r", scope="user"), Rule)
    assert_type(memory.change_rule("r", enabled=False), Rule)
    assert_type(memory.remove_rule("r"), Action)
    assert_type(
        memory.search("q", "hybrid", 3, as_of=now, kind=["fact", "turn"], project="p", role="user"), list[Found]
    )
    assert_type(memory.recall("q", threshold=0.5, since="2026-05-01"), Recalled)
    assert_type(memory.context("p", channel="c", session_id="s"), Context)
    assert_type(memory.recent("c", 5), list[Message])
    assert_type(memory.is_novel("a", 0.9), bool)
    assert_type(memory.facts(history=True), list[Remembered])
    assert_type(memory.rules(trust=3), list[Rule])
    assert_type(memory.history("m"), History)
    assert_type(memory.threads(status="active", as_of="2026-05-01"), list[Thread])
    assert_type(memory.thread("t"), Thread)
    assert_type(memory.topics("month"), list[Topic])
    assert_type(memory.timeline(language="fr"), Timeline)
    assert_type(memory.team(), Team)
    assert_type(memory.team_memories("shared"), list[TeamMemory])
    assert_type(memory.share(["m"]), list[TeamMemory])
    assert_type(memory.unshare(["m"]), list[TeamMemory])
    assert_type(memory.share_project("p", "ask", with_evidence=True), Team)
    assert_type(memory.settings({"budget": 1000}), dict[str, Any])
    assert_type(memory.status(), dict[str, Any])
    assert_type(memory.health(), dict[str, Any])
    memory.search("q", mode="words")  # pyright: ignore[reportArgumentType]
    memory.search("q", colour="red")  # pyright: ignore[reportCallIssue]


async def a_memory_is_open_in_its_block() -> None:
    """So is its twin."""
    async with Memory("/home", timeout=5.0) as memory, Memory.embedded("/other") as other:
        assert_type((memory, other), tuple[Memory, Memory])
    with BlockingMemory(url="https://memory.example", api_key="k") as blocking:
        assert_type(blocking, BlockingMemory)
