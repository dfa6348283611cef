"""Checks of the model that understands: chosen, installed, keyed, reachable, and within its budget."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from filrouge import installation
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.probing import answers, which
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.config import Settings
from filrouge.store.usage import LlmUsage

_GUIDE: Final = "See docs/guides/models.md"
_NONE: Final = ("", "heuristic", "off")
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("pydantic_ai", "anthropic", "httpx2"),
    "openai": ("pydantic_ai", "openai", "httpx2"),
    "ollama": ("httpx2",),
}
_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_SERVERS: Final = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434",
}
_PROGRAMS: Final = {"claude_cli": "claude", "codex_cli": "codex"}


def _provider(scene: Scene) -> Verdict:
    settings = scene.settings()
    if settings.extract_provider == "off":
        return note(
            "nothing is understood: extract_provider is off", "Run `filrouge settings extract_provider heuristic`."
        )
    if settings.extract_provider in _NONE:
        return ok("none: the rules understand without a model")
    return ok(", ".join(_providers(settings)))


def _packages(scene: Scene) -> Verdict:
    for provider in _providers(scene.settings()):
        if missing := [name for name in _PACKAGES.get(provider, ()) if not scene.machine.has(name)]:
            remedy = f"Run `{installation.add_extra('llm')}`."
            return fail(f"{provider} needs {missing[0]}, which is not installed", remedy)
    return ok("all are there")


def _key(scene: Scene) -> Verdict:
    settings = scene.settings()
    for provider in _providers(settings):
        variable = _KEYS.get(provider, "")
        elsewhere = provider == settings.extract_provider and settings.llm_url
        if variable and not elsewhere and not scene.environ.get(variable, "").strip():
            return fail(
                f"{provider} needs {variable}, which is not set here",
                f"Set {variable} where the daemon is started, then run `filrouge daemon stop`.",
            )
    return ok("none is missing")


def _server(scene: Scene) -> Verdict:
    settings = scene.settings()
    for provider in _providers(settings):
        home = _SERVERS.get(provider)
        if home is None:
            continue
        given = scene.environ.get("OLLAMA_URL", "").strip() if provider == "ollama" else ""
        own = settings.llm_url if provider == settings.extract_provider else ""
        if trouble := answers(own or given or home, scene.environ):
            return fail(
                f"{provider}: {trouble}",
                "Start it, or correct llm_url; what is said meanwhile waits, or is understood by the rules.",
            )
    return ok("every one answers")


def _programs(scene: Scene) -> Verdict:
    settings = scene.settings()
    paths = {"claude_cli": settings.claude_cli_path, "codex_cli": settings.codex_cli_path}
    for provider, path in paths.items():
        if path and not os.path.isabs(path):
            return fail(
                f"{provider}_path is no absolute path", f"Run `filrouge settings {provider}_path $(which ...)`."
            )
        if path and not which(path, scene.environ):
            return fail(f"{path} cannot be run", f"Correct it: `filrouge settings {provider}_path PATH`.")
    for provider in _providers(settings):
        program = _PROGRAMS.get(provider)
        if program and not paths[provider] and not which(program, scene.environ):
            return fail(
                f"{provider} is chosen, and `{program}` is not on the PATH",
                f"Install it, or name it: `filrouge settings {provider}_path PATH`.",
            )
    return ok("every one that is named is there")


def _budget(scene: Scene) -> Verdict:
    settings = scene.settings()
    with scene.reading() as tx:
        spent = LlmUsage(tx).spent(scene.now)
    if settings.llm_daily_tokens and spent.tokens >= settings.llm_daily_tokens:
        return warn(
            f"today's {settings.llm_daily_tokens:,} tokens are spent: no model is asked before midnight (UTC)",
            "Run `filrouge settings llm_daily_tokens N` for more, or wait.",
        )
    if settings.llm_daily_dollars and spent.dollars >= settings.llm_daily_dollars:
        return warn(
            f"today's {settings.llm_daily_dollars:g} dollars are spent: no model is asked before midnight (UTC)",
            "Run `filrouge settings llm_daily_dollars N` for more, or wait.",
        )
    return ok(f"{spent.tokens:,} tokens in {spent.calls} calls today")


def _model(scene: Scene) -> Verdict:
    found = scene.daemon.ask("/extract/status")
    if not found["enabled"]:
        return ok("nothing is understood: extract_provider is off")
    who, health = f"{found['provider']} {found['model']}", str(found["status"])
    if health == "healthy":
        return ok(who)
    remedy = f"{_GUIDE}; `filrouge extract` shows what waits."
    return (fail if health.startswith("error") else warn)(f"{who}: {health}", remedy)


def _providers(settings: Settings) -> list[str]:
    """Every provider that may be asked."""
    if settings.extract_provider in _NONE:
        return []
    named = [word.partition("=")[2] for word in settings.llm_operations]
    every = [settings.extract_provider, *settings.llm_cascade, *named]
    plain = [one.partition(":")[0].strip().lower().replace("-", "_") for one in every]
    return list(dict.fromkeys(one for one in plain if one not in _NONE))


CHECKS: Final = (
    Check(name="Provider", look=_provider),
    Check(name="Packages of the provider", look=_packages),
    Check(name="Key of the provider", look=_key),
    Check(name="Server of the provider", look=_server),
    Check(name="Command lines of models", look=_programs),
    Check(name="Budget", look=_budget),
    Check(name="Model", look=_model),
)
