"""What the tests of the hub share: versions to push, tenants with several members, and readers that follow changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from filrouge.core.clock import SystemClock, new_id
from filrouge.hub import service, tokens
from filrouge.hub.models import Change, PushAnswer, Scope, Version
from tests.support.postgres import Hub

CLOCK = SystemClock()
PROJECT = "github.com/acme/harbour"
MEMBER: tuple[Scope, ...] = ("read", "share", "forget")
_NUMBERS = itertools.count()


def ulid() -> str:
    return new_id(CLOCK.now())


def version(text: str = "The API listens on port 7300.", **fields: Any) -> Version:
    told: dict[str, Any] = {
        "memory": ulid(), "version": 1, "project": PROJECT, "kind": "decision", "text": text,
        "valid_from": datetime(2026, 11, 1, tzinfo=UTC),
    }  # fmt: skip
    return Version(**(told | fields))


def team(hub: Hub, *names: str) -> list[str]:
    """Add a tenant with these members; the first is its admin. Return their secrets."""
    admin = hub.add_tenant(f"tenant {next(_NUMBERS)}", names[0]).secret
    with hub.database.session(admin) as session:
        others = [tokens.invite(session, CLOCK, name, MEMBER).secret for name in names[1:]]
    return [admin, *others]


def push(hub: Hub, secret: str, *versions: Version) -> list[PushAnswer]:
    with hub.database.session(secret) as session:
        return service.push(session, CLOCK, versions)


def outcomes(hub: Hub, secret: str, *versions: Version) -> list[str]:
    return [answer.outcome for answer in push(hub, secret, *versions)]


def follow(hub: Hub, secret: str, after: str = "", *, limit: int = 100) -> tuple[list[Change], str]:
    """Read all changes behind a cursor."""
    found, cursor = list[Change](), after
    while True:
        with hub.database.session(secret) as session:
            page = service.changes(session, after=cursor, limit=limit)
        found += page.changes
        cursor = page.cursor
        if page.complete:
            return found, cursor


def pairs(changes: Sequence[Change]) -> list[tuple[str, int]]:
    return [(change.memory, change.version) for change in changes]
