import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.threads.assignment import (
    BUCKETS,
    Exchange,
    PairComparison,
    build_tables,
    compare_pairs,
    pair_features,
    roots,
)

BREAD = (
    "My sourdough starter of rye flour smells of vinegar",
    "How much rye flour does the sourdough starter need each day?",
    "The sourdough loaf is flat, is the rye starter too old?",
)
TAXES = (
    "Which receipts does the income tax return need for the home office?",
    "The tax office asks for proof of the home office, what do I send?",
    "Can I deduct the desk of the home office in the tax return?",
)


#: Every word is as rare as the others, and prompts have nothing in common.
WEIGHTS = {"rarity": np.ones(BUCKETS, dtype=np.float32), "usual": np.zeros(384, dtype=np.float32)}


def exchange(text: str, session: str = "s", reply: str = "") -> Exchange:
    return Exchange(
        session=session,
        prompt_roots=roots([text]),
        reply_roots=roots([reply]),
        prompt_chars=len(text),
    )


def held(*given: Exchange) -> PairComparison:
    return compare_pairs(given, "words")


def mean(found: PairComparison, left: Sequence[int], right: Sequence[int]) -> float:
    return float(np.mean([found.probabilities[one, other] for one in left for other in right if one != other]))


def test_of_nothing_nothing_is_compared() -> None:
    assert held().probabilities.shape == (0, 0)


def test_prompts_of_one_subject_are_likelier_of_one_thread_than_prompts_of_two() -> None:
    found = held(
        *(exchange(text, "monday") for text in BREAD[:2]),
        *(exchange(text, "tuesday") for text in TAXES),
        exchange(BREAD[2], "friday"),
    )

    assert mean(found, (5,), (0, 1)) > 2 * mean(found, (5,), (2, 3, 4))


def test_a_prompt_that_says_nothing_is_likeliest_of_the_thread_of_the_one_before_it() -> None:
    found = held(*(exchange(text) for text in (*BREAD, *TAXES)), exchange("And what about this one then?"))

    assert found.probabilities[6, 5] > found.probabilities[6, 0]


def test_what_the_reply_says_counts_as_well() -> None:
    asked = "Could you have a look at what is wrong with it?"

    def likely(reply: str) -> float:
        return mean(
            held(*(exchange(text, "monday") for text in BREAD), exchange(asked, "friday", reply)), (3,), (0, 1, 2)
        )

    assert likely(BREAD[0]) > likely("")


sessions = st.sampled_from(["a", "b", "c"])
talk = st.lists(st.tuples(st.sampled_from([*BREAD, *TAXES, "ok", ""]), sessions), min_size=1, max_size=12)


@given(talk)
def test_it_is_a_probability_the_same_both_ways_and_the_same_each_time(said: list[tuple[str, str]]) -> None:
    given_ = [exchange(text, session) for text, session in said]

    found, again = held(*given_), held(*given_)

    assert np.array_equal(found.probabilities, again.probabilities)
    assert np.allclose(found.probabilities, found.probabilities.T, atol=1e-5)
    assert ((found.probabilities >= 0.0) & (found.probabilities <= 1.0)).all()
    assert np.allclose(np.diag(found.probabilities), 1.0)


def exchange_with_vectors(text: str, session: str, seed: int) -> Exchange:
    draw = np.random.default_rng(seed)
    prompt, whole, inside, model = (draw.standard_normal(384).astype(np.float32) for _ in range(4))
    return replace(
        exchange(text, session),
        prompt_vector=prompt / np.linalg.norm(prompt),
        vector_with_reply=whole / np.linalg.norm(whole),
        vector_in_session=inside / np.linalg.norm(inside),
        model_vector=model / np.linalg.norm(model),
    )


def test_prompts_of_two_sessions_that_are_alike_behind_what_was_said_before_them_are_likelier_of_one_thread() -> None:
    one, other, third = (exchange_with_vectors(text, session, 1) for text, session in zip("abc", "xyz", strict=True))
    far = exchange_with_vectors("d", "z", 2).vector_in_session

    def likely(inside: np.ndarray | None) -> float:
        return float(
            compare_pairs([one, other, replace(third, vector_in_session=inside)], "vectors").probabilities[0, 2]
        )

    assert likely(one.vector_in_session) > likely(far)


def test_a_prompt_s_vector_by_the_bundled_model_tells_whether_it_goes_on() -> None:
    before, asked = exchange_with_vectors(BREAD[0], "s", 1), exchange_with_vectors(TAXES[0], "s", 2)

    def likely(vector: np.ndarray | None) -> float:
        return float(compare_pairs([before, replace(asked, model_vector=vector)], "vectors").probabilities[0, 1])

    vectors = [exchange_with_vectors("", "s", seed).model_vector for seed in range(8)]

    assert len({likely(vector) for vector in (None, *vectors)}) == 9


@given(talk, st.data())
def test_some_prompts_are_compared_with_all_as_all_are(said: list[tuple[str, str]], data: st.DataObject) -> None:
    exchanges = [exchange_with_vectors(text, session, seed) for seed, (text, session) in enumerate(said)]
    some = data.draw(st.lists(st.integers(0, len(said) - 1), max_size=3))

    found, all_ = compare_pairs(exchanges, "vectors", some), compare_pairs(exchanges, "vectors")

    assert np.allclose(found.probabilities, all_.probabilities[some], atol=1e-5)
    assert np.allclose(found.similarities, all_.similarities[some], atol=1e-5)
    assert np.allclose(found.word_similarities, all_.word_similarities[some], atol=1e-5)
    tables = build_tables(exchanges, WEIGHTS, "vectors")
    features = pair_features(tables, all_.probabilities, np.asarray(some, dtype=np.int64))
    for found_feature, feature in zip(features, pair_features(tables, all_.probabilities), strict=True):
        assert np.allclose(found_feature, feature[some], atol=1e-5)
        assert np.allclose(feature, feature.T, atol=1e-5)


words = st.frozensets(st.sampled_from("abcdefghij"), max_size=5)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=8))
def test_every_word_counts_by_its_rarity(said: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    exchanges = [replace(exchange(""), prompt_roots=prompt, reply_roots=reply) for prompt, reply in said]
    all_words = [prompt | reply for prompt, reply in said]
    counts = Counter(word for found in all_words for word in found)

    def similarity(left: frozenset[str], right: frozenset[str]) -> float:
        squares = {word: math.log(1 + len(said) / count) ** 2 for word, count in counts.items()}
        lengths = [math.sqrt(sum(squares[word] for word in found)) for found in (left, right)]
        return sum(squares[word] for word in left & right) / (lengths[0] * lengths[1]) if all(lengths) else 0.0

    tables = build_tables(exchanges, WEIGHTS, "vectors")

    wanted = [[similarity(left, right) for right in all_words] for left in all_words]
    assert np.allclose(tables.words @ tables.words.T, wanted, atol=1e-5)
    wanted = [[similarity(prompt, right) for right in all_words] for prompt, _ in said]
    assert np.allclose(tables.prompt_words @ tables.words.T, wanted, atol=1e-5)


def test_where_words_alone_are_compared_vectors_are_left_out() -> None:
    exchanges = [exchange_with_vectors(text, "s", seed) for seed, text in enumerate(BREAD)]

    tables = build_tables(exchanges, WEIGHTS, "words")

    assert not tables.prompt_vectors.any()
    assert not tables.vectors_with_replies.any()
    assert not tables.exchange_vectors.any()
    assert not tables.vectors_in_sessions.any()
    assert not tables.model_vectors.any()
