"""Which pieces go in front of a model, in which order, and when none does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.context.block import (
    INJECTED,
    MAX_BYTES,
    MAX_THREADS,
    SECTIONS_SPEC,
    Block,
    RenderOptions,
    build_block,
    max_items,
    parse,
)
from filrouge.context.models import SECTIONS, Candidate, Section
from filrouge.core.clock import Language
from filrouge.search.models import RecallItem
from filrouge.testing import ManualClock
from tests.support.tiers import examples

NOW = ManualClock().now()
PROMPT = RenderOptions(occasion="prompt", language="en", budget=2000, now=NOW)
START = replace(PROMPT, occasion="start")


def piece(text: str, section: Section = "memories", value: float = 0.8, **more: Any) -> Candidate:
    kind = {"rules": "rule", "threads": "thread", "thread": "thread", "notes": "note"}.get(section, "fact")
    said = NOW - timedelta(days=3)
    about: dict[str, Any] = {"id": text, "kind": kind, "said": said, "source": "codex"} | more
    return Candidate(**about, section=section, text=text, value=value)


def texts(block: Block) -> list[str]:
    return [line.partition("] ")[2] for line in parse(block.text)]


def reasons(block: Block) -> dict[str, str]:
    return {verdict.candidate.id: verdict.reason for verdict in block.verdicts}


def test_sections_stand_in_their_order_whatever_the_order_they_were_offered_in() -> None:
    block = build_block([piece(f"a {name}", name) for name in reversed(SECTIONS) if name != "hints"], START)
    headings = [line for line in block.text.split("\n") if line.startswith("## ")]
    assert headings == [SECTIONS_SPEC[name].heading["en"] for name in SECTIONS if name != "hints"]
    assert [verdict.candidate.section for verdict in block.verdicts if verdict.injected] == [
        name for name in SECTIONS if name != "hints"
    ]


def test_within_a_section_pieces_stand_as_they_were_offered() -> None:
    block = build_block([piece("first", value=0.1), piece("second", value=0.9)], PROMPT)
    assert texts(block) == ["first", "second"]


def test_nothing_offered_is_no_text_at_all() -> None:
    assert build_block([], PROMPT) == build_block([], START) == Block()
    assert not Block().nonce


def test_what_its_source_refused_stays_out_with_its_reason() -> None:
    block = build_block([piece("in"), piece("out", value=0.99, refused="confidence too low")], PROMPT)
    assert (texts(block), reasons(block)) == (["in"], {"in": INJECTED, "out": "confidence too low"})
    assert build_block([piece("out", refused="confidence too low")], PROMPT).text == ""


@pytest.mark.parametrize("section", [name for name in SECTIONS if SECTIONS_SPEC[name].is_supporting])
def test_what_only_goes_along_breaks_no_silence_unless_it_is_as_relevant_itself(section: Section) -> None:
    silent = build_block([piece("x", section, 0.49)], PROMPT)
    assert (silent.text, reasons(silent)) == ("", {"x": "supporting item, and nothing relevant to support"})
    assert texts(build_block([piece("x", section, 0.5)], PROMPT)) == ["x"]
    assert set(texts(build_block([piece("x", section, 0.1), piece("m")], PROMPT))) == {"x", "m"}
    assert reasons(build_block([piece("x", section, 0.5)], replace(PROMPT, minimum=0.9))) == {
        "x": "supporting item, and nothing relevant to support"
    }


@pytest.mark.parametrize("section", [name for name in SECTIONS if not SECTIONS_SPEC[name].is_supporting])
def test_what_was_found_for_the_prompt_speaks_by_itself_however_little_it_is_worth(section: Section) -> None:
    assert (
        build_block([piece("x", section, 0.06)], PROMPT).memories
        + build_block([piece("x", section, 0.06)], PROMPT).notes
    )


def test_at_a_start_everything_speaks() -> None:
    assert texts(build_block([piece("x", "threads", 0.1)], START)) == ["x"]


def test_a_section_has_no_more_items_than_it_may_and_settings_may_change_that() -> None:
    pieces = [piece(f"m{n}") for n in range(8)]
    block = build_block(pieces, PROMPT)
    assert texts(block) == ["m0", "m1", "m2", "m3"]
    assert {reasons(block)[f"m{n}"] for n in range(4, 8)} == {"section is full"}
    assert texts(build_block(pieces, replace(PROMPT, limits={"memories": 1}))) == ["m0"]
    assert (max_items("memories", "start"), len(texts(build_block([piece(f"m{n}") for n in range(12)], START)))) == (
        8,
        8,
    )


def test_there_are_five_threads_at_the_most_the_current_one_among_them() -> None:
    block = build_block([piece("now", "thread"), *(piece(f"t{n}", "threads") for n in range(9))], START)
    assert len(texts(block)) == MAX_THREADS == 5
    assert texts(block)[0] == "now"


def test_what_only_goes_along_takes_no_room_and_no_place_from_what_was_found_for_the_prompt() -> None:
    found, along = piece("f" * 300, value=0.06), piece("t" * 40, "thread", value=0.9)
    narrow = replace(PROMPT, budget=660)
    assert texts(build_block([along, found], narrow)) == [found.text]
    assert texts(build_block([along], narrow)) == [along.text]
    both = build_block([piece("as a decision", "synthesis", 0.9, id="m"), piece("as a memory", id="m")], PROMPT)
    assert [(one.candidate.text, one.reason) for one in both.verdicts] == [
        ("as a memory", INJECTED), ("as a decision", "duplicate"),
    ]  # fmt: skip


SPEAKING: list[Section] = [name for name in SECTIONS if not SECTIONS_SPEC[name].is_supporting and name != "notes"]
ALONG: list[Section] = [name for name in SECTIONS if SECTIONS_SPEC[name].is_supporting]


@settings(max_examples=examples(80))
@given(
    st.lists(st.tuples(st.sampled_from(SPEAKING), st.integers(1, 300), st.floats(0.05, 1)), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(ALONG), st.integers(1, 300), st.floats(0, 1)), max_size=12),
    st.integers(500, 2000),
)
def test_what_was_found_for_a_prompt_is_the_same_whatever_goes_along(
    found: list[tuple[Section, int, float]], along: list[tuple[Section, int, float]], budget: int
) -> None:
    speaking = [piece(f"f{n} {'x' * size}", section, value) for n, (section, size, value) in enumerate(found)]
    others = [piece(f"a{n} {'x' * size}", section, value) for n, (section, size, value) in enumerate(along)]
    narrow = replace(PROMPT, budget=budget)
    alone, together = build_block(speaking, narrow), build_block([*others, *speaking], narrow)
    assert {id_: why for id_, why in reasons(together).items() if id_[0] == "f"} == reasons(alone)
    assert len(together.text) <= budget


def test_nothing_is_said_twice() -> None:
    same_id = piece("other words", "decisions", id="m")
    same_text = piece("M  \n", "constraints", id="c")
    block = build_block([piece("m"), same_id, same_text], PROMPT)
    assert texts(block) == ["m"]
    assert {verdict.candidate.text: verdict.reason for verdict in block.verdicts} == {
        "m": INJECTED, "other words": "duplicate", "M  \n": "duplicate",
    }  # fmt: skip


def test_one_synthesis_may_be_shown_in_several_pieces_but_no_memory_beside_the_part_that_says_it() -> None:
    parts = [piece(text, "synthesis", id="s", kind="synthesis") for text in ("asked", "done")]
    decided = piece("We keep SQLite.", "decisions", id="m", kind="synthesis")
    same = piece("We decided to keep SQLite.", "decisions", id="m", kind="decision")
    block = build_block([*parts, decided, same], START)
    assert texts(block) == ["asked", "done", "We keep SQLite."]
    assert [verdict.reason for verdict in block.verdicts if verdict.candidate is same] == ["duplicate"]


def test_turns_that_a_passage_shows_are_not_shown_again_in_the_thread_after_it() -> None:
    passage = piece("User: a\nAssistant: b", "memories", kind="turn", turns=("1", "2"))
    within = piece("User: a", "threads", kind="turn", turns=("1",), id="x")
    beyond = piece("User: a\nUser: c", "threads", kind="turn", turns=("1", "3"), id="y")
    resting = piece("A memory that rests on it", "decisions", turns=("1",))
    block = build_block([passage, within, beyond, resting], PROMPT)
    assert reasons(block) == {passage.id: INJECTED, "x": "duplicate", "y": INJECTED, resting.id: INJECTED}


def test_rules_and_reminders_go_first_however_much_more_the_rest_is_worth() -> None:
    rule, memory = piece("r" * 300, "rules", 0.05), piece("m" * 300, value=1.0)
    block = build_block([memory, rule], replace(PROMPT, budget=800))
    assert reasons(block) == {rule.id: INJECTED, memory.id: "over the budget"}
    assert len(block.text) <= 800


def test_of_what_does_not_all_fit_goes_in_what_is_worth_most_together() -> None:
    long, *short = piece("a" * 450, value=0.9), piece("b" * 200, value=0.5), piece("c" * 200, value=0.5)
    block = build_block([long, *short], replace(PROMPT, budget=900))
    assert reasons(block) == {short[0].id: INJECTED, short[1].id: INJECTED, long.id: "over the budget"}


def test_a_piece_says_when_and_where_it_was_said_and_whether_it_is_sure() -> None:
    block = build_block(
        [
            piece("hers"),
            piece("a file's", verified=False),
            piece("timeless", said=None),
            piece("nowhere", source=""),
        ],
        PROMPT,
    )
    assert parse(block.text) == [
        "[3 days ago, codex] hers",
        "[3 days ago, codex, unverified] a file's",
        "[codex] timeless",
        "[3 days ago, unknown] nowhere",
    ]


def test_ages_and_headings_are_in_the_readers_language() -> None:
    block = build_block([piece("vieux", said=NOW - timedelta(days=20))], replace(PROMPT, language="fr"))
    assert parse(block.text) == ["[il y a 2 semaines, codex] vieux"]
    assert "## Souvenirs pertinents" in block.text


def test_a_text_for_another_day_shows_dates() -> None:
    assert parse(build_block([piece("x")], replace(START, dated=True)).text) == ["[December 29, 2025, codex] x"]


def test_a_note_shows_as_its_path_and_its_text_and_is_counted_apart() -> None:
    block = build_block([piece("- [x] forged", "notes", id="a/b.md"), piece("m")], PROMPT)
    assert block.text.split("\n")[-4:-1] == ["## Reference notes", "### a/b.md", "\\- [x] forged"]
    assert (block.memories, block.notes, len(parse(block.text))) == (1, 1, 2)


def test_the_log_has_every_candidate_without_its_text() -> None:
    block = build_block(
        [piece("secret plan", id="1", scores={"relevance": 0.7}), piece("x", id="2", refused="no")], PROMPT
    )
    about = {"section": "memories", "value": 0.8}
    assert block.items == (
        RecallItem(id="1", kind="fact", injected=True, reason=INJECTED, scores=about | {"relevance": 0.7}),
        RecallItem(id="2", kind="fact", injected=False, reason="no", scores=about),
    )


def test_a_word_that_stands_for_nothing_is_shown_and_is_no_candidate() -> None:
    block = build_block([piece("Nothing is known.", "topics", id="", kind="nothing")], PROMPT)
    assert (texts(block), block.items, block.memories) == (["Nothing is known."], (), 0)


def test_tokens_are_a_quarter_of_the_characters_and_each_block_has_its_own_nonce() -> None:
    one, other = (build_block([piece("m")], PROMPT) for _ in range(2))
    assert one.tokens == -(-len(one.text) // 4)
    assert one.nonce != other.nonce
    assert one.text.endswith(f"</filrouge-memory {one.nonce}>")


LANGUAGES = st.sampled_from(["en", "fr", "es"])


@st.composite
def offered(draw: st.DrawFn) -> Candidate:
    text = draw(st.sampled_from(["word ", "é", "東京", "🧵", "User: x\n"])) * draw(st.integers(1, 300))
    section = draw(st.sampled_from(SECTIONS))
    return piece(text, section, draw(st.floats(0, 1)), id=f"{len(text)}{section}")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(offered(), max_size=60), st.integers(200, 6000), LANGUAGES, st.sampled_from([START, PROMPT]))
def test_a_block_stays_within_its_budget_its_bytes_and_its_limits_and_every_piece_has_a_verdict(
    pieces: list[Candidate], budget: int, language: Language, manner: RenderOptions
) -> None:
    manner = replace(manner, budget=budget, language=language)
    block = build_block(pieces, manner)
    assert len(block.text) <= budget
    assert len(block.text.encode()) <= MAX_BYTES
    inside = [verdict.candidate.section for verdict in block.verdicts if verdict.injected]
    assert inside == sorted(inside, key=SECTIONS.index)
    assert len(parse(block.text)) == len(inside)
    assert all(inside.count(section) <= max_items(section, manner.occasion) for section in SECTIONS)
    assert sorted(id(verdict.candidate) for verdict in block.verdicts) == sorted(map(id, pieces))
