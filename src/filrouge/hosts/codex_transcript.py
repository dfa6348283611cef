"""Reads Codex's rollout file, in its several format generations.

One message can occur up to three times in a file: as a completed item (0.169 and later), as a user or agent event
(older versions), and as the response item sent to the model, among instructions and injected context. Only one of the
three may be read. The choice is made for the given lines: completed items if there are any or the file is known to have
them, else events, else response items without the parts that the user did not write.

A record's key is its ordinal. In files without ordinals the key is made of the role, the second and a hash of the text,
and is the same for all three forms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from filrouge.capture.models import Role, SourceType, TranscriptRecord, is_own_tool, source_of_tool
from filrouge.hosts.command_hooks import (
    as_list,
    as_object,
    block_text,
    short_hash,
    text_field,
    unwrap,
    written_by_host,
)
from filrouge.hosts.transcript_lines import epoch_seconds, objects, without_reminders

_ITEMS, _EVENTS, _RESPONSES = "items", "events", "responses"
_SHELL_TOOLS = frozenset({"exec", "exec_command", "shell", "local_shell", "write_stdin", "wait"})
_INJECTED_STARTS = ("# AGENTS.md instructions", "<INSTRUCTIONS>", "<summary>", "Another language model started")
_OUTPUT_STARTS = ("Chunk ID:", "Exit code:", "Wall time", "Script completed", "Process exited")


class _FoundRecord(NamedTuple):
    """A record and the generation it was read from; `tool` is the tool's name if it is a result."""

    generation: str
    record: TranscriptRecord
    tool: str = ""


def records(lines: Iterable[bytes]) -> Iterator[TranscriptRecord]:
    """Yield the messages in these lines, in file order."""
    reader = _Reader()
    found = [one for raw in objects(lines) for one in reader.read(raw)]
    generation = reader.generation({one.generation for one in found})
    item_call_ids = {one.record.call_id for one in found if one.generation == _ITEMS and one.record.call_id}
    for one in found:
        if _is_chosen(one, generation, item_call_ids):
            yield one.record


def context_usage(lines: Iterable[bytes]) -> float | None:
    """Return the share of the context window in use after the last line that reports it; None if none does."""
    usage = None
    for raw in objects(lines):
        payload = as_object(raw.get("payload"))
        if raw.get("type") == "event_msg" and payload.get("type") == "token_count":
            info = as_object(payload.get("info"))
            size, used = info.get("model_context_window"), as_object(info.get("last_token_usage")).get("total_tokens")
            if isinstance(size, int) and isinstance(used, int) and size > 0:
                usage = used / size
    return usage


def _is_chosen(found: _FoundRecord, generation: str, item_call_ids: set[str]) -> bool:
    """Return True if the record counts.

    A tool result read as a response item counts unless a completed item holds it. Completed items hold all shell
    commands.
    """
    if not found.generation:
        return True
    if found.record.role == "tool" and found.generation == _RESPONSES:
        is_in_items = found.record.call_id in item_call_ids
        return not is_in_items and not (generation == _ITEMS and found.tool in _SHELL_TOOLS)
    return found.generation == generation


class _Reader:
    """Keeps the current turn, the pending tool calls, and the signs of the format generation."""

    def __init__(self) -> None:
        self._turn = ""
        self._cwd = ""
        self._tools: dict[str, str] = {}
        self._from_start = False
        self._paginated = False
        self._ordinals = False

    def generation(self, seen: set[str]) -> str:
        if _ITEMS in seen or self._paginated or (self._ordinals and not self._from_start):
            return _ITEMS
        return _EVENTS if _EVENTS in seen else _RESPONSES

    def read(self, raw: dict[str, Any]) -> Iterator[_FoundRecord]:
        payload = as_object(raw.get("payload"))
        self._ordinals = self._ordinals or raw.get("ordinal") is not None
        self._turn = _turn_id(payload) or self._turn
        self._cwd = text_field(payload, "cwd") or self._cwd
        match raw.get("type"):
            case "session_meta":
                self._from_start = True
                self._paginated = payload.get("history_mode") == "paginated"
            case "event_msg":
                yield from self._event(raw, payload)
            case "response_item":
                yield from self._response(raw, payload)
            case "compacted":
                text = _summary(text_field(payload, "message"))
                if text:
                    yield _FoundRecord("", self._record(raw, "assistant", "summary", text))
            case _:
                pass

    def _event(self, raw: dict[str, Any], payload: dict[str, Any]) -> Iterator[_FoundRecord]:
        match payload.get("type"):
            case "item_completed":
                yield from self._item(raw, as_object(payload.get("item")))
            case "user_message":
                yield from self._message(_EVENTS, raw, "user", text_field(payload, "message"))
            case "agent_message":
                yield from self._message(_EVENTS, raw, "assistant", text_field(payload, "message"))
            case _:
                pass

    def _item(self, raw: dict[str, Any], item: dict[str, Any]) -> Iterator[_FoundRecord]:
        match item.get("type"):
            case "UserMessage":
                yield from self._message(_ITEMS, raw, "user", block_text(item.get("content")))
            case "AgentMessage":
                yield from self._message(_ITEMS, raw, "assistant", block_text(item.get("content")))
            case "CommandExecution":
                yield from self._result(
                    _ITEMS, raw, text_field(item, "id"), text_field(item, "aggregated_output"), "exec"
                )
            case "McpToolCall":
                text = block_text(as_object(item.get("result")).get("content"))
                server, tool = text_field(item, "server"), text_field(item, "tool")
                if not is_own_tool(f"mcp__{server}__{tool}"):
                    yield from self._result(_ITEMS, raw, text_field(item, "id"), text, tool)
            case _:
                pass

    def _response(self, raw: dict[str, Any], payload: dict[str, Any]) -> Iterator[_FoundRecord]:
        match payload.get("type"):
            case "message":
                role, text = payload.get("role"), _user_text(payload)
                if role == "user" or role == "assistant":
                    yield from self._message(_RESPONSES, raw, role, text)
            case "function_call" | "custom_tool_call" | "local_shell_call":
                self._tools[text_field(payload, "call_id")] = text_field(payload, "name") or "shell"
            case "function_call_output" | "custom_tool_call_output":
                call = text_field(payload, "call_id")
                tool = self._tools.pop(call, "exec")
                yield from self._result(_RESPONSES, raw, call, _output(payload.get("output")), tool)
            case _:
                pass

    def _message(self, generation: str, raw: dict[str, Any], role: Role, text: str) -> Iterator[_FoundRecord]:
        if role == "user" and (written_by_host(text) or text.lstrip().startswith(_INJECTED_STARTS)):
            return
        words = without_reminders(text)
        if words.strip():
            source: SourceType = "prompt" if role == "user" else "reply"
            yield _FoundRecord(generation, self._record(raw, role, source, words))

    def _result(self, generation: str, raw: dict[str, Any], call: str, text: str, tool: str) -> Iterator[_FoundRecord]:
        if text.strip() and not is_own_tool(tool):
            record = self._record(raw, "tool", source_of_tool(tool), text, call)
            yield _FoundRecord(generation, record, tool)

    def _record(
        self, raw: dict[str, Any], role: Role, source: SourceType, text: str, call: str = ""
    ) -> TranscriptRecord:
        ordinal, timestamp = raw.get("ordinal"), text_field(raw, "timestamp")
        key = str(ordinal) if isinstance(ordinal, int) else f"{role}:{timestamp[:19]}:{short_hash(text)}"
        prompt = f"prompt:{self._turn}" if self._turn else ""
        return TranscriptRecord(key, role, source, text, epoch_seconds(timestamp), prompt, call, self._cwd)


def _turn_id(payload: dict[str, Any]) -> str:
    metadata = as_object(payload.get("internal_chat_message_metadata_passthrough"))
    return text_field(payload, "turn_id") or text_field(metadata, "turn_id")


def _user_text(payload: dict[str, Any]) -> str:
    """Return the message's text; if the parts of a user message are labelled, only those that the user wrote."""
    content = payload.get("content")
    metadata = as_object(payload.get("internal_chat_message_metadata_passthrough"))
    kinds, parts = as_list(metadata.get("content_item_kinds")), as_list(content)
    if payload.get("role") == "user" and kinds and len(kinds) == len(parts):
        return block_text([part for part, kind in zip(parts, kinds, strict=True) if kind == "user.text"])
    return block_text(content)


def _output(value: Any) -> str:
    """Return a tool's output without the shell's report around it."""
    text = block_text(value)
    if text.startswith("{"):
        with suppress(ValueError, RecursionError):
            text = text_field(as_object(json.loads(text)), "output") or text
    if text.startswith(_OUTPUT_STARTS) and "Output:\n" in text:
        text = text.partition("Output:\n")[2]
    return without_reminders(text)


def _summary(text: str) -> str:
    """Return the summary without the host's introductory sentence."""
    start = text.find("<summary>")
    body = text[start:] if start >= 0 else text.partition("own analysis:\n")[2] or text
    return unwrap(body, "summary")
