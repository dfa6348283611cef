"""A team for the dashboard's test and pictures: a served hub, and a colleague with a home of their own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from filrouge.capture.events import Event
from filrouge.core.clock import SystemClock, new_id
from filrouge.hub import tokens
from filrouge.hub.models import SCOPES
from filrouge.memories.changes import remember
from filrouge.memories.service import add_rule
from filrouge.runtime.services import Parts
from filrouge.team import service
from filrouge.testing import idle, running
from tests.reliability.processes import throw_away_home

from . import postgres, served_hub
from .dashboard import Dashboard

HARBOUR = "origin:forge.example/acme/harbour"
CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class Colleague:
    """Ben, who shares all memories of the project, and what the other member needs to join."""

    url: str
    token: str
    parts: Parts

    def say(self, *texts: str) -> None:
        """State something in the project."""
        for text in texts:
            remember(self.parts, text, names=(HARBOUR,), scope="project", host="cli")
        self.exchange()

    def add_rule(self, text: str) -> None:
        """Add a rule of the project."""
        add_rule(self.parts, text, names=(HARBOUR,), scope="project")
        self.exchange()

    def knows(self) -> list[str]:
        """The live memories of the project, after an exchange."""
        self.exchange()
        found = self.parts.readers.here(lambda tx: self.parts.memories(tx).within(project=HARBOUR, user="local"))
        return [memory.text for memory in found]

    def exchange(self) -> None:
        """Exchange memories with the hub."""
        idle(self.parts)
        service.synchronise(self.parts)
        assert self.parts.team.problem == ""
        idle(self.parts)


@contextmanager
def colleague(team: str = "Acme", member: str = "Ana") -> Generator[Colleague]:
    """A hub with a team, in which Ben works; `member` is another admin, who can join it."""
    with postgres.server() as superuser, postgres.hub(superuser) as hub, served_hub.served(hub) as url:
        admin = hub.add_tenant(team, "Ben").secret
        with hub.database.session(admin) as session:
            token = tokens.invite(session, CLOCK, member, SCOPES).secret
        with throw_away_home() as home, running(home) as parts:
            remember(parts, "The harbour has three piers.", names=(HARBOUR,), scope="project", host="cli")
            service.join(parts, url, admin, device_name="workshop")
            service.set_policy(parts, (HARBOUR,), "all-memories")
            yield Colleague(url=url, token=token, parts=parts)


def work_in(dashboard: Dashboard, *texts: str, project: str = HARBOUR) -> None:
    """Have the dashboard's user say something in a project, which has a remote."""
    for text in texts:
        now = CLOCK.now()
        id_ = new_id(now)
        event = Event(
            id_, "claude-code", "prompt", "s", now.timestamp(), f"key:{id_}", "", (project,), "", "", {"text": text}
        )
        dashboard.ask("POST", "/hooks/events", {"events": [event.to_json()]})
