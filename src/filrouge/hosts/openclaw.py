"""OpenClaw, through Filrouge's plugin inside it (hooks of 2026.9.6).

OpenClaw does not run hook commands. The plugin in its process sends each hook's event and context in an envelope:
`{"hook": …, "event": …, "ctx": …}`. OpenClaw is the only host that sends the messages of a whole run. Runs started by a
timer, a heartbeat or another agent are not a user's words, and give no event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import as_list, as_object, block_text, field, short_hash, text_field

NAME: Final = "openclaw"
INJECTS: Final = {"session_start": "session_start", "prompt": "before_prompt_build"}
NOTICES: Final = False
_PERSON_TRIGGERS: Final = ("", "user", "manual")
_PERSON_INPUT_KINDS: Final = ("", "external_user")


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only our plugin in OpenClaw would send such a payload."""
    return isinstance(payload.get("event"), dict) and bool(text_field(payload, "hook"))


def matches_environment(_: Mapping[str, str]) -> bool:
    """Return False: only the plugin sends payloads for OpenClaw, and it names the host."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the events in an envelope; an empty list if there is nothing to capture."""
    event, ctx = as_object(payload.get("event")), as_object(payload.get("ctx"))
    input_kind = text_field(as_object(field(ctx, "input_provenance")), "kind")
    if text_field(ctx, "trigger") not in _PERSON_TRIGGERS or input_kind not in _PERSON_INPUT_KINDS:
        return []
    subagent = _subagent_session(text_field(ctx, "session_key") or text_field(event, "session_key"))
    common_fields = {
        "session_id": text_field(ctx, "session_id") or text_field(event, "session_id"),
        "cwd": text_field(ctx, "workspace_dir"),
        "agent_id": subagent,
        "agent_type": "subagent" if subagent else "",
    }
    parts = _READERS[hook](event, ctx) if (hook := text_field(payload, "hook")) in _READERS else []
    duration = _duration_seconds(event)
    return [
        parsed
        for part in parts
        for parsed in command_hooks.parse(
            part
            | common_fields
            | ({"hook_event_name": "SubagentStop"} if subagent and part["hook_event_name"] == "Stop" else {}),
            host=NAME,
            prompt_id="run",
            environ=environ,
            at=at - duration if part["hook_event_name"] == "UserPromptSubmit" else at,
            new_id=new_id,
        )
    ]


def _start(event: dict[str, Any], _: dict[str, Any]) -> list[dict[str, Any]]:
    resumed = text_field(event, "resumed_from")
    return [{"hook_event_name": "SessionStart", "source": "resume" if resumed else "startup"}]


def _prompt(event: dict[str, Any], ctx: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the user's original words; the field `prompt` also holds what OpenClaw added around them."""
    current = field(event, "current_user_message")
    text = current if isinstance(current, str) else text_field(event, "prompt")
    return [_prompt_event(text, _run_id(event, ctx), [*_messages(event), {"role": "user", "content": text}])]


def _end(event: dict[str, Any], ctx: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the last turn of a run: its prompt (unless it was sent before), its tool calls and its answer."""
    messages = _messages(event)
    prompt_index = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    turn, run_id = messages[prompt_index + 1 :], _run_id(event, ctx)
    parts: list[dict[str, Any]] = []
    if prompt_index >= 0 and field(ctx, "prompted") is not True:
        parts.append(_prompt_event(block_text(messages[prompt_index].get("content")), run_id, messages))
    if calls := _calls(turn):
        parts.append({"hook_event_name": "PostToolBatch", "tool_calls": calls})
    texts = [block_text(message.get("content")) for message in turn if message.get("role") == "assistant"]
    answer = "\n\n".join(text for text in texts if text.strip())
    if answer and event.get("success") is not False:
        answer_id = run_id or f"{short_hash(answer)}:{len(messages)}"
        parts.append({"hook_event_name": "Stop", "last_assistant_message": answer, "run": answer_id})
    return parts


def _compaction(_: dict[str, Any], __: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"hook_event_name": "PreCompact", "trigger": "auto"}]


def _session_end(event: dict[str, Any], _: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"hook_event_name": "SessionEnd", "reason": text_field(event, "reason")}]


def _prompt_event(text: str, run_id: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a prompt event. Without a run id, its number is a hash of the text and how often the text occurred."""
    occurrences = sum(
        message.get("role") == "user" and block_text(message.get("content")) == text for message in messages
    )
    return {"hook_event_name": "UserPromptSubmit", "prompt": text, "run": run_id or f"{short_hash(text)}:{occurrences}"}


def _calls(turn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tool calls of a turn, each with its arguments and its result."""
    blocks = [as_object(block) for message in turn for block in as_list(message.get("content"))]
    arguments = {text_field(block, "id"): block.get("arguments") for block in blocks if block.get("type") == "toolCall"}
    return [
        {
            "tool_name": text_field(message, "tool_name"),
            "tool_use_id": text_field(message, "tool_call_id"),
            "tool_input": arguments.get(text_field(message, "tool_call_id")),
            "tool_response": block_text(message.get("content")),
            "is_error": field(message, "is_error") is True,
        }
        for message in turn
        if message.get("role") == "toolResult"
    ]


def _messages(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [as_object(one) for one in as_list(event.get("messages"))]


def _run_id(event: dict[str, Any], ctx: dict[str, Any]) -> str:
    return text_field(event, "run_id") or text_field(ctx, "run_id") or text_field(event, "current_user_message_id")


def _subagent_session(session: str) -> str:
    """Return the session of a helper agent, which has its own; empty for the agent that users talk to."""
    return session if ":subagent:" in session else ""


def _duration_seconds(event: dict[str, Any]) -> float:
    """Return the duration of a run in seconds, to compute when its prompt was sent; 0 if unknown."""
    duration = field(event, "duration_ms")
    is_valid = isinstance(duration, int | float) and not isinstance(duration, bool) and 0 < duration < 86_400_000
    return duration / 1000 if is_valid else 0.0


_READERS: dict[str, Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]] = {
    "session_start": _start,
    "before_prompt_build": _prompt,
    "agent_end": _end,
    "before_compaction": _compaction,
    "session_end": _session_end,
}


def injection(_event_name: str, text: str) -> dict[str, Any]:
    """Return the JSON that our plugin reads and passes on."""
    return {"context": text}
