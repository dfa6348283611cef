"""Gemini CLI's hooks (0.61.0, from payloads of a running one).

Gemini reports a turn twice: the prompt before the agent starts, and prompt and answer at the end. Nothing is numbered,
but every payload has a time in milliseconds, which is the same for all hooks of one event.

In headless mode Gemini puts the hooks' session-start context before the prompt and reports both as the prompt. Angle
brackets in that context are escaped, so the first closing tag is the real end of it.

Before every model call Gemini announces an automatic compression, whether it compresses or not. Only a compression that
the user requested is captured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import as_object, block_text, field, text_field, unwrap

NAME: Final = "gemini"
INJECTS: Final = {"session_start": "SessionStart", "prompt": "BeforeAgent"}
NOTICES: Final = True
#: Events with another name than in the common protocol.
_PROTOCOL_NAMES: Final = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "AfterTool": "PostToolUse",
    "PreCompress": "PreCompact",
}
_OTHER_EVENTS: Final = frozenset({"BeforeTool", "BeforeModel", "AfterModel", "BeforeToolSelection"})
_HOOK_CONTEXT: Final = re.compile(r"\s*<hook_context>[^<>]*</hook_context>\s*")


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only Gemini would send such a payload."""
    name = text_field(payload, "hook_event_name")
    path = text_field(payload, "transcript_path").replace("\\", "/")
    return name in _PROTOCOL_NAMES or name in _OTHER_EVENTS or "/.gemini/" in path


def matches_environment(environ: Mapping[str, str]) -> bool:
    """Return True if the environment shows that Gemini is running."""
    return any(name in environ for name in ("GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR"))


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event of a Gemini payload; an empty list if there is nothing to capture."""
    name = text_field(payload, "hook_event_name")
    if name == "PreCompress" and text_field(payload, "trigger") == "auto":
        return []
    prompt = text_field(payload, "prompt")
    hook_context = _HOOK_CONTEXT.match(prompt)
    translated = payload | {
        "prompt": prompt[hook_context.end() :] if hook_context else prompt,
        "hook_event_name": _PROTOCOL_NAMES.get(name, name),
        "session_id": text_field(payload, "session_id") or environ.get("GEMINI_SESSION_ID", ""),
        "cwd": text_field(payload, "cwd") or environ.get("GEMINI_CWD", "") or environ.get("GEMINI_PROJECT_DIR", ""),
        "last_assistant_message": text_field(payload, "prompt_response"),
    }
    if name == "AfterTool":
        answer = field(payload, "tool_response")
        translated["tool_response"] = _output(answer)
        if as_object(answer).get("error"):
            translated |= {"hook_event_name": "PostToolUseFailure", "error": _output(answer)}
    return command_hooks.parse(translated, host=NAME, prompt_id="timestamp", environ=environ, at=at, new_id=new_id)


def _output(answer: Any) -> Any:
    """Return the part of a tool's answer that the model saw, as text if possible."""
    fields = as_object(answer)
    error = fields.get("error")
    message = text_field(as_object(error), "message") if isinstance(error, dict) else error
    content: Any = fields.get("llmContent")
    parts: Any = [content] if as_object(content) else content
    return unwrap(block_text(parts), "untrusted_context") or message or fields.get("returnDisplay") or answer


injection = command_hooks.injection
