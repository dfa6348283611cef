"""Prompts read by the statement model with the bundled embedder: what is remembered, of which kind, and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.protocols import PartEmbedder
from filrouge.extraction import reader
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.sentences import units
from filrouge.extraction.statement_model import Numbers
from filrouge.memories.models import Statement
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.embedders import windows


@pytest.fixture(scope="module")
def embedder() -> PartEmbedder:
    return OnnxE5()


def vectors_of(prompts: list[reader.Prompt], embedder: PartEmbedder) -> list[Numbers | None]:
    """The vectors of each prompt's units; all windows are read together."""
    read_windows = [reader.windows_with_units(prompt, windows(prompt.text)) for prompt in prompts]
    texts = [text for prompt_windows in read_windows for text, _ in prompt_windows]
    made = embedder.passages_with_parts(texts, [parts for one in read_windows for _, parts in one])
    assert made is not None
    of_windows = iter(made[1])
    return [np.concatenate([next(of_windows) for _ in one]) if one else None for one in read_windows]


def read(text: str, embedder: PartEmbedder | None) -> tuple[Statement, ...]:
    prompt = reader.split_prompt(text, statements_of(text))
    return reader.statements(prompt, None if embedder is None else vectors_of([prompt], embedder)[0])


@pytest.mark.parametrize(
    ("prompt", "kind", "scope"),
    [
        ("rappelle-toi: toujours faire un plan", "rule", "user"),
        ("Rappelle-toi que je veux toujours un plan avant de coder", "rule", "user"),
        ("I want you to always ask before deleting files", "rule", "user"),
        ("fais moi un plan avant chaque implementation", "rule", "user"),
        ("Je veux apprendre FastAPI", "intent", "user"),
        ("Il faut éviter les frameworks lourds", "constraint", "project"),
        ("Le client veut la livraison pour le 12 décembre", "fact", "project"),
        ("On a remplacé Sentry par GlitchTip", "decision", "project"),
        ("the demo moved to Friday", "fact", "project"),
        ("Fini Celery, on passe à RQ", "decision", "project"),
    ],
)
def test_what_people_say_in_one_sentence_is_remembered(
    embedder: PartEmbedder, prompt: str, kind: str, scope: str
) -> None:
    [found] = read(prompt, embedder)
    assert (found.kind, found.scope) == (kind, scope)


@pytest.mark.parametrize(
    "prompt",
    [
        "what port does staging use?",
        "est-ce que je peux mettre les photos en ligne ?",
        "run the tests again please",
        "translate this to French: always use tabs",
        "thanks, that works",
        "¿y si mejor cobramos por suscripción?",
        "rename the function to load_rows and show me the diff",
        "do you remember that the port is 9443?",
    ],
)
def test_questions_requests_and_quotations_are_not(embedder: PartEmbedder, prompt: str) -> None:
    assert read(prompt, embedder) == ()


def test_what_is_told_in_passing_is_kept_without_the_request_beside_it(embedder: PartEmbedder) -> None:
    text = "can you look at the failing test in billing? btw staging moved to port 9443 since monday"
    [found] = read(text, embedder)
    assert "9443" in found.text
    assert "billing" not in found.text
    assert text[found.span.start : found.span.end].endswith("since monday")


def test_without_vectors_words_alone_read_what_is_plain() -> None:
    assert [one.text for one in read("from now on always answer me in French", None)] == [
        "from now on always answer me in French"
    ]
    assert read("run the tests again please", None) == ()


def test_units_stand_where_they_say_and_none_holds_what_is_quoted() -> None:
    text = (
        "We use uv here, and the lockfile is committed so please do not touch it. Logs:\n```\nport 17300 open\n```\nok?"
    )
    found = units(text)
    assert [text[one.start : one.end] for one in found] == [one.text for one in found]
    assert not any("17300" in one.text for one in found)
    assert [one.index for one in found] == list(range(len(found)))


def test_the_same_prompt_is_read_alike_in_any_company(embedder: PartEmbedder) -> None:
    texts = ["the demo moved to Friday", "run the tests again please", "Fini Celery, on passe à RQ. Et merci !"]
    prompts = [reader.split_prompt(text, statements_of(text)) for text in texts]
    together = [reader.statements(*pair) for pair in zip(prompts, vectors_of(prompts, embedder), strict=True)]
    assert together == [read(text, embedder) for text in texts]


@given(st.text(alphabet="ab.?!,;:-\n\t é`>", max_size=400) | st.lists(st.text(max_size=80), max_size=60).map("\n".join))
def test_the_words_of_every_unit_are_found_in_its_window(text: str) -> None:
    prompt = reader.split_prompt(text, ())
    found = [
        " ".join(window.split()[words.start : words.stop])
        for window, parts in reader.windows_with_units(prompt, windows(prompt.text))
        for words in parts
    ]
    if found:  # none where a word is longer than a window
        assert len(found) == len(prompt.units)
        for words, unit in zip(found, prompt.units, strict=True):
            assert words
            assert " ".join(unit.text.split()) in words or unit.text.startswith(words)


def test_words_are_counted_from_the_one_that_a_place_is_in() -> None:
    text = "say “we use uv” now"
    assert reader.words_between(text, 5, 14) == range(1, 4)  # behind the quotation mark
    assert reader.words_between(text, 3, 9) == range(1, 3)  # at the space
    assert reader.words_between(text, 0, len(text)) == range(5)


def test_a_unit_that_goes_on_in_the_next_window_is_read_as_far_as_its_own() -> None:
    prompt = reader.split_prompt("we deploy on Tuesdays. never on Fridays", ())
    assert reader.windows_with_units(prompt, ["we deploy", "on Tuesdays. never", "on Fridays"]) == [
        ("we deploy", [range(2)]),
        ("on Tuesdays. never", [range(2, 3)]),
    ]
    assert reader.windows_with_units(prompt, ["we dep", "loy on Tuesdays. never on Fridays"]) == []
