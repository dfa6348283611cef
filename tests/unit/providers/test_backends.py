"""Models in other packages: loaded late, never fetched, their answers checked.

Neither fastembed nor sentence-transformers (PyTorch) is installed for these tests, and no hub can be reached, so no
real model of theirs is run here: a small backend stands in their place.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.core.protocols import Embedder, HealthChecked, Vector
from filrouge.providers.embedders import EmbedderOptions, create_embedder
from filrouge.providers.packaged_embedders import Backend, FastEmbed, SentenceTransformers

BOTH = pytest.mark.parametrize("make", [FastEmbed, SentenceTransformers])


class Letters:
    """Counts the letters a to e; questions and passages differ by a last number."""

    def query(self, text: str) -> Vector:
        return np.array([*map(text.count, "abcde"), 1.0], dtype=np.float32)

    def passages(self, texts: Sequence[str]) -> Iterable[Vector]:
        for text in texts:
            yield np.array([*map(text.count, "abcde"), 2.0], dtype=np.float32)


class Broken(Letters):
    def query(self, text: str) -> Vector:
        raise RuntimeError(f"cannot read {text}")

    def passages(self, texts: Sequence[str]) -> Iterable[Vector]:
        return [np.full(6, np.nan, dtype=np.float32) for _ in texts]


Make = Callable[[EmbedderOptions, Backend | None], Embedder]


@BOTH
def test_a_backend_gives_unit_vectors_in_order(make: Make) -> None:
    model = make(EmbedderOptions(model="letters"), Letters())
    found = model.passages(["aab", "c\x00", "\ud800"])
    np.testing.assert_allclose(found[0] * 3, [2, 1, 0, 0, 0, 2], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    assert model.passages([]).shape == (0, 6)
    assert float(model.query("a")[5]) == pytest.approx(2**-0.5)
    assert isinstance(model, HealthChecked)


@BOTH
def test_the_length_is_learned_from_the_model_and_part_of_its_space(make: Make) -> None:
    space = make(EmbedderOptions(model="letters"), Letters()).space
    assert space.dimension == 6
    assert space.id.split("/")[1:3] == ["letters", "6"]


@BOTH
def test_a_model_of_another_length_than_was_set_is_an_error(make: Make) -> None:
    with pytest.raises(EmbedderUnavailable, match="length 6 instead of 7"):
        make(EmbedderOptions(model="letters", dimensions=7), Letters()).query("a")


@BOTH
def test_what_goes_wrong_inside_is_named_without_the_text(make: Make) -> None:
    model = make(EmbedderOptions(model="letters"), Broken())
    with pytest.raises(EmbedderUnavailable, match="failed with RuntimeError") as caught:
        model.query("my secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(EmbedderUnavailable, match="not finite"):
        model.passages(["a"])


@pytest.mark.parametrize(
    ("name", "package"), [("fastembed", "fastembed"), ("sentence-transformers", "sentence_transformers")]
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(name: str, package: str) -> None:
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed here")
    model = create_embedder(f"{name}:some/model")
    with pytest.raises(EmbedderUnavailable, match=f"The package {name} cannot be loaded") as caught:
        model.query("a")
    assert f"pip install '{name}>=" in caught.value.remedy


def test_a_known_length_needs_no_model_and_cannot_be_another() -> None:
    assert create_embedder("fastembed:BAAI/bge-small-en-v1.5").space.dimension == 384
    with pytest.raises(BadConfig, match="length 384, not 100"):
        create_embedder("fastembed:BAAI/bge-small-en-v1.5", EmbedderOptions(dimensions=100))
