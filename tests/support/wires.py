"""The three wire formats of language models, as their servers speak them: one question read, one answer written.

Anthropic's Messages, OpenAI's Chat Completions and Ollama's chat, each whole or as a stream. The real SDKs read what
is written here, so it has the fields that they insist on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, cast

Json = dict[str, Any]
Api = Literal["messages", "chat", "ollama", "models", "tags"]

PATHS: Final[dict[str, Api]] = {
    "/v1/messages": "messages",
    "/messages": "messages",
    "/v1/chat/completions": "chat",
    "/chat/completions": "chat",
    "/api/chat": "ollama",
    "/v1/models": "models",
    "/models": "models",
    "/api/tags": "tags",
}


def texts(value: object) -> str:
    """Every text of a message's content, a line each."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(texts(part) for part in cast("list[object]", value))
    return str(cast("Json", value).get("text", "")) if isinstance(value, dict) else ""


def instructions(api: Api, body: Json) -> str:
    """What the request tells the model to do."""
    if api == "messages":
        return texts(body.get("system", ""))
    found = [turn for turn in body.get("messages", []) if turn["role"] in ("system", "developer")]
    return "\n".join(texts(turn["content"]) for turn in found)


def said(body: Json) -> str:
    """What the request is about: the user's turns."""
    return "\n".join(texts(turn["content"]) for turn in body.get("messages", []) if turn["role"] == "user")


def schema(api: Api, body: Json) -> Json | None:
    """The JSON schema that the answer is asked to have."""
    match api:
        case "messages":
            return body.get("output_config", {}).get("format", {}).get("schema")
        case "chat":
            wanted: Json = body.get("response_format") or {}
            return wanted.get("json_schema", {}).get("schema")
        case _:
            found: object = body.get("format")
            return cast("Json", found) if isinstance(found, dict) else None


def most_tokens(api: Api, body: Json) -> int | None:
    """How long the answer may be."""
    if api == "ollama":
        return body.get("options", {}).get("num_predict")
    return body.get("max_completion_tokens") or body.get("max_tokens")


def answer(api: Api, body: Json, text: str | None, *, stop: str, read: int | None, wrote: int | None) -> Json:
    """The whole reply. `text` None is a refusal; `read` and `wrote` are counts of tokens, None = it does not count."""
    model = str(body.get("model"))
    counted = read is not None and wrote is not None
    match api:
        case "messages":
            message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
            message["content"] = [] if text is None else [{"type": "text", "text": text}]
            message |= {"stop_reason": "refusal" if text is None else stop, "stop_sequence": None}
            return {**message, "usage": {"input_tokens": read or 0, "output_tokens": wrote or 0}}
        case "chat":
            turn: Json = {"role": "assistant", "content": text, "refusal": None}
            if text is None:
                turn["refusal"] = "I cannot help with that."
            choice: Json = {"index": 0, "message": turn, "finish_reason": "length" if stop == "max_tokens" else "stop"}
            whole: Json = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": model}
            whole["choices"] = [{**choice, "logprobs": None}]
            usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": (read or 0) + (wrote or 0)}
            return whole | ({"usage": usage} if counted else {})
        case _:
            whole = {"model": model, "created_at": "2026-01-01T00:00:00Z", "done": True}
            whole["message"] = {"role": "assistant", "content": text or ""}
            whole["done_reason"] = "length" if stop == "max_tokens" else "stop"
            return whole | ({"prompt_eval_count": read, "eval_count": wrote} if counted else {})


def streamed(api: Api, whole: Json) -> tuple[str, Iterator[bytes]]:
    """The same reply piece by piece, with its content type."""
    match api:
        case "messages":
            return "text/event-stream", _events(_message_events(whole), named=True)
        case "chat":
            return "text/event-stream", _events(_chunks(whole), named=False)
        case _:
            return "application/x-ndjson", (json.dumps(line).encode() + b"\n" for line in _lines(whole))


def _message_events(whole: Json) -> Iterator[Json]:
    usage: Json = whole["usage"]
    started: Json = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": started}
    for place, block in enumerate(whole["content"]):
        yield {"type": "content_block_start", "index": place, "content_block": {**block, "text": ""}}
        for piece in _pieces(block["text"]):
            delta = {"type": "text_delta", "text": piece}
            yield {"type": "content_block_delta", "index": place, "delta": delta}
        yield {"type": "content_block_stop", "index": place}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def _chunks(whole: Json) -> Iterator[Json]:
    choice = whole["choices"][0]
    base: Json = {**whole, "object": "chat.completion.chunk", "usage": None}
    for piece in _pieces(choice["message"]["content"] or ""):
        delta = {"role": "assistant", "content": piece}
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if "usage" in whole:
        yield {**base, "choices": [], "usage": whole["usage"]}


def _lines(whole: Json) -> Iterator[Json]:
    text: str = whole["message"]["content"]
    for piece in _pieces(text):
        part: Json = {"model": whole["model"], "created_at": whole["created_at"], "done": False}
        yield {**part, "message": {"role": "assistant", "content": piece}}
    yield {**whole, "message": {"role": "assistant", "content": ""}}


def _pieces(text: str, length: int = 40) -> Iterator[str]:
    yield from (text[at : at + length] for at in range(0, len(text), length))


def _events(events: Iterable[Json], *, named: bool) -> Iterator[bytes]:
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        yield f"{name}data: {json.dumps(event)}\n\n".encode()
    if not named:
        yield b"data: [DONE]\n\n"
