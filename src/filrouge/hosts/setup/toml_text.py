"""One table in a TOML file: put at its end, taken out by its heading, checked against what the file then says."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from filrouge.core.errors import BadInput

_HEADING: Final = re.compile(r"^[ \t]*\[\[?([^\]\n]+)\]\]?[ \t]*(?:#.*)?$")


def read(text: str) -> dict[str, Any]:
    """What a TOML file says.

    Raises:
        BadInput: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"It is no TOML: {error}.") from error


def with_table(text: str, path: tuple[str, str], values: Mapping[str, Any]) -> str:
    """The text with that table at its end.

    Raises:
        BadInput: the file is no TOML, or holds something there that has no room for a table.
    """
    before = read(text)
    upper = before.get(path[0], {})
    if not isinstance(upper, dict) or path[1] in upper:
        raise _no_room(path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_written(value)}" for key, value in values.items())]
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    after = text + gap + newline.join(lines) + newline
    try:
        if read(after) == before | {path[0]: upper | {path[1]: dict(values)}}:
            return after
    except BadInput:
        pass
    raise _no_room(path)


def _no_room(path: tuple[str, str]) -> BadInput:
    return BadInput(f"[{'.'.join(path)}] cannot be written into this file without changing something else.")


def without_table(text: str, path: tuple[str, str]) -> str:
    """The text less that table and those below it.

    Raises:
        BadInput: the file is no TOML, or the table cannot be taken out of it alone.
    """
    before = read(text)
    if path[1] not in before.get(path[0], {}):
        return text
    after = "".join(_other_lines(text, path))
    rest = {key: value for key, value in before[path[0]].items() if key != path[1]}
    wanted = {key: rest if key == path[0] else value for key, value in before.items() if key != path[0] or rest}
    found = read(after)
    if found not in (wanted, wanted | {path[0]: rest}):
        raise BadInput(f"[{'.'.join(path)}] cannot be taken out of this file alone.")
    return after


def _other_lines(text: str, path: tuple[str, str]) -> list[str]:
    """All lines but the table's; what is said right above the next heading belongs to that one."""
    kept, said = list[str](), list[str]()
    inside = False
    for line in text.splitlines(keepends=True):
        heading = _HEADING.match(line.rstrip("\r\n"))
        if heading is not None:
            names = tuple(name.strip().strip("\"'") for name in heading[1].split(".", 2))
            inside = names[:2] == path
            if not inside:
                kept += said
            said = []
        if not inside:
            kept.append(line)
        else:
            said = [*said, line] if heading is None and line.lstrip().startswith(("#", "\n", "\r")) else []
    return kept + said


def with_keys(text: str, values: Mapping[str, Any]) -> str:
    """The text with these keys of the file's top: a line that is there is written anew, others stand in front.

    Raises:
        BadInput: the file is no TOML, or a key cannot be written alone.
    """
    wanted = read(text) | dict(values)
    for key, value in values.items():
        line = f"{key} = {_written(value)}"
        there = re.search(rf"^{re.escape(key)}[ \t]*=[^\r\n]*", text, re.MULTILINE)
        text = text[: there.start()] + line + text[there.end() :] if there else f"{line}\n{text}"
    if read(text) != wanted:
        raise BadInput(f"{', '.join(values)} cannot be written into this file without changing something else.")
    return text


def _written(value: Any) -> str:
    """A text, a number, a list of texts, or a table of texts in one line."""
    if isinstance(value, Mapping):
        pairs = (f"{_written(key)} = {_written(one)}" for key, one in value.items())  # pyright: ignore[reportUnknownVariableType]
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_written(one) for one in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(value, ensure_ascii=False)  # TOML's basic strings take JSON's escapes
