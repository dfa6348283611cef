"""What is remembered is what the model would say, and the model is asked once."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.embedders import CachingEmbedder
from filrouge.providers.hashing import StableHash
from filrouge.providers.models import EmbeddingSpace, PassageParts


class Counting:
    """The stable hash, with a list of what it was asked; a question differs from the same words as a passage."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()
        self.calls = 0

    @property
    def space(self) -> EmbeddingSpace:
        return StableHash().space

    def query(self, text: str) -> Vector:
        self.seen["query", text] += 1
        return -StableHash().query(text)

    def passages(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        self.seen.update(("passage", text) for text in texts)
        return StableHash().passages(texts)


TEXTS = st.text("ab\ud800é ", max_size=3)
CALLS = st.lists(TEXTS | st.lists(TEXTS, max_size=6), max_size=12)


@settings(deadline=None)
@given(CALLS)
def test_answers_are_those_of_the_bare_model_which_sees_each_text_once(calls: list[str | list[str]]) -> None:
    bare, counting = Counting(), Counting()
    model = CachingEmbedder(counting)
    for call in calls:
        if isinstance(call, str):
            assert np.array_equal(model.query(call), bare.query(call))
        else:
            found = model.passages(call)
            assert found.shape == (len(call), 384)
            assert np.array_equal(found, bare.passages(call))
    assert set(counting.seen.values()) <= {1}
    assert model.misses == counting.seen.total()
    assert model.hits + model.misses <= bare.seen.total()


@settings(deadline=None)
@given(CALLS, st.integers(0, 8000))
def test_a_small_memory_forgets_and_answers_the_same(calls: list[str | list[str]], most: int) -> None:
    bare, model = Counting(), CachingEmbedder(Counting(), max_bytes=most)
    for call in calls:
        if isinstance(call, str):
            assert np.array_equal(model.query(call), bare.query(call))
        else:
            assert np.array_equal(model.passages(call), bare.passages(call))


def test_misses_reach_the_model_in_one_call_and_doubles_once() -> None:
    counting = Counting()
    model = CachingEmbedder(counting)
    model.passages(["a", "b"])
    model.passages(["a", "c", "c", "d", "b"])
    assert counting.calls == 2
    assert counting.seen == Counter({("passage", text): 1 for text in "abcd"})


def test_the_least_recently_used_goes_first() -> None:
    counting = Counting()
    model = CachingEmbedder(counting, max_bytes=2 * (384 * 4 + 300))
    model.query("a")
    model.query("b")
    model.query("a")
    model.query("c")
    model.query("a")
    assert counting.seen == Counter({("query", "a"): 1, ("query", "b"): 1, ("query", "c"): 1})
    model.query("b")
    assert counting.seen["query", "b"] == 2


def test_changing_an_answer_changes_nothing_that_is_remembered() -> None:
    model = CachingEmbedder(StableHash())
    first = model.query("a")
    first[:] = 0.0
    model.query("a")[:] = 0.0
    model.passages(["a"])[:] = 0.0
    assert np.array_equal(model.query("a"), StableHash().query("a"))
    assert np.array_equal(model.passages(["a"])[0], StableHash().query("a"))


def test_what_is_forgotten_is_asked_again() -> None:
    counting = Counting()
    model = CachingEmbedder(counting)
    for _ in range(2):
        model.query("a")
        model.forget_all()
    assert counting.seen["query", "a"] == 2


def test_what_is_being_embedded_while_all_is_forgotten_is_not_kept() -> None:
    begun, go_on = Event(), Event()

    class Slow(Counting):
        def query(self, text: str) -> Vector:
            begun.set()
            assert go_on.wait(5)
            return super().query(text)

    slow = Slow()
    model = CachingEmbedder(slow)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(model.query, "a")
        assert begun.wait(5)
        model.forget_all()
        go_on.set()
        assert found.result().shape == (384,)
    model.query("a")
    assert slow.seen["query", "a"] == 2


def test_texts_are_not_held() -> None:
    class Text(str):
        __slots__ = ("__weakref__",)

    model = CachingEmbedder(StableHash())
    text = Text("a sentence that somebody may want to be forgotten")
    alive = weakref.ref(text)
    model.query(text)
    model.passages([text])
    del text
    gc.collect()
    assert alive() is None


def test_many_threads_have_the_right_answers() -> None:
    model = CachingEmbedder(Counting(), max_bytes=20_000)
    texts = [f"text {number % 30}" for number in range(600)]
    with ThreadPoolExecutor(8) as pool:
        questions = list(pool.map(model.query, texts))
        passages = [one[0] for one in pool.map(model.passages, [[text] for text in texts])]
    assert np.array_equal(questions, [-StableHash().query(text) for text in texts])
    assert np.array_equal(passages, StableHash().passages(texts))


def test_the_embedder_behind_can_be_reached() -> None:
    counting = Counting()
    assert CachingEmbedder(counting).inner is counting
    assert CachingEmbedder(counting).space == counting.space


class Learned(Counting):
    """One that learned what a prompt needs."""

    no_need_vector = StableHash().query("nothing")
    need_revision = "first"

    def need_vectors(self, statements: Sequence[tuple[str, str]]) -> Vectors:
        return StableHash().passages([f"{before} {text}" for before, text in statements])

    def need_of_prompt(self, text: str) -> Vector:
        self.seen["prompt", text] += 1
        return StableHash().query(text[::-1])


def test_what_a_prompt_needs_is_made_once_and_is_not_the_vector_of_the_question() -> None:
    learned = Learned()
    model = CachingEmbedder(learned)
    first, second, asked = model.need_of_prompt("port"), model.need_of_prompt("port"), model.query("port")
    assert first is not None
    assert second is not None
    assert np.array_equal(first, second)
    assert not np.array_equal(asked, first)
    assert model.no_need_vector is Learned.no_need_vector
    assert model.need_revision == Learned.need_revision
    made = model.need_vectors([("", "port")])
    assert made is not None
    assert np.array_equal(made, learned.need_vectors([("", "port")]))
    assert learned.seen["prompt", "port"] == 1
    model.forget_all()
    model.need_of_prompt("port")
    assert learned.seen["prompt", "port"] == 2


def test_an_embedder_that_did_not_learn_it_has_no_vector_of_what_is_needed() -> None:
    assert CachingEmbedder(Counting()).need_of_prompt("port") is None
    assert CachingEmbedder(Counting()).no_need_vector is None
    assert CachingEmbedder(Counting()).need_vectors([("", "port")]) is None
    assert CachingEmbedder(Counting()).need_revision == ""


class ReadingParts(Counting):
    """One that reads parts of a text within it: a part's vector is the number of its first word."""

    def part_vectors(self, passages: Sequence[PassageParts]) -> list[Vectors]:
        return [np.array([[words.start] for words in one.parts], dtype=np.float32) for one in passages]


def test_the_parts_of_a_text_are_those_of_the_model_if_it_has_any() -> None:
    given = [PassageParts(before="", text="the port", parts_before=(), parts=(range(1, 2),))]
    found = CachingEmbedder(ReadingParts()).part_vectors(given)
    assert found is not None
    assert [part.tolist() for part in found] == [[[1.0]]]
    assert CachingEmbedder(Counting()).part_vectors(given) is None
