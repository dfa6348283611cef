"""Turns: one row a message, whether the hook or the transcript was first, and however often each tells."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.capture.repository import Turns, turn_intact
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import memory_database
from tests.support.rows import turn


def fresh() -> Turns:
    return Turns(memory_database().tx, TextAnalyser())


def rows(turns: Turns) -> list[tuple[str, str]]:
    """Text and id of what is stored, oldest first."""
    found = turns.recent("codex", None, 99) + turns.recent("cursor", None, 99)
    return sorted((row["text"], row["id"]) for row in found)


@pytest.mark.parametrize("hook_first", [True, False])
def test_hook_and_transcript_tell_of_one_message(hook_first: bool) -> None:
    turns = fresh()
    by_hook, by_file = turn("fix the cart", key="prompt:1"), turn(" fix the cart\n", key="a-record-uuid")
    reports = [lambda: turns.add(by_hook), lambda: turns.add_from_transcript(by_file)]
    assert [report() for report in (reports if hook_first else reports[::-1])] == [True, False]
    assert [id_ for _, id_ in rows(turns)] == [by_hook.id if hook_first else by_file.id]
    assert not turns.add(by_hook)
    assert not turns.add_from_transcript(by_file)
    assert len(rows(turns)) == 1


@given(st.permutations(["hook 1", "hook 2", "file 1", "file 2"]), st.lists(st.integers(0, 3), max_size=4))
def test_the_same_words_said_twice_stay_two_rows(order: list[str], again: list[int]) -> None:
    turns = fresh()
    for report in order + [order[index] for index in again]:
        add = turns.add if report.startswith("hook") else turns.add_from_transcript
        add(turn("go on", key=report))
    assert len(rows(turns)) == 2


def test_the_same_words_of_another_role_or_session_are_another_message() -> None:
    turns = fresh()
    assert turns.add(turn("yes", key="1"))
    assert turns.add_from_transcript(turn("yes", key="2", role="assistant"))
    assert turns.add_from_transcript(turn("yes", key="3", session="other"))


@pytest.mark.parametrize(("seconds", "stored"), [(0.0, 1), (9.9, 1), (-9.9, 1), (10.1, 2), (-10.1, 2)])
def test_a_prompt_through_two_hosts_counts_once_within_ten_seconds(seconds: float, stored: int) -> None:
    turns = fresh()
    turns.add(turn("fix the cart", host="codex", session="a"))
    turns.add(turn("fix the cart", host="cursor", session="b", seconds=seconds))
    assert len(rows(turns)) == stored


def test_an_answer_through_two_hosts_is_two_answers() -> None:
    turns = fresh()
    turns.add(turn("done", host="codex", role="assistant"))
    turns.add(turn("done", host="cursor", role="assistant"))
    assert len(rows(turns)) == 2


def test_a_turn_comes_back_as_it_was_in_the_order_asked_for() -> None:
    turns = fresh()
    one, two = turn("premier\nmot"), turn("second")
    assert turns.add(one)
    assert turns.add(two)
    assert turns.get([two.id, "unknown", one.id]) == [two, one]


def test_the_last_prompts_come_newest_first_from_their_session_alone() -> None:
    turns = fresh()
    for text in ("one", "two", "three"):
        turns.add(turn(text))
    turns.add(turn("an answer", role="assistant"))
    turns.add(turn("elsewhere", session="other"))
    assert turns.last_user_texts("codex", "s", limit=2) == ["three", "two"]


def test_a_skipped_turn_says_why() -> None:
    turns = fresh()
    one = turn("ok")
    turns.add(one)
    turns.skip(one.id, "it has no text")
    assert turns.get([one.id])[0].skipped == "it has no text"


def test_a_changed_text_breaks_the_turns_seal() -> None:
    database = memory_database()
    one = turn("the port is 8443")
    Turns(database.tx, TextAnalyser()).add(one)
    row = database.tx.one("turns.get", {"ids": json.dumps([one.id])})
    assert row is not None
    assert turn_intact(row)
    assert not turn_intact(row | {"text": "the port is 8444"})
    assert not turn_intact(row | {"role": "assistant"})
