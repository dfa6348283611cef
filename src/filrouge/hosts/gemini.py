"""Gemini CLI, as its hooks speak (0.61.0, by what a running one told).

A turn is told twice: the prompt before the agent starts, and prompt and answer when it is done. Nothing is
numbered; every payload has a time in milliseconds, the same for all hooks that one happening runs.

Without a screen it puts what the hooks said at the session's start in front of the prompt, and tells both as the
prompt. Angle brackets in there come escaped, so that the first closing tag is its own.

Before every question to its model it says that it compresses by itself, whether it then does or not. Only what
the user asked for is a compaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.reading import as_object, block_text, field, text_field, unwrapped

NAME: Final = "gemini"
INJECTS: Final = {"session_start": "SessionStart", "prompt": "BeforeAgent"}
NOTICES: Final = True
#: The events that have another name here.
_NAMES: Final = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "AfterTool": "PostToolUse",
    "PreCompress": "PreCompact",
}
_FOREIGN: Final = frozenset({"BeforeTool", "BeforeModel", "AfterModel", "BeforeToolSelection"})
_OF_THE_HOOKS: Final = re.compile(r"\s*<hook_context>[^<>]*</hook_context>\s*")


def shaped(payload: Mapping[str, Any]) -> bool:
    """True where only Gemini would send such a payload."""
    name = text_field(payload, "hook_event_name")
    path = text_field(payload, "transcript_path").replace("\\", "/")
    return name in _NAMES or name in _FOREIGN or "/.gemini/" in path


def around(environ: Mapping[str, str]) -> bool:
    """True where the environment says that Gemini is running."""
    return any(name in environ for name in ("GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR"))


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """The event that a Gemini payload tells; none where there is nothing to capture."""
    name = text_field(payload, "hook_event_name")
    if name == "PreCompress" and text_field(payload, "trigger") == "auto":
        return []
    prompt = text_field(payload, "prompt")
    of_the_hooks = _OF_THE_HOOKS.match(prompt)
    told = payload | {
        "prompt": prompt[of_the_hooks.end() :] if of_the_hooks else prompt,
        "hook_event_name": _NAMES.get(name, name),
        "session_id": text_field(payload, "session_id") or environ.get("GEMINI_SESSION_ID", ""),
        "cwd": text_field(payload, "cwd") or environ.get("GEMINI_CWD", "") or environ.get("GEMINI_PROJECT_DIR", ""),
        "last_assistant_message": text_field(payload, "prompt_response"),
    }
    if name == "AfterTool":
        answer = field(payload, "tool_response")
        told["tool_response"] = _output(answer)
        if as_object(answer).get("error"):
            told |= {"hook_event_name": "PostToolUseFailure", "error": _output(answer)}
    return command_hooks.parse(told, host=NAME, prompt_id="timestamp", environ=environ, at=at, new_id=new_id)


def _output(answer: Any) -> Any:
    """What the model was shown of a tool's answer, as text where it is text."""
    shown = as_object(answer)
    error = shown.get("error")
    said = text_field(as_object(error), "message") if isinstance(error, dict) else error
    content: Any = shown.get("llmContent")
    parts: Any = [content] if as_object(content) else content
    return unwrapped(block_text(parts), "untrusted_context") or said or shown.get("returnDisplay") or answer


injection = command_hooks.injection
