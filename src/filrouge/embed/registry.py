"""Embedders by name, found through the entry points that a stranger's embedder would use."""

from __future__ import annotations

from importlib.metadata import entry_points

from filrouge.errors import BadConfig
from filrouge.ports import Embedder

GROUP = "filrouge.embedders"


def embedder(name: str) -> Embedder:
    """The embedder registered as `name`.

    Raises:
        BadConfig: naming those that exist.
    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise BadConfig(f"There is no embedder {name!r}; there are: {', '.join(sorted(found))}.")
    return found[name].load()()
