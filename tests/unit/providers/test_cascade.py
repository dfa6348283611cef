"""Models in order: who is asked, who is left alone, what is told when nobody answers, and what all of it cost."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from filrouge.core.errors import ModelUnavailable
from filrouge.core.protocols import LanguageModel
from filrouge.providers.language_models import Cascade, CascadeEntry, cascade
from filrouge.providers.models import Completion, CompletionRequest, Failure, Usage
from filrouge.testing import ScriptedModel
from tests.support.provider import Hang, Provider, Refusal, Reply, Status, Trickle
from tests.unit.providers.given import TEXT, ask, at, using


def away(kind: str = "server", retry_after: float | None = None) -> ModelUnavailable:
    told = Failure(provider="scripted", model="first", kind=kind, detail="First is away.", retry_after=retry_after)
    spent = {("scripted", "first"): Usage(calls=1, input_tokens=10, dollars=0.5)}
    return ModelUnavailable("First is away.", failures=(told,), spent=spent)


class Twice:
    """Two scripted models behind one another, on a clock that a test moves."""

    def __init__(self, *answers: str | ModelUnavailable) -> None:
        self.now = 0.0
        self.first = ScriptedModel(answers, model="first")
        self.second = ScriptedModel(["from the second"], model="second")
        self.cascade = Cascade(
            [CascadeEntry(model=self.first, seconds=5), CascadeEntry(model=self.second, seconds=5)],
            rest_seconds=60.0,
            now=lambda: self.now,
        )

    def ask(self) -> Completion:
        return asyncio.run(self.cascade.complete(ask()))


def test_the_first_that_answers_is_the_answer() -> None:
    pair = Twice("from the first")
    assert pair.ask().text == "from the first"
    assert pair.second.asked == []
    assert (pair.cascade.provider, pair.cascade.model) == ("scripted", "first")


def test_the_next_answers_for_one_that_failed_and_both_are_paid() -> None:
    pair = Twice(away())
    found = pair.ask()
    assert (found.text, found.model) == ("from the second", "second")
    assert found.spent["scripted", "first"] == Usage(calls=1, input_tokens=10, dollars=0.5)
    assert found.spent["scripted", "second"].calls == 1


def test_five_failures_in_a_row_open_the_breaker_until_the_rest_is_over() -> None:
    pair = Twice(away())
    for _ in range(8):
        pair.ask()
    assert len(pair.first.asked) == 5
    assert len(pair.second.asked) == 8
    pair.now = 61.0
    pair.ask()
    pair.ask()
    assert len(pair.first.asked) == 6, "one probe, and another rest"


def test_a_probe_that_is_answered_closes_the_breaker() -> None:
    pair = Twice(*[away()] * 5, "well again")
    for _ in range(5):
        pair.ask()
    pair.now = 61.0
    assert [pair.ask().text for _ in range(3)] == ["well again"] * 3


@pytest.mark.parametrize("kind", ["refused", "empty", "too_long"])
def test_a_bad_answer_goes_to_the_next_and_is_not_held_against_anybody(kind: str) -> None:
    pair = Twice(away(kind))
    assert {pair.ask().text for _ in range(12)} == {"from the second"}
    assert len(pair.first.asked) == 12


@pytest.mark.parametrize("kind", ["timeout", "connection", "rate_limit", "server", "configuration", "other"])
def test_every_other_failure_counts(kind: str) -> None:
    pair = Twice(away(kind))
    for _ in range(12):
        pair.ask()
    assert len(pair.first.asked) == 5


def test_who_asks_for_a_pause_is_given_it_and_no_longer_than_a_quarter_of_an_hour() -> None:
    for asked, given in ((120.0, 120.0), (1e9, 900.0)):
        pair = Twice(away("rate_limit", asked))
        pair.ask()
        pair.now = given - 1
        pair.ask()
        assert len(pair.first.asked) == 1
        pair.now = given + 1
        pair.ask()
        assert len(pair.first.asked) == 2


def test_when_nobody_answers_everybody_is_named_with_what_was_spent() -> None:
    first = ScriptedModel([away()], model="first")
    second = ScriptedModel([away("refused")], model="second")
    both = Cascade([CascadeEntry(model=first, seconds=5), CascadeEntry(model=second, seconds=5)], now=lambda: 0.0)
    errors: list[ModelUnavailable] = []
    for _ in range(6):
        with pytest.raises(ModelUnavailable) as caught:
            asyncio.run(both.complete(ask()))
        errors.append(caught.value)
    assert [one.kind for one in errors[0].failures] == ["server", "refused"]
    assert [one.kind for one in errors[5].failures] == ["open", "refused"]
    assert errors[5].failures[0].retry_after == 60.0
    assert "It is tried again in 60 s." in errors[5].message
    assert errors[0].spent["scripted", "first"] == Usage(calls=2, input_tokens=20, dollars=1.0)
    assert "Nothing is lost" in errors[0].remedy


def test_a_model_that_raises_anything_is_a_failure_without_its_words() -> None:
    def broken(_: object) -> str:
        raise KeyError(TEXT)

    one = Cascade([CascadeEntry(model=ScriptedModel(broken), seconds=5)])
    with pytest.raises(ModelUnavailable) as caught:
        asyncio.run(one.complete(ask()))
    assert caught.value.failures[0].kind == "other"
    assert TEXT not in caught.value.message
    assert caught.value.__context__ is None


def test_whoever_hangs_loses_its_turn_in_real_time() -> None:
    with Provider(Trickle("{}", 0.05)) as slow, Provider(Hang()) as silent, Provider(Reply("here")) as well:
        made = cascade([
            at("ollama", slow, seconds=0.3), at("anthropic", silent, seconds=0.3), at("openai", well, seconds=20),
        ])  # fmt: skip
        found = using(made, lambda one: one.complete(ask()))
    assert found.text == "here"
    assert sorted(found.spent) == [
        ("anthropic", "claude-haiku-5-5"), ("ollama", "gemma3:4b"), ("openai", "gpt-6-luna"),
    ]  # fmt: skip
    assert found.spent["ollama", "gemma3:4b"] == Usage(calls=1, estimated=True)


def test_a_question_that_is_soon_of_no_use_is_given_up_by_all_and_held_against_nobody() -> None:
    class Slow(ScriptedModel):
        async def complete(self, request: CompletionRequest) -> Completion:
            self.asked.append(request)
            await asyncio.sleep(60 if request.seconds else 0)
            return await super().complete(request)

    slow, behind = Slow(["at last"], model="slow"), ScriptedModel(["from behind"], model="behind")
    made = Cascade([CascadeEntry(model=slow, seconds=30), CascadeEntry(model=behind, seconds=30)])
    for _ in range(6):
        with pytest.raises(ModelUnavailable) as caught:
            asyncio.run(made.complete(replace(ask(), seconds=0.01)))
        assert [one.kind for one in caught.value.failures] == ["late"]
        assert caught.value.spent == {("scripted", "slow"): Usage(calls=1, estimated=True)}
    assert behind.asked == []
    assert asyncio.run(made.complete(ask())).text == "at last"


def test_a_provider_that_is_broken_for_long_is_hardly_asked_and_costs_nothing() -> None:
    async def day(made: LanguageModel) -> list[Usage]:
        spent: list[Usage] = []
        for _ in range(200):
            try:
                await made.complete(ask())
            except ModelUnavailable as error:
                spent += error.spent.values()
        return spent

    with Provider(Status(500)) as server:
        spent = using(cascade([at("openai", server)]), day)
        assert len(server.asked) == 5
    assert sum(one.input_tokens + one.output_tokens for one in spent) == 0


def test_a_refusal_is_paid_and_the_next_model_asked() -> None:
    with Provider(Refusal()) as shy, Provider(Reply("here")) as well:
        found = using(cascade([at("anthropic", shy), at("openai", well)]), lambda one: one.complete(ask()))
    assert found.text == "here"
    assert found.spent["anthropic", "claude-haiku-5-5"].input_tokens > 0


def test_the_health_of_a_cascade_is_that_of_its_first_healthy_model() -> None:
    pair = Twice(away())
    pair.first.healthy = False
    asyncio.run(pair.cascade.check())
    pair.second.healthy = False
    with pytest.raises(ModelUnavailable) as caught:
        asyncio.run(pair.cascade.check())
    assert [one.model for one in caught.value.failures] == ["first", "second"]


def test_a_health_check_that_passes_ends_the_rest() -> None:
    pair = Twice(*[away()] * 5, "well again")
    for _ in range(6):
        pair.ask()
    asyncio.run(pair.cascade.check())
    assert pair.ask().text == "well again"


def test_closing_closes_every_model() -> None:
    pair = Twice("x")
    asyncio.run(pair.cascade.close())
    assert pair.first.closed
    assert pair.second.closed
