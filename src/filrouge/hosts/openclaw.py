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
_BY_A_PERSON: Final = ("", "user", "manual")
_FROM_OUTSIDE: Final = ("", "external_user")


def shaped(payload: Mapping[str, Any]) -> bool:
    """Return True if only our plugin in OpenClaw would send such a payload."""
    return isinstance(payload.get("event"), dict) and bool(text_field(payload, "hook"))


def around(_: Mapping[str, str]) -> bool:
    """Return False: only the plugin sends payloads for OpenClaw, and it names the host."""
    return False


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the events in an envelope; an empty list if there is nothing to capture."""
    event, ctx = as_object(payload.get("event")), as_object(payload.get("ctx"))
    by = text_field(as_object(field(ctx, "input_provenance")), "kind")
    if text_field(ctx, "trigger") not in _BY_A_PERSON or by not in _FROM_OUTSIDE:
        return []
    helper = _subagent_session(text_field(ctx, "session_key") or text_field(event, "session_key"))
    place = {
        "session_id": text_field(ctx, "session_id") or text_field(event, "session_id"),
        "cwd": text_field(ctx, "workspace_dir"),
        "agent_id": helper,
        "agent_type": "subagent" if helper else "",
    }
    parts = _READERS[hook](event, ctx) if (hook := text_field(payload, "hook")) in _READERS else []
    seconds = _seconds(event)
    return [
        one
        for part in parts
        for one in command_hooks.parse(
            part
            | place
            | ({"hook_event_name": "SubagentStop"} if helper and part["hook_event_name"] == "Stop" else {}),
            host=NAME,
            prompt_id="run",
            environ=environ,
            at=at - seconds if part["hook_event_name"] == "UserPromptSubmit" else at,
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
    return [_prompt_event(text, _run(event, ctx), [*_messages(event), {"role": "user", "content": text}])]


def _end(event: dict[str, Any], ctx: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the last turn of a run: its prompt (unless it was sent before), its tool calls and its answer."""
    messages = _messages(event)
    opening = max((n for n, one in enumerate(messages) if one.get("role") == "user"), default=-1)
    turn, run = messages[opening + 1 :], _run(event, ctx)
    parts: list[dict[str, Any]] = []
    if opening >= 0 and field(ctx, "prompted") is not True:
        parts.append(_prompt_event(block_text(messages[opening].get("content")), run, messages))
    if calls := _calls(turn):
        parts.append({"hook_event_name": "PostToolBatch", "tool_calls": calls})
    said = [block_text(one.get("content")) for one in turn if one.get("role") == "assistant"]
    answer = "\n\n".join(text for text in said if text.strip())
    if answer and event.get("success") is not False:
        number = run or f"{short_hash(answer)}:{len(messages)}"
        parts.append({"hook_event_name": "Stop", "last_assistant_message": answer, "run": number})
    return parts


def _compaction(_: dict[str, Any], __: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"hook_event_name": "PreCompact", "trigger": "auto"}]


def _session_end(event: dict[str, Any], _: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"hook_event_name": "SessionEnd", "reason": text_field(event, "reason")}]


def _prompt_event(text: str, run: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a prompt event. Without a run id, its number is a hash of the text and how often the text occurred."""
    times = sum(one.get("role") == "user" and block_text(one.get("content")) == text for one in messages)
    return {"hook_event_name": "UserPromptSubmit", "prompt": text, "run": run or f"{short_hash(text)}:{times}"}


def _calls(turn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tool calls of a turn, each with its arguments and its result."""
    blocks = [as_object(block) for one in turn for block in as_list(one.get("content"))]
    given = {text_field(block, "id"): block.get("arguments") for block in blocks if block.get("type") == "toolCall"}
    return [
        {
            "tool_name": text_field(one, "tool_name"),
            "tool_use_id": text_field(one, "tool_call_id"),
            "tool_input": given.get(text_field(one, "tool_call_id")),
            "tool_response": block_text(one.get("content")),
            "is_error": field(one, "is_error") is True,
        }
        for one in turn
        if one.get("role") == "toolResult"
    ]


def _messages(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [as_object(one) for one in as_list(event.get("messages"))]


def _run(event: dict[str, Any], ctx: dict[str, Any]) -> str:
    return text_field(event, "run_id") or text_field(ctx, "run_id") or text_field(event, "current_user_message_id")


def _subagent_session(session: str) -> str:
    """Return the session of a helper agent, which has its own; empty for the agent that users talk to."""
    return session if ":subagent:" in session else ""


def _seconds(event: dict[str, Any]) -> float:
    """Return the duration of a run in seconds, to compute when its prompt was sent; 0 if unknown."""
    took = field(event, "duration_ms")
    known = isinstance(took, int | float) and not isinstance(took, bool) and 0 < took < 86_400_000
    return took / 1000 if known else 0.0


_READERS: dict[str, Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]] = {
    "session_start": _start,
    "before_prompt_build": _prompt,
    "agent_end": _end,
    "before_compaction": _compaction,
    "session_end": _session_end,
}


def injection(_moment: str, text: str) -> dict[str, Any]:
    """Return the JSON that our plugin reads and passes on."""
    return {"context": text}
