"""Anthropic's models, through pydantic-ai. The key is ANTHROPIC_API_KEY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anthropic import AsyncAnthropic, Omit
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from filrouge.providers import http_client
from filrouge.providers.language_models import DefaultModels, ModelOptions
from filrouge.providers.pydantic_models import AnswerMode, ModelListEndpoint, SdkModel

_DEFAULT_ADDRESS: Final = "https://api.anthropic.com"
_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
SIZES: Final = DefaultModels(small="claude-haiku-5-5", medium="claude-sonnet-5-5", large="claude-opus-5-5")


def model(options: ModelOptions) -> SdkModel:
    """Return the model for these options.

    Raises:
        BadConfig: no key, or no usable address.
    """
    address = options.address(_DEFAULT_ADDRESS).removesuffix("/v1")
    key = options.key(_KEY_VARIABLE, provider_name="Anthropic", address=address, needed=not options.url.strip())
    identity = options.identity(
        "Anthropic" if address == _DEFAULT_ADDRESS else "The Anthropic-compatible server", SIZES
    )
    http = http_client.client(address, dropped_headers=[] if key else ["Authorization", "X-Api-Key"])
    sdk = AsyncAnthropic(api_key=key or "none", base_url=address, http_client=http, max_retries=0, timeout=None)
    request_model = AnthropicModel(identity.model, provider=AnthropicProvider(anthropic_client=sdk))
    modes = ("native", "prompted") if request_model.profile.get("supports_json_schema_output") else ("prompted",)
    return SdkModel(
        identity,
        [AnswerMode(model=request_model, mode=mode) for mode in modes],
        http,
        ModelListEndpoint(address=f"{address}/v1/models?limit=1", headers=_sent_headers(sdk.default_headers)),
        {"thinking": False},
    )


def _sent_headers(headers: Mapping[str, str | Omit]) -> dict[str, str]:
    """Return the headers that the SDK sends: the key in its current form, and the API version."""
    return {name: value for name, value in headers.items() if isinstance(value, str)}
