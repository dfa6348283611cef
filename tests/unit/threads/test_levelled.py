"""A ground that remembers gives what the ground gives, in whatever portions it is asked."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.ports import Vectors
from filrouge.threads.ground import Ground
from filrouge.threads.levelled import Levelled

_DIMENSION = 24


def unit_vectors(count: int, seed: int) -> Vectors:
    drawn = np.random.default_rng(seed).normal(size=(count, _DIMENSION)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def grounded() -> Ground:
    found = Ground.of(unit_vectors(80, 1))
    assert found is not None
    return found


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=8), max_size=5))
def test_what_remains_of_a_vector_is_the_same_however_often_and_beside_whatever_it_is_asked(
    asked: list[list[int]],
) -> None:
    ground, vectors = grounded(), unit_vectors(12, 2)
    levelled = Levelled.over(ground)
    levelled.learn([vectors[0], None, vectors[3]])
    for places in asked:
        np.testing.assert_allclose(levelled.off(vectors[places]), ground.off(vectors[places]), atol=1e-6)
    assert len(levelled.known) == len({0, 3}.union(*asked))


def test_nothing_is_made_of_nothing() -> None:
    levelled = Levelled.over(grounded())
    levelled.learn([None])
    assert levelled.off(np.empty((0, _DIMENSION), dtype=np.float32)).shape == (0, _DIMENSION)
    assert not levelled.known
