"""A memory that is longer than a line is shown by its best part; it never silences the turn behind it for nothing."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.context.block import parse
from filrouge.context.candidates import excerpt, memories_of_turns
from filrouge.context.service import build_and_log
from filrouge.memories.changes import remember
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import idle, running
from tests.support.given import SHOP, ask, event, say

FILLER: tuple[str, ...] = (
    "The mailer was moved to its own machine in spring.",
    "Invoices are printed on Mondays, and nobody looks at them before noon.",
    "Half of the kiosk screens show last year's colours.",
    "The gateway keeps three days of traffic, which was enough so far.",
    "Two people know the ledger's export format by heart.",
)
ANSWER = "The lighthouse beacon of Bastia is restarted with the blue lever behind the cabinet."
QUESTION = "How do we restart the lighthouse beacon of Bastia?"


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path)) as found:
        idle(found)
        yield found


@pytest.mark.parametrize("place", [0, 7, 15])
def test_a_long_memory_is_shown_by_the_sentences_that_bear_on_the_prompt(parts: Parts, place: int) -> None:
    sentences = list(FILLER * 3)
    sentences.insert(place, ANSWER)
    remember(parts, " ".join(sentences), names=SHOP, scope="project", host="cli")
    idle(parts)
    [shown] = parse(ask(parts, QUESTION))
    text = shown.partition("] ")[2]
    assert ANSWER in text
    assert len(text) <= 500
    whole = [one for one in re.split(r"(?<=[.]) ", text.strip("… ")) if one]
    assert set(whole) <= {*FILLER, ANSWER}
    assert text.startswith("… ") is (place > 0 and not text.startswith(FILLER[0]))


def test_a_sentence_without_an_end_is_cut_between_words(parts: Parts) -> None:
    words = " ".join(one.strip(".") + "," for one in FILLER * 3)
    remember(parts, f"{words} {ANSWER.strip('.')}, {words}", names=SHOP, scope="project", host="cli")
    idle(parts)
    [shown] = parse(ask(parts, QUESTION))
    text = shown.partition("] ")[2]
    assert "the blue lever behind the cabinet" in text
    assert text.startswith("… ")
    assert text.endswith("…")
    assert set(text.strip("… ").split()) <= set(f"{words} {ANSWER.strip('.')}, {words}".split())


def test_a_long_statement_of_a_conversation_is_shown_too(parts: Parts) -> None:
    said = f"For the record: {' '.join(FILLER * 2)} Remember that {ANSWER.replace('The', 'the')} {' '.join(FILLER)}"
    say(parts, said)
    assert ANSWER.replace("The", "the") in ask(parts, QUESTION)


def test_a_turn_is_silenced_only_by_a_memory_that_is_shown(parts: Parts) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put({"budget": 700}, parts.clock.now()))
    for n, town in enumerate(("Bastia", "Calvi", "Dinan")):
        told = ANSWER.replace("Bastia", town).replace("blue lever", f"{('green', 'round', 'heavy')[n]} lever")
        say(parts, f"For the record: {told[:-1]}, {FILLER[n].strip('.')}, {FILLER[n + 1].strip('.')}, since {n} years.")
    given = build_and_log(parts, event(text=QUESTION, session="another"), SHOP[0])
    shown = {one.candidate.id for one in given.block.verdicts if one.injected}
    assert shown
    silenced = [one.candidate.id for one in given.block.verdicts if one.reason == "covered by a memory"]
    proved = parts.readers.here(lambda tx: memories_of_turns(tx, silenced))
    repeated = {one.candidate.id for one in given.block.verdicts if one.reason == "repeats a shown item"}
    assert all((shown | repeated) & proved[turn].keys() for turn in silenced)


@pytest.mark.parametrize("cut", [60, 200, 500])
def test_an_excerpt_of_one_endless_sentence_keeps_words_whole(cut: int) -> None:
    words = [f"word{n}" for n in range(300)]
    words[170:173] = ["the", "needle", "here"]
    shown = excerpt(" ".join(words), lambda part: part.count("needle"), max_uncut=cut, max_excerpt=cut)
    assert "needle" in shown
    assert len(shown) <= cut
    assert set(re.sub("…", "", shown).split()) <= set(words)
    assert shown.startswith("… ")
    assert shown.endswith("…")
