"""Voyage AI's embeddings. Voyage is told what is a question and what a document, and adds its own words in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from filrouge.address import checked_address, is_loopback
from filrouge.embed.options import EmbedderOptions
from filrouge.embed.remote.answer import of_openai
from filrouge.embed.remote.embedder import RemoteEmbedder
from filrouge.embed.remote.service import Fits, Service
from filrouge.embed.remote.wire import Peer
from filrouge.errors import BadConfig

_HOME: Final = "https://api.voyageai.com/v1"
_KEY: Final = "VOYAGE_API_KEY"
_DIMENSIONS: Final[Mapping[str, int]] = dict.fromkeys(
    ("voyage-4-large", "voyage-4", "voyage-4-lite", "voyage-3-large", "voyage-3.5", "voyage-3.5-lite", "voyage-code-3"),
    1024,
)
#: Dollars for a million tokens, as Voyage published them in 2026.
_DOLLARS: Final[Mapping[str, float]] = {"voyage-3.5": 0.06, "voyage-3.5-lite": 0.02}
_LONGEST: Final = 4_000
#: Tokens of one request: 120,000 for the large and the special models, more for others.
_TOKENS: Final = 120_000
_MORE_TOKENS: Final[Mapping[str, int]] = {
    "voyage-4": 320_000,
    "voyage-3.5": 320_000,
    "voyage-4-lite": 1_000_000,
    "voyage-3.5-lite": 1_000_000,
}


def embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """The embedder for `voyage:MODEL`.

    Raises:
        BadConfig: no model, no key, or no usable address.
    """
    model = options.model_of("voyage", "voyage-3.5-lite")
    key = options.key(_KEY)
    if not key:
        raise BadConfig(
            f"Voyage needs a key, and {_KEY} is not set.", remedy=f"Set {_KEY} in the daemon's environment."
        )
    given = options.url.strip()
    address = checked_address(given or _HOME, setting="embedding_url").removesuffix("/embeddings")
    if not address.startswith("https:") and not is_loopback(address):
        raise BadConfig(
            "The key of Voyage would go unencrypted to another machine.", remedy="Give `embedding_url` with https://."
        )
    own = _DIMENSIONS.get(model)

    def body(texts: Sequence[str], question: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {
            "model": model,
            "input": list(texts),
            "input_type": "query" if question else "document",
        }
        if options.dimensions and options.dimensions != own:
            asked["output_dimension"] = options.dimensions
        return asked

    service = Service(
        provider="voyage",
        peer=Peer(name="Voyage", address=f"{address}/embeddings", key=key),
        model=model,
        dimension=options.dimensions or own,
        fits=Fits(texts=256, tokens=_MORE_TOKENS.get(model, _TOKENS), window=_LONGEST),
        input_type="input-type",
        dollars=None if given else _DOLLARS.get(model),
        body=body,
        read=of_openai,
    )
    return RemoteEmbedder(service, options)
