"""The hosts whose hooks Filrouge understands, and how to tell which one is speaking.

Built-in hosts stand in a table here, because looking entry points up costs a hook 100 ms. A payload tells
its host by its shape; where shapes agree, the environment decides, and it comes last because an agent
started from another agent's shell inherits that one's variables. This package is on the hook's path: what
reads transcripts is in `hosts.transcripts`, which only the daemon imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from filrouge.hosts import claude_code, codex
from filrouge.model.event import Event


class Host(Protocol):
    """A host's module: recognises its payloads and turns each into an event. Never raises."""

    NAME: Final[str]

    def shaped(self, payload: Mapping[str, Any]) -> bool:
        """True where only this host would send such a payload."""
        ...

    def around(self, environ: Mapping[str, str]) -> bool:
        """True where the environment says that this host is running."""
        ...

    def parse(self, payload: dict[str, Any], *, environ: Mapping[str, str], at: float, event_id: str) -> Event | None:
        """The event that a payload tells, or None where there is nothing to capture."""
        ...


HOSTS: Final[dict[str, Host]] = {codex.NAME: codex, claude_code.NAME: claude_code}


def recognise(payload: Mapping[str, Any], environ: Mapping[str, str]) -> Host:
    """The host that sent `payload`; Claude Code, whose protocol others borrow, where nothing tells."""
    for host in HOSTS.values():
        if host.shaped(payload):
            return host
    found = [host for host in HOSTS.values() if host.around(environ)]
    return found[0] if len(found) == 1 else claude_code


def parse(
    payload: dict[str, Any], *, host: str = "", environ: Mapping[str, str], at: float, event_id: str
) -> Event | None:
    """The event that `payload` tells; `host` forces who is speaking, where it names one."""
    speaker = HOSTS.get(host) or recognise(payload, environ)
    return speaker.parse(payload, environ=environ, at=at, event_id=event_id)
