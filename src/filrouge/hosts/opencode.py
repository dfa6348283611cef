"""OpenCode, as Filrouge's plugin inside it speaks (plugin interface 1.18).

OpenCode runs no commands: a plugin in its process tells what happened in the words of the common protocol,
numbers a prompt by its message, and says that it speaks for OpenCode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks

NAME: Final = "opencode"
INJECTS: Final = {"session_start": "SessionStart", "prompt": "UserPromptSubmit"}
NOTICES: Final = False


def shaped(payload: Mapping[str, Any]) -> bool:
    """True where only our plugin in OpenCode would send such a payload."""
    return payload.get("host") == NAME


def around(_: Mapping[str, str]) -> bool:
    """Never: only the plugin speaks for it, and that names it."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """The event that the plugin tells; none where there is nothing to capture."""
    return command_hooks.parse(payload, host=NAME, prompt_id="message_id", environ=environ, at=at, new_id=new_id)


def injection(_moment: str, text: str) -> dict[str, Any]:
    """What our plugin reads, and hands on."""
    return {"context": text}
