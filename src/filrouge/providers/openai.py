"""OpenAI's models, and compatible servers: LM Studio, vLLM, llama.cpp, a company's gateway.

Without an address the texts go to OpenAI, and OPENAI_API_KEY is required. With one they go only there; the key is sent
if it is set, but never unencrypted to another machine.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from filrouge.providers import http_client
from filrouge.providers.language_models import DefaultModels, ModelOptions
from filrouge.providers.pydantic_models import AnswerMode, ModelListEndpoint, SdkModel

_DEFAULT_ADDRESS: Final = "https://api.openai.com/v1"
_KEY_VARIABLE: Final = "OPENAI_API_KEY"
#: Headers that the SDK takes from the environment besides the key; they are meant for OpenAI only.
_OPENAI_HEADERS: Final = ("OpenAI-Organization", "OpenAI-Project")
SIZES: Final = DefaultModels(small="gpt-6-luna", medium="gpt-6.1-terra", large="gpt-6.1-sol")


def model(options: ModelOptions) -> SdkModel:
    """Return the model for these options.

    Raises:
        BadConfig: no key for OpenAI itself, or no usable address.
    """
    is_openai = not options.url.strip()
    address = _with_version_path(options.address(_DEFAULT_ADDRESS))
    key = options.key(_KEY_VARIABLE, provider_name="OpenAI", address=address, needed=is_openai)
    label = "OpenAI" if is_openai else f"The OpenAI-compatible server {urlsplit(address).netloc}"
    identity = options.identity(label, SIZES)
    http = http_client.client(
        address, dropped_headers=[] if is_openai else [*_OPENAI_HEADERS, *([] if key else ["Authorization"])]
    )
    sdk = AsyncOpenAI(api_key=key or "none", base_url=address, http_client=http, max_retries=0, timeout=None)
    provider = OpenAIProvider(openai_client=sdk)
    json_profile, text_profile = (
        OpenAIModelProfile(
            openai_chat_supports_max_completion_tokens=is_openai,
            supports_json_schema_output=True,
            supports_json_object_output=json_objects,
        )
        for json_objects in (True, False)
    )
    json_model, text_model = (
        OpenAIChatModel(identity.model, provider=provider, profile=profile) for profile in (json_profile, text_profile)
    )
    # Reasoning models accept no temperature; an unknown model on another server is assumed not to reason.
    may_reason = is_openai or json_model.profile.get("openai_supports_reasoning", False)
    settings: ModelSettings = {"thinking": False} if may_reason else {"temperature": 0.0}
    return SdkModel(
        identity,
        [
            AnswerMode(model=json_model, mode="native"),
            AnswerMode(model=json_model, mode="prompted"),
            AnswerMode(model=text_model, mode="prompted"),
        ],
        http,
        ModelListEndpoint(address=f"{address}/models", headers={"Authorization": f"Bearer {key}"} if key else {}),
        settings,
    )


def _with_version_path(address: str) -> str:
    """Return the address with `/v1`; servers are given with and without it."""
    address = address.removesuffix("/chat/completions")
    return address if urlsplit(address).path else f"{address}/v1"
