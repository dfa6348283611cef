"""The hooks of VS Code's Copilot (a preview, by its documentation).

VS Code uses Claude Code's protocol, with some fields in camelCase and a time in each payload. It runs the hooks of
Claude Code's settings as well as its own, so with both installed a prompt is reported twice; equal times identify the
duplicate. Context can be injected only at the start of a session, and the agent's answers are not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import text_field

NAME: Final = "vscode"
INJECTS: Final = {"session_start": "SessionStart"}
NOTICES: Final = True


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only VS Code would send such a payload: the event name in camelCase, and a time."""
    return "hookEventName" in payload and bool(text_field(payload, "timestamp"))


def matches_environment(_: Mapping[str, str]) -> bool:
    """Return False: every agent that runs in a VS Code terminal sees VS Code's variables."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event of a VS Code payload; an empty list if there is nothing to capture."""
    source = text_field(payload, "source")
    translated = payload | {"source": "startup" if source == "new" else source}
    return command_hooks.parse(translated, host=NAME, prompt_id="timestamp", environ=environ, at=at, new_id=new_id)


def injection(event_name: str, text: str) -> dict[str, Any]:
    """Return the JSON to print so that `text` reaches the model."""
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": text}}
