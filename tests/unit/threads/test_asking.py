import json
from collections.abc import Generator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from filrouge.core.errors import Unreadable
from filrouge.providers.language_models import prompt
from filrouge.providers.models import Completion, CompletionRequest
from filrouge.threads.assignment import RoutedPrompt
from filrouge.threads.models import Routing, Thread, ThreadCandidate
from filrouge.threads.upkeep import ask_membership

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CANDIDATE = Thread(
    id="bread",
    user="local",
    project=None,
    title="Sourdough starter",
    summary="x" * 400,
    topics=("rye", "starter", "oven", "flour", "crust", "crumb"),
    state="suspended",
    opened_at=NOON,
    last_active=NOON,
)
ITEM = RoutedPrompt(text="y" * 900, topics=("a1", "b1", "c1", "d1", "e1", "f1"), at=NOON)


def routing(*, own: bool = False) -> Routing:
    best = ThreadCandidate(
        thread_id="bread", state="suspended", embedding=0.3, topics=0.1, exact=False, own=False, similarity=0.3
    )
    inside = ThreadCandidate(
        thread_id="tax", state="active", embedding=0.0, topics=0.0, exact=False, own=True, similarity=0.1
    )
    return Routing(
        action="new",
        thread_id=None,
        similarity=0.3,
        candidates=(best, inside) if own else (best,),
        reason="",
        borderline=True,
    )


def answered(
    thought: Generator[CompletionRequest, Completion, Routing], *answers: str
) -> tuple[Routing, CompletionRequest]:
    ask = next(thought)
    for answer in answers:
        try:
            thought.send(Completion(text=answer, provider="toy", model="m", spent={}))
        except StopIteration as end:
            return end.value, ask
    raise AssertionError("more was asked than answered")


def said(related: bool, confidence: float) -> str:
    return json.dumps({"related": related, "confidence": confidence, "reason": "because"})


def test_a_models_yes_wakes_the_thread_with_the_mean_of_both_confidences() -> None:
    found, ask = answered(ask_membership(ITEM, routing(), CANDIDATE, prompt, "en"), said(True, 0.9))

    assert (found.action, found.thread_id, found.model) == ("reactivate", "bread", "toy/m")
    assert found.similarity == pytest.approx(0.6)
    assert ask.operation == "thread"


def test_the_question_is_short() -> None:
    _, ask = answered(ask_membership(ITEM, routing(), CANDIDATE, prompt, "fr"), said(True, 0.9))

    assert ask.text.count("y") < 520
    assert ask.text.count("x") == 200
    assert "e1" in ask.text
    assert "f1" not in ask.text
    assert "crumb" not in ask.text


@pytest.mark.parametrize("own", [False, True])
def test_a_no_takes_a_prompt_out_of_the_thread_that_the_rules_woke_for_it(own: bool) -> None:
    woken = replace(routing(own=own), action="reactivate", thread_id="bread")
    found, _ = answered(ask_membership(ITEM, woken, CANDIDATE, prompt, "en"), said(False, 0.9))

    expected = ("fork", None, "tax") if own else ("new", None, None)
    assert (found.action, found.thread_id, found.parent) == expected
    assert (found.model, found.borderline) == ("toy/m", False)


def test_a_no_says_nothing_of_the_thread_that_the_rules_chose_instead() -> None:
    stays = replace(routing(own=True), action="continue", thread_id="tax")
    found, _ = answered(ask_membership(ITEM, stays, CANDIDATE, prompt, "en"), said(False, 0.9))

    assert (found.action, found.thread_id, found.borderline) == ("continue", "tax", False)


@pytest.mark.parametrize("answer", [said(True, 0.4), said(False, 0.4)])
def test_who_is_not_sure_leaves_the_decision_and_leaves_it_open(answer: str) -> None:
    for stands in (routing(), replace(routing(), action="reactivate", thread_id="bread")):
        found, _ = answered(ask_membership(ITEM, stands, CANDIDATE, prompt, "en"), answer)

        assert (found.action, found.thread_id, found.borderline) == (stands.action, stands.thread_id, True)
        assert found.model == "toy/m"
        assert "not sure" in found.reason


def test_the_question_says_how_long_its_answer_is_of_use() -> None:
    assert next(ask_membership(ITEM, routing(), CANDIDATE, prompt, "en", seconds=5.0)).seconds == 5.0


def test_an_answer_that_nobody_can_read_leaves_the_rules_decision_to_the_caller() -> None:
    with pytest.raises(Unreadable):
        answered(ask_membership(ITEM, routing(), CANDIDATE, prompt, "en"), "yes", json.dumps({"related": "who knows"}))
