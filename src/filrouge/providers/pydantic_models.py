"""Language models through pydantic-ai and a provider's SDK, with their prompts and schemas.

Only providers that need an SDK import this module. The SDKs cost about 100 MB of memory and seconds to import, so a
daemon without such a provider never loads them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import httpx2
from msgspec import Struct
from pydantic_ai import exceptions as foreign
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from filrouge.core.errors import ModelUnavailable
from filrouge.providers.http_client import ReplyTooLarge, get, status_failure
from filrouge.providers.language_models import IdentifiedModel, ModelIdentity, usage_of
from filrouge.providers.models import Completion, CompletionRequest, Operation

# JSON schemas for OpenAI's strict mode: every property is required, others are forbidden, and there are no defaults.
# Optional properties may be null instead. Without strict mode the schema is only a request; with it, the model cannot
# generate other answers.


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strict form of a schema; a strict schema does not change."""
    kept_keys = {key: value for key, value in schema.items() if key != "default"}
    if isinstance(kept_keys.get("type"), list):  # Anthropic's SDK supports one type at a time
        kept_keys["anyOf"] = [{"type": name} for name in kept_keys.pop("type")]
    strict = {key: value if key == "properties" else _strict_value(value) for key, value in kept_keys.items()}
    if isinstance(strict.get("properties"), dict):
        properties = cast("dict[str, Any]", strict["properties"])
        required_names = set(cast("list[str]", schema.get("required", [])))
        strict["properties"] = {
            name: _strict_value(inner)
            if name in required_names
            else {"anyOf": [_strict_value(inner), {"type": "null"}]}
            for name, inner in properties.items()
        }
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _strict_value(value: Any) -> Any:
    if isinstance(value, dict):
        return strict_schema(cast("dict[str, Any]", value))
    return [_strict_value(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


# A model called through pydantic-ai and the provider's SDK. The SDKs do not retry; the cascade decides about that.
# Servers that only resemble OpenAI's differ in how they can be asked for JSON, so there are several modes: with a
# schema, as any JSON object, by instructions only. If the server or its SDK refuses a mode (for example a schema beyond
# its limits), the next one is tried. The mode that worked is remembered per operation.

for _logger_name in ("anthropic", "openai", "pydantic_ai"):  # at debug level they log whole requests
    logging.getLogger(_logger_name).setLevel(logging.WARNING)

_JSON_INSTRUCTIONS: Final = (
    "Answer with one JSON object that fits this JSON schema, and with nothing before or after it:"
)


class AnswerMode(Struct, frozen=True, kw_only=True):
    """One way to ask for JSON.

    Attributes:
        model: the model; its profile says what the server supports.
        mode: `native` sends the schema with the request; `prompted` writes it into the instructions.
    """

    model: Model
    mode: Literal["native", "prompted"]


class ModelListEndpoint(Struct, frozen=True, kw_only=True):
    """The endpoint that lists a provider's models, which uses no tokens."""

    address: str
    headers: Mapping[str, str]


class SdkModel(IdentifiedModel):
    """Implements `LanguageModel` over pydantic-ai's models, on one event loop."""

    def __init__(
        self,
        identity: ModelIdentity,
        modes: Sequence[AnswerMode],
        http: httpx2.AsyncClient,
        listing: ModelListEndpoint,
        settings: ModelSettings,
    ) -> None:
        super().__init__(identity)
        self._modes = modes
        self._http = http
        self._listing = listing
        self._settings = settings
        self._mode_of_operation: dict[Operation, int] = {}

    def __repr__(self) -> str:
        return f"<{self._identity}>"

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailable: with the cause.
        """
        for number in range(self._mode_of_operation.get(request.operation, 0), len(self._modes)):
            answer = await self._try_mode(request, self._modes[number])
            if isinstance(answer, ModelResponse):
                self._mode_of_operation[request.operation] = number
                return self._completion(request, answer)
            if answer.failures[0].kind != "refused" or number == len(self._modes) - 1:
                raise answer
        raise AssertionError("there is no answer mode")

    async def check(self) -> None:
        """Request the list of models.

        Raises:
            ModelUnavailable: with the cause.
        """
        await get(self._http, self._listing.address, self._identity, self._listing.headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _try_mode(self, request: CompletionRequest, answer_mode: AnswerMode) -> ModelResponse | ModelUnavailable:
        instructions = request.prompt.text
        if answer_mode.mode == "prompted":  # one text, because not every chat template supports two system messages
            instructions = f"{instructions}\n\n{_JSON_INSTRUCTIONS}\n{json.dumps(request.schema)}"
        try:
            return await model_request(
                answer_mode.model,
                [ModelRequest(parts=[UserPromptPart(content=request.text)], instructions=instructions)],
                model_settings={**self._settings, "max_tokens": request.max_tokens},
                model_request_parameters=ModelRequestParameters(
                    output_mode=answer_mode.mode,
                    output_object=OutputObjectDefinition(
                        json_schema=strict_schema(request.schema), name=request.operation, strict=True
                    ),
                    prompted_output_template=False,
                    allow_text_output=True,
                ),
            )
        except Exception as error:  # libraries raise many types on a hostile reply: TypeError, recursion…
            return self._failure_of(error)

    def _completion(self, request: CompletionRequest, response: ModelResponse) -> Completion:
        text = response.text or ""
        is_measured = not response.usage.unmeasured_requests
        usage = usage_of(
            request,
            text,
            input_tokens=response.usage.input_tokens if is_measured else None,
            output_tokens=response.usage.output_tokens if is_measured else None,
            dollars=_dollars(response),
        )
        if response.finish_reason == "content_filter":
            raise self._identity.failure("refused", "refused to answer", usage=usage)
        return self._identity.completion(text, usage)

    def _failure_of(self, error: Exception) -> ModelUnavailable:
        """Map a foreign error to a failure. Its message is left out, because it may quote the request or the reply."""
        failure = self._identity.failure
        match error:
            case _ if _has_cause(error, ReplyTooLarge):
                return failure("too_long", "sent a reply that is too long")
            case foreign.ModelContextWindowExceededError():
                return failure("too_long", "received a text longer than its context window")
            case foreign.ModelQuotaExceededError():
                return failure("configuration", "says that the credit is used up")
            case foreign.ModelNotFoundError():
                return failure("configuration", "does not know the model or the address (404)")
            case foreign.ModelHTTPError(status_code=status, retry_after=pause):
                return status_failure(self._identity, status, "" if pause is None else str(pause))
            case foreign.ModelTimeoutError():
                return failure("timeout", "did not answer in time")
            case foreign.ModelConnectionError():
                return failure("connection", "cannot be reached, or closed the connection")
            case foreign.UserError() | foreign.ModelRequestRejectedError():
                return failure("refused", "does not support this kind of answer")
            case _:
                return failure("server", "sent an unexpected reply")


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
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
