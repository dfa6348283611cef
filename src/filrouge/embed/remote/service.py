"""What differs between embedding services, as data: where, which model, what fits into a request, what it costs.

Everything else (batches, retries, checks, cost) is the same for all and stands in `embedder`. Some models were trained
with words in front of questions or texts; where the server does not add them itself they are added here, and they are
part of the space's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from filrouge.embed.remote.answer import RawAnswer
from filrouge.embed.remote.wire import Peer


@dataclass(frozen=True, kw_only=True, slots=True)
class Fits:
    """What one request may hold.

    Attributes:
        texts: how many. Fewer than the services allow (OpenAI 2,048, Voyage 1,000), so that a reply of the
            longest vectors stays within some ten megabytes.
        tokens: of all texts together, as the service says it.
        window: estimated tokens of one text; a longer one is embedded in parts, whose mean is its vector.
    """

    texts: int
    tokens: int
    window: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefixes:
    """Words in front of what is embedded, and the short name they have in a space's id."""

    name: str
    query: str = ""
    passage: str = ""


NO_PREFIXES: Final = Prefixes(name="none")
_KNOWN_PREFIXES: Final[Mapping[str, Prefixes]] = {
    "nomic-embed-text": Prefixes(name="search-query-document", query="search_query: ", passage="search_document: "),
    "mxbai-embed-large": Prefixes(
        name="represent-query", query="Represent this sentence for searching relevant passages: "
    ),
    "embeddinggemma": Prefixes(
        name="task-title", query="task: search result | query: ", passage="title: none | text: "
    ),
    "multilingual-e5": Prefixes(name="query-passage", query="query: ", passage="passage: "),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One embedding service with one model.

    Attributes:
        provider: its name in `embedding_model` and in the space's id.
        peer: whom to ask.
        model: its name there.
        dimension: length of its vectors; None = to be learned by asking.
        fits: what one request may hold.
        prefixes: words that are put in front here.
        input_type: the name of what the server itself puts in front, for the space's id; empty = nothing.
        dollars: per million tokens; None = not known; 0 = it costs nothing.
        body: the request for texts; the flag says that they are questions.
        read: the answer in a reply; what it raises on another shape is caught.
    """

    provider: str
    peer: Peer
    model: str
    dimension: int | None
    fits: Fits
    prefixes: Prefixes = NO_PREFIXES
    input_type: str = ""
    dollars: float | None
    body: Callable[[Sequence[str], bool], Mapping[str, Any]]
    read: Callable[[Any], RawAnswer]


def prefixes_of(model: str) -> Prefixes:
    """The words that a well-known open model was trained with, by a part of its name."""
    name = model.casefold()
    return next((prefixes for part, prefixes in _KNOWN_PREFIXES.items() if part in name), NO_PREFIXES)
