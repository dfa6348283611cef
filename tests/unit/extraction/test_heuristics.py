"""What is learned from a prompt, and what is not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.capture.events import MAX_TEXT_CHARACTERS
from filrouge.extraction.heuristics import extract
from filrouge.extraction.model_answers import is_supported
from filrouge.memories.models import Statement
from tests.support.tiers import examples, long

from . import corpus
from .replay import prompt

#: Floors under the measured values, so that a change that loses something is seen.
FLOORS = {"tune": (0.97, 0.97), "held out": (0.95, 0.88)}


def _hits(case: corpus.Case, found: list[Statement]) -> int:
    """How many wanted statements were found; each found one counts once."""
    hits = 0
    for wanted in case.wanted:
        hit = next((s for s in found if _is(wanted, s)), None)
        if hit is not None:
            found.remove(hit)
            hits += 1
    return hits


def _is(wanted: corpus.Wanted, found: Statement) -> bool:
    right_words = all(re.search(pattern, found.text, re.IGNORECASE) for pattern in wanted.must)
    return right_words and found.scope == wanted.scope and found.kind in wanted.kinds.split()


@pytest.mark.parametrize(
    ("name", "cases"), [("tune", corpus.TUNE), ("held out", corpus.HELD_OUT)], ids=["tune", "held-out"]
)
def test_precision_and_recall_stay_above_their_floors(name: str, cases: tuple[corpus.Case, ...]) -> None:
    right = found = wanted = 0
    wrong: list[str] = []
    for case in cases:
        statements = list(extract(prompt(case.text)))
        found += len(statements)
        hits = _hits(case, statements)
        right, wanted = right + hits, wanted + len(case.wanted)
        if hits < len(case.wanted) or statements:
            wrong.append(case.text)
    precision, recall = right / found, right / wanted
    assert (precision, recall) >= FLOORS[name], (precision, recall, wrong)
    assert recall >= FLOORS[name][1], (precision, recall, wrong)


@pytest.mark.parametrize("case", corpus.TUNE + corpus.HELD_OUT, ids=lambda case: case.text[:40])
def test_every_statement_is_proved_by_its_span(case: corpus.Case) -> None:
    for statement in extract(prompt(case.text)):
        assert is_supported(statement, case.text)


def test_a_rule_keeps_its_reason_and_loses_its_opening() -> None:
    text = "Ground rule before we start: in this repo use uv, never pip. CI breaks when someone pip-installs."
    (rule,) = extract(prompt(text))
    assert rule.kind == "rule"
    assert rule.text == "in this repo use uv, never pip. CI breaks when someone pip-installs."
    assert text[rule.span.start : rule.span.end] == rule.text


def test_a_request_after_a_decision_is_not_part_of_it() -> None:
    (decision,) = extract(
        prompt("For the API we decided on Drizzle instead of Prisma. Put it in docs/decisions.md please.")
    )
    assert decision.text == "For the API we decided on Drizzle instead of Prisma."


def test_forgetting_the_old_choice_belongs_to_its_correction() -> None:
    (correction,) = extract(prompt("Finalement on revient à LaTeX pour les PDF. Oublie Typst."))
    assert correction.is_correction
    assert correction.corrects == ("typst",)
    assert correction.subject == "pdf"


def test_who_the_user_is_and_what_they_like_are_two_statements_about_the_user() -> None:
    name, taste = extract(prompt("Au fait, je m'appelle Ana Beltran et je préfère des réponses courtes, en français."))
    assert (name.key, name.value, name.scope) == ("user_name", "Ana Beltran", "user")
    assert (taste.kind, taste.scope, taste.sentiment, taste.timeframe) == ("preference", "user", "positive", "standing")


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("La prod est sur le port 8443, derrière Caddy.", "production port"),
        ("We moved from port 8443 to 9443 for production.", "production port"),
        ("Staging runs on Fly.io in region cdg.", "staging"),
        ("Pour les PDF on a choisi Typst plutôt que LaTeX.", "pdf"),
    ],
)
def test_a_subject_is_the_same_in_both_languages(text: str, subject: str) -> None:
    (statement,) = extract(prompt(text))
    assert statement.subject == subject


RULE = "In this repo always use uv, never pip."


@pytest.mark.parametrize(
    "change",
    [{"role": "assistant"}, {"role": "tool", "source": "command"}, {"trust": 1}, {"source": "summary"}],
    ids=["reply", "tool output", "low trust", "summary"],
)
def test_only_the_users_own_words_become_memory(change: dict[str, object]) -> None:
    assert extract(prompt(RULE)) != ()
    assert extract(replace(prompt(RULE), **change)) == ()  # pyright: ignore[reportArgumentType]


PIECES = st.sampled_from([case.text for case in corpus.TUNE + corpus.HELD_OUT])
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=300),
    st.lists(st.one_of(PIECES, st.text(st.characters(exclude_categories=()), max_size=20)), max_size=5).map(" ".join),
)


def test_a_rule_after_a_huge_paste_is_heard_where_it_stands() -> None:
    text = "x = 1\n" * 100_000 + "\nNever push directly to main."
    (rule,) = extract(prompt(text))
    assert text[rule.span.start : rule.span.end] == "Never push directly to main."


@settings(max_examples=examples(200), deadline=None)
@example("FORGET/0. FORGET/0")
@given(ANY_TEXT)
def test_spans_lie_inside_the_text_in_order(text: str) -> None:
    at = 0
    for statement in extract(prompt(text)):
        assert at <= statement.span.start < statement.span.end <= len(text)
        assert statement.text
        at = statement.span.end


@pytest.mark.law
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "é. ",
        "We use Postgres 16 for orders. ",
        "a,b;c:d-",
        "\x00\ud800 ",
        "`",
        "never ",
        "from a to ",
        "((((",
        "😂 ",
        "x\n",
        "1.2.3.4 ",
        "```\na\n```\n",
        "<private ",
        "<private>x</private> ",
        "please ",
        "here is the ",
        "summarize this ",
        "No, 3001. ",
        "the tests run with ",
        "my favourite ",
    ],
)
def test_the_longest_text_of_anything_ends(unit: str) -> None:
    length = long(MAX_TEXT_CHARACTERS)
    text = (unit * (length // len(unit) + 1))[:length]
    before = time.process_time()
    extract(prompt(text))
    assert time.process_time() - before < 20  # about 1 s where time grows with the length, hours where with its square
