"""The hook protocol of Claude Code and Codex: one JSON object on stdin per event.

Claude Code introduced it. Hosts with this protocol differ only in their name and in the field that numbers a user's
prompts. Hosts with another format translate their payload into this protocol first. An event's key is built from the
host's own ids, so that duplicates (from two hooks, the spool or the transcript) are detected.

A payload that holds nothing said by a user, an agent or a tool gives no event: unknown events, tools about to run,
internal helpers, and prompts that the host wrote itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from filrouge.capture.events import Event, EventKind
from filrouge.hosts import project
from filrouge.hosts.reading import (
    as_list,
    as_object,
    field,
    short_hash,
    text_field,
    unwrapped,
    written_by_host,
)

#: Values of UserPromptSubmit.source for prompts written by a person, or by a program on a person's behalf.
HUMAN_SOURCES = ("", "user", "sdk")


class Content(NamedTuple):
    """The content of one payload, before place and time are added."""

    kind: EventKind
    key: str
    data: dict[str, Any]


def parse(
    payload: dict[str, Any],
    *,
    host: str,
    prompt_id: str,
    environ: Mapping[str, str],
    at: float,
    new_id: Callable[[], str],
) -> list[Event]:
    """Return the event in `payload`; an empty list if there is nothing to capture.

    Args:
        payload: what the host wrote on the hook's stdin.
        host: the host's name.
        prompt_id: the field that numbers the user's prompts.
        environ: the hook's environment.
        at: seconds since 1970.
        new_id: creates an event id.
    """
    reader = _PARSERS.get(text_field(payload, "hook_event_name"))
    content = reader(payload, text_field(payload, prompt_id)) if reader else None
    if content is None:
        return []
    cwd = text_field(payload, "cwd")
    event = Event(
        id=new_id(),
        host=host,
        kind=content.kind,
        session=text_field(payload, "session_id"),
        at=at,
        key=content.key,
        cwd=cwd,
        project=project.names(cwd, environ),
        transcript=text_field(payload, "transcript_path"),
        agent=text_field(payload, "agent_id"),
        data=content.data,
        branch=project.branch(cwd),
    )
    return [event]


def injection(moment: str, text: str) -> dict[str, Any]:
    """Return what a hook prints to inject `text`, for hosts that also adopted the protocol's output format."""
    return {"hookSpecificOutput": {"hookEventName": moment, "additionalContext": text}, "suppressOutput": True}


def _session_start(payload: dict[str, Any], _: str) -> Content:
    return Content("session_start", "", {"source": text_field(payload, "source") or "startup"})


def _prompt(payload: dict[str, Any], prompt: str) -> Content | None:
    """Return a user's prompt.

    Prompts for a helper agent come from its parent agent, and some sources are timers. Both are skipped.
    """
    text, source = text_field(payload, "prompt"), text_field(payload, "source")
    if not text.strip() or source not in HUMAN_SOURCES or written_by_host(text) or text_field(payload, "agent_id"):
        return None
    data = {"text": text, "source": source} if source else {"text": text}
    return Content("prompt", _key("prompt", prompt), data)


def _reply(payload: dict[str, Any], prompt: str) -> Content | None:
    """Return the agent's reply.

    If a hook made the agent continue, a second Stop with another text ends the same prompt, so its key gets a hash.
    """
    text = text_field(payload, "last_assistant_message")
    if not text.strip():
        return None
    key = _key("reply", prompt)
    if key and field(payload, "stop_hook_active"):
        key = f"{key}:{short_hash(text)}"
    return Content("reply", key, {"text": text})


def _tool(payload: dict[str, Any], _: str) -> Content | None:
    return _tools("tool", [_call(payload, output=field(payload, "tool_response"), failed=False)])


def _failed_tool(payload: dict[str, Any], _: str) -> Content | None:
    return _tools("tool", [_call(payload, output=field(payload, "error"), failed=True)])


def _batch(payload: dict[str, Any], _: str) -> Content | None:
    calls = [as_object(call) for call in as_list(field(payload, "tool_calls"))]
    return _tools(
        "batch",
        [_call(call, output=field(call, "tool_response"), failed=field(call, "is_error") is True) for call in calls],
    )


def _tools(prefix: str, calls: list[dict[str, Any]]) -> Content | None:
    known = [call for call in calls if call["name"] or call["id"]]
    ids = [call["id"] for call in known]
    if not known:
        return None
    return Content("tools", f"{prefix}:{','.join(ids)}" if all(ids) else "", {"calls": known})


def _call(payload: dict[str, Any], *, output: Any, failed: bool) -> dict[str, Any]:
    return {
        "name": text_field(payload, "tool_name"),
        "id": text_field(payload, "tool_use_id"),
        "input": field(payload, "tool_input"),
        "output": output,
        "failed": failed,
    }


def _subagent(payload: dict[str, Any], _: str) -> Content | None:
    """Return a helper agent's reply. The host's own helpers, such as compaction, have no type and are skipped.

    A helper may answer several times, so the key contains a hash of the text.
    """
    text, kind = text_field(payload, "last_assistant_message"), text_field(payload, "agent_type")
    if not kind or not text.strip():
        return None
    agent = text_field(payload, "agent_id")
    key = f"subagent:{agent}:{short_hash(text)}" if agent else ""
    return Content("subagent", key, {"text": text, "agent_type": kind})


def _pre_compact(payload: dict[str, Any], _: str) -> Content:
    return Content("pre_compact", "", {"trigger": text_field(payload, "trigger")})


def _post_compact(payload: dict[str, Any], prompt: str) -> Content | None:
    """Return the summary after a compaction. Codex does not send its text here, only in its transcript."""
    text = unwrapped(text_field(payload, "compact_summary"), "summary")
    if not text:
        return None
    key = f"{_key('summary', prompt)}:{short_hash(text)}" if prompt else ""
    return Content("summary", key, {"text": text, "trigger": text_field(payload, "trigger")})


def _session_end(payload: dict[str, Any], _: str) -> Content:
    return Content("session_end", "", {"reason": text_field(payload, "reason")})


def _key(prefix: str, number: str) -> str:
    return f"{prefix}:{number}" if number else ""


_PARSERS: dict[str, Callable[[dict[str, Any], str], Content | None]] = {
    "SessionStart": _session_start,
    "UserPromptSubmit": _prompt,
    "PostToolUse": _tool,
    "PostToolUseFailure": _failed_tool,
    "PostToolBatch": _batch,
    "Stop": _reply,
    "SubagentStop": _subagent,
    "PreCompact": _pre_compact,
    "PostCompact": _post_compact,
    "SessionEnd": _session_end,
}
