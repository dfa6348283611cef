"""Models that run in Ollama, on this machine or another one of the user. No key, no cost.

Requests use the native route, because only there the context size can be set. The default context is small, and Ollama
silently truncates what does not fit. Context sizes are powers of two, because Ollama reloads a model for every other
size. A small local model is not trusted with decisions unless the settings allow it.
"""

from __future__ import annotations

from typing import Any, Final, cast

from filrouge.core.errors import ModelUnavailable
from filrouge.providers import http_client
from filrouge.providers.language_models import DefaultModels, IdentifiedModel, ModelIdentity, ModelOptions, usage_of
from filrouge.providers.models import Completion, CompletionRequest

_DEFAULT_ADDRESS: Final = "http://localhost:11434"
_ADDRESS_VARIABLE: Final = "OLLAMA_URL"
SIZES: Final = DefaultModels(small="gemma3:4b", medium="gemma3:12b", large="gemma3:27b")
_MIN_CONTEXT_TOKENS: Final = 4096
#: Characters per token in the worst case of ordinary text. A lower value only costs memory; a higher one truncates the
#: text.
_CHARACTERS_PER_TOKEN: Final = 2.5
#: Reserve for what the chat template adds around the messages.
_TEMPLATE_TOKENS: Final = 256


def model(options: ModelOptions) -> OllamaModel:
    """Return the model for these options.

    Raises:
        BadConfig: no usable address.
    """
    identity = options.identity("Ollama", SIZES, decides=False)
    return OllamaModel(identity, options.address(_DEFAULT_ADDRESS, _ADDRESS_VARIABLE).removesuffix("/api/chat"))


class OllamaModel(IdentifiedModel):
    """Implements `LanguageModel` over Ollama's /api/chat, on one event loop."""

    def __init__(self, identity: ModelIdentity, address: str) -> None:
        super().__init__(identity)
        self._address = address
        self._http = http_client.client(address)

    def __repr__(self) -> str:
        return f"<{self._identity} at {self._address}>"

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailable: with the cause.
        """
        body = {
            "model": self._identity.model,
            "messages": [
                {"role": "system", "content": request.prompt.text},
                {"role": "user", "content": request.text},
            ],
            "stream": False,
            "think": False,
            "format": dict(request.schema),
            "options": {"temperature": 0, "num_predict": request.max_tokens, "num_ctx": context_tokens(request)},
        }
        reply = await http_client.post(self._http, f"{self._address}/api/chat", self._identity, body)
        text, input_tokens, output_tokens = _parse_reply(reply)
        if text is None:
            raise self._identity.failure("server", "sent an unexpected reply")
        return self._identity.completion(
            text, usage_of(request, text, input_tokens=input_tokens, output_tokens=output_tokens, dollars=0.0)
        )

    async def check(self) -> None:
        """Request the list of models, and check that it contains this one.

        Raises:
            ModelUnavailable: Ollama does not answer, or has no such model.
        """
        reply = await http_client.get(self._http, f"{self._address}/api/tags", self._identity, {})
        if self._identity.model.removesuffix(":latest") not in _model_names(reply):
            raise self._missing_model()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _missing_model(self) -> ModelUnavailable:
        return self._identity.failure(
            "configuration", f"is not there; fetch it with `ollama pull {self._identity.model}`"
        )


def context_tokens(request: CompletionRequest) -> int:
    """Return the context size, in tokens, that fits the whole question and its answer: a power of two."""
    tokens = (
        int((len(request.prompt.text) + len(request.text)) / _CHARACTERS_PER_TOKEN)
        + request.max_tokens
        + _TEMPLATE_TOKENS
    )
    return max(_MIN_CONTEXT_TOKENS, 1 << (tokens - 1).bit_length())


def _parse_reply(reply: Any) -> tuple[str | None, int | None, int | None]:
    """Return the text, and the input and output tokens; None for each that is missing."""
    if not isinstance(reply, dict):
        return None, None, None
    content = cast("dict[str, Any]", reply)
    message: Any = content.get("message")
    text: Any = cast("dict[str, Any]", message).get("content") if isinstance(message, dict) else None
    return text if isinstance(text, str) else None, content.get("prompt_eval_count"), content.get("eval_count")


def _model_names(reply: Any) -> set[str]:
    try:
        return {str(entry["name"]).removesuffix(":latest") for entry in reply["models"]}
    except (TypeError, KeyError):
        return set()
