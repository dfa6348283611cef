"""Models by the name of their provider, found through the entry points that a stranger's provider would use.

An entry point is a function from `ModelOptions` to a `LanguageModel`. What is built here is always a cascade, of one
model or of several, so that every model has its limit in time and its circuit breaker. A provider's packages are
loaded when it is chosen, and not before.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from filrouge import installation
from filrouge.errors import BadConfig
from filrouge.llm.cascade import REST_SECONDS, Cascade, Step
from filrouge.llm.options import ModelOptions
from filrouge.ports import LanguageModel

GROUP: Final = "filrouge.models"
#: Which extra brings a package.
_EXTRAS: Final = {"anthropic": "llm", "httpx2": "llm", "openai": "llm", "pydantic_ai": "llm", "genai_prices": "llm"}


def model(options: ModelOptions) -> Cascade:
    """The model of these options, with its limit and its breaker.

    Raises:
        BadConfig: there is no such provider (names the nearest), its package is missing, or its options do not fit.
    """
    return cascade([options])


def cascade(options: Sequence[ModelOptions], rest_seconds: float = REST_SECONDS) -> Cascade:
    """Several models, to be asked in this order; one that fails again and again is left alone for so long.

    Raises:
        BadConfig: one of them cannot be made, with the reason.
    """
    known = [replace(one, provider=one.provider.strip().lower().replace("-", "_")) for one in options]
    return Cascade([Step(model=_built(one), seconds=one.limit) for one in known], rest_seconds=rest_seconds)


def providers() -> list[str]:
    """Every registered provider."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def _built(options: ModelOptions) -> LanguageModel:
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if options.provider not in found:
        near = difflib.get_close_matches(options.provider, found, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BadConfig(
            f"There is no provider {options.provider!r}.{hint} There are: {', '.join(sorted(found))}.",
            remedy="Set `extract_provider` to one of them, or to nothing for understanding without a model.",
        )
    return _loaded(found[options.provider])(options)


def _loaded(entry: EntryPoint) -> Callable[[ModelOptions], LanguageModel]:
    try:
        return entry.load()
    except ImportError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        command = installation.add_extra(extra) if extra else installation.add(error.name or entry.value)
        raise BadConfig(
            f"The provider {entry.name!r} needs a package that is not installed.",
            remedy=f"Install it: `{command}`.",
        ) from error
