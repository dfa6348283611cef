"""One question, and models that ask a server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import pytest

from filrouge.core.errors import ModelUnavailable
from filrouge.core.protocols import LanguageModel
from filrouge.providers.language_models import ModelOptions, model
from filrouge.providers.models import Completion, CompletionRequest, Failure, Prompt
from tests.support.provider import Provider

T = TypeVar("T")

KEY: Final = "sk-open-sesame-0123456789"
KEYS: Final = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
SERVERS: Final = ("anthropic", "openai", "ollama")
TOLD: Final = "List what the text states."
TEXT: Final = "the production database listens on 5433"
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
    "additionalProperties": False,
}


def ask(text: str = TEXT, told: str = TOLD, most_tokens: int = 1024) -> CompletionRequest:
    prompt = Prompt(text=told, version="extract/en/0123456789ab")
    return CompletionRequest(operation="extract", prompt=prompt, text=text, schema=SCHEMA, max_tokens=most_tokens)


def at(provider: str, server: Provider, **given: Any) -> ModelOptions:
    """A model of this provider that lives on the server."""
    known: dict[str, Any] = {"url": server.url(provider), "environ": KEYS, **given}
    return ModelOptions(provider=provider, **known)


def using(made: LanguageModel, work: Callable[[LanguageModel], Awaitable[T]]) -> T:
    """Do some work with a model on one event loop, and close it."""

    async def within() -> T:
        try:
            return await work(made)
        finally:
            await made.close()

    return asyncio.run(within())


def answer(options: ModelOptions, question: CompletionRequest | None = None) -> Completion:
    return using(model(options), lambda made: made.complete(question or ask()))


def failure(options: ModelOptions, question: CompletionRequest | None = None) -> tuple[Failure, ModelUnavailable]:
    """Why a model does not answer."""
    with pytest.raises(ModelUnavailable) as caught:
        answer(options, question)
    (found,) = caught.value.failures
    return found, caught.value
