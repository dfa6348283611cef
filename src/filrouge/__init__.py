"""Filrouge: a persistent, local-first memory layer for LLM agents.

The names in `__all__`, plus `AnthropicMemoryTool`, are the public API. They are imported on first use (PEP 562),
because the hook imports this package hundreds of times a day and needs none of them.
"""

from __future__ import annotations

from filrouge._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from filrouge.capture.events import Event
    from filrouge.capture.models import Turn
    from filrouge.core.errors import FilrougeError
    from filrouge.core.protocols import Embedder
    from filrouge.core.scope import Scope
    from filrouge.core.settings import Settings
    from filrouge.memories.models import Evidence, Span, Statement
    from filrouge.memories.models import Memory as MemoryItem
    from filrouge.providers.models import EmbeddingSpace
    from filrouge.runtime.library import Opened, hybrid_fusion, opened
    from filrouge.sdk.client import BlockingMemory, Memory
    from filrouge.search.models import Hit, Ranking
    from filrouge.search.ranking import Fused, diverse
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
    # Requires the extra `llm`, so it is not in `__all__` and a star import does not load it.
    "AnthropicMemoryTool": "filrouge.server.anthropic_memory",
    "BlockingMemory": "filrouge.sdk.client",
    "Embedder": "filrouge.core.protocols",
    "EmbeddingSpace": "filrouge.core.protocols",
    "Event": "filrouge.capture.events",
    "Evidence": "filrouge.memories.models",
    "FilrougeError": "filrouge.core.errors",
    "Fused": "filrouge.search.ranking",
    "Hit": "filrouge.search.models",
    "Memory": "filrouge.sdk.client",
    "MemoryItem": "filrouge.memories.models",
    "Opened": "filrouge.runtime.library",
    "Ranking": "filrouge.search.models",
    "Scope": "filrouge.core.scope",
    "Settings": "filrouge.core.settings",
    "Span": "filrouge.memories.models",
    "Statement": "filrouge.memories.models",
    "Turn": "filrouge.capture.models",
    "diverse": "filrouge.search.ranking",
    "hybrid_fusion": "filrouge.runtime.library",
    "opened": "filrouge.runtime.library",
}
#: Public name to the name in its module, where the two differ: the SDK's class is called `Memory` as well.
_NAMED_ELSEWHERE = {"MemoryItem": "Memory"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module  # the hook imports this package and needs none of it

        return getattr(import_module(_HOMES[name]), _NAMED_ELSEWHERE.get(name, name))
    raise AttributeError(f"module 'filrouge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
