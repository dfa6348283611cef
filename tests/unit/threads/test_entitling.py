"""A model names threads after the rules did, when they have grown; what a user named stays, and nonsense is refused."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from filrouge.erasure.service import erase
from filrouge.runtime.jobs import MODELS, Jobs
from filrouge.runtime.services import Parts
from filrouge.testing import idle
from filrouge.threads.placing import request_name
from filrouge.threads.service import merge, move, rename
from tests.support.spoken import COUPON, POSTGRES, Adviser, advised, ask_from_now_on, tell, texts, threads, turn_of

TITLE, SUMMARY = (
    "Empty coupon at the checkout",
    "An empty coupon breaks the checkout; where it is validated is looked for.",
)


@pytest.fixture
def model() -> Adviser:
    found = Adviser()
    found.title, found.summary = TITLE, SUMMARY
    return found


@pytest.fixture
def parts(tmp_path: Path, model: Adviser) -> Generator[Parts]:
    with advised(tmp_path / "home", model) as found:
        yield found


def one(parts: Parts, text: str) -> dict[str, object]:
    return next(it for it in threads(parts) if text in texts(parts, it["id"]))


def named(parts: Parts, text: str = COUPON[0]) -> tuple[object, object]:
    found = one(parts, text)
    return found["title"], found["title_by"]


def advise(parts: Parts, *, meanwhile: Callable[[], object] = lambda: None) -> bool:
    """Have a model asked for a name, and something happen before it is written; whether it is to be asked again."""
    thread_id = one(parts, COUPON[0])["id"]
    outcome = request_name(parts, {"thread": thread_id})
    meanwhile()
    parts.writer.run(outcome.write)
    return outcome.again() == {"thread": thread_id}


def test_a_thread_of_three_prompts_gets_a_better_name_and_keeps_it(parts: Parts, model: Adviser) -> None:
    tell(parts, "s", *COUPON[:2])
    assert named(parts)[1] == "rules"
    assert model.about("title") == []
    tell(parts, "s", COUPON[2])
    found = one(parts, COUPON[0])
    assert (found["title"], found["summary"], found["title_by"]) == (TITLE, SUMMARY, "model")
    model.title, model.summary = "Coupon codes", "By now it works."
    tell(parts, "s", *(f"And is the coupon valid in country number {n}, on the checkout page?" for n in range(3)))
    found = one(parts, COUPON[0])
    assert len(model.about("title")) == 2
    assert (found["title"], found["summary"]) == (TITLE, "By now it works.")


def test_without_a_model_or_in_light_mode_nobody_is_asked_for_a_name(tmp_path: Path) -> None:
    for provider, mode in (("", "normal"), ("openai", "light")):
        model = Adviser()
        with advised(tmp_path / (provider + mode), model, extract_provider=provider, mode=mode) as parts:
            tell(parts, "s", *COUPON)
            assert (model.about("title"), named(parts)[1]) == ([], "rules")


def test_what_was_said_hours_ago_is_not_named_by_a_model(parts: Parts, model: Adviser) -> None:
    tell(parts, "s", *COUPON, days_ago=0.5)
    assert model.about("title") == []


@pytest.mark.parametrize("before", [True, False])
def test_a_title_that_a_user_gave_stays(parts: Parts, model: Adviser, before: bool) -> None:
    tell(parts, "s", *COUPON[:2])
    thread_id = str(one(parts, COUPON[0])["id"])
    if before:
        rename(parts, thread_id, "Vouchers")
        tell(parts, "s", COUPON[2])
        assert model.about("title") == []
    else:
        assert not advise(parts, meanwhile=lambda: rename(parts, thread_id, "Vouchers"))
    assert named(parts) == ("Vouchers", "user")


def test_two_threads_never_get_the_same_title(parts: Parts, model: Adviser) -> None:
    model.title = "Work of this week on the checkout coupon and the Postgres schema"
    tell(parts, "a", *COUPON)
    tell(parts, "b", *POSTGRES, "Has the Postgres migration of the database schema a rollback?")
    titles = [it["title"] for it in threads(parts)]
    assert len(titles) == len(set(titles)) == 2
    assert {it["title_by"] for it in threads(parts)} == {"model"}


def test_a_title_that_was_taken_meanwhile_is_qualified(parts: Parts, model: Adviser) -> None:
    tell(parts, "b", POSTGRES[0])
    tell(parts, "a", *COUPON[:2])
    advise(parts, meanwhile=lambda: rename(parts, str(one(parts, POSTGRES[0])["id"]), TITLE))
    title, by = named(parts)
    assert by == "model"
    assert title != TITLE
    assert str(title).startswith(TITLE[:20])


@pytest.mark.parametrize("title", ["", "Message", "…", "Holiday in Greece"])
def test_nonsense_is_no_title(parts: Parts, model: Adviser, title: str) -> None:
    model.title = title
    tell(parts, "s", *COUPON)
    assert len(model.about("title")) == 1
    assert named(parts)[1] == "rules"


def test_what_nobody_can_read_leaves_the_name_and_is_not_asked_again(parts: Parts, model: Adviser) -> None:
    model.broken = "I would rather not."
    tell(parts, "s", *COUPON)
    assert len(model.about("title")) == 2, "one question and its repair"
    assert named(parts)[1] == "rules"
    assert parts.readers.here(lambda tx: Jobs(tx).waiting(MODELS)) == []


def test_an_answer_about_what_was_forgotten_or_moved_meanwhile_is_not_written_and_asked_anew(
    parts: Parts, model: Adviser
) -> None:
    tell(parts, "b", POSTGRES[0])
    tell(parts, "s", *COUPON[:2])
    before = named(parts)
    gone = turn_of(parts, COUPON[1])
    assert advise(parts, meanwhile=lambda: move(parts, [gone], str(one(parts, POSTGRES[0])["id"])))
    assert named(parts) == before
    tell(parts, "s", COUPON[2])
    gone = turn_of(parts, COUPON[2])
    assert advise(parts, meanwhile=lambda: erase(parts, [gone]))
    assert named(parts)[1] == "rules"


def test_a_thread_that_was_merged_meanwhile_is_not_named(parts: Parts, model: Adviser) -> None:
    tell(parts, "b", POSTGRES[0])
    tell(parts, "s", *COUPON[:2])
    into = str(one(parts, POSTGRES[0])["id"])
    merged = str(one(parts, COUPON[0])["id"])
    assert not advise(parts, meanwhile=lambda: merge(parts, merged, into))
    assert one(parts, COUPON[0])["id"] == into
    assert named(parts)[1] == "rules"


def test_a_thread_that_turns_were_moved_into_is_named_anew(parts: Parts, model: Adviser) -> None:
    tell(parts, "s", *COUPON)
    tell(parts, "b", POSTGRES[0])
    asked = len(model.about("title"))
    model.title = "Coupon and Postgres"
    move(parts, [turn_of(parts, POSTGRES[0])], str(one(parts, COUPON[0])["id"]))
    parts.work_waiting.set()
    idle(parts)
    assert len(model.about("title")) == asked + 1
    assert named(parts) == ("Coupon and Postgres", "model")


def test_a_name_is_asked_for_once_a_model_is_set(tmp_path: Path) -> None:
    model = Adviser()
    model.title = TITLE
    with advised(tmp_path, model, extract_provider="") as parts:
        tell(parts, "s", *COUPON)
        ask_from_now_on(parts)
        tell(parts, "s", *(f"And is the coupon valid in country number {n}, on the checkout page?" for n in range(3)))
        assert named(parts) == (TITLE, "model")
