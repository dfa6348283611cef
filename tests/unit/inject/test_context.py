"""What goes in front of a model, in which order, and when nothing does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from filrouge.inject.context import MOST_AT_START, Block, Manner, at_start, before_prompt

from filrouge.inject.render import parse
from filrouge.model.memory import Kind, Memory
from filrouge.model.recall import Hit, Ranking
from filrouge.model.scope import Scope
from filrouge.model.turn import Turn
from filrouge.testing import ManualClock

NOW = ManualClock().now()
MANNER = Manner(language="en", budget=2000, now=NOW)


def memory(text: str, *, kind: Kind = "fact", trust: int = 2, days: int = 3) -> Memory:
    at = NOW - timedelta(days=days)
    return Memory(
        id=text, scope=Scope(channel="codex"), scope_name="project", kind=kind, text=text, trust=trust, created_at=at,
        valid_from=at,
    )  # fmt: skip


def hit(item: Memory | Turn, relevance: float, score: float = 0.5) -> Hit:
    return Hit(
        item=item, bm25_score=score, vector_score=score, score=score, similarity=None, coverage=0.0, relevance=relevance
    )


def prompted(*hits: Hit, most: int = 4, manner: Manner = MANNER, known: float = 0.9) -> Block:
    return before_prompt(Ranking(query="q", hits=hits, known=known), manner, min_relevance=0.5, most=most)


def reasons(block: Block) -> dict[str, str]:
    return {item.id: item.reason for item in block.items}


def test_a_session_starts_with_its_rules_and_then_what_is_known_in_its_order() -> None:
    block = at_start([memory("Use uv", kind="rule")], [memory("hers", kind="preference"), memory("a fact")], MANNER)
    assert [line.partition("] ")[2] for line in parse(block.text)] == ["Use uv", "hers", "a fact"]
    assert block.text.index("## Rules") < block.text.index("Use uv") < block.text.index("## Known facts")
    assert (block.injected, block.tokens) == (3, -(-len(block.text) // 4))


def test_a_session_starts_with_eight_memories_at_the_most_and_all_rules() -> None:
    rules = [memory(f"rule {n}", kind="rule") for n in range(10)]
    block = at_start(rules, [memory(f"fact {n}") for n in range(20)], MANNER)
    assert len(parse(block.text)) == 10 + MOST_AT_START == 18


def test_nothing_known_is_no_text_at_all() -> None:
    assert at_start([], [], MANNER) == prompted() == Block(text="", nonce="", items=())


def test_before_a_prompt_only_what_is_relevant_is_shown() -> None:
    block = prompted(hit(memory("close"), 0.05), hit(memory("far"), 0.04))
    assert parse(block.text) == ["[3 days ago, codex] close"]
    assert reasons(block) == {"close": "injected", "far": "below the threshold"}
    assert prompted(hit(memory("far"), 0.04)).text == ""


def test_what_is_believed_only_half_is_not_said_unasked() -> None:
    unsure = replace(memory("perhaps"), confidence=0.59)
    block = prompted(hit(unsure, 0.9), hit(replace(memory("surely"), confidence=0.6), 0.9))
    assert parse(block.text) == ["[3 days ago, codex] surely"]
    assert reasons(block)["perhaps"] == "not sure enough"


def test_where_probably_nothing_is_known_nothing_is_shown_however_relevant_it_looks() -> None:
    block = prompted(hit(memory("close"), 0.9), known=0.49)
    assert block.text == ""
    assert reasons(block) == {"close": "nothing is known of this"}


def test_a_rule_is_shown_before_a_prompt_only_where_it_is_relevant() -> None:
    rule, other = memory("Use uv", kind="rule"), memory("Write in French", kind="rule")
    block = prompted(hit(memory("uv is at 0.9"), 0.9), hit(rule, 0.6), hit(other, 0.01))
    assert [line.partition("] ")[2] for line in parse(block.text)] == ["Use uv", "uv is at 0.9"]
    assert block.text.index("## Rules") < block.text.index("## Relevant memories")
    assert prompted(hit(rule, 0.04), hit(other, 0.01)).text == ""


def test_the_most_relevant_come_first_and_no_more_than_are_wanted() -> None:
    hits = [hit(memory(f"m{n}"), 0.5 + n / 100) for n in range(8)]
    block = prompted(*hits)
    assert [line.partition("] ")[2] for line in parse(block.text)] == ["m7", "m6", "m5", "m4"]
    assert reasons(block) == {
        **dict.fromkeys(["m7", "m6", "m5", "m4"], "injected"),
        **dict.fromkeys(["m0", "m1", "m2", "m3"], "beyond the limit"),
    }
    assert len(parse(prompted(*hits, most=1).text)) == 1


def test_between_equally_relevant_ones_the_score_decides() -> None:
    block = prompted(hit(memory("low"), 0.8, 0.1), hit(memory("high"), 0.8, 0.9))
    assert [line.partition("] ")[2] for line in parse(block.text)] == ["high", "low"]


def test_what_a_tool_said_is_marked_unverified() -> None:
    block = prompted(hit(memory("from a file", trust=1), 0.9), hit(memory("from her", trust=2), 0.8))
    assert parse(block.text) == ["[3 days ago, codex, unverified] from a file", "[3 days ago, codex] from her"]


def test_the_age_is_that_of_the_last_mention_in_the_readers_language() -> None:
    manner = Manner(language="fr", budget=2000, now=NOW)
    block = prompted(hit(memory("vieux", days=20), 0.9), manner=manner)
    assert parse(block.text) == ["[il y a 2 semaines, codex] vieux"]
    assert "## Souvenirs pertinents" in block.text


def test_what_exceeds_the_budget_is_left_out_and_told() -> None:
    manner = Manner(language="en", budget=780, now=NOW)
    block = prompted(hit(memory("a" * 400), 0.9), hit(memory("b" * 400), 0.8), hit(memory("c"), 0.7), manner=manner)
    assert list(reasons(block).values()) == ["injected", "over the budget", "injected"]
    assert len(block.text) <= 780
    assert block.injected == 2


def test_a_turn_is_never_injected() -> None:
    turn = Turn(id="t", key="k", scope=Scope(), host="codex", role="tool", source="fetch", text="obey", at=NOW, trust=0)
    assert prompted(hit(turn, 1.0)).text == ""


def test_each_block_is_closed_by_its_own_nonce() -> None:
    one, other = (prompted(hit(memory("m"), 0.9)) for _ in range(2))
    assert one.nonce != other.nonce
    assert one.text.endswith(f"</filrouge-memory {one.nonce}>")
