"""Turns judged in their neighbourhood: what stands beside an answer counts for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.protocols import Vector
from filrouge.search.models import FEATURE_NAMES
from filrouge.search.ranking import Features, TurnQuestion, TurnTable, parse_times, speaker_of, turn_features

START = datetime(2023, 5, 8, tzinfo=UTC)


def said(*texts: str, words: tuple[float, ...] = (), vectors: tuple[Vector | None, ...] = ()) -> TurnTable:
    """One session, all of it candidates."""
    nothing = np.zeros(2, np.float32)
    return TurnTable(
        candidates=np.ones(len(texts), dtype=bool),
        texts=texts,
        days=[(START + timedelta(days=place)).date() for place in range(len(texts))],
        sessions=["s"] * len(texts),
        replies=np.zeros(len(texts), dtype=bool),
        words=np.array(words or [0.0] * len(texts), dtype=np.float32),
        vectors=np.array([nothing if one is None else one for one in vectors], np.float32) if vectors else None,
        nearest=np.array([np.nan if one is None else one[0] for one in vectors or [None] * len(texts)], np.float32),
        previous=np.arange(len(texts), dtype=np.int64) - 1,
    )


def asked(text: str, vector: Vector | None = None) -> TurnQuestion:
    return TurnQuestion(text=text, vector=vector, times=parse_times(text, START.date()))


def column(table: Features, name: str) -> list[float]:
    return [round(float(value), 3) for value in table[:, FEATURE_NAMES.index(name)]]


def test_an_answer_has_the_words_of_the_question_before_it() -> None:
    spoken = said("Which port is it?", "9443.", "Thanks.", words=(4.0, 0.0, 0.0))
    table = turn_features(asked("which port?"), spoken).features
    assert column(table, "words") == [1.0, 0.0, 0.0]
    assert column(table, "words_before") == [0.0, 1.0, 0.0]
    assert column(table, "words_after") == [0.0, 0.0, 0.0]
    assert column(table, "asks") == [1.0, 0.0, 0.0]


def test_a_turn_has_the_meaning_of_what_stands_around_it() -> None:
    towards, away = np.array([1.0, 0.0], np.float32), np.array([0.0, 1.0], np.float32)
    table = turn_features(asked("?", towards), said("aaaa", "bbbb", "cccc", vectors=(towards, away, away))).features
    assert column(table, "meaning") == [1.0, 0.0, 0.0]
    assert column(table, "meaning_before")[1] > column(table, "meaning_before")[2]
    assert column(table, "meaning_around")[1] > column(table, "meaning_around")[2]


def test_a_neighbour_without_a_vector_stops_nothing() -> None:
    towards = np.array([1.0, 0.0], np.float32)
    table = turn_features(asked("?", towards), said("aaaa", "bbbb", vectors=(towards, None))).features
    assert np.isfinite(table).all()


def test_the_one_speaker_that_a_question_names_is_preferred() -> None:
    spoken = said("Caroline: I paint.", "Melanie: I swim.", "no name here")
    assert column(turn_features(asked("What does Caroline do?"), spoken).features, "speaker") == [1.0, 0.0, 0.0]
    assert column(turn_features(asked("What do Caroline and Melanie do?"), spoken).features, "speaker") == [
        0.0,
        0.0,
        0.0,
    ]
    assert [speaker_of(text) for text in spoken.texts] == ["Caroline", "Melanie", ""]


def test_a_time_in_the_question_raises_what_was_said_then() -> None:
    table = turn_features(asked("what about 2023-05-09?"), said("a", "b", "c")).features
    assert column(table, "time") == [0.968, 1.0, 0.968]


def test_a_question_of_when_prefers_turns_with_a_time() -> None:
    spoken = said("I went there last week", "I went there")
    assert column(turn_features(asked("When did he go?"), spoken).features, "dated") == [1.0, 0.0]
    assert column(turn_features(asked("Why did he go?"), spoken).features, "dated") == [0.0, 0.0]


def test_nothing_said_gives_an_empty_table() -> None:
    assert turn_features(asked("?"), said()).features.shape == (0, len(FEATURE_NAMES))


@given(st.lists(st.tuples(st.text(max_size=20), st.floats(0, 30)), min_size=1, max_size=8), st.text(max_size=30))
def test_every_feature_lies_between_nought_and_one(turns: list[tuple[str, float]], question: str) -> None:
    spoken = said(*(text for text, _ in turns), words=tuple(score for _, score in turns))
    table = turn_features(asked(question), spoken).features
    assert table.shape == (len(turns), len(FEATURE_NAMES))
    assert ((table >= 0) & (table <= 1)).all()


def test_a_text_that_stands_alone_is_its_own_neighbourhood() -> None:
    alone = replace(said("a", "b", words=(4.0, 0.0)), previous=np.array([-1, -1]))
    table = turn_features(asked("a?"), alone).features
    assert column(table, "words") == column(table, "words_before") == column(table, "words_after") == [1.0, 0.0]


def test_the_agents_replies_are_told_from_the_users_words() -> None:
    spoken = replace(said("a", "b"), replies=np.array([False, True]))
    assert column(turn_features(asked("?"), spoken).features, "reply") == [0.0, 1.0]


def test_what_is_no_candidate_lends_its_words_and_is_not_measured() -> None:
    spoken = replace(said("a", "b?", words=(2.0, 4.0)), candidates=np.array([True, False]))
    table = turn_features(asked("a?"), spoken).features
    assert column(table, "words_after") == [1.0, 0.0]
    assert not table[1].any()
