"""Language models through pydantic-ai and a provider's SDK, with their prompts and schemas.

Only providers that need an SDK import this module. The SDKs cost about 100 MB of memory and seconds to import, so a
daemon without such a provider never loads them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import httpx2
from pydantic_ai import exceptions as foreign
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from filrouge.core.errors import ModelUnavailable
from filrouge.providers.http_client import TooMuch, get, problem
from filrouge.providers.language_models import IdentifiedModel, ModelIdentity, usage_of
from filrouge.providers.models import Completion, CompletionRequest, Operation

# JSON schemas for OpenAI's strict mode: every property is required, others are forbidden, and there are no defaults.
# Optional properties may be null instead. Without strict mode the schema is only a request; with it, the model cannot
# generate other answers.


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strict form of a schema; a strict schema does not change."""
    kept = {key: value for key, value in schema.items() if key != "default"}
    if isinstance(kept.get("type"), list):  # Anthropic's SDK supports one type at a time
        kept["anyOf"] = [{"type": one} for one in kept.pop("type")]
    found = {key: value if key == "properties" else _inner(value) for key, value in kept.items()}
    if isinstance(found.get("properties"), dict):
        named = cast("dict[str, Any]", found["properties"])
        needed = set(cast("list[str]", schema.get("required", [])))
        found["properties"] = {
            name: _inner(one) if name in needed else {"anyOf": [_inner(one), {"type": "null"}]}
            for name, one in named.items()
        }
        found |= {"required": list(named), "additionalProperties": False}
    return found


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return strict_schema(cast("dict[str, Any]", value))
    return [_inner(part) for part in cast("list[Any]", value)] if isinstance(value, list) else value


# A model called through pydantic-ai and the provider's SDK. The SDKs do not retry; the cascade decides about that.
# Servers that only resemble OpenAI's differ in how they can be asked for JSON, so there is a ladder: with a schema, as
# any JSON object, by instructions only. If the server or its SDK refuses a rung (for example a schema beyond its
# limits), the next one is tried. The rung that worked is remembered per operation.

for _chatty in ("anthropic", "openai", "pydantic_ai"):  # at debug level they log whole requests
    logging.getLogger(_chatty).setLevel(logging.WARNING)

_IN_WORDS: Final = "Answer with one JSON object that fits this JSON schema, and with nothing before or after it:"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerMode:
    """One way to ask for JSON: `native` with the schema, or `prompted`, with what the model's profile supports."""

    model: Model
    mode: Literal["native", "prompted"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelListEndpoint:
    """The endpoint that lists a provider's models, which uses no tokens."""

    address: str
    headers: Mapping[str, str]


class SdkModel(IdentifiedModel):
    """Implements `LanguageModel` over pydantic-ai's models, on one event loop."""

    def __init__(
        self,
        who: ModelIdentity,
        ladder: Sequence[AnswerMode],
        http: httpx2.AsyncClient,
        listing: ModelListEndpoint,
        settings: ModelSettings,
    ) -> None:
        super().__init__(who)
        self._ladder = ladder
        self._http = http
        self._listing = listing
        self._settings = settings
        self._rungs: dict[Operation, int] = {}

    def __repr__(self) -> str:
        return f"<{self._who}>"

    async def complete(self, ask: CompletionRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailable: with the cause.
        """
        for place in range(self._rungs.get(ask.operation, 0), len(self._ladder)):
            found = await self._once(ask, self._ladder[place])
            if isinstance(found, ModelResponse):
                self._rungs[ask.operation] = place
                return self._completion(ask, found)
            if found.failures[0].kind != "refused" or place == len(self._ladder) - 1:
                raise found
        raise AssertionError("a ladder has rungs")

    async def check(self) -> None:
        """Request the list of models.

        Raises:
            ModelUnavailable: with the cause.
        """
        await get(self._http, self._listing.address, self._who, self._listing.headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _once(self, ask: CompletionRequest, rung: AnswerMode) -> ModelResponse | ModelUnavailable:
        told = ask.prompt.text
        if rung.mode == "prompted":  # one text, because not every chat template supports two system messages
            told = f"{told}\n\n{_IN_WORDS}\n{json.dumps(ask.schema)}"
        try:
            return await model_request(
                rung.model,
                [ModelRequest(parts=[UserPromptPart(content=ask.text)], instructions=told)],
                model_settings={**self._settings, "max_tokens": ask.most_tokens},
                model_request_parameters=ModelRequestParameters(
                    output_mode=rung.mode,
                    output_object=OutputObjectDefinition(
                        json_schema=strict_schema(ask.schema), name=ask.operation, strict=True
                    ),
                    prompted_output_template=False,
                    allow_text_output=True,
                ),
            )
        except Exception as error:  # libraries raise many types on a hostile reply: TypeError, recursion…
            return self._translated(error)

    def _completion(self, ask: CompletionRequest, response: ModelResponse) -> Completion:
        text = response.text or ""
        counted = not response.usage.unmeasured_requests
        usage = usage_of(
            ask,
            text,
            input_tokens=response.usage.input_tokens if counted else None,
            output_tokens=response.usage.output_tokens if counted else None,
            dollars=_dollars(response),
        )
        if response.finish_reason == "content_filter":
            raise self._who.failure("refused", "refused to answer", usage=usage)
        return self._who.completion(text, usage)

    def _translated(self, error: Exception) -> ModelUnavailable:
        """Map a foreign error to a failure. Its message is left out, because it may quote the request or the reply."""
        failure = self._who.failure
        match error:
            case _ if _within(error, TooMuch):
                return failure("too_long", "sent a reply that is too long")
            case foreign.ModelContextWindowExceededError():
                return failure("too_long", "received a text longer than its context window")
            case foreign.ModelQuotaExceededError():
                return failure("configuration", "says that the credit is used up")
            case foreign.ModelNotFoundError():
                return failure("configuration", "does not know the model or the address (404)")
            case foreign.ModelHTTPError(status_code=status, retry_after=pause):
                return problem(self._who, status, "" if pause is None else str(pause))
            case foreign.ModelTimeoutError():
                return failure("timeout", "did not answer in time")
            case foreign.ModelConnectionError():
                return failure("connection", "cannot be reached, or closed the connection")
            case foreign.UserError() | foreign.ModelRequestRejectedError():
                return failure("refused", "does not support this kind of answer")
            case _:
                return failure("server", "sent an unexpected reply")


def _within(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return True if an error, or one in its chain of causes, is of this kind."""
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def _dollars(response: ModelResponse) -> float | None:
    """Return the price from genai-prices; None if it has no such model, or the tokens were not counted."""
    if not response.usage.input_tokens:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None
