"""Models that run in Ollama, on this machine or another of one's own. No key, no cost.

The address is `embedding_url`, else OLLAMA_URL, else http://localhost:11434. Ollama cuts what a model cannot read, and
some read no more than 512 tokens, so long texts are sent in parts. A model unused for a while is loaded again, which
can take longer than a question may wait: recall goes by words until it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from filrouge.address import checked_address
from filrouge.embed.options import EmbedderOptions
from filrouge.embed.remote.answer import of_ollama
from filrouge.embed.remote.embedder import RemoteEmbedder
from filrouge.embed.remote.service import Fits, Service, prefixes_of
from filrouge.embed.remote.wire import Peer
from filrouge.embed.windows import WINDOW_TOKENS

_HOME: Final = "http://localhost:11434"
_DIMENSIONS: Final[Mapping[str, int]] = {
    "nomic-embed-text": 768,
    "mxbai-embed-large": 1024,
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
}
_FITS: Final = Fits(texts=32, tokens=16_000, window=WINDOW_TOKENS)


def embedder(options: EmbedderOptions) -> RemoteEmbedder:
    """The embedder for `ollama:MODEL`.

    Raises:
        BadConfig: no model, or no usable address.
    """
    model = options.model_of("ollama", "nomic-embed-text")
    name = model.removesuffix(":latest")
    own = _DIMENSIONS.get(name)
    if options.url.strip():
        address = checked_address(options.url, setting="embedding_url")
    else:
        address = checked_address(options.environ.get("OLLAMA_URL", "").strip() or _HOME, setting="OLLAMA_URL")

    def body(texts: Sequence[str], _question: bool) -> Mapping[str, Any]:
        asked: dict[str, Any] = {"model": model, "input": list(texts)}
        if options.dimensions and options.dimensions != own:
            asked["dimensions"] = options.dimensions
        return asked

    service = Service(
        provider="ollama",
        peer=Peer(name="Ollama", address=f"{address.removesuffix('/api/embed')}/api/embed"),
        model=name,
        dimension=options.dimensions or own,
        fits=_FITS,
        prefixes=prefixes_of(name),
        dollars=0.0,
        body=body,
        read=of_ollama,
    )
    return RemoteEmbedder(service, options)
