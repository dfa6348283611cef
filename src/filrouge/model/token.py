"""A token: who may come in over TCP, and how far. The secret itself is shown once and kept nowhere.

Three kinds: a `token` is a program's and holds until it is revoked; a `link` signs a browser in, once, within minutes;
a `session` is what a browser then holds as a cookie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from filrouge.clock import to_text

Allowed = Literal["read", "write", "admin"]
"""How far a token reaches, each holding the one before."""
Kind = Literal["token", "link", "session"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token, without its secret.

    Attributes:
        name: what its owner called it.
        expires_at: None where it holds until it is revoked.
        last_used_at: to the minute; None where it never was.
    """

    id: str
    kind: Kind
    name: str
    scope: Allowed
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def holds(self, at: datetime) -> bool:
        """Whether it lets anybody in at that moment."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)

    def to_json(self) -> Mapping[str, Any]:
        """As the API answers it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "scope": self.scope,
            "created_at": to_text(self.created_at),
            "expires_at": _when(self.expires_at),
            "last_used_at": _when(self.last_used_at),
            "revoked_at": _when(self.revoked_at),
        }


def _when(at: datetime | None) -> str | None:
    return to_text(at) if at else None
