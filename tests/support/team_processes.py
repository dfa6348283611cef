"""A team in real processes: PostgreSQL, `filrouge hub serve`, the network before it, and daemons of its members."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filrouge.core.clock import SystemClock
from filrouge.daemon import client
from filrouge.hub import tokens
from filrouge.hub.client import HubClient
from filrouge.hub.models import Scope
from tests.reliability import processes
from tests.reliability.processes import Forge, Forked
from tests.security.wire import free_port
from tests.support import postgres
from tests.support.ending import at_the_end
from tests.support.postgres import Hub, Server
from tests.support.proxy import Proxy

ADDRESS = "forge.example/acme/harbour"
_SERVE = ("filrouge.cli.main", "filrouge.cli.commands.hub", "filrouge.server.hub", "filrouge.hub.schema", "uvicorn")
_MAY: tuple[Scope, ...] = ("read", "share", "forget")


@cache
def _forge() -> Forge:
    forge = Forge(tempfile.gettempdir(), _SERVE)
    at_the_end(forge.close)
    return forge


class HubProcess:
    """`filrouge hub serve`, on one port for its whole life."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self.port, self._process = hub, free_port(), Forked(0)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ("hub", "serve", "--database", self._hub.serving, "--port", str(self.port))
        self._process = Forked(_forge().make(processes.environment(tempfile.gettempdir()), *words))
        processes.eventually("the hub answers", self.answers)

    def answers(self) -> bool:
        """True if it answers, and its database too."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            assert self._process.poll() is None, "the hub ended"
            return False

    def kill(self) -> None:
        """kill -9."""
        processes.kill(self._process.pid)

    def stop(self) -> None:
        """Stop it as an operator does."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        processes.eventually("the hub is gone", lambda: not processes.alive(self._process.pid))


@dataclass(frozen=True, kw_only=True)
class Office:
    """A hub with its database and the network before it."""

    cluster: Server
    hub: Hub
    serving: HubProcess
    network: Proxy

    def members(self, *names: str) -> list[str]:
        """Add a team with these members, and return their secrets."""
        admin = self.hub.add_tenant(f"{names[0]}'s team {os.urandom(4).hex()}", names[0]).secret
        with self.hub.database.session(admin) as session:
            others = [tokens.invite(session, SystemClock(), name, _MAY).secret for name in names[1:]]
        return [admin, *others]

    def client(self, secret: str) -> HubClient:
        """Return a client that reaches the hub beside the network."""
        return HubClient(f"http://127.0.0.1:{self.serving.port}", secret)


@contextmanager
def office(data: Path | None = None) -> Generator[Office]:
    """Start a hub."""
    postgres.required()
    with postgres.own_server(data) as cluster, postgres.hub(cluster.url) as hub:
        serving = HubProcess(hub)
        with Proxy(target=serving.port) as network:
            serving.start()
            try:
                yield Office(cluster=cluster, hub=hub, serving=serving, network=network)
            finally:
                serving.stop()


@dataclass(kw_only=True)
class Colleague:
    """A member at a machine of their own: a daemon on a home, and a clone of the team's project beside it."""

    name: str
    home: str
    sessions: int = 0

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float = 60.0) -> Any:
        """Return what a route of the daemon answers."""
        reply = client.request(self.home, method, path, dict(body) if body is not None else None, timeout)
        assert reply.status < 300, (path, reply)
        return reply.value

    def join(self, url: str, secret: str, policy: str = "all-memories") -> None:
        """Join the team, in which this machine works in the project."""
        self.say("hello harbour")
        self.ask("POST", "/api/team/join", {"url": url, "token": secret, "device": f"{self.name}'s laptop"})
        self.share_project(policy)

    def share_project(self, policy: str) -> None:
        """Say what is shared of the project."""
        self.ask("PUT", "/api/team/policy", {"project": f"origin:{ADDRESS}", "policy": policy})

    def say(self, text: str, session: str = "") -> str:
        """Send a prompt through the real hook; return the block that goes before it."""
        self.sessions += 1
        number = str(self.sessions)
        done = processes.hook(self.home, processes.prompt(self.home, session or f"s{number}", number, text))
        assert done.code == 0, done
        return json.loads(done.out)["hookSpecificOutput"]["additionalContext"] if done.out.strip() else ""

    def note(self, text: str, **more: Any) -> str:
        """Have the user state something by hand; return the memory's id."""
        body = {"text": text, "project": [f"origin:{ADDRESS}"], **more}
        return str(self.ask("POST", "/api/memory/memories", body)["actions"][-1]["id"])

    def team(self) -> dict[str, Any]:
        """Return the status of sharing."""
        return self.ask("GET", "/api/team")

    def synchronise(self) -> dict[str, Any]:
        """Exchange memories with the hub now; return the status."""
        return self.ask("POST", "/api/team/synchronise")

    def live(self) -> list[str]:
        """Return the texts of the project's live memories, sorted; a text that is there twice is twice in the list."""
        found = processes.left(self.home).memories
        return sorted(row["text"] for row in found if row["state"] == "live" and row["kind"] != "episode")


@contextmanager
def colleague(name: str) -> Generator[Colleague]:
    """Start a daemon for a member who has cloned the project."""
    with processes.throw_away_home() as home:
        clone(processes.workplace(home))
        with processes.daemon(home):
            yield Colleague(name=name, home=home)


def clone(folder: str, address: str = ADDRESS) -> None:
    """Make a folder the clone of a repository."""
    git = Path(folder, ".git")
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "config").write_text(f'[remote "origin"]\n\turl = https://{address}.git\n', encoding="utf-8")
