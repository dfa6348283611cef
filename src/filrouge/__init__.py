"""Filrouge: a persistent, local-first memory layer for LLM agents.

The names below are the public API. They are resolved when first used (PEP 562), because the hook imports this
package hundreds of times a day and needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from filrouge._version import __version__

if TYPE_CHECKING:
    from filrouge.app.library import Opened, hybrid_fusion, opened
    from filrouge.config import Settings
    from filrouge.errors import FilrougeError
    from filrouge.model.event import Event
    from filrouge.model.memory import Evidence, Span, Statement
    from filrouge.model.memory import Memory as MemoryItem
    from filrouge.model.recall import Hit, Ranking
    from filrouge.model.scope import Scope
    from filrouge.model.turn import Turn
    from filrouge.ports import Embedder, EmbeddingSpace
    from filrouge.recall.diversity import diverse
    from filrouge.recall.hybrid import Fused
    from filrouge.sdk.blocking import BlockingMemory
    from filrouge.sdk.client import Memory
    from filrouge.server.anthropic_memory import AnthropicMemoryTool as AnthropicMemoryTool

__all__ = [
    "BlockingMemory",
    "Embedder",
    "EmbeddingSpace",
    "Event",
    "Evidence",
    "FilrougeError",
    "Fused",
    "Hit",
    "Memory",
    "MemoryItem",
    "Opened",
    "Ranking",
    "Scope",
    "Settings",
    "Span",
    "Statement",
    "Turn",
    "__version__",
    "diverse",
    "hybrid_fusion",
    "opened",
]

_HOMES = {
    # Needs the extra `llm`, so no star import asks for it.
    "AnthropicMemoryTool": "filrouge.server.anthropic_memory",
    "BlockingMemory": "filrouge.sdk.blocking",
    "Embedder": "filrouge.ports",
    "EmbeddingSpace": "filrouge.ports",
    "Event": "filrouge.model.event",
    "Evidence": "filrouge.model.memory",
    "FilrougeError": "filrouge.errors",
    "Fused": "filrouge.recall.hybrid",
    "Hit": "filrouge.model.recall",
    "Memory": "filrouge.sdk.client",
    "MemoryItem": "filrouge.model.memory",
    "Opened": "filrouge.app.library",
    "Ranking": "filrouge.model.recall",
    "Scope": "filrouge.model.scope",
    "Settings": "filrouge.config",
    "Span": "filrouge.model.memory",
    "Statement": "filrouge.model.memory",
    "Turn": "filrouge.model.turn",
    "diverse": "filrouge.recall.diversity",
    "hybrid_fusion": "filrouge.app.library",
    "opened": "filrouge.app.library",
}
#: The SDK has the name that the value bears in its own module.
_NAMED_ELSEWHERE = {"MemoryItem": "Memory"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), _NAMED_ELSEWHERE.get(name, name))
    raise AttributeError(f"module 'filrouge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
