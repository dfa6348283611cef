"""The budget of the day is hard, what models cost is entered, and what nobody may pay for waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.capture.service import store_events
from filrouge.core.clock import next_day, to_text
from filrouge.core.errors import BadConfig, ModelUnavailable, OverBudget
from filrouge.core.settings import Settings
from filrouge.maintenance import health
from filrouge.providers.models import Completion, CompletionRequest, Prompt, Usage
from filrouge.providers.service import ConfiguredModels, ModelTimings, panel
from filrouge.providers.spending import extract_status
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.testing import ScriptedModel, idle, running
from tests.support.given import event
from tests.support.tiers import examples

ASK = CompletionRequest(
    operation="extract", prompt=Prompt(text="p" * 300, version="extract/en/0"), text="t" * 300, schema={}
)
PACE = ModelTimings(after_reply=0.0, quiet=0.0, rest=0.05)


class Dear(ScriptedModel):
    """Costs so many tokens an answer, whatever is said."""

    def __init__(self, tokens: int, dollars: float | None = 0.0) -> None:
        super().__init__(['{"facts": []}'])
        self._usage = Usage(calls=1, input_tokens=tokens, output_tokens=0, dollars=dollars)

    async def complete(self, request: CompletionRequest) -> Completion:
        done = await super().complete(request)
        return replace(done, spent={(self.provider, self.model): self._usage})


@contextmanager
def asking(home: Path, model: ScriptedModel, *, tries: int = 1, **settings: str) -> Generator[Parts]:
    """A whole Filrouge that asks this model."""

    def build(_: Settings, __: Mapping[str, str], ___: ModelTimings) -> ConfiguredModels:
        return ConfiguredModels(model=model, tries=tries, price=lambda asked, answered: (asked + answered) / 1000)

    environ = {f"FILROUGE_{key.upper()}": value for key, value in {"extract_provider": "openai", **settings}.items()}
    with running(str(home), environ=environ, panel=build, pace=PACE) as parts:
        yield parts


def settings_of(parts: Parts) -> Settings:
    return parts.readers.here(lambda tx: parts.settings(tx))


def spent(parts: Parts) -> int:
    return parts.readers.here(lambda tx: LlmUsage(tx).spent(parts.clock.now())).tokens


def test_what_an_answer_cost_is_entered_by_day_operation_and_model(tmp_path: Path) -> None:
    with asking(tmp_path, Dear(120, 0.25)) as parts:
        for _ in range(2):
            parts.models.ask(ASK, settings_of(parts))
        (row,) = extract_status(parts)["usage"]
        assert row == {
            "day": to_text(parts.clock.now())[:10],
            "operation": "extract",
            "provider": "scripted",
            "model": "scripted",
            "calls": 2,
            "input_tokens": 240,
            "output_tokens": 0,
            "estimated": 0,
            "dollars": 0.5,
        }


def test_what_a_failure_cost_is_entered_too(tmp_path: Path) -> None:
    cost = {("openai", "small"): Usage(calls=1, input_tokens=70)}
    model = ScriptedModel([ModelUnavailable("down", spent=cost)])
    with asking(tmp_path, model) as parts:
        with pytest.raises(ModelUnavailable):
            parts.models.ask(ASK, settings_of(parts))
        assert spent(parts) == 70


def test_a_question_that_could_pass_the_cap_is_not_asked(tmp_path: Path) -> None:
    model = Dear(100)
    most = 201 + ASK.max_tokens  # 602 characters with the schema's two, three a token
    with asking(tmp_path, model, llm_daily_tokens=str(most + 100)) as parts:
        parts.models.ask(ASK, settings_of(parts))
        parts.models.ask(ASK, settings_of(parts))
        with pytest.raises(OverBudget, match="200 of"):
            parts.models.ask(ASK, settings_of(parts))
        assert len(model.asked) == 2


def test_all_that_may_be_tried_counts(tmp_path: Path) -> None:
    cap = str(2 * (201 + ASK.max_tokens))
    for tries, allowed in ((2, True), (3, False)):
        with asking(tmp_path / str(tries), Dear(0), tries=tries, llm_daily_tokens=cap) as parts:
            if allowed:
                parts.models.ask(ASK, settings_of(parts))
            else:
                with pytest.raises(OverBudget):
                    parts.models.ask(ASK, settings_of(parts))


def test_money_is_capped_too(tmp_path: Path) -> None:
    model = Dear(1, 1.0)
    with asking(tmp_path, model, llm_daily_dollars="2.5") as parts:
        parts.models.ask(ASK, settings_of(parts))  # up to 1.225 by the price list
        parts.models.ask(ASK, settings_of(parts))
        with pytest.raises(OverBudget, match="dollars"):
            parts.models.ask(ASK, settings_of(parts))
        assert len(model.asked) == 2


def test_money_cannot_be_capped_where_a_price_is_not_known(tmp_path: Path) -> None:
    model = Dear(1, None)

    def build(_: Settings, __: Mapping[str, str], ___: ModelTimings) -> ConfiguredModels:
        return ConfiguredModels(model=model)

    environ = {"FILROUGE_EXTRACT_PROVIDER": "openai", "FILROUGE_LLM_DAILY_DOLLARS": "1"}
    with running(str(tmp_path), environ=environ, panel=build, pace=PACE) as parts:
        with pytest.raises(OverBudget, match="not known") as refused:
            parts.models.ask(ASK, settings_of(parts))
        assert "llm_daily_dollars" in refused.value.remedy
        assert model.asked == []


@hypothesis_settings(max_examples=examples(8), deadline=None)
@given(cost=st.integers(0, 1225), cap=st.integers(1225, 8000), threads=st.integers(1, 8))
def test_the_cap_holds_however_many_ask_at_once(
    tmp_path_factory: pytest.TempPathFactory, cost: int, cap: int, threads: int
) -> None:
    """An answer never costs more than was set aside for it; then no day costs more than its cap."""
    with asking(tmp_path_factory.mktemp("home"), Dear(cost), llm_daily_tokens=str(cap)) as parts:

        def one(_: int) -> bool:
            try:
                parts.models.ask(ASK, settings_of(parts))
            except OverBudget:
                return False
            return True

        with ThreadPoolExecutor(threads) as pool:
            outcomes = list(pool.map(one, range(16)))
        assert spent(parts) == cost * sum(outcomes) <= cap
        assert any(outcomes)


def test_what_is_over_the_budget_waits_for_the_next_day_and_no_try_is_counted(tmp_path: Path) -> None:
    with asking(tmp_path, Dear(10), llm_daily_tokens="0") as parts:
        store_events(parts, [event("reply", text="The live site answers on 9443 since the move.")]).result(60)
        eventually(lambda: any(one["reason"] for one in extract_status(parts)["waiting"]))
        job = parts.readers.here(lambda tx: Jobs(tx).get_by_key("extract:claude-code:s"))
        assert job is not None
        assert (job["state"], job["attempts"]) == ("queued", 0)
        assert job["run_at"] == to_text(next_day(parts.clock.now()))
        assert "tokens of this day are spent" in job["error"]


def test_a_provider_that_is_set_wrongly_is_told_and_keeps_nobody_from_understanding(tmp_path: Path) -> None:
    environ = {"FILROUGE_EXTRACT_PROVIDER": "anthropic"}  # and no key
    with running(str(tmp_path), environ=environ, pace=PACE) as parts:
        store_events(parts, [event(text="We decided on Kafka rather than RabbitMQ for the event bus.")]).result(60)
        eventually(lambda: parts.readers.here(lambda tx: health.stats(tx))["factsCount"] == 1)
        assert "ANTHROPIC_API_KEY" in extract_status(parts)["status"]
        assert extract_status(parts)["status"].startswith("error: ")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"extract_provider": "ollama", "llm_operations": ("decode=ollama",)}, "Did you mean 'decide'"),
        ({"extract_provider": "ollama", "llm_cascade": ("olama",)}, "Did you mean 'ollama'"),
        ({"extract_provider": "ollama", "llm_cascade": (":gemma",)}, "does not name a provider"),
        ({"extract_provider": "claude_cli", "claude_cli_path": "bin/claude"}, "claude_cli_path"),
        ({"extract_provider": "openai"}, "OPENAI_API_KEY"),
    ],
)
def test_what_is_wrong_with_the_settings_of_models_is_named(changes: dict[str, object], told: str) -> None:
    with pytest.raises(BadConfig, match=told):
        panel(Settings().model_copy(update=changes), {}, PACE)


def test_an_operation_may_have_its_own_model_and_falls_back_on_the_usual_ones() -> None:
    chosen = Settings().model_copy(
        update={
            "extract_provider": "ollama",
            "llm_cascade": ("ollama:large", "heuristic"),
            "llm_operations": ("decide = ollama:judge",),
        }
    )
    built = panel(chosen, {}, PACE)
    assert built.of("extract").model == "gemma3:4b"
    assert built.of("decide").model == "judge"
    assert built.tries == 3
    assert built.price(1000, 1000) == 0.0


def test_another_provider_in_the_settings_is_asked_from_the_next_question_on(tmp_path: Path) -> None:
    models: list[ScriptedModel] = []

    def build(settings: Settings, _: Mapping[str, str], __: ModelTimings) -> ConfiguredModels:
        models.append(ScriptedModel(['{"facts": []}'], model=settings.llm_model))
        return ConfiguredModels(model=models[-1])

    environ = {"FILROUGE_EXTRACT_PROVIDER": "openai"}
    with running(str(tmp_path), environ=environ, panel=build, pace=PACE) as parts:
        first, second = (settings_of(parts).model_copy(update={"llm_model": name}) for name in ("one", "two"))
        for settings in (first, first, second):
            parts.models.ask(ASK, settings)
        idle(parts)
    assert [(model.model, len(model.asked), model.closed) for model in models] == [("one", 2, True), ("two", 1, True)]


def eventually(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, "still not true"
        time.sleep(0.01)
