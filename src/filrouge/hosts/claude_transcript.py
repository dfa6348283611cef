"""Reads Claude Code's transcript: one JSON record per line, one record per content block.

Prompts, answers, tool results and compaction summaries are kept. Everything the host wrote for itself is dropped: meta
records, side chains, attachments (our own injected memory is one), local commands and failed turns. Answers have no
prompt id, so they get the id of the user record before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from filrouge.capture.models import Role, SourceType, TranscriptRecord, is_own_tool, source_of_tool
from filrouge.hosts.command_hooks import as_list, as_object, block_text, text_field, unwrap, written_by_host
from filrouge.hosts.transcript_lines import epoch_seconds, objects, without_reminders

#: Values of `promptSource` for turns that the host started by itself.
_HOST_STARTED_SOURCES = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
_SUMMARY_START = "Summary:\n"
_SUMMARY_END = "\nIf you need specific details from before compaction"


class _Answer(NamedTuple):
    """The text blocks of one model message, collected from its records."""

    message: str
    key: str
    at: float
    texts: list[str]


def records(lines: Iterable[bytes]) -> Iterator[TranscriptRecord]:
    """Yield the messages in these lines, in file order."""
    reader = _Reader()
    for raw in objects(lines):
        yield from reader.read(raw)
    yield from reader.finish()


class _Reader:
    """Keeps the current prompt, the current answer and the pending tool calls."""

    def __init__(self) -> None:
        self._prompt = ""
        self._cwd = ""
        self._branch = ""
        self._answer: _Answer | None = None
        self._tools: dict[str, str] = {}

    def read(self, raw: dict[str, Any]) -> Iterator[TranscriptRecord]:
        kind = raw.get("type")
        if kind not in ("user", "assistant") or raw.get("isSidechain") or raw.get("isMeta"):
            return
        self._cwd = text_field(raw, "cwd") or self._cwd
        self._branch = text_field(raw, "gitBranch") or self._branch
        message = as_object(raw.get("message"))
        if kind == "assistant":
            yield from self._assistant(raw, message)
        else:
            yield from self.finish()
            yield from self._user(raw, message.get("content"))

    def finish(self) -> Iterator[TranscriptRecord]:
        """Yield the answer collected so far, if it has text."""
        answer, self._answer = self._answer, None
        if answer and answer.texts:
            yield self._record(answer.key, "assistant", "reply", "\n\n".join(answer.texts), answer.at)

    def _assistant(self, raw: dict[str, Any], message: dict[str, Any]) -> Iterator[TranscriptRecord]:
        if message.get("model") == "<synthetic>" or raw.get("isApiErrorMessage"):
            return
        key = text_field(raw, "uuid")
        name = text_field(message, "id") or key
        if self._answer is None or self._answer.message != name:
            yield from self.finish()
            self._answer = _Answer(name, key, epoch_seconds(raw.get("timestamp")), [])
        for block in map(as_object, as_list(message.get("content"))):
            if block.get("type") == "tool_use":
                self._tools[text_field(block, "id")] = text_field(block, "name")
            elif block.get("type") == "text" and text_field(block, "text").strip():
                self._answer.texts.append(text_field(block, "text"))

    def _user(self, raw: dict[str, Any], content: Any) -> Iterator[TranscriptRecord]:
        key, at = text_field(raw, "uuid"), epoch_seconds(raw.get("timestamp"))
        prompt = text_field(raw, "promptId")
        self._prompt = f"prompt:{prompt}" if prompt else ""
        if raw.get("isCompactSummary"):
            yield self._record(key, "assistant", "summary", _summary(block_text(content)), at)
            return
        results = [block for block in map(as_object, as_list(content)) if block.get("type") == "tool_result"]
        for block in results:
            call, text = text_field(block, "tool_use_id"), without_reminders(block_text(block.get("content")))
            tool = self._tools.pop(call, "")
            source = source_of_tool(tool)
            if text.strip() and not is_own_tool(tool):
                record_key = key if len(results) == 1 else f"{key}:{call}"
                yield self._record(record_key, "tool", source, text, at, call)
        written = block_text(content)
        is_typed = raw.get("promptSource") not in _HOST_STARTED_SOURCES and not raw.get("isVisibleInTranscriptOnly")
        if is_typed and not results and not written_by_host(written) and without_reminders(written).strip():
            yield self._record(key, "user", "prompt", without_reminders(written), at)

    def _record(
        self, key: str, role: Role, source: SourceType, text: str, at: float, call: str = ""
    ) -> TranscriptRecord:
        return TranscriptRecord(key, role, source, text, at, self._prompt, call, self._cwd, self._named())

    def _named(self) -> str:
        """Return the branch; the host writes HEAD if no branch is checked out, which is returned as an empty text."""
        return "" if self._branch == "HEAD" else self._branch


def _summary(text: str) -> str:
    """Return the summary without the host's frame, so that it equals the text of the PostCompact hook."""
    body = text.partition(_SUMMARY_START)[2] or text
    return unwrap(without_reminders(body.partition(_SUMMARY_END)[0]), "summary")
