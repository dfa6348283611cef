"""Gemini CLI's sessions: `session-*.jsonl`, a message a line, and `session-*.json` of before, one object for all.

A line of type `message_update` says anew what a message before it says. The folder of a project is named by a hash of
its path, which nobody can read back, so its messages belong to no project unless the user names one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

from filrouge.model.imported import ImportedTurn, Item, Trouble
from filrouge.model.turn import Role, SourceType
from filrouge.transfer.readers.opening import as_list, as_object, blocks_text, documents, lines, seconds, text_of, whole

_NAMES: Final = r"(?:^|/)session-[^/]*\.jsonl?$"
_ROLES: Final[dict[str, tuple[Role, SourceType]]] = {
    "user": ("user", "prompt"),
    "gemini": ("assistant", "reply"),
    "assistant": ("assistant", "reply"),
}


def read(path: str) -> Iterator[Item]:
    """Every message of the user and of the agent."""
    for name, file in documents(path, _NAMES):
        stem = os.path.splitext(os.path.basename(name))[0]
        if name.endswith(".jsonl"):
            told = list(lines(file, name))
            yield from (one for _, one in told if isinstance(one, Trouble))
            records = [as_object(one) for _, one in told if not isinstance(one, Trouble)]
        else:
            document = as_object(whole(file, name))
            records = [document, *map(as_object, as_list(document.get("messages")))]
        session = next((found for one in records if (found := text_of(one, "sessionId", "session_id"))), stem)
        yield from _turns(session, _settled(records))


def _settled(records: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each message with its key, as it was said last."""
    found: dict[str, dict[str, Any]] = {}
    for place, record in enumerate(records):
        update = as_object(record.get("message")) or as_object(record.get("update"))
        key = text_of(record, "id", "messageId", "message_id") or text_of(update, "id")
        if record.get("type") == "message_update":
            if key in found:
                found[key] = found[key] | {name: value for name, value in (record | update).items() if name != "type"}
        elif record.get("type") in _ROLES:
            found[key or str(place)] = record
    yield from found.items()


def _turns(session: str, messages: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[ImportedTurn]:
    for key, message in messages:
        text = blocks_text(message.get("content"))
        if text.strip():
            at = seconds(message.get("timestamp"))
            yield ImportedTurn(session, key, *_ROLES[str(message["type"])], text, at)
