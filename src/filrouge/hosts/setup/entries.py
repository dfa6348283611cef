"""What a settings file says with Filrouge in it, and without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from filrouge.errors import BadInput
from filrouge.hosts.setup import tables
from filrouge.hosts.setup.agent import Entry, File
from filrouge.hosts.setup.inserting import Path, WasThere, with_entry, without
from filrouge.hosts.setup.ours import handlers, is_hook_of_ours, nobody
from filrouge.hosts.setup.reading import Node, read

_HOOKS = "hooks"


def connected(text: str, file: File) -> str:
    """The text with all that is wanted in it; what an earlier Filrouge wrote gives way.

    Raises:
        BadInput: it cannot be read, or something of the user's stands where ours belongs.
    """
    for entry in file.entries:
        text = _with_table(text, entry) if file.form == "toml" else _with_json(text, entry)
    return text


def disconnected(text: str, file: File, before: str | None) -> str:
    """The text with nothing of ours in it.

    Args:
        text: what stands in the file.
        file: which it is.
        before: what stood there before us, where that is known; what was empty then stays.

    Raises:
        BadInput: it cannot be read, or what is ours cannot be taken out alone.
    """
    if file.form == "toml":
        for entry in file.entries:
            if entry.ours(_table_at(text, entry)):
                text = tables.without_table(text, _pair(entry))
        return text
    former = _former(before)

    def was_there(path: Path) -> bool:
        return former is not None and former.at(path) is not None

    for event in _events(text):
        text = _without_hooks(text, (_HOOKS, event), was_there)
    for entry in file.entries:
        if entry.path[0] != _HOOKS and not (entry.beside and _is_alone(text, entry)):
            text = without(text, entry.path, entry.ours, listed=entry.listed, was_there=was_there)
    # The number of the format stays only with somebody else's hooks.
    left = cast("dict[str, Any]", read(text).value)
    for entry in file.entries:
        if left == {entry.path[0]: entry.value} and not was_there(entry.path):
            text = without(text, entry.path, lambda _: True, listed=False, was_there=was_there)
    return text


def stands(text: str, file: File) -> bool:
    """Whether anything of ours is in it, be it of today or of an earlier Filrouge.

    Raises:
        BadInput: it cannot be read.
    """
    return bool(entries_of_ours(text, file))


def entries_of_ours(text: str, file: File) -> list[Any]:
    """The entries of ours in it, be they of today or of an earlier Filrouge; of a group of hooks, each hook.

    Raises:
        BadInput: it cannot be read.
    """
    if file.form == "toml":
        return [found for entry in file.entries if entry.ours(found := _table_at(text, entry))]
    root, present = read(text), list[Any]()
    for entry in file.entries:
        found = root.at(entry.path)
        there = found.items if found is not None and entry.listed else [found.value] if found is not None else []
        present += [hook for one in there for hook in handlers(one) or [one] if entry.ours(hook)]
    return present


def is_empty(text: str, file: File) -> bool:
    """Whether the file says nothing."""
    return not (tables.read(text) if file.form == "toml" else read(text).value)


def _is_alone(text: str, entry: Entry) -> bool:
    """Whether its list names nobody else: taken out of it, the list would shut nobody out any more."""
    found = read(text).at(entry.path)
    return found is None or all(entry.ours(one) for one in found.items)


def _former(before: str | None) -> Node | None:
    try:
        return read(before) if before is not None else None
    except BadInput:
        return None


def _events(text: str) -> list[str]:
    found = read(text).at((_HOOKS,))
    return found.keys if found is not None else []


def _without_hooks(text: str, path: Path, was_there: WasThere) -> str:
    """A group in which somebody put a hook of their own keeps that one."""
    text = without(text, path, is_hook_of_ours, listed=True, was_there=was_there)
    groups = read(text).at(path)
    for place, group in groups.parts.items() if groups is not None else ():
        if any(is_hook_of_ours(one) for one in handlers(group.value)):
            text = without(text, (*path, place, _HOOKS), is_hook_of_ours, listed=True, was_there=was_there)
    return text


def _with_json(text: str, entry: Entry) -> str:
    found = read(text).at(entry.path)
    if entry.beside and (found is None or not found.items):
        return text
    if found is None:
        return with_entry(text, entry.path, entry.value, listed=entry.listed)
    present = [one for one in found.items if entry.ours(one)] if entry.listed else [found.value]
    if present == [entry.value] or entry.ours is nobody:
        return text
    if entry.path[0] == _HOOKS:
        text = _without_hooks(text, entry.path, lambda _: True)
    else:
        _refuse_strangers(found.value, entry)
        text = without(text, entry.path, entry.ours, listed=entry.listed, was_there=lambda _: True)
    return with_entry(text, entry.path, entry.value, listed=entry.listed)


def _with_table(text: str, entry: Entry) -> str:
    found = _table_at(text, entry)
    if found == entry.value:
        return text
    if found is not None:
        _refuse_strangers(found, entry)
        text = tables.without_table(text, _pair(entry))
    return tables.with_table(text, _pair(entry), entry.value)


def _refuse_strangers(value: Any, entry: Entry) -> None:
    if not entry.listed and not entry.ours(value):
        raise BadInput(
            f"{'.'.join(entry.path)} is there and starts something else.", remedy="Give that server another name."
        )


def _table_at(text: str, entry: Entry) -> Any:
    whole: Mapping[str, Any] = tables.read(text)
    upper, name = _pair(entry)
    return whole.get(upper, {}).get(name)


def _pair(entry: Entry) -> tuple[str, str]:
    upper, name = entry.path
    return upper, name
