"""The same question to every provider over its real wire: what is sent, what comes back, what it cost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from filrouge.core.protocols import LanguageModel
from filrouge.providers.language_models import Mode, model
from filrouge.providers.models import Completion, Usage
from filrouge.providers.ollama import context_tokens
from filrouge.providers.pydantic_models import strict_schema
from tests.support.provider import Asked, Choosing, Provider, Raw, Reply, Status, as_json, fenced, nested, tokens
from tests.unit.providers.given import KEY, SCHEMA, SERVERS, TEXT, TOLD, answer, ask, at, failure, using

FACTS = json.dumps({"facts": ["the database listens on 5433"]})
MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-6-luna", "ollama": "gemma3:4b"}


@pytest.mark.parametrize("provider", SERVERS)
def test_an_answer_comes_as_the_model_gave_it_with_what_it_cost(provider: str) -> None:
    with Provider(Reply(FACTS)) as server:
        found = answer(at(provider, server))
        (asked,) = server.asked
    usage = found.spent[provider, MODELS[provider]]
    assert found == Completion(
        text=FACTS,
        provider=provider,
        model=MODELS[provider],
        spent={(provider, MODELS[provider]): usage},
        decides=provider != "ollama",
    )
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, tokens(TOLD + TEXT), tokens(FACTS))
    assert not usage.estimated
    assert usage.dollars == 0.0 if provider == "ollama" else (usage.dollars or 0) > 0
    assert (asked.instructions, asked.text, asked.most_tokens) == (TOLD, TEXT, 1024)
    assert asked.schema == SCHEMA
    assert asked.model == MODELS[provider]


@pytest.mark.parametrize("provider", SERVERS)
def test_the_key_goes_where_one_is_wanted(provider: str) -> None:
    with Provider(Reply(FACTS)) as server:
        answer(at(provider, server))
        assert server.asked[0].key == (provider != "ollama")
        assert KEY not in str(server.asked[0])


@pytest.mark.parametrize("provider", SERVERS)
def test_tokens_that_are_not_counted_are_estimated_at_four_characters(provider: str) -> None:
    with Provider(Reply(FACTS, counted=False)) as server:
        found = answer(at(provider, server))
    assert found.spent[provider, found.model] == Usage(
        calls=1,
        input_tokens=tokens(TOLD + TEXT),
        output_tokens=tokens(FACTS),
        estimated=True,
        dollars=0.0 if provider == "ollama" else None,
    )


def test_the_price_of_a_model_that_nobody_knows_is_none() -> None:
    with Provider(Reply(FACTS)) as server:
        assert answer(at("openai", server, model="llama-of-mine")).spent["openai", "llama-of-mine"].dollars is None


def test_prices_are_those_of_a_million_tokens() -> None:
    with Provider(choosing=lambda _: Raw(json.dumps(CHAT).encode())) as server:
        found = answer(at("openai", server)).spent["openai", "gpt-6-luna"]
    assert (found.input_tokens, found.output_tokens) == (1_000_000, 1_000_000)
    assert 0.5 < (found.dollars or 0.0) < 5.0


CHAT = {
    "id": "1", "object": "chat.completion", "created": 1_790_000_000, "model": "gpt-6-luna",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}],
    "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000, "total_tokens": 2_000_000},
}  # fmt: skip


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize(
    "said",
    [fenced({"facts": []}), as_json({"facts": 7}), as_json({"facts": [float("nan")]}), nested(9_000), Reply("no JSON")],
    ids=["fenced", "wrong schema", "NaN", "deep", "prose"],
)
def test_what_is_wrong_inside_an_answer_is_the_askers_affair(provider: str, said: Reply) -> None:
    with Provider(said) as server:
        assert answer(at(provider, server)).text == said.text


@pytest.mark.parametrize("provider", SERVERS)
def test_an_answer_that_was_cut_off_is_still_an_answer(provider: str) -> None:
    with Provider(Reply('{"facts": ["the data', stop="max_tokens")) as server:
        assert answer(at(provider, server)).text == '{"facts": ["the data'


@pytest.mark.parametrize("provider", SERVERS)
def test_a_text_that_no_wire_carries_is_sent_as_far_as_it_can_be(provider: str) -> None:
    with Provider(Reply(FACTS)) as server:
        answer(at(provider, server), ask(text="half \ud83d and \0 and é 🧵"))
        assert server.asked[0].text == "half ? and   and é 🧵"


@pytest.mark.parametrize("provider", SERVERS)
def test_several_questions_at_once_have_their_own_answers(provider: str) -> None:
    texts = [f"statement {number}" for number in range(12)]

    async def all_at_once(made: LanguageModel) -> list[Completion]:
        return list(await asyncio.gather(*(made.complete(ask(text)) for text in texts)))

    with Provider(choosing=lambda asked: f"about {asked.text}") as server:
        found = using(model(at(provider, server)), all_at_once)
    assert [one.text for one in found] == [f"about {text}" for text in texts]


@pytest.mark.parametrize(
    ("provider", "mode", "named"),
    [
        ("anthropic", "light", "claude-haiku-5-5"),
        ("anthropic", "normal", "claude-haiku-5-5"),
        ("anthropic", "heavy", "claude-opus-5-5"),
        ("openai", "normal", "gpt-6-luna"),
        ("ollama", "normal", "gemma3:4b"),
        ("ollama", "heavy", "gemma3:27b"),
    ],
)
def test_the_mode_chooses_a_model_where_none_is_named(provider: str, mode: Mode, named: str) -> None:
    with Provider(Reply("{}")) as server:
        assert model(at(provider, server, mode=mode)).model == named
        assert model(at(provider, server, mode=mode, model="my-own")).model == "my-own"
        assert model(at(provider, server, mode=mode, model="medium")).model not in (named, "medium")


def test_a_model_at_home_decides_only_if_it_is_told_to() -> None:
    with Provider(Reply("{}")) as server:
        assert answer(at("ollama", server, decides=True)).decides
        assert not answer(at("openai", server, decides=False)).decides


# ------------------------------------------------------------------------------ servers that only resemble OpenAI's


def without(*formats: str) -> Choosing:
    """A server that refuses these kinds of `response_format`."""

    def choose(asked: Asked) -> Reply | Status:
        return Status(400, message="unknown response_format") if asked.form in formats else Reply(FACTS)

    return choose


@pytest.mark.parametrize(
    ("refused", "kinds"),
    [
        ((), ["json_schema"] * 2),
        (("json_schema",), ["json_schema", "json_object", "json_object"]),
        (("json_schema", "json_object"), ["json_schema", "json_object", None, None]),
    ],
)
def test_a_format_that_a_server_refuses_is_not_asked_for_again(refused: tuple[str, ...], kinds: list[str]) -> None:
    async def twice(made: LanguageModel) -> list[str]:
        return [(await made.complete(ask())).text for _ in range(2)]

    with Provider(choosing=without(*refused)) as server:
        assert using(model(at("openai", server)), twice) == [FACTS, FACTS]
        assert [one.form for one in server.asked] == kinds
        last = server.asked[-1]
    roles = [turn["role"] for turn in last.body["messages"]]
    assert roles == ["system", "user"]
    assert ('"facts"' in last.instructions) == bool(refused), "without a schema it stands in the instructions"


def test_a_schema_beyond_the_limits_of_a_provider_is_asked_for_in_words() -> None:
    many = {f"field{number}": {"type": ["string", "null"]} for number in range(400)}
    schema: dict[str, Any] = {"type": "object", "properties": many, "required": [*many], "additionalProperties": False}
    with Provider(Reply(FACTS)) as server:
        assert answer(at("anthropic", server), replace(ask(), schema=schema)).text == FACTS
        (asked,) = server.asked
    assert asked.schema is None
    assert "field399" in asked.instructions


def test_a_server_that_refuses_every_format_refused_the_request() -> None:
    with Provider(Status(400)) as server:
        assert failure(at("openai", server))[0].kind == "refused"
        assert len(server.asked) == 3


def test_a_compatible_server_is_asked_in_the_words_that_all_of_them_know() -> None:
    with Provider(Reply(FACTS)) as server:
        answer(at("openai", server, model="llama-of-mine"))
        body = server.asked[0].body
    assert body["max_tokens"] == 1024
    assert body["temperature"] == 0.0
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_server_of_ones_own_needs_no_key_and_learns_nothing_of_the_environment(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    with Provider(Reply(FACTS)) as server:
        answer(at(provider, server, environ={}))
        (asked,) = server.asked
    assert not asked.key
    assert KEY not in str(asked.headers)


# ------------------------------------------------------------------------------------------------ Ollama's own ways


def test_ollama_is_given_a_context_that_holds_the_question_and_the_answer() -> None:
    with Provider(Reply(FACTS)) as server:
        answer(at("ollama", server), ask(text="mot " * 5_000))
        body = server.asked[0].body
    assert (body["stream"], body["think"], body["format"]) == (False, False, SCHEMA)
    assert body["options"] == {"temperature": 0, "num_predict": 1024, "num_ctx": 16_384}


def test_the_context_grows_in_powers_of_two() -> None:
    sizes = {context_tokens(ask(text="x" * length)) for length in range(0, 100_000, 777)}
    assert sizes == {4096, 8192, 16_384, 32_768, 65_536}


# ---------------------------------------------------------------------------------------------------- strict schemas


def test_openai_is_held_to_the_schema() -> None:
    with Provider(Reply(FACTS)) as server:
        schema: dict[str, Any] = {
            **SCHEMA,
            "properties": {"facts": {"type": "array", "items": {"type": "string"}, "default": []}},
        }
        answer(at("openai", server), replace(ask(), schema=schema))
        wanted = server.asked[0].body["response_format"]["json_schema"]
    assert (wanted["strict"], wanted["schema"]) == (True, SCHEMA)


def test_a_strict_schema_requires_every_property_and_lets_the_optional_be_null() -> None:
    schema = {
        "type": "object",
        "properties": {
            "properties": {"type": "string", "default": ""},
            "inner": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        "required": ["properties"],
    }
    inner = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {
            "properties": {"type": "string"},
            "inner": {"anyOf": [{"type": "array", "items": inner}, {"type": "null"}]},
        },
        "required": ["properties", "inner"],
        "additionalProperties": False,
    }


def test_a_strict_schema_stays_as_it_is() -> None:
    assert strict_schema(SCHEMA) == SCHEMA
