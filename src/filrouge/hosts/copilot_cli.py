"""Copilot's command line, as its hooks speak (1.0.102, by what a running one told).

No payload names its event: the fields tell. Early versions name no session either; their hooks are told
apart by the directory. The agent's answer is not told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.reading import as_object, field, short_hash, text_field

NAME: Final = "copilot-cli"
INJECTS: Final = {"session_start": "sessionStart", "prompt": "userPromptSubmitted"}
NOTICES: Final = False


def shaped(payload: Mapping[str, Any]) -> bool:
    """True where only Copilot's command line would send such a payload: a time as a number, and no event's name."""
    at = payload.get("timestamp")
    numbered = isinstance(at, int | float) and not isinstance(at, bool)
    return numbered and field(payload, "hook_event_name") is None


def around(_: Mapping[str, str]) -> bool:
    """Never: it sets no variable of its own."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """The event that a payload of Copilot tells; none where there is nothing to capture."""
    moment, cwd = field(payload, "timestamp"), text_field(payload, "cwd")
    source = text_field(payload, "source")
    told = payload | {
        "hook_event_name": text_field(payload, "hook_event_name") or _event(payload),
        "session_id": text_field(payload, "session_id") or (f"cwd:{short_hash(cwd)}" if cwd else ""),
        "source": "startup" if source == "new" else source,
        "moment": str(moment) if isinstance(moment, int | float) else text_field(payload, "timestamp"),
    }
    result = as_object(field(payload, "tool_result"))
    if result:
        said = text_field(result, "text_result_for_llm") or result
        told |= {"tool_input": _arguments(payload), "tool_response": said, "error": said}
    return command_hooks.parse(told, host=NAME, prompt_id="moment", environ=environ, at=at, new_id=new_id)


def _event(payload: Mapping[str, Any]) -> str:
    """The event's name in the common protocol, by the fields that only this event has."""
    result = as_object(field(payload, "tool_result"))
    if text_field(payload, "tool_name"):
        failed = text_field(result, "result_type") in ("failure", "denied")
        return ("PostToolUseFailure" if failed else "PostToolUse") if result else ""
    if field(payload, "prompt") is not None:
        return "UserPromptSubmit"
    if field(payload, "initial_prompt") is not None or text_field(payload, "source"):
        return "SessionStart"
    if text_field(payload, "trigger"):
        return "PreCompact"
    return "SessionEnd" if text_field(payload, "reason") else ""


def _arguments(payload: Mapping[str, Any]) -> Any:
    """What a tool was called with: an object in a text."""
    told = field(payload, "tool_args")
    try:
        return json.loads(told) if isinstance(told, str) else told
    except (ValueError, RecursionError):
        return told


def injection(_moment: str, text: str) -> dict[str, Any]:
    """What to print so that `text` comes in front of the model, as it knows no wrapping by the event's name."""
    return {"additionalContext": text}
