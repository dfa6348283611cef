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
from filrouge.memories.models import Statement
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.embedders import windows


@pytest.fixture(scope="module")
def embedder() -> PartEmbedder:
    return OnnxE5()


def vectors_of(prompts: list[reader.Prompt], embedder: PartEmbedder) -> list[reader.PromptVectors | None]:
    """The vectors of each prompt's parts; all passages are read together."""
    passages = [reader.passages(prompt, windows(prompt.text)) for prompt in prompts]
    found = embedder.part_vectors([passage for one in passages for passage in one])
    assert found is not None
    remaining = iter(found)
    return [
        reader.vectors_of(prompt, [next(remaining) for _ in one]) for prompt, one in zip(prompts, passages, strict=True)
    ]


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
        "fix the typo in this sentence: we always use tabs",
        "corrige la faute dans ce message : on déploie toujours le mardi",
        "corrige la falta en este texto: siempre usamos tabuladores",
        "thanks, that works",
        "¿y si mejor cobramos por suscripción?",
        "rename the function to load_rows and show me the diff",
        "do you remember that the port is 9443?",
    ],
)
def test_questions_requests_and_quotations_are_not(embedder: PartEmbedder, prompt: str) -> None:
    assert read(prompt, embedder) == ()


def test_what_is_said_of_the_place_of_the_work_is_the_users_own(embedder: PartEmbedder) -> None:
    assert read("note for the work in this file: we always use tabs", embedder)


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


TEXTS = st.text(alphabet="ab.?!,;:-\n\t é`>", max_size=400) | st.lists(st.text(max_size=80), max_size=60).map("\n".join)


def words_of(text: str, part: range) -> str:
    return " ".join(text.split()[part.start : part.stop])


@given(TEXTS, TEXTS)
def test_the_words_of_every_part_are_found_in_its_passage(text: str, answered: str) -> None:
    prompt = reader.split_prompt(text, (), answered)
    passages = reader.passages(prompt, windows(prompt.text))
    found = [words_of(passage.text, part) for passage in passages for part in passage.parts]
    if found:  # none where a word is longer than a window
        assert len(found) == len(prompt.units)
        for words, unit in zip(found, prompt.units, strict=True):
            assert words
            assert " ".join(unit.text.split()) in words or unit.text.startswith(words)
    proposed = [words_of(passage.before, part) for passage in passages for part in passage.parts_before]
    last = prompt.proposals[len(prompt.proposals) - len(proposed) :]
    for words, proposal in zip(proposed, last, strict=True):
        assert " ".join(proposal.sentence.text.split()) in words


def test_words_are_counted_from_the_one_that_a_place_is_in() -> None:
    text = "say “we use uv” now"
    assert reader.words_between(text, 5, 14) == range(1, 4)  # behind the quotation mark
    assert reader.words_between(text, 3, 9) == range(1, 3)  # at the space
    assert reader.words_between(text, 0, len(text)) == range(5)


def test_a_prompt_is_read_window_by_window_each_behind_the_words_before_it() -> None:
    prompt = reader.split_prompt("we deploy on Tuesdays. never on Fridays", (), "Done. I'd deploy it today.")
    found = reader.passages(prompt, ["we deploy", "on Tuesdays. never", "on Fridays"])
    # A unit that goes on in the next window is read as far as its own; no unit begins in the last one.
    assert [(one.before, one.text, one.parts) for one in found] == [
        ("Done. I'd deploy it today.", "we deploy", (range(2),)),
        ("we deploy", "on Tuesdays. never", (range(2, 3),)),
    ]
    assert [one.parts_before for one in found] == [(range(1), range(1, 5)), ()]
    assert reader.passages(prompt, ["we dep", "loy on Tuesdays. never on Fridays"]) == []


def test_of_a_long_message_the_sentences_are_read_that_begin_near_its_end() -> None:
    prompt = reader.split_prompt(
        "ok", (), f"{'The build of the harbour office ran for a while today. ' * 12}I'd deploy it."
    )
    [passage] = reader.passages(prompt, ["ok"])
    assert len(passage.before.split()) == 80
    assert len(passage.parts_before) < len(prompt.proposals)
    assert words_of(passage.before, passage.parts_before[-1]) == "I'd deploy it."


def test_what_an_answer_means_depends_on_what_it_answers(embedder: PartEmbedder) -> None:
    """ "9443, since the move" states something behind a question, and less behind nothing."""
    behind, alone = (
        reader.split_prompt("9443, since the move", (), answered)
        for answered in ("Which port does staging listen on?", "")
    )
    one, other = vectors_of([behind, alone], embedder)
    assert one
    assert other
    assert np.abs(one.units - other.units).max() > 0.1
