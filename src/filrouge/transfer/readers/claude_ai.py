"""Claude.ai's export: `conversations.json`, in a zip; its messages are called `chat_messages` or `messages`.

Where a message names its parent and the conversation its last message, only what was last seen is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from filrouge.model.imported import ImportedTurn, Item, Trouble
from filrouge.model.turn import Role, SourceType
from filrouge.transfer.readers.opening import as_list, as_object, blocks_text, documents, elements, seconds, text_of

_NAMES: Final = r"(?:^|[/_-])conversations(?:[-_]\d+)?\.json$"
_ROLES: Final[dict[str, tuple[Role, SourceType]]] = {
    "human": ("user", "prompt"),
    "user": ("user", "prompt"),
    "assistant": ("assistant", "reply"),
}


def read(path: str) -> Iterator[Item]:
    """Every message of every conversation."""
    for name, file in documents(path, _NAMES):
        for number, conversation in enumerate(elements(file, name), 1):
            session = text_of(conversation, "uuid", "id")
            if not session:
                yield Trouble(f"{name}, conversation {number}", "it has no id")
                continue
            yield from _messages(as_object(conversation), session)


def _messages(conversation: dict[str, Any], session: str) -> Iterator[ImportedTurn]:
    begun = seconds(conversation.get("created_at"))
    messages = [as_object(one) for one in as_list(conversation.get("chat_messages") or conversation.get("messages"))]
    for place, message in enumerate(_seen(messages, text_of(conversation, "current_leaf_message_uuid"))):
        said = _ROLES.get(text_of(message, "sender", "role"))
        text = _text(message)
        if said is not None and text.strip():
            key = text_of(message, "uuid", "id") or str(place)
            yield ImportedTurn(session, key, *said, text, seconds(message.get("created_at")) or begun)


def _seen(messages: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """The way up from the last message; all of them where none is named."""
    by_id = {text_of(one, "uuid", "id"): one for one in messages}
    if leaf not in by_id or not any(text_of(one, "parent_message_uuid") in by_id for one in messages):
        return messages
    way, seen = list[dict[str, Any]](), set[str]()
    while leaf in by_id and leaf not in seen:
        seen.add(leaf)
        way.append(by_id[leaf])
        leaf = text_of(by_id[leaf], "parent_message_uuid")
    return way[::-1]


def _text(message: dict[str, Any]) -> str:
    """The words of its text blocks, which leave out what tools and thinking put into `text`."""
    blocks = [one for one in as_list(message.get("content")) if as_object(one).get("type", "text") == "text"]
    content = message.get("content")
    return blocks_text(blocks) or text_of(message, "text") or (content if isinstance(content, str) else "")
