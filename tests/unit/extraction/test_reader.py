"""Prompts read by the statement model with the bundled embedder: what is remembered, of which kind, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from filrouge.core.protocols import Embedder
from filrouge.extraction import reader
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.sentences import units
from filrouge.extraction.statement_model import Numbers
from filrouge.memories.models import Statement
from filrouge.providers.e5 import e5


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return e5()


def read(text: str, embedder: Embedder | None) -> tuple[Statement, ...]:
    prompt = reader.split_prompt(text, statements_of(text))
    vectors: Numbers | None = None
    if embedder is not None and prompt.units:
        vectors = embedder.passages(prompt.texts)
    return reader.statements(prompt, vectors)


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
def test_what_people_say_in_one_sentence_is_remembered(embedder: Embedder, prompt: str, kind: str, scope: str) -> None:
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
def test_questions_requests_and_quotations_are_not(embedder: Embedder, prompt: str) -> None:
    assert read(prompt, embedder) == ()


def test_what_is_told_in_passing_is_kept_without_the_request_beside_it(embedder: Embedder) -> None:
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


def test_the_same_prompt_is_read_alike_in_any_company(embedder: Embedder) -> None:
    texts = ["the demo moved to Friday", "run the tests again please"]
    prompts = [reader.split_prompt(text, statements_of(text)) for text in texts]
    together = embedder.passages(reader.texts_to_embed(prompts))
    alone = [read(text, embedder) for text in texts]
    ends = np.cumsum([len(prompt.texts) for prompt in prompts])
    parts = np.split(together, ends[:-1])
    assert [reader.statements(*pair) for pair in zip(prompts, parts, strict=True)] == alone
