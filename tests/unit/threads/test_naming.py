import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core.errors import Unreadable
from filrouge.core.scope import Scope
from filrouge.extraction.model_answers import RequestGenerator
from filrouge.extraction.summaries import MAX_TITLE_CHARS
from filrouge.extraction.vocabulary import fold
from filrouge.providers.language_models import prompt
from filrouge.providers.models import Completion, CompletionRequest
from filrouge.threads.models import Thread, TitleBy
from filrouge.threads.upkeep import (
    MAX_SUMMARY_CHARS,
    ThreadName,
    extract_topics,
    is_model_rename_due,
    is_rename_due,
    make_distinct,
    name_by_model,
    name_by_rules,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BREAD = (
    "Hi, can you help me with my sourdough starter? It does not rise any more.",
    "I feed the sourdough starter with rye flour once a day.",
    "The loaf spreads in the oven instead of rising.",
)


def turns(*texts: str) -> list[Turn]:
    return [
        Turn(
            id=str(place),
            key=str(place),
            scope=Scope(),
            host="toy",
            role="user",
            source="prompt",
            text=text,
            at=NOON + timedelta(minutes=place),
            trust=TRUST_PROMPT,
        )
        for place, text in enumerate(texts)
    ]


def thread(title: str, by: TitleBy = "rules") -> Thread:
    return Thread(
        id="a", user="local", project=None, title=title, title_by=by, opened_at=NOON, last_active=NOON, turns=3
    )


def played(thought: RequestGenerator[ThreadName], *answers: str) -> tuple[ThreadName, list[CompletionRequest]]:
    asks: list[CompletionRequest] = [next(thought)]
    for answer in answers:
        try:
            asks.append(thought.send(Completion(text=answer, provider="toy", model="m", spent={})))
        except StopIteration as end:
            return end.value, asks
    raise AssertionError("more was asked than answered")


def test_the_subjects_of_a_prompt_are_cleaned_topics() -> None:
    [turn] = turns("MESSAGE: the retention of our pgBackRest backups in the data file")

    found = extract_topics(turn)

    assert any("pgbackrest" in topic for topic in found)
    assert 1 <= len(found) <= 5
    assert {"message", "data", "file"}.isdisjoint(found)


def test_a_title_is_the_subject_without_greeting_and_courtesy() -> None:
    title = name_by_rules(turns(*BREAD), ()).title

    assert title.startswith("Sourdough starter")
    assert not title.lower().startswith(("hi", "can you"))


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (
            (
                "hmm the nightly export takes two hours since last week, can you have a look at it maybe?",
                "because I really cannot wait for the nightly export that long",
                "ok, and the index on customer_id that was missing, is that in the export now?",
            ),
            "Export",
        ),
        (
            (
                "Bon alors, les mails de relance partaient en double hier, tu pourrais regarder pourquoi ça arrive ?",
                "Plutôt dans la tâche cron, je crois, les relances viennent de là",
                "Voilà, la tâche cron était inscrite deux fois, donc les relances partaient en double",
            ),
            "elance",
        ),
    ],
)
def test_a_title_names_the_work_in_few_words_and_is_no_cut_sentence(texts: tuple[str, ...], title: str) -> None:
    named = name_by_rules(turns(*texts), ())
    assert title in named.title
    assert len(named.title.split()) <= 7
    small = {"because", "let", "hmm", "really", "maybe", "plutot", "voila", "donc", "bon", "alors", "kb"}
    assert small.isdisjoint(fold(word) for topic in named.topics for word in topic.split())


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Quelles variables d'environnement lit l'application ? Regarde dans .env", "Variables d'environnement"),
        ("Les mails de relance partaient en double, tu peux regarder", "Mails de relance"),
        ("Why does the queue of the worker fill up at night?", "Queue of the worker"),
        ("¿Cómo corrijo el tamaño de la portada?", "Tamaño de la portada"),
    ],
)
def test_a_title_keeps_the_words_that_a_preposition_joins(text: str, title: str) -> None:
    assert name_by_rules(turns(text), ()).title.startswith(title)


def test_a_sentence_is_no_title() -> None:
    assert name_by_rules(turns("I drive too much between the shops"), ()).title != "I drive too much between the shops"


def test_a_title_stays_while_it_names_what_the_thread_is_about() -> None:
    assert name_by_rules(turns(*BREAD), (), thread("Reviving a starter")).title == "Reviving a starter"
    assert "sourdough" in name_by_rules(turns(*BREAD), (), thread("Thoughts of a Sunday")).title.lower()


@pytest.mark.parametrize("by", ["user", "model"])
def test_what_a_user_or_a_model_named_stays(by: TitleBy) -> None:
    named = name_by_rules(turns(*BREAD), (), thread("Thoughts of a Sunday", by))

    assert (named.title, named.title_by) == ("Thoughts of a Sunday", by)


def test_a_thread_is_not_renamed_at_every_turn() -> None:
    assert [count for count in range(1, 50) if is_rename_due(count)] == [1, 3, 6, 12, 24, 48]


def test_two_threads_of_one_title_are_told_apart_by_what_they_are_about() -> None:
    first = name_by_rules(turns("The invoice export fails"), ())
    second = name_by_rules(
        turns("The invoice export fails", "Only for the Belgian customers with reverse charge"), [first.title]
    )

    assert second.title.startswith(first.title)
    assert second.title != first.title
    assert "(2)" not in second.title


def test_where_topics_do_not_tell_them_apart_the_day_does() -> None:
    assert make_distinct("Backups", ["backups"], ["backups"], NOON) == "Backups · 2026-03-01"


@given(taken=st.lists(st.sampled_from(["Backups", "Backups · 2026-03-01", "Backups · 2026-03-01 12:00", "x"])))
def test_a_title_is_never_taken(taken: Sequence[str]) -> None:
    assert make_distinct("Backups", [], taken, NOON) not in taken


@given(texts=st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=5))
def test_of_any_prompts_the_summary_fits_and_the_title_is_one_line(texts: list[str]) -> None:
    named = name_by_rules(turns(*texts), ())

    assert len(named.summary) <= MAX_SUMMARY_CHARS
    assert len(named.title) <= 2 * MAX_TITLE_CHARS
    assert "\n" not in named.title


def test_a_model_may_give_a_better_name() -> None:
    rules = name_by_rules(turns(*BREAD), ())
    answer = json.dumps({"title": "Weak sourdough starter.", "summary": "A starter that does not rise; rye helps."})

    named, [ask] = played(name_by_model(turns(*BREAD), ["Backups"], rules, prompt, "en"), answer)

    assert (named.title, named.summary) == ("Weak sourdough starter", "A starter that does not rise; rye helps.")
    assert named.title_by == "model"
    assert (ask.operation, "Backups" in ask.text, "rye flour" in ask.text) == ("title", True, True)


def test_a_title_by_a_model_stays_while_it_fits_and_the_summary_is_told_anew() -> None:
    former = replace(name_by_rules(turns(*BREAD), ()), title="Weak sourdough starter", title_by="model")
    answer = json.dumps({"title": "Sourdough with rye", "summary": "Rye flour made it rise."})

    for topics, title in (
        (former.topics, "Weak sourdough starter"),
        (("invoice export", "customers"), "Sourdough with rye"),
    ):
        named, _ = played(name_by_model(turns(*BREAD), [], replace(former, topics=topics), prompt, "en"), answer)
        assert (named.title, named.summary) == (title, "Rye flour made it rise.")


def test_a_model_looks_where_the_rules_look_but_not_at_a_first_prompt() -> None:
    assert [count for count in range(1, 100) if is_model_rename_due(count - 1, count)] == [3, 6, 12, 24, 48, 96]
    assert is_model_rename_due(2, 5)
    assert not is_model_rename_due(3, 5)


@pytest.mark.parametrize("title", ["", "Message", "…", "Holiday in Greece"])
def test_a_models_title_that_is_no_subject_of_the_thread_is_not_taken(title: str) -> None:
    rules = name_by_rules(turns(*BREAD), ())

    assert played(name_by_model(turns(*BREAD), [], rules, prompt, "en"), json.dumps({"title": title}))[0] == rules


def test_an_answer_that_nobody_can_read_is_given_up() -> None:
    with pytest.raises(Unreadable):
        played(name_by_model(turns(*BREAD), [], name_by_rules(turns(*BREAD), ()), prompt, "fr"), "no", "no")
