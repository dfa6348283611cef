"""The calibration of a space: the same similarity means the same in every space, on pairs it was not measured on.

`minilm.npz` holds the cosines of all-MiniLM-L6-v2 on the bundled sample (`python bench/calibration.py --keep`), so
that its side needs no model; the bundled model's side is computed here.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace

from filrouge.core.protocols import Vectors
from filrouge.providers.calibration import (
    MIN_PAIRS,
    TEXTS,
    Cosines,
    EmbeddedSample,
    Floats,
    Half,
    bundled,
    fit_calibration,
    from_turns,
    load_sample,
    measure,
    sample_texts,
    save_sample,
    shares,
)
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.embedders import create_embedder
from filrouge.providers.hashing import StableHash
from filrouge.providers.models import Anchor, Calibration, EmbeddingSpace

THRESHOLDS = (0.35, 0.5, 0.88)
cosine_lists = arrays(np.float64, st.integers(1, 40), elements=st.floats(-1.0, 1.0))


@cache
def minilm(half: Half) -> Cosines:
    kept = np.load(Path(__file__).parent / "minilm.npz")
    assert str(kept["sample"]) == hashlib.sha256(repr(bundled()).encode()).hexdigest(), "the sample changed: --keep"
    kinds = ("unrelated", "same", "unrelated_questions", "answers")
    return Cosines(**{kind: kept[f"{half} {kind}"] / 10_000 for kind in kinds})


@pytest.fixture(scope="module")
def e5_halves() -> dict[Half, Cosines]:
    """The bundled model on both halves."""
    halves: tuple[Half, Half] = ("measure", "check")
    return {half: EmbeddedSample(create_embedder("e5"), bundled(half)).cosines() for half in halves}


@pytest.fixture(scope="module")
def e5(e5_halves: dict[Half, Cosines]) -> Cosines:
    """The bundled model on the check half, of which no constant knows."""
    return e5_halves["check"]


def above(cosines: Floats, anchors: tuple[Anchor, ...], threshold: float) -> float:
    read = np.interp(cosines, [cosine for cosine, _ in anchors], [level for _, level in anchors])
    return float(np.mean(read > threshold))


def space(calibration: Calibration) -> EmbeddingSpace:
    return EmbeddingSpace(
        id="x", model="x", revision="1", dimension=2, pooling="mean", prefix="", calibration=calibration
    )


def rising(anchors: tuple[Anchor, ...]) -> bool:
    return all(a < b and x < y for (a, x), (b, y) in pairwise(anchors))


def turns(seed: int, count: int, sessions: int) -> tuple[Vectors, list[str]]:
    """Vectors about a common direction, as chat turns are, dealt to sessions."""
    made = np.random.default_rng(seed).normal(0.0, 1.0, (count, 16)).astype(np.float32) + np.float32(0.6)
    return made / np.linalg.norm(made, axis=1, keepdims=True), [f"s{number % sessions}" for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("kind", ["unrelated", "same"])
def test_a_measured_space_puts_as_many_pairs_above_a_threshold_as_the_bundled_model(
    e5_halves: dict[Half, Cosines], kind: str, threshold: float
) -> None:
    shipped = create_embedder("e5").space.calibration
    assert shipped
    folds: list[tuple[Half, Half]] = [("measure", "check"), ("check", "measure")]
    # Each half is judged by anchors from the other: one half alone is so small that a pair more or less is .009.
    theirs = [above(getattr(minilm(told), kind), fit_calibration(minilm(by)).texts, threshold) for by, told in folds]
    ours = [above(getattr(e5_halves[told], kind), shipped.texts, threshold) for _, told in folds]
    assert abs(sum(theirs) - sum(ours)) / 2 <= 0.05


@pytest.mark.slow
def test_a_straight_line_from_the_median_is_not_enough(e5: Cosines) -> None:
    line = ((float(np.median(minilm("measure").unrelated)), 0.0), (1.0, 1.0))
    reference = create_embedder("e5").space.calibration
    assert reference
    assert above(minilm("check").unrelated, line, 0.35) - above(e5.unrelated, reference.texts, 0.35) > 0.1


def test_measuring_the_reference_gives_its_own_straight_line() -> None:
    measured, shipped = measure(OnnxE5()), OnnxE5().space
    assert (measured.origin, measured.texts[-1]) == ("sample", (1.0, 1.0))
    for cosine, level in measured.texts:
        assert shipped.calibrated(cosine) == pytest.approx(level, abs=0.03)
    for cosine, level in measured.questions:
        assert shipped.calibrated_to_question(cosine) == pytest.approx(level, abs=0.03)


def test_a_space_that_knows_no_meaning_is_measured_too() -> None:
    measured = measure(StableHash())
    assert rising(measured.texts)
    assert rising(measured.questions)
    assert measured == measure(StableHash())


@given(cosine_lists, cosine_lists, st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_whatever_was_measured_the_scale_rises_from_0_to_1(
    unrelated: Floats, related: Floats, one: float, other: float
) -> None:
    measured = fit_calibration(
        Cosines(unrelated=unrelated, same=related, unrelated_questions=related, answers=unrelated)
    )
    read = space(measured)
    assert rising(measured.texts)
    assert rising(measured.questions)
    low, high = sorted((one, other))
    assert 0.0 <= read.calibrated(low) <= read.calibrated(high) <= read.calibrated(1.0) == 1.0
    assert 0.0 <= read.calibrated_to_question(low) <= read.calibrated_to_question(high) <= 1.0


def test_pairs_of_both_kinds_are_needed() -> None:
    none, some = np.empty(0), np.array([0.5])
    with pytest.raises(ValueError, match="one kind is missing"):
        fit_calibration(Cosines(unrelated=none, same=some, unrelated_questions=some, answers=some))


def test_few_turns_say_nothing() -> None:
    sample = fit_calibration(minilm("measure"))
    assert from_turns(*turns(1, 40, 40), sample) is None
    assert from_turns(*turns(1, 400, 1), sample) is None
    assert from_turns(np.empty((0, 16), np.float32), [], sample) is None


def test_turns_put_their_median_at_0_and_leave_what_they_cannot_tell() -> None:
    sample = fit_calibration(minilm("measure"))
    vectors, sessions = turns(2, 200, 20)
    refined = from_turns(vectors, sessions, sample)
    assert refined
    assert (refined.origin, refined.questions) == ("turns", sample.questions)
    assert refined.pairs == 200 * 190 // 2 >= MIN_PAIRS
    cosines = np.array([vectors[a] @ vectors[b] for a in range(200) for b in range(a) if sessions[a] != sessions[b]])
    assert above(cosines, refined.texts, 0.0) == pytest.approx(0.5, abs=0.01)
    assert above(cosines, refined.texts, 0.35) == pytest.approx(0.016, abs=0.005)


def test_the_upper_anchors_stay_where_the_turns_leave_room_and_move_up_where_they_do_not() -> None:
    sample = fit_calibration(minilm("measure"))
    for pull in (0.0, 3.0):  # turns far apart, turns close together
        made = np.random.default_rng(3).normal(0.0, 1.0, (200, 64)).astype(np.float32) + np.float32(pull)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        refined = from_turns(made, [str(number) for number in range(200)], sample)
        assert refined
        assert rising(refined.texts)
        at_half = {level: cosine for cosine, level in refined.texts}[0.5]
        before = {level: cosine for cosine, level in sample.texts}[0.5]
        assert at_half == pytest.approx(before) if pull == 0.0 else at_half > before


@given(st.permutations(range(80)), st.lists(st.integers(0, 79), max_size=20))
def test_neither_the_order_of_turns_nor_a_turn_said_again_changes_anything(order: list[int], again: list[int]) -> None:
    sample = fit_calibration(minilm("measure"))
    vectors, sessions = turns(4, 80, 8)
    shuffled = [*order, *again]
    assert from_turns(vectors, sessions, sample) == from_turns(
        vectors[shuffled], [sessions[at] for at in shuffled], sample
    )


@given(st.integers(0, 2**32 - 1), st.integers(70, 120), st.integers(2, 30))
def test_refined_by_any_turns_the_scale_still_rises(seed: int, count: int, sessions: int) -> None:
    refined = from_turns(*turns(seed, count, sessions), fit_calibration(minilm("measure")))
    assert refined is None or rising(refined.texts)


@given(cosine_lists)
def test_a_share_falls_from_1_to_0(cosines: Floats) -> None:
    found = shares(cosines, np.linspace(-1.1, 1.1, 50))
    assert found[0] == 1.0
    assert found[-1] == 0.0
    assert np.all(np.diff(found) <= 0.0)


def test_the_sample_is_large_enough_and_its_halves_are_alike() -> None:
    subjects = bundled()
    texts = [text for one in subjects for text in (one.text, one.same, one.question) if text is not None]
    assert len(texts) == len(set(texts))
    assert len(subjects) >= 240
    assert sum(one.same is not None for one in subjects) >= 120
    assert sum(one.question is not None for one in subjects) >= 80
    kinds = [
        sorted((one.language, one.other or "", one.same is not None, one.question is not None) for one in bundled(half))
        for half in ("measure", "check")
    ]
    assert kinds[0] == kinds[1]
    assert {level for level, _, _ in TEXTS} >= {0.0, 0.35, 0.5}


def test_the_sample_s_vectors_are_kept_per_space_and_only_whole(tmp_path: Path) -> None:
    space, other = StableHash().space, replace(StableHash().space, id="other")
    vectors = StableHash().passages(sample_texts())
    models = tmp_path / "not" / "there"
    assert load_sample(str(models), space) is None
    save_sample(str(models), space, vectors)
    kept = load_sample(str(models), space)
    assert kept is not None
    assert np.abs(kept - vectors).max() < 1e-3
    assert load_sample(str(models), other) is None
    [file] = models.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert load_sample(str(models), space) is None
    save_sample(str(models), space, vectors[:-1])
    assert load_sample(str(models), space) is None


def test_a_sample_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    save_sample(str(tmp_path / "models"), StableHash().space, StableHash().passages(sample_texts()))
    assert load_sample(str(tmp_path / "models"), StableHash().space) is None
