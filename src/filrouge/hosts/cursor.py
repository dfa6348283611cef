"""Cursor's hooks (hooks.json version 1, as other tools' adapters read them).

A Cursor conversation is a session, a generation is a prompt, and the first open folder is the directory. Context can be
injected only at the start of a session; a hook before a prompt can only allow or block it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import as_list, as_object, field, json_or_text, text_field

NAME: Final = "cursor"
INJECTS: Final = {"session_start": "sessionStart"}
NOTICES: Final = False
_PROTOCOL_NAMES: Final = {
    "sessionStart": "SessionStart",
    "beforeSubmitPrompt": "UserPromptSubmit",
    "afterAgentResponse": "Stop",
    "postToolUse": "PostToolUse",
    "postToolUseFailure": "PostToolUseFailure",
    "afterFileEdit": "PostToolUse",
    "preCompact": "PreCompact",
    "sessionEnd": "SessionEnd",
}


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only Cursor would send such a payload."""
    return field(payload, "conversation_id") is not None or field(payload, "workspace_roots") is not None


def matches_environment(_: Mapping[str, str]) -> bool:
    """Return False: every agent that runs in Cursor's terminal sees Cursor's variables."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event of a Cursor payload; an empty list if there is nothing to capture."""
    name = text_field(payload, "hook_event_name")
    roots = [root for root in as_list(field(payload, "workspace_roots")) if isinstance(root, str)]
    translated = payload | {
        "hook_event_name": _PROTOCOL_NAMES.get(name, ""),
        "session_id": text_field(payload, "conversation_id") or text_field(payload, "session_id"),
        "cwd": roots[0] if roots else text_field(payload, "cwd"),
        "last_assistant_message": text_field(payload, "text"),
        "stop_hook_active": True,  # an agent can answer several times per generation, and each answer needs its own key
    }
    if name == "afterFileEdit":
        translated |= _edit(payload)
    elif name in ("postToolUse", "postToolUseFailure"):
        translated |= {"tool_response": _output(payload), "error": field(payload, "error_message")}
    return command_hooks.parse(translated, host=NAME, prompt_id="generation_id", environ=environ, at=at, new_id=new_id)


def _edit(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file edit in the form of a tool call; the new text is its output."""
    edits = [text_field(as_object(edit), "new_string") for edit in as_list(field(payload, "edits"))]
    return {
        "tool_name": "Edit",
        "tool_input": {"file_path": text_field(payload, "file_path")},
        "tool_response": "\n".join(edit for edit in edits if edit),
    }


def _output(payload: Mapping[str, Any]) -> Any:
    """Return a tool's answer, which most versions send as a JSON text."""
    result = field(payload, "result_json")
    return json_or_text(result) if result is not None else field(payload, "tool_output")


def injection(_event_name: str, text: str) -> dict[str, Any]:
    """Return the JSON to print so that `text` reaches the model."""
    return {"additional_context": text}
