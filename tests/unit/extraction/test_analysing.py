"""Sessions are analysed without a model: subjects, names, open questions, summaries; nobody is misquoted."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from filrouge.capture.models import Role
from filrouge.extraction.models import EMPTY_ANALYSIS, Analysis, Entity, Quote
from filrouge.extraction.summaries import (
    GENERIC_TOPICS,
    MAX_CONCEPTS,
    MIN_TOPIC_CHARS,
    analyse,
    clean_topics,
    concepts,
    entities,
    open_questions,
    points,
    summary_of,
)
from filrouge.extraction.vocabulary import STOP, fold

from .conversations import ENGLISH, FRENCH, conversation, turn

ROLES = st.sampled_from(["user", "assistant", "tool"])
SPOKEN = st.sampled_from([text for _, text in (*ENGLISH, *FRENCH)]) | st.text(max_size=200)
CONVERSATIONS = st.lists(st.tuples(ROLES, SPOKEN), max_size=8)


def typed(found: tuple[Entity, ...]) -> dict[str, str]:
    return {one.name: one.type for one in found}


# Topics


def test_topics_lose_their_labels_their_capitals_and_what_is_no_subject() -> None:
    assert clean_topics(
        [
            "MESSAGE: Payment Queue",
            "CONTENU: Export PDF",
            "FICHIER: queue.py",
            "message: fichier: Export PDF",
            "code",
            "ab",
            "1234",
            "Function",
            "payment queue",
            "json response",
            "  ",
            "Analyse : variable",
        ]
    ) == ["payment queue", "export pdf", "queue.py"]


@settings(deadline=None)
@given(st.lists(st.text(max_size=40) | st.sampled_from(["MESSAGE: code", "Fichier : A.py", "the Json", "Éléphants"])))
def test_clean_topics_are_subjects_and_cleaning_them_changes_nothing(topics: list[str]) -> None:
    clean = clean_topics(topics)
    assert clean_topics(clean) == clean
    assert len(set(clean)) == len(clean)
    assert all(len(one) >= MIN_TOPIC_CHARS and any(map(str.isalpha, one)) and one == one.lower() for one in clean)
    assert not GENERIC_TOPICS & {fold(one) for one in clean}


# Concepts


def test_the_concepts_of_a_conversation_are_its_subjects() -> None:
    assert {"redis", "webhook", "payment queue"} <= set(concepts(conversation(*ENGLISH)))
    assert {"typst", "factures"} <= set(concepts(conversation(*FRENCH)))


def test_a_word_that_is_rare_elsewhere_weighs_more() -> None:
    turns = conversation(("user", "The ledger and the gateway and the scheduler disagree about the quota."))
    for rare in ("ledger", "gateway", "scheduler", "quota"):
        assert concepts(turns, rarity=lambda word, rare=rare: 3.0 if word == rare else 1.0)[0] == rare


def test_half_a_character_in_a_message_stops_nothing() -> None:
    assert "gateway" in concepts(conversation(("user", "The led\ud800ger and the gateway disagree about the gateway.")))


def test_concepts_of_earlier_turns_count_on() -> None:
    later = conversation(("user", "Now the vector index, please: the vector index lags behind."))
    both = concepts(later, former=("payment queue", "redis"))
    assert "payment queue" in both
    assert "vector index" in both


def test_people_and_places_are_no_concepts() -> None:
    assert not {"lena", "lyon"} & {word for one in analyse(conversation(*ENGLISH)).concepts for word in one.split()}


@settings(deadline=None)
@given(CONVERSATIONS)
@example([("user", "0a00 0a00")])
def test_concepts_are_few_clean_and_none_repeats_another(messages: list[tuple[Role, str]]) -> None:
    found = concepts(conversation(*messages))
    assert len(found) <= MAX_CONCEPTS
    assert clean_topics(found) == list(found)
    assert all(fold(one) not in STOP for one in found)
    words = [word for one in found for word in one.split()]
    assert len(words) == len(set(words))


def test_tool_output_and_small_talk_give_no_concept() -> None:
    noise = turn("tool", "Bash: kubernetes kubernetes kubernetes rollout")
    assert concepts([noise, turn("user", "Thanks a lot!", skipped="small talk")]) == ()


# Entities


def test_entities_have_a_kind_in_english() -> None:
    assert typed(entities(conversation(*ENGLISH))) == {
        "Redis": "tool", "Lena": "person", "Stripe": "tool", "https://ci.example.com/run/1": "url", "Lyon": "place",
        "Northwind": "organisation", "RabbitMQ": "tool", "src/checkout/queue.py": "file",
        "src/checkout/webhook.py": "file", "tests/test_checkout.py": "file",
    }  # fmt: skip


def test_entities_have_a_kind_in_french() -> None:
    found = typed(
        entities(conversation(*FRENCH, ("user", "Je travaille chez Boréal, nos bureaux sont situés à Nantes.")))
    )
    assert found["Inès"] == "person"
    assert found["Typst"] == "tool"
    assert found["Boréal"] == "organisation"
    assert found["Nantes"] == "place"


def test_a_known_project_is_told_from_other_names_and_former_mentions_count_on() -> None:
    turns = conversation(("user", "In Quillwork the parser fails. We ported it from Quillwork to Rust."))
    found = entities(turns, projects=["quillwork"], former=(Entity(name="Rust", type="tool", mentions=4),))
    assert found == (Entity(name="Rust", type="tool", mentions=5), Entity(name="Quillwork", type="project", mentions=2))


def test_what_was_redacted_names_nothing() -> None:
    assert entities(conversation(("user", "Ask [redacted:api-key] and use [redacted:api-key] with it."))) == ()


# Questions


def test_a_question_that_nobody_answered_is_open() -> None:
    assert [one.text for one in open_questions(conversation(*ENGLISH))] == ["Which Redis version does production run?"]
    french = [one.text for one in open_questions(conversation(*FRENCH))]
    assert french == ["Pourquoi la génération des factures prend 4 secondes ?"]


def test_an_answer_closes_a_question_even_in_later_turns() -> None:
    asked = conversation(("user", "Which Redis version does production run?"))
    [open_one] = open_questions(asked)
    unsure = conversation(("assistant", "I don't know the Redis version yet."), first=1)
    assert open_questions(unsure, former=[open_one]) == (open_one,)
    told = conversation(("assistant", "Production runs Redis 7.2."), first=2)
    assert open_questions(told, former=[open_one]) == ()


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        ("how do I list only the five largest tables in psql again", "SELECT relname FROM pg_class LIMIT 5;"),
        ("¿Y qué hacemos con la mesa vieja? Por la puerta no entra.", "Puedes venderla o pedir la recogida gratuita."),
        ("Pourquoi le serveur est aussi gros ? ça va pas non.", "It was set to LARGE in March and never put back."),
    ],
)
def test_a_reply_that_tells_something_answers_whatever_its_words(asked: str, reply: str) -> None:
    assert len(open_questions(conversation(("user", asked)))) == 1
    assert open_questions(conversation(("user", asked), ("assistant", reply))) == ()
    for unhelpful in ("I don't know yet.", "Done."):
        [still] = open_questions(conversation(("user", asked), ("assistant", unhelpful)))
        assert still.text == open_questions(conversation(("user", asked)))[0].text


def test_a_reply_to_an_order_need_not_answer_the_question_beside_it() -> None:
    asked = "Fix the login page. Which Redis version does production run?"
    fixed = conversation(("user", asked), ("assistant", "The login page is fixed."))
    assert [one.text for one in open_questions(fixed)] == ["Which Redis version does production run?"]


def test_an_order_that_looks_like_a_question_is_none() -> None:
    assert open_questions(conversation(("user", "Can you add a Redis queue? Peux-tu renommer le module ?"))) == ()


# Summaries


def test_a_summary_says_what_was_asked_decided_and_done_and_who_says_so() -> None:
    assert analyse(conversation(*FRENCH)).summary == (
        "Demandé : Corriger l'export des factures en PDF. Décidé : On a choisi Typst pour les factures, plus LaTeX."
        " L'agent rapporte : J'ai corrigé l'export : la police n'était pas embarquée dans le PDF."
    )


def test_what_an_agent_claims_is_never_under_a_word_of_the_user() -> None:
    turns = conversation(("user", "Look at the parser."), ("assistant", "We decided to use Bison. I fixed the parser."))
    assert all(point.kind != "decided" for point in points(turns))
    assert "The agent reports: I fixed the parser." in summary_of(points(turns), "en")


def test_a_summary_by_the_host_counts_as_told() -> None:
    told = turn("assistant", "The parser was moved to Bison and its tests pass.", source="summary")
    assert summary_of(points([told]), "en") == "Summarised: The parser was moved to Bison and its tests pass."
    assert analyse([told]).decisions == ()


# The whole


def test_an_analysis_holds_what_a_session_came_to() -> None:
    found = analyse(conversation(*ENGLISH))
    assert [one.text for one in found.decisions] == ["We decided to use Redis for the payment queue, not RabbitMQ."]
    assert [one.text for one in found.constraints] == ["Always run the payment tests before pushing."]
    assert found.implicit_context == ("payment: stripe", "cache: redis")
    assert (found.language, found.made_by) == ("en", "heuristic")
    assert [one.text for one in analyse(conversation(*FRENCH)).preferences] == ["Je préfère des réponses courtes."]
    assert (analyse(conversation(*FRENCH)).intent, analyse(conversation(*FRENCH)).language) == ("fix", "fr")


def test_an_analysis_by_somebody_else_counts_on_when_turns_follow() -> None:
    model = Analysis(summary="They moved billing to Postgres.", concepts=("billing",), made_by="openai/small")
    later = analyse(conversation(("user", "We decided to keep invoices for ten years.")), former=model)
    assert later.summary.startswith("They moved billing to Postgres. ")
    assert "billing" in later.concepts


@settings(deadline=None)
@given(CONVERSATIONS)
def test_every_quote_is_what_the_user_said_where_it_says(messages: list[tuple[Role, str]]) -> None:
    turns = {one.id: one for one in conversation(*messages)}
    found = analyse(list(turns.values()))
    quotes: list[Quote] = [*found.questions, *found.decisions, *found.preferences, *found.intents, *found.constraints]
    for quote in quotes:
        own = turns[quote.turn_id]
        assert own.role == "user"
        assert 0 <= quote.span.start < quote.span.end <= len(own.text)
        assert " ".join(own.text[quote.span.start : quote.span.end].split()) == " ".join(quote.text.split())


@settings(deadline=None)
@given(CONVERSATIONS)
def test_turns_that_say_nothing_new_leave_an_analysis_as_it_is(messages: list[tuple[Role, str]]) -> None:
    found = analyse(conversation(*messages))
    again = analyse([turn("tool", "Bash: make\nok", number=99)], former=found)
    assert (again.decisions, again.questions, again.points) == (found.decisions, found.questions, found.points)
    assert analyse([]) == EMPTY_ANALYSIS
