"""The provider that tests talk to is held against the real SDKs, whole and as a stream."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from tests.support.provider import Echo, Provider, Reply, Status
from tests.unit.providers.given import KEY

TEXT = "a fil rouge goes through all of it, é and 🧵 too, in more than forty characters"


def test_anthropics_sdk_reads_the_stream_and_its_count() -> None:
    # Here, because the two SDKs take five seconds to load and every worker collects every test.
    from anthropic import AsyncAnthropic

    async def read(server: Provider) -> tuple[str, int]:
        async with (
            AsyncAnthropic(api_key=KEY, base_url=server.address, max_retries=0) as sdk,
            sdk.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "say it"}]) as stream,
        ):
            text = "".join([piece async for piece in stream.text_stream])
            return text, (await stream.get_final_message()).usage.output_tokens

    with Provider(Reply(TEXT)) as server:
        text, wrote = asyncio.run(read(server))
    assert (text, wrote) == (TEXT, len(TEXT) // 4 + 1)


def test_openais_sdk_reads_the_stream_and_its_count() -> None:
    from openai import AsyncOpenAI

    async def read(server: Provider) -> tuple[str, int]:
        text, wrote = "", 0
        async with AsyncOpenAI(api_key=KEY, base_url=server.url("openai"), max_retries=0) as sdk:
            stream = await sdk.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "say it"}], stream=True
            )
            async for chunk in stream:
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
                wrote = chunk.usage.completion_tokens if chunk.usage else wrote
        return text, wrote

    with Provider(Reply(TEXT)) as server:
        text, wrote = asyncio.run(read(server))
    assert (text, wrote) == (TEXT, len(TEXT) // 4 + 1)


def test_ollamas_stream_is_a_line_a_piece() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "say it"}]}
    with Provider(Echo()) as server, httpx2.Client() as http:
        lines = [json.loads(line) for line in http.post(f"{server.address}/api/chat", json=body).text.splitlines()]
    assert "".join(line["message"]["content"] for line in lines) == "\nsay it"
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["prompt_eval_count"] == server.tokens


def test_steps_are_taken_in_turn_and_the_last_one_stays() -> None:
    body = {"model": "m", "stream": False, "messages": [{"role": "user", "content": "say it"}]}
    with Provider(Reply("one"), Status(500), Reply("two")) as server, httpx2.Client() as http:
        replies = [http.post(f"{server.address}/api/chat", json=body) for _ in range(4)]
        server.teach(Reply("three"))
        replies.append(http.post(f"{server.address}/api/chat", json=body))
    assert [one.json()["message"]["content"] if one.status_code == 200 else one.status_code for one in replies] == [
        "one", 500, "two", "two", "three",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/embeddings", "/", "/api/generate"])
def test_what_it_does_not_speak_is_not_found(path: str) -> None:
    with Provider(Reply("x")) as server, httpx2.Client() as http:
        assert http.post(f"{server.address}{path}", json={}).status_code == 404
        assert server.asked == []
