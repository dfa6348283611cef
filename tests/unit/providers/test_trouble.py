"""Providers that are slow, gone, busy or hostile: one failure with its kind in time, nothing of the text told."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.core.errors import ModelUnavailable
from filrouge.core.protocols import LanguageModel
from filrouge.providers.language_models import ModelOptions, model
from filrouge.providers.models import Failure, Usage
from tests.support.provider import (
    Big,
    Echo,
    Hang,
    Provider,
    Raw,
    Refusal,
    Reply,
    Reset,
    Slow,
    Status,
    Step,
    Trickle,
    Truncated,
)
from tests.support.tiers import examples
from tests.unit.providers.given import KEY, KEYS, SERVERS, TEXT, TOLD, answer, ask, at, failure, using

ENDS: list[tuple[str, Step, str]] = [
    ("429", Status(429), "rate_limit"),
    ("500", Status(500), "server"),
    ("503", Status(503), "server"),
    ("529", Status(529, kind="overloaded_error"), "server"),
    ("401", Status(401), "configuration"),
    ("403", Status(403), "configuration"),
    ("404", Status(404), "configuration"),
    ("400", Status(400), "refused"),
    ("nothing", Raw(b""), "server"),
    ("truncated", Truncated(), "server"),
    ("no JSON", Raw(b"<html>log in</html>", "text/html"), "server"),
    ("wrong content type", Raw(b"all is well", "text/plain"), "server"),
    ("nothing in it", Raw(b"{}"), "server"),
    ("null", Raw(b"null"), "server"),
    ("a list", Raw(b"[1, 2]"), "server"),
    ("deep", Raw(b"[" * 60_000), "server"),
    ("reset", Reset(), "connection"),
    ("broken off", Reset(after=30), "connection"),
    ("ten megabytes", Big(10), "too_long"),
    ("packed", Raw(b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}), "too_long"),
    ("silence", Reply(""), "empty"),
    ("blank", Reply(" \n "), "empty"),
    ("hang", Hang(), "timeout"),
    ("hang after the head", Hang(begun=True), "timeout"),
    ("a byte a second", Trickle("{}"), "timeout"),
    ("slow", Slow(30, Reply("{}")), "timeout"),
]


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize(("step", "kind"), [end[1:] for end in ENDS], ids=[end[0] for end in ENDS])
def test_every_end_that_is_no_answer_has_its_kind(provider: str, step: Step, kind: str) -> None:
    seconds = 0.4 if kind == "timeout" else 20.0
    with Provider(step) as server:
        found, error = failure(at(provider, server, seconds=seconds))
    assert (found.kind, found.provider) == (kind, provider)
    assert found.detail in error.message
    assert "\n" not in found.detail
    assert error.spent[provider, found.model].calls == 1


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_refusal_costs_what_it_cost(provider: str) -> None:
    with Provider(Refusal()) as server:
        found, error = failure(at(provider, server))
    assert found.kind == "refused"
    assert error.spent[provider, found.model].input_tokens > 0


@pytest.mark.parametrize("provider", SERVERS)
def test_an_outage_costs_no_token(provider: str) -> None:
    with Provider(Status(500)) as server:
        found, error = failure(at(provider, server))
        assert len(server.asked) == 1, "the cascade decides whether to ask again, not the SDK"
    assert error.spent == {(provider, found.model): Usage(calls=1)}


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize("status", [429, 529])
def test_the_pause_that_a_server_asks_for_is_passed_on(provider: str, status: int) -> None:
    with Provider(Status(status, retry_after=17)) as server:
        assert failure(at(provider, server))[0].retry_after == 17.0


@pytest.mark.parametrize("provider", SERVERS)
def test_ten_megabytes_are_not_read_to_their_end(provider: str) -> None:
    with Provider(Big(200)) as server:
        failure(at(provider, server))
        assert server.sent < 50_000_000


@pytest.mark.parametrize("provider", SERVERS)
def test_a_redirect_is_not_followed(provider: str) -> None:
    with Provider(Reply("{}")) as other:
        elsewhere = Raw(b"", headers={"Location": f"{other.address}/v1/messages"}, status=307)
        with Provider(elsewhere) as server:
            assert failure(at(provider, server))[0].kind in ("configuration", "connection", "server")
        assert other.asked == []


@pytest.mark.parametrize("provider", SERVERS)
def test_a_server_that_is_not_there_is_a_connection_that_fails(provider: str) -> None:
    with Provider(Reply("{}")) as server:
        options = at(provider, server)
    assert failure(options)[0].kind == "connection"


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize(
    "step",
    [
        *(Status(code, echo=True) for code in (400, 401, 404, 429, 500, 529)),
        Raw(f"{TOLD} {TEXT} {KEY}".encode(), "text/plain"),
        Raw(f'{{"error": "{TOLD} {TEXT} {KEY}"}}'.encode()),
    ],
    ids=str,
)
def test_neither_key_nor_text_is_in_errors_or_logs(provider: str, step: Step, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Provider(step) as server:
        options = at(provider, server)
        made = model(options)
        with pytest.raises(ModelUnavailable) as caught:
            using(made, lambda one: one.complete(ask()))
    shown = [*traceback.format_exception(caught.value), repr(caught.value.failures), caught.value.remedy]
    shown += [repr(made), repr(options), caplog.text, repr(caught.value.__cause__), repr(caught.value.__context__)]
    assert [part for part in shown if "sesame" in part or TEXT in part or TOLD in part] == []


@pytest.mark.parametrize("provider", SERVERS)
def test_an_answer_is_in_no_log(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Provider(Echo()) as server:
        assert TEXT in answer(at(provider, server)).text
    assert TEXT not in caplog.text


@pytest.mark.parametrize("provider", SERVERS)
def test_nothing_is_left_behind_by_a_server_that_hangs(provider: str) -> None:
    async def many(made: LanguageModel) -> list[object]:
        return list(await asyncio.gather(*(made.complete(ask()) for _ in range(5)), return_exceptions=True))

    with Provider(Hang()) as server:
        before = {thread for thread in threading.enumerate() if "Provider" not in repr(thread)}
        found = using(model(at(provider, server, seconds=0.3)), many)
        assert all(isinstance(one, ModelUnavailable) for one in found)
        left = {one for one in threading.enumerate() if one not in before and "process_request_thread" not in one.name}
    assert left == set()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["content", "choices", "message", "usage", "text", "type", "role", "id", "model", "error",
                 "stop_reason", "finish_reason", "input_tokens", "prompt_tokens", "object", "created"]
            ),
            inner,
        )
    ),
    max_leaves=14,
)  # fmt: skip


@pytest.mark.parametrize("provider", SERVERS)
def test_any_json_is_an_answer_or_one_failure(provider: str) -> None:
    body: list[object] = [None]
    with Provider(choosing=lambda _: Raw(json.dumps(body[0]).encode())) as server:

        @settings(max_examples=examples(20), deadline=None)
        @given(JSON)
        def law(anything: object) -> None:
            body[0] = anything
            failed: list[Failure] = []
            text = "nothing"
            try:
                text = answer(at(provider, server)).text
            except ModelUnavailable as error:
                failed = list(error.failures)
            assert len(failed) <= 1
            assert text.strip()

        law()


# ------------------------------------------------------------------------------------------------------------ health


@pytest.mark.parametrize("provider", SERVERS)
def test_the_health_check_asks_no_model(provider: str) -> None:
    with Provider(Reply("{}"), models=["gemma3:4b", "gpt-6-luna"]) as server:
        using(model(at(provider, server)), lambda made: made.check())
        assert server.asked == []
        assert [one.api for one in server.looked] == ["tags" if provider == "ollama" else "models"]
        assert server.looked[0].key == (provider != "ollama")


def test_a_model_that_ollama_does_not_have_is_named_with_the_command_that_fetches_it() -> None:
    with Provider(Reply("{}"), models=["llama4:8b"]) as server, pytest.raises(ModelUnavailable) as caught:
        using(model(at("ollama", server)), lambda made: made.check())
    assert "`ollama pull gemma3:4b`" in caught.value.message
    assert caught.value.failures[0].kind == "configuration"


@pytest.mark.parametrize("provider", SERVERS)
def test_a_health_check_says_that_nobody_is_there(provider: str) -> None:
    with Provider(Reply("{}")) as server:
        options: ModelOptions = at(provider, server)
    with pytest.raises(ModelUnavailable) as caught:
        using(model(options), lambda made: made.check())
    assert caught.value.failures[0].kind == "connection"


def test_options_do_not_show_the_environment() -> None:
    assert "sesame" not in repr(ModelOptions(provider="openai", environ=KEYS))
