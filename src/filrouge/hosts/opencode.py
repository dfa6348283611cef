"""OpenCode, through Filrouge's plugin inside it (plugin interface 1.18).

OpenCode does not run hook commands. The plugin in its process sends payloads in the common protocol, with the message
id as the prompt's number and `host` set to OpenCode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks

NAME: Final = "opencode"
INJECTS: Final = {"session_start": "SessionStart", "prompt": "UserPromptSubmit"}
NOTICES: Final = False


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only our plugin in OpenCode would send such a payload."""
    return payload.get("host") == NAME


def matches_environment(_: Mapping[str, str]) -> bool:
    """Return False: only the plugin sends payloads for OpenCode, and it names the host."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event in the plugin's payload; an empty list if there is nothing to capture."""
    return command_hooks.parse(payload, host=NAME, prompt_id="message_id", environ=environ, at=at, new_id=new_id)


def injection(_event_name: str, text: str) -> dict[str, Any]:
    """Return the JSON that our plugin reads and passes on."""
    return {"context": text}
