"""OpenAI's embeddings, and every server that speaks the same: LM Studio, vLLM, llama.cpp, a company's gateway.

Without an address the texts go to OpenAI, and OPENAI_API_KEY is needed. With one (`embedding_url`) they go there and
nowhere else; the key goes along if it is set, but never unencrypted to another machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from filrouge.address import checked_address, is_loopback
from filrouge.embed.options import EmbedderOptions
from filrouge.embed.remote.answer import of_openai
from filrouge.embed.remote.embedder import RemoteEmbedder
from filrouge.embed.remote.service import NO_PREFIXES, Fits, Service, prefixes_of
from filrouge.embed.remote.wire import Peer
from filrouge.embed.windows import WINDOW_TOKENS
from filrouge.errors import BadConfig

_HOME: Final = "https://api.openai.com/v1"
_KEY: Final = "OPENAI_API_KEY"
_DIMENSIONS: Final[Mapping[str, int]] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
#: Dollars for a million tokens, as OpenAI published them in 2026.
_DOLLARS: Final[Mapping[str, float]] = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
#: OpenAI: 8,191 tokens a text, 300,000 a request. A window of 4,000 estimated ones is well below.
_FITS: Final = Fits(texts=256, tokens=300_000, window=4_000)
#: A server at home: models of 512 tokens are common there, and it may have little memory.
_FITS_ELSEWHERE: Final = Fits(texts=64, tokens=32_000, window=WINDOW_TOKENS)


def embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """The embedder for `openai:MODEL`.

    Raises:
        BadConfig: no model, no key for OpenAI itself, or no usable address.
    """
    model = options.model_of("openai", "text-embedding-3-small")
    key = options.key(_KEY)
    if not options.url.strip():
        if not key:
            raise BadConfig(
                f"OpenAI needs a key, and {_KEY} is not set.",
                remedy=f"Set {_KEY} in the daemon's environment, or `embedding_url` to a server of your own.",
            )
        peer = Peer(name="OpenAI", address=f"{_HOME}/embeddings", key=key)
        return RemoteEmbedder(_service(peer, model, options, at_home=True), options)
    address = _embeddings(checked_address(options.url, setting="embedding_url"))
    secret = is_loopback(address) or address.startswith("https:")
    peer = Peer(name="The embedding server", address=address, key=key if secret else "")
    return RemoteEmbedder(_service(peer, model, options, at_home=False), options)


def _service(peer: Peer, model: str, options: EmbedderOptions, *, at_home: bool) -> Service:
    own = _DIMENSIONS.get(model)

    def body(texts: Sequence[str], _question: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if options.dimensions and options.dimensions != own:
            asked["dimensions"] = options.dimensions
        return asked

    return Service(
        provider="openai",
        peer=peer,
        model=model,
        dimension=options.dimensions or own,
        fits=_FITS if at_home else _FITS_ELSEWHERE,
        prefixes=NO_PREFIXES if at_home else prefixes_of(model),
        dollars=_DOLLARS.get(model) if at_home else None,
        body=body,
        read=of_openai,
    )


def _embeddings(address: str) -> str:
    """The whole address: servers are named with or without `/v1`, and with or without what follows it."""
    if address.endswith("/embeddings"):
        return address
    return f"{address}/embeddings" if urlsplit(address).path else f"{address}/v1/embeddings"
