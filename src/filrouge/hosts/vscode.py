"""VS Code's Copilot, as its hooks speak (a preview, by its documentation).

It speaks Claude Code's protocol, with some fields in camelCase and a time in each payload, and runs the
hooks of Claude Code's settings as well as its own: with both installed a prompt is told twice, and the time
tells that it is one. A context is taken at a session's start only, and the agent's answer is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.reading import text_field

NAME: Final = "vscode"
INJECTS: Final = {"session_start": "SessionStart"}
NOTICES: Final = True


def shaped(payload: Mapping[str, Any]) -> bool:
    """True where only VS Code would send such a payload: it names the event in camelCase and says the time."""
    return "hookEventName" in payload and bool(text_field(payload, "timestamp"))


def around(_: Mapping[str, str]) -> bool:
    """Never: terminals inside VS Code have its variables too, whatever agent runs in them."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """The event that a VS Code payload tells; none where there is nothing to capture."""
    source = text_field(payload, "source")
    told = payload | {"source": "startup" if source == "new" else source}
    return command_hooks.parse(told, host=NAME, prompt_id="timestamp", environ=environ, at=at, new_id=new_id)


def injection(moment: str, text: str) -> dict[str, Any]:
    """What to print so that `text` comes in front of the model."""
    return {"hookSpecificOutput": {"hookEventName": moment, "additionalContext": text}}
