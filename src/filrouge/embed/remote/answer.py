"""The two shapes in which services answer: OpenAI's, which Voyage and many servers share, and Ollama's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class RawAnswer:
    """The lists of numbers in a reply, in the order of the texts, and the tokens it counted (None: it did not)."""

    vectors: Sequence[Any]
    tokens: int | None


def of_openai(reply: Any) -> RawAnswer:
    """From `{"data": [{"index", "embedding"}], "usage": {"prompt_tokens" or "total_tokens"}}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    items = list(reply["data"])
    places = [item.get("index") for item in items]
    if any(place is not None for place in places):  # some servers answer in the order in which they finish
        if sorted(places) != list(range(len(items))):
            raise ValueError("places are missing or double")
        items.sort(key=lambda item: item["index"])
    usage: dict[str, Any] = reply.get("usage") or {}
    return RawAnswer(
        vectors=[item["embedding"] for item in items],
        tokens=_count(usage.get("total_tokens", usage.get("prompt_tokens"))),
    )


def of_ollama(reply: Any) -> RawAnswer:
    """From `{"embeddings": [[…]], "prompt_eval_count"}`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it has another shape.
    """
    return RawAnswer(vectors=list(reply["embeddings"]), tokens=_count(reply.get("prompt_eval_count")))


def _count(given: Any) -> int | None:
    """A number of tokens; nothing where the server says 0, which some do for everything."""
    return given if isinstance(given, int) and given > 0 else None
