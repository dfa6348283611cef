"""Two homes with a Filrouge of their own, and a hub that both reach."""

from __future__ import annotations

from tests.support.served_hub import hub, superuser, url

__all__ = ["hub", "superuser", "url"]
