"""The status report of the language models: provider, health and cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from filrouge.core.errors import BadConfig
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import Readings
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.jobs import MODELS, Jobs
from filrouge.runtime.services import Parts, StoreContext

_DAYS = 30


def extract_status(parts: Parts) -> dict[str, Any]:
    """Return the body of `GET /extract/status`; if extraction is off, only `enabled: false`.

    `status` is `healthy`, `unhealthy: REASON` or `error: SETTINGS PROBLEM`. Without a provider, rules extract
    statements, and the status is always healthy.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    if settings.extract_provider == "off":
        return {"enabled": False}
    provider, model = settings.extract_provider or "heuristic", settings.llm_model
    try:
        panel = parts.models.panel(settings)
        model = panel.model.model if panel else "rules"
    except BadConfig:
        pass  # its health gives the reason
    return {
        "enabled": True,
        "provider": provider,
        "model": model,
        "mode": settings.mode,
        "status": parts.models.health(settings),
        **parts.readers.here(lambda tx: _usage_report(parts, tx)),
    }


def _usage_report(parts: StoreContext, tx: Tx) -> dict[str, Any]:
    settings, now = parts.settings(tx), parts.clock.now()
    spent = LlmUsage(tx).spent(now)
    return {
        "today": {
            "calls": spent.calls,
            "tokens": spent.tokens,
            "most_tokens": settings.llm_daily_tokens,
            "dollars": spent.dollars,
            "most_dollars": settings.llm_daily_dollars or None,
            "unpriced_entries": spent.unpriced,
        },
        "usage": LlmUsage(tx).by_model(now - timedelta(days=_DAYS)),
        "behind": Readings(tx).behind() if settings.extract_provider not in PROVIDERS_WITHOUT_MODEL else 0,
        "waiting": Jobs(tx).waiting(MODELS),
        "unreadable_answers": Readings(tx).unreadable_count(),
    }


def dead_letters(tx: Tx) -> list[dict[str, Any]]:
    """Return the unreadable answers, newest first."""
    return Readings(tx).unreadable()
