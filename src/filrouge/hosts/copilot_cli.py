"""Copilot CLI's hooks (1.0.102, from payloads of a running one).

Payloads do not name their event; it is inferred from the fields. Early versions do not send a session id either, so the
directory stands in for it. The agent's answers are not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import as_object, field, json_or_text, short_hash, text_field

NAME: Final = "copilot-cli"
INJECTS: Final = {"session_start": "sessionStart", "prompt": "userPromptSubmitted"}
NOTICES: Final = False


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only Copilot CLI would send such a payload: a numeric time and no event name."""
    timestamp = payload.get("timestamp")
    is_number = isinstance(timestamp, int | float) and not isinstance(timestamp, bool)
    return is_number and field(payload, "hook_event_name") is None


def matches_environment(_: Mapping[str, str]) -> bool:
    """Return False: Copilot CLI sets no variable of its own."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event of a Copilot CLI payload; an empty list if there is nothing to capture."""
    timestamp, cwd = field(payload, "timestamp"), text_field(payload, "cwd")
    source = text_field(payload, "source")
    translated = payload | {
        "hook_event_name": text_field(payload, "hook_event_name") or _event_name(payload),
        "session_id": text_field(payload, "session_id") or (f"cwd:{short_hash(cwd)}" if cwd else ""),
        "source": "startup" if source == "new" else source,
        "timestamp_text": str(timestamp) if isinstance(timestamp, int | float) else text_field(payload, "timestamp"),
    }
    result = as_object(field(payload, "tool_result"))
    if result:
        output = text_field(result, "text_result_for_llm") or result
        translated |= {
            "tool_input": json_or_text(field(payload, "tool_args")),
            "tool_response": output,
            "error": output,
        }
    return command_hooks.parse(translated, host=NAME, prompt_id="timestamp_text", environ=environ, at=at, new_id=new_id)


def _event_name(payload: Mapping[str, Any]) -> str:
    """Return the event's name in the common protocol, inferred from fields that only this event has."""
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


def injection(_event_name: str, text: str) -> dict[str, Any]:
    """Return the JSON to print so that `text` reaches the model; Copilot CLI has no wrapper with the event's name."""
    return {"additionalContext": text}
