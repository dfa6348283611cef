"""Embedders by name, found through the entry points that a stranger's embedder would use.

A name is that of an entry point (`e5`), or that and the name of a model (`ollama:nomic-embed-text`). An entry point
is a class or function: with a parameter named `options` it is given `EmbedderOptions`, else it is called with nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from filrouge import installation
from filrouge.embed.options import EmbedderOptions
from filrouge.errors import BadConfig, EmbedderUnavailable
from filrouge.ports import Embedder

GROUP = "filrouge.embedders"
#: Which extra brings a package.
_EXTRAS: Final = {"httpx": "remote", "tenacity": "remote"}


def embedder(name: str, options: EmbedderOptions | None = None) -> Embedder:
    """The embedder registered as `name`, or as its part before a colon.

    Raises:
        BadConfig: there is none of that name (names those that exist), it takes no model, or its options do not fit.
        EmbedderUnavailable: a package that it needs is not installed.
    """
    found = _registered()
    if not {name, name.partition(":")[0]} & found.keys():  # its package may have been installed since
        _registered.cache_clear()
        found = _registered()
    provider, colon, model = (name, "", "") if name in found else name.partition(":")
    if provider not in found:
        raise BadConfig(f"There is no embedder {name!r}; there are: {', '.join(sorted(found))}.")
    factory = _load(found[provider])
    if "options" in inspect.signature(factory).parameters:
        return factory(options=replace(options or EmbedderOptions(), model=model))
    if colon:
        raise BadConfig(f"The embedder {provider!r} takes no model; it was given {model!r}.")
    return factory()


def plain_names() -> list[str]:
    """Every embedder that needs no further choice: no model to name, no address, no key."""
    found: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            if "options" not in inspect.signature(_load(entry)).parameters:
                found.append(entry.name)
        except EmbedderUnavailable:  # its package is not installed
            continue
    return sorted(found)


@cache
def _registered() -> dict[str, EntryPoint]:
    """Those that were installed when this was first asked, by name: every installed package is read for them."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Callable[..., Embedder]:
    try:
        return entry.load()
    except ImportError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        command = installation.add_extra(extra) if extra else installation.add(error.name or entry.value)
        raise EmbedderUnavailable(
            f"The embedder {entry.name!r} cannot be loaded: {error}.", remedy=f"Install it: `{command}`."
        ) from error
