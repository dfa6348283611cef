"""What the store's tests begin with: a turn, a statement, where it comes from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from filrouge.capture.models import Role, Turn
from filrouge.core.clock import new_id
from filrouge.core.scope import Scope, ScopeName
from filrouge.memories.models import Kind, Span, Statement
from filrouge.memories.repository import Origin

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
_NUMBERS = count()


def turn(
    text: str, *, key: str = "", host: str = "codex", session: str = "s", role: Role = "user", seconds: float = 0.0
) -> Turn:
    """A turn outside every project, `seconds` after noon."""
    at = NOON + timedelta(seconds=seconds)
    return Turn(
        id=new_id(at),
        key=key or f"key-{next(_NUMBERS)}",
        scope=Scope(channel=host, session=session),
        host=host,
        role=role,
        source="prompt",
        text=text,
        at=at,
        trust=2,
    )


def statement(
    text: str, *, kind: Kind = "fact", scope: ScopeName = "user", key: str | None = None, value: str | None = None
) -> Statement:
    """A statement without evidence, about the user."""
    return Statement(kind=kind, text=text, span=Span(start=0, end=len(text)), scope=scope, key=key, value=value)


def origin(*, seconds: float = 0.0, turn_id: str = "", trust: int = 2, project: str | None = None) -> Origin:
    """Where a statement comes from."""
    at = NOON + timedelta(seconds=seconds)
    return Origin(scope=Scope(project=project, channel="codex"), trust=trust, at=at, turn_id=turn_id)
