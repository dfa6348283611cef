"""A hub on a real PostgreSQL."""

from __future__ import annotations

from tests.support.served_hub import hub, superuser, url

__all__ = ["hub", "superuser", "url"]
