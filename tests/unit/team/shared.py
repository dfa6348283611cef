"""What the tests of sharing have in common: a home that joins, an exchange, and what a home knows afterwards."""

from __future__ import annotations

from filrouge.core.scope import ScopeName
from filrouge.memories.changes import remember
from filrouge.memories.models import Memory
from filrouge.memories.service import list_reviews
from filrouge.runtime.services import Parts
from filrouge.team import service
from filrouge.team.repository import Team
from filrouge.testing import idle
from tests.support.given import SHOP, say


def begun(
    parts: Parts, url: str, secret: str, *, name: str = "a", policy: str = "off", project: tuple[str, ...] = SHOP
) -> Parts:
    """Have a home know the project, join a team, and share of the project what the policy says."""
    say(parts, "hello there", project)
    service.join(parts, url, secret, device_name=f"{name}'s laptop")
    if policy != "off":
        service.set_policy(parts, project, policy)
    return parts


def exchange(*homes: Parts) -> None:
    for parts in homes:
        idle(parts)
        service.synchronise(parts)
        while parts.readers.here(lambda tx: Team(tx).received_in("forgetting", 1)):
            service.synchronise(parts)  # a read kept the write-ahead log from being emptied
        assert parts.team.problem == ""
        idle(parts)


def note(parts: Parts, text: str, *, names: tuple[str, ...] = SHOP, scope: ScopeName = "project") -> str:
    """Have the user state something; return the memory's id."""
    actions = remember(parts, text, names=names, scope=scope, host="cli")
    idle(parts)
    return actions[-1].memory_id


def live(parts: Parts) -> dict[str, Memory]:
    """The live memories of the project by text."""
    found = parts.readers.here(lambda tx: parts.memories(tx).within(project=SHOP[0], user="local"))
    return {memory.text: memory for memory in found}


def reviews(parts: Parts) -> list[tuple[str, str]]:
    """What waits for the user: the kind of review, and the statement."""
    found = parts.readers.here(lambda tx: list_reviews(parts, tx))
    return [(review["kind"], review["text"]) for review in found]
