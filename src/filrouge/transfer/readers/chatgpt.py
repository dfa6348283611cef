"""ChatGPT's export: `conversations.json`, in a zip, perhaps split into several.

A conversation is a tree, because a question can be edited and an answer made anew. What the user last saw is the way
from `current_node` up; the branches beside it were left. What is hidden, or of the system or a tool, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from filrouge.model.imported import ImportedTurn, Item, Trouble
from filrouge.model.turn import Role, SourceType
from filrouge.transfer.readers.opening import as_list, as_object, documents, elements, seconds, text_of

_NAMES: Final = r"(?:^|[/_-])conversations(?:[-_]\d+)?\.json$"
_ROLES: Final[dict[str, tuple[Role, SourceType]]] = {"user": ("user", "prompt"), "assistant": ("assistant", "reply")}
_WORDS: Final = frozenset({"text", "multimodal_text"})


def read(path: str) -> Iterator[Item]:
    """Every message of every conversation, as it was last seen."""
    for name, file in documents(path, _NAMES):
        for place, conversation in enumerate(elements(file, name)):
            if not as_object(conversation).get("mapping"):
                yield Trouble(f"{name}, conversation {place + 1}", "it holds no messages")
                continue
            yield from _conversation(as_object(conversation), f"{name}, conversation {place + 1}")


def _conversation(conversation: dict[str, Any], place: str) -> Iterator[Item]:
    session = text_of(conversation, "conversation_id", "id")
    if not session:
        yield Trouble(place, "it has no id")
        return
    begun = seconds(conversation.get("create_time"))
    for node_id, node in _way(as_object(conversation.get("mapping")), text_of(conversation, "current_node")):
        message = as_object(node.get("message"))
        said = _ROLES.get(text_of(message.get("author"), "role"))
        if said is None or _is_hidden(message):
            continue
        text = _text(as_object(message.get("content")))
        if text.strip():
            at = seconds(message.get("create_time")) or begun
            yield ImportedTurn(session, text_of(message, "id") or node_id, *said, text, at)


def _way(mapping: dict[str, Any], current: str) -> list[tuple[str, dict[str, Any]]]:
    """The nodes from the first to the current one; without one, to the newest leaf."""
    place = current if current in mapping else _newest_leaf(mapping)
    way, seen = list[tuple[str, dict[str, Any]]](), set[str]()
    while place in mapping and place not in seen:  # a file may say that a node is above itself
        seen.add(place)
        node = as_object(mapping[place])
        way.append((place, node))
        place = text_of(node, "parent")
    return way[::-1]


def _newest_leaf(mapping: dict[str, Any]) -> str:
    leaves = [id_ for id_, node in mapping.items() if not as_list(as_object(node).get("children"))]
    return max(leaves, key=lambda id_: _time(mapping[id_]), default="")


def _time(node: object) -> float:
    return seconds(as_object(as_object(node).get("message")).get("create_time"))


def _is_hidden(message: dict[str, Any]) -> bool:
    about = as_object(message.get("metadata"))
    hidden = about.get("is_visually_hidden_from_conversation") or about.get("is_user_system_message")
    # An answer to somebody else than `all` is a call of a tool.
    return bool(hidden) or message.get("weight") == 0 or text_of(message, "recipient") not in ("", "all")


def _text(content: dict[str, Any]) -> str:
    """Its words; of a part that is no text, such as a picture, only a transcription."""
    if content.get("content_type", "text") not in _WORDS:
        return ""
    parts = [
        part if isinstance(part, str) else text_of(part, "text")
        for part in as_list(content.get("parts")) or [content.get("text")]
    ]
    return "\n".join(part for part in parts if part.strip())
