"""The supported hosts (agent programs), and how to detect which host sent a hook payload.

In: the JSON payload of a hook. Out: `Event`s for capture, and the JSON that injects context into the host. A payload's
shape identifies its host. If the shape is ambiguous, the environment decides; it comes second because an agent started
from another agent's shell inherits that agent's variables.

The hosts are listed here instead of in entry points, because an entry point lookup costs a hook 100 ms. This package is
on the hook's path. Only the daemon imports `hosts.transcripts`, which reads transcripts.

Each host has a module with the interface `Host`. Open `command_hooks` for the shared hook protocol and for
fields that may be missing, `project` for the names of a project, `transcripts` for transcript files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from filrouge.capture.events import Event
from filrouge.hosts import claude_code, codex, copilot_cli, cursor, gemini, openclaw, opencode, vscode


class Host(Protocol):
    """A host's module: detects its payloads, turns them into events, and formats injected context. It never raises."""

    NAME: Final[str]
    INJECTS: Final[Mapping[str, str]]
    """The events at which the host accepts context, with its own name for each."""
    NOTICES: Final[bool]
    """Whether the host shows its user the `systemMessage` that a hook prints."""

    def matches_payload(self, payload: Mapping[str, Any]) -> bool:
        """Return True if only this host would send such a payload."""
        ...

    def matches_environment(self, environ: Mapping[str, str], /) -> bool:
        """Return True if the environment shows that this host is running."""
        ...

    def parse(
        self, payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]
    ) -> list[Event]:
        """Return the events in a payload, in order; an empty list if there is nothing to capture."""
        ...

    def injection(self, event_name: str, text: str, /) -> dict[str, Any]:
        """Return the JSON to print so that `text` reaches the model; `event_name` is the host's name for the event."""
        ...


#: The order in which `detect_host` tries the hosts: the most distinctive payload shapes come first.
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


def detect_host(payload: Mapping[str, Any], environ: Mapping[str, str]) -> Host:
    """Return the host that sent `payload`.

    The default is Claude Code, because other hosts borrow its protocol.
    """
    for host in HOSTS.values():
        if host.matches_payload(payload):
            return host
    found = [host for host in HOSTS.values() if host.matches_environment(environ)]
    return found[0] if len(found) == 1 else claude_code


def parse(
    payload: dict[str, Any], *, host: str = "", environ: Mapping[str, str], at: float, new_id: Callable[[], str]
) -> list[Event]:
    """Return the events in `payload`; if `host` names a host, it is not detected.

    VS Code also runs hooks that were written for Claude Code, and their command names Claude Code. A payload with VS
    Code's shape therefore overrides that name.
    """
    named_host = HOSTS.get(host)
    if named_host is claude_code and vscode.matches_payload(payload):
        named_host = vscode
    sender = named_host or detect_host(payload, environ)
    return sender.parse(payload, environ=environ, at=at, new_id=new_id)
