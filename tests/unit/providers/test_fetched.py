"""The model that was fetched: its inputs, its pooling, its tokenizer. A stand-in for the real file, which is 118 MB."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Vector
from filrouge.providers.embedders import create_embedder
from filrouge.providers.fetching import fetch
from filrouge.providers.published_e5 import (
    FetchedE5,
    PublishedModel,
    fetched_path,
    load_unigram_tokenizer,
    normalise_text,
)
from tests.unit.providers.stand_in import PIECES, files, publishing

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
TABLE = np.random.default_rng(7).normal(size=(len(PIECES), 384)).astype(np.float32)


def silent(name: str, have: int, size: int) -> None:
    pass


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublishedModel, str]:
    directory = str(tmp_path_factory.mktemp("fetched"))
    with publishing(files()) as (model, _):
        fetch(model, fetched_path(model, directory), silent, consent=True)
    return model, directory


@pytest.fixture(scope="module")
def e5(tiny: tuple[PublishedModel, str]) -> FetchedE5:
    return FetchedE5(*tiny)


def mean(*pieces: str) -> Vector:
    found = TABLE[[PIECES.index(piece) for piece in ("<s>", *pieces, "</s>")]].mean(axis=0)
    return found / np.linalg.norm(found)


def test_a_vector_is_the_mean_of_its_tokens_with_the_prefix_of_its_kind(e5: FetchedE5) -> None:
    np.testing.assert_allclose(e5.query("port a"), mean("▁query", ":", "▁port", "▁", "a"), atol=1e-5)
    np.testing.assert_allclose(e5.passages(["port"])[0], mean("▁passage", ":", "▁port"), atol=1e-5)


def test_company_and_padding_change_nothing(e5: FetchedE5) -> None:
    texts = ["a", "port " * 90, "", "b c", "port"]
    together = e5.passages(texts)
    np.testing.assert_allclose(together, np.concatenate([e5.passages([text]) for text in texts]), atol=1e-5)
    assert e5.passages([]).shape == (0, 384)


def test_the_end_of_a_long_text_counts(e5: FetchedE5) -> None:
    one, other = e5.passages(["port " * 600 + "a " * 600, "port " * 1200])
    assert float(one @ other) < 0.99


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "👩‍👩‍👧‍👦", "<s> </s>", "ﬁ ①"])
def test_odd_texts_have_unit_vectors(e5: FetchedE5, text: str) -> None:
    assert float(np.linalg.norm(e5.query(text))) == pytest.approx(1.0, abs=1e-4)


def test_questions_and_passages_at_once_are_what_they_are_alone(e5: FetchedE5) -> None:
    texts = [f"port {letter}" for letter in "abcdefgh"]
    alone = np.stack([e5.query(text) for text in texts])
    with ThreadPoolExecutor(3) as pool:
        batch = pool.submit(e5.passages, texts * 20)
        np.testing.assert_allclose(list(pool.map(e5.query, texts)), alone, atol=1e-6)
        assert batch.result().shape == (160, 384)


def test_compatible_forms_are_one_and_marks_of_no_width_are_spaces() -> None:
    assert normalise_text("ﬁ ①\u00a0Ｐｏｒｔ\u200bx\x07y\t\n z ") == "fi 1 Port xy z"
    assert normalise_text("e\u0301te\u0301") == "été"


@settings(deadline=None)
@given(st.text())
def test_a_normalised_text_is_normal(text: str) -> None:
    assert normalise_text(normalise_text(text)) == normalise_text(text)


def test_its_space_names_the_revision_and_is_no_other_engine_s(e5: FetchedE5) -> None:
    assert e5.space.id == "multilingual-e5-small/0123456789ab-int8/384/mean/query-passage"
    names = ("e5", "e5-onnx", "e5-fetched", "hashing")
    assert len({create_embedder(name).space.id for name in names if name != "e5"}) == 3
    assert e5.space.calibration is None


def test_without_the_file_it_says_how_to_get_it_and_fetches_nothing() -> None:
    with pytest.raises(EmbedderUnavailable, match="is absent") as caught:
        create_embedder("e5-fetched").query("a")
    assert "filrouge model fetch" in caught.value.remedy


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"model": {"vocab": [["a"]]}}', '{"model": {"vocab": [["a", 1]]}}']
)
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer\.json is not a tokenizer"):
        load_unigram_tokenizer(str(tmp_path / "tokenizer.json"))
