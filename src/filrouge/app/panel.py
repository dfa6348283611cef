"""The models that the settings name, put together: one for all questions, others behind it, others for single ones."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from filrouge.app.models import Pace, Panel
from filrouge.config import Settings
from filrouge.errors import BadConfig
from filrouge.model.asking import OPERATIONS, Operation
from filrouge.ports import LanguageModel
from filrouge.providers.language_models import ModelOptions, cascade, dollars

#: The last resort of every cascade, whether it is named or not.
_RULES: Final = "heuristic"


def panel(settings: Settings, environ: Mapping[str, str], pace: Pace) -> Panel:
    """Build the models that the settings name.

    Raises:
        BadConfig: a name, key, path or address does not fit; names what is wrong.
    """
    first = _options(settings, environ, settings.extract_provider, settings.llm_model, url=settings.llm_url)
    behind = [_named(settings, environ, one, "llm_cascade") for one in settings.llm_cascade if one.strip() != _RULES]
    others: dict[Operation, Sequence[ModelOptions]] = {}
    for one in settings.llm_operations:
        operation, _, name = one.partition("=")
        chosen = _operation(operation.strip())
        others[chosen] = [_named(settings, environ, name, "llm_operations"), first, *behind]
    usual = cascade([first, *behind], pace.breaker)
    single: dict[Operation, LanguageModel] = {}
    chains = [usual.models]
    for operation, options in others.items():
        own = cascade(options, pace.breaker)
        single[operation] = own
        chains.append(own.models)
    return Panel(
        model=usual,
        others=single,
        tries=max(map(len, chains)),
        price=partial(_dearest, [model for chain in chains for model in chain]),
    )


def _options(
    settings: Settings, environ: Mapping[str, str], provider: str, model: str, *, url: str = ""
) -> ModelOptions:
    paths = {"claude_cli": settings.claude_cli_path, "codex_cli": settings.codex_cli_path}
    return ModelOptions(
        provider=provider,
        model=model,
        mode=settings.mode,
        url=url,
        seconds=settings.ollama_seconds if provider == "ollama" else settings.llm_seconds,
        cli_path=paths.get(provider, ""),
        decides={"auto": None, "yes": True, "no": False}[settings.llm_decides],
        environ=environ,
    )


def _named(settings: Settings, environ: Mapping[str, str], name: str, setting: str) -> ModelOptions:
    provider, _, model = name.strip().partition(":")
    if not provider:
        raise BadConfig(f"{setting}: {name!r} names no provider.", remedy="Write PROVIDER or PROVIDER:MODEL.")
    return _options(settings, environ, provider.lower().replace("-", "_"), model)


def _operation(name: str) -> Operation:
    for operation in OPERATIONS:
        if operation == name:
            return operation
    near = difflib.get_close_matches(name, OPERATIONS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise BadConfig(
        f"llm_operations: there is no operation {name!r}.{hint} There are: {', '.join(OPERATIONS)}.",
        remedy="Write OPERATION=PROVIDER or OPERATION=PROVIDER:MODEL.",
    )


def _dearest(models: Sequence[LanguageModel], input_tokens: int, output_tokens: int) -> float | None:
    """The price at the dearest of these models; None where one has no known price."""
    prices = [dollars(one.provider, one.model, input_tokens, output_tokens) for one in models]
    known = [price for price in prices if price is not None]
    return max(known) if len(known) == len(prices) else None
