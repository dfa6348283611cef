"""ai_smartness: the folder `.ai` of a project, with its rules and the messages of its threads.

`user_rules.json` holds what the user told it to do always: rules again where the user vouches for them. Its times name
no zone; they are read as UTC.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from filrouge.errors import BadInput
from filrouge.model.imported import ImportedMemory, ImportedTurn, Item, Trouble
from filrouge.model.turn import Role, SourceType
from filrouge.transfer.readers.opening import as_list, as_object, below, opened, seconds, text_of, whole

RULES: Final = "user_rules.json"
_ROLES: Final[dict[str, tuple[Role, SourceType]]] = {"user": ("user", "prompt"), "assistant": ("assistant", "reply")}


def read(path: str) -> Iterator[Item]:
    """Every rule, and every message of every thread."""
    rules, threads = os.path.join(path, RULES), os.path.join(path, "db", "threads")
    if not os.path.isfile(rules) and not os.path.isdir(threads):
        raise BadInput(f"{path} is no folder of ai_smartness.", remedy="Name the folder .ai of the project.")
    if os.path.isfile(rules):
        yield from _rules(rules)
    for place in below(threads):
        if os.path.basename(place).startswith("_") or not place.endswith(".json"):
            continue
        try:
            with opened(place) as file:
                thread = as_object(whole(file, place))
        except BadInput as error:
            yield Trouble(place, error.message)
            continue
        yield from _thread(thread, os.path.basename(place).removesuffix(".json"))


def _rules(path: str) -> Iterator[Item]:
    with opened(path) as file:
        document = whole(file, path)
    listed = as_list(as_object(document).get("rules")) or as_list(document)
    at = seconds(as_object(document).get("last_updated"))
    for number, one in enumerate(listed, 1):
        text = one if isinstance(one, str) else text_of(one, "rule", "text", "content")
        if text.strip():
            yield ImportedMemory(key=f"rule\0{text}", text=text, kind="rule", at=at, place=f"{RULES}:{number}")
        else:
            yield Trouble(f"{path}, rule {number}", "it has no text")


def _thread(thread: dict[str, Any], name: str) -> Iterator[Item]:
    session = text_of(thread, "id") or name
    for place, one in enumerate(as_list(thread.get("messages"))):
        said, text = _ROLES.get(text_of(one, "source", "role")), text_of(one, "content", "text")
        if said is not None and text.strip():
            at = seconds(as_object(one).get("timestamp"))
            yield ImportedTurn(session, text_of(one, "id") or str(place), *said, text, at)
