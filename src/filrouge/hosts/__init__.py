"""The hosts whose hooks Filrouge understands, and how to tell which one is speaking.

Built-in hosts stand in a table here, because looking entry points up costs a hook 100 ms. A payload tells
its host by its shape; where shapes agree, the environment decides, and it comes last because an agent
started from another agent's shell inherits that one's variables. This package is on the hook's path: what
reads transcripts is in `hosts.transcripts`, which only the daemon imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from filrouge.capture.events import Event
from filrouge.hosts import claude_code, codex, copilot_cli, cursor, gemini, openclaw, opencode, vscode


class Host(Protocol):
    """A host's module: recognises its payloads, turns each into events, and says how it is answered. Never raises."""

    NAME: Final[str]
    INJECTS: Final[Mapping[str, str]]
    """The kinds of event at which the host takes a context, and its own name for each."""
    NOTICES: Final[bool]
    """Whether the host shows its user the `systemMessage` that a hook prints."""

    def shaped(self, payload: Mapping[str, Any]) -> bool:
        """True where only this host would send such a payload."""
        ...

    def around(self, environ: Mapping[str, str], /) -> bool:
        """True where the environment says that this host is running."""
        ...

    def parse(
        self, payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]
    ) -> list[Event]:
        """The events that a payload tells, in their order; none where there is nothing to capture."""
        ...

    def injection(self, moment: str, text: str, /) -> dict[str, Any]:
        """What to print so that `text` comes in front of the model, at a moment by the host's own name."""
        ...


#: In the order in which they are asked whether a payload is theirs: those whose shape tells most come first.
HOSTS: Final[dict[str, Host]] = {
    openclaw.NAME: openclaw,
    opencode.NAME: opencode,
    cursor.NAME: cursor,
    gemini.NAME: gemini,
    vscode.NAME: vscode,
    copilot_cli.NAME: copilot_cli,
    codex.NAME: codex,
    claude_code.NAME: claude_code,
}


def recognise(payload: Mapping[str, Any], environ: Mapping[str, str]) -> Host:
    """The host that sent `payload`; Claude Code, whose protocol others borrow, where nothing tells."""
    for host in HOSTS.values():
        if host.shaped(payload):
            return host
    found = [host for host in HOSTS.values() if host.around(environ)]
    return found[0] if len(found) == 1 else claude_code


def parse(
    payload: dict[str, Any], *, host: str = "", environ: Mapping[str, str], at: float, new_id: Callable[[], str]
) -> list[Event]:
    """The events that `payload` tells; `host` forces who is speaking, where it names one.

    VS Code runs the hooks that were written for Claude Code, whose command names that host: its shape outdoes
    the name.
    """
    named = HOSTS.get(host)
    if named is claude_code and vscode.shaped(payload):
        named = vscode
    speaker = named or recognise(payload, environ)
    return speaker.parse(payload, environ=environ, at=at, new_id=new_id)
