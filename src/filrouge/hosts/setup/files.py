"""Edits the text of agents' settings files in place, and keeps a manifest of the originals.

The files are JSON or TOML. Edits are insertions and cuts; all other text stays as it is. Each edit is verified by
parsing the result: a change that would also alter something else is refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final, cast

from filrouge.core.errors import BadInput, CannotWrite
from filrouge.core.guard import on_failure
from filrouge.core.paths import SETUP, SETUP_LIST, inside, make_private, unlink_quietly

# TOML: a table is added at the end of the file, and found by its heading for removal.

_HEADING: Final = re.compile(r"^[ \t]*\[\[?([^\]\n]+)\]\]?[ \t]*(?:#.*)?$")


def read_toml(text: str) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        BadInput: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"It is no TOML: {error}.") from error


def with_table(text: str, path: tuple[str, str], values: Mapping[str, Any]) -> str:
    """Return the text with that table at its end.

    Raises:
        BadInput: the file is not TOML, or it holds another value at that path.
    """
    before = read_toml(text)
    upper = before.get(path[0], {})
    if not isinstance(upper, dict) or path[1] in upper:
        raise _no_room(path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_written_toml(value)}" for key, value in values.items())]
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    after = text + gap + newline.join(lines) + newline
    try:
        if read_toml(after) == before | {path[0]: upper | {path[1]: dict(values)}}:
            return after
    except BadInput:
        pass
    raise _no_room(path)


def _no_room(path: tuple[str, str]) -> BadInput:
    return BadInput(f"[{'.'.join(path)}] cannot be written into this file without changing something else.")


def without_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without that table and its subtables.

    Raises:
        BadInput: the file is not TOML, or the table cannot be removed alone.
    """
    before = read_toml(text)
    if path[1] not in before.get(path[0], {}):
        return text
    after = "".join(_other_lines(text, path))
    rest = {key: value for key, value in before[path[0]].items() if key != path[1]}
    wanted = {key: rest if key == path[0] else value for key, value in before.items() if key != path[0] or rest}
    found = read_toml(after)
    if found not in (wanted, wanted | {path[0]: rest}):
        raise BadInput(f"[{'.'.join(path)}] cannot be taken out of this file alone.")
    return after


def _other_lines(text: str, path: tuple[str, str]) -> list[str]:
    """Return all lines except the table's; a comment directly above the next heading belongs to that heading."""
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
    """Return the text with these top-level keys; an existing line is replaced, a new key is added at the top.

    Raises:
        BadInput: the file is not TOML, or a key cannot be written alone.
    """
    wanted = read_toml(text) | dict(values)
    for key, value in values.items():
        line = f"{key} = {_written_toml(value)}"
        there = re.search(rf"^{re.escape(key)}[ \t]*=[^\r\n]*", text, re.MULTILINE)
        text = text[: there.start()] + line + text[there.end() :] if there else f"{line}\n{text}"
    if read_toml(text) != wanted:
        raise BadInput(f"{', '.join(values)} cannot be written into this file without changing something else.")
    return text


def _written_toml(value: Any) -> str:
    """Format a text, a number, a list of texts, or an inline table of texts."""
    if isinstance(value, Mapping):
        pairs = (f"{_written_toml(key)} = {_written_toml(one)}" for key, one in value.items())  # pyright: ignore[reportUnknownVariableType]
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_written_toml(one) for one in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(value, ensure_ascii=False)  # TOML's basic strings accept JSON's escapes


# JSON parser that keeps the position of every value. It accepts JSON, comments and trailing commas (JSONC), and JSON5's
# unquoted keys and single quotes, because one agent or another accepts each of them. Parsed text is never written back
# from here.

_SPACE: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE: Final = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_WORD: Final = re.compile(r"[^\s,:\[\]{}\"'/]+")
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its position in the text.

    Attributes:
        start: the index of its first character.
        end: the index after its last character.
        value: the value in Python types.
        parts: child nodes by list index or object key; for a duplicate key, the last one.
        begins: where each part begins; for an object, the start of its key.
    """

    start: int
    end: int
    value: Any
    parts: dict[str | int, Node]
    begins: dict[str | int, int]

    @property
    def items(self) -> list[Any]:
        """The values of a list; empty for anything else."""
        return [part.value for part in self.parts.values()] if isinstance(self.value, list) else []

    @property
    def keys(self) -> list[str]:
        """The keys of an object; empty for anything else."""
        return [str(key) for key in self.parts] if isinstance(self.value, dict) else []

    def at(self, path: tuple[str | int, ...]) -> Node | None:
        """Return the node at these keys, or None."""
        node: Node | None = self
        for key in path:
            node = node.parts.get(key) if node is not None else None
        return node


def read_json(text: str) -> Node:
    """Parse a whole settings file; an empty file is an empty object of length zero.

    Raises:
        BadInput: it is not JSON; the message names the line.
    """
    start = _after_space(text, 0)
    if start == len(text):
        return Node(start, start, {}, {}, {})
    node = _value(text, start, 0)
    if _after_space(text, node.end) != len(text):
        raise _wrong(text, _after_space(text, node.end), "unexpected text after the end")
    return node


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise _wrong(text, at, "it is nested too deeply")
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, depth)
    if opening in ("'", '"'):
        said, end = _string(text, at)
        return Node(at, end, said, {}, {})
    found = _WORD.match(text, at)
    if found is None:
        raise _wrong(text, at, "a value is missing")
    return Node(at, found.end(), _bare(found[0]), {}, {})


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    parts: dict[str | int, Node] = {}
    begins: dict[str | int, int] = {}
    at = _after_space(text, start + 1)
    while text[at : at + 1] != closing:
        key: str | int = len(parts)
        began = at
        if is_object:
            key, at = _key(text, at)
        node = _value(text, at, depth + 1)
        parts[key], begins[key] = node, began
        at = _after_space(text, node.end)
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _wrong(text, at, f"a comma or {closing} is missing")
    whole = {str(key): node.value for key, node in parts.items()} if is_object else [n.value for n in parts.values()]
    return Node(start, at + 1, whole, parts, begins)


def _key(text: str, at: int) -> tuple[str, int]:
    """Return a key and the position of its value."""
    if text[at : at + 1] in ("'", '"'):
        key, end = _string(text, at)
    else:
        found = _WORD.match(text, at)
        if found is None:
            raise _wrong(text, at, "a key is missing")
        key, end = found[0], found.end()
    colon = _after_space(text, end)
    if text[colon : colon + 1] != ":":
        raise _wrong(text, colon, "a colon is missing")
    return key, _after_space(text, colon + 1)


def _string(text: str, at: int) -> tuple[str, int]:
    pattern = _DOUBLE if text[at] == '"' else _SINGLE
    found = pattern.match(text, at)
    if found is None:
        raise _wrong(text, at, "a text has no end")
    raw = found[0]
    if raw[0] == "'":
        raw = '"' + raw[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    try:
        return str(json.loads(raw, strict=False)), found.end()
    except ValueError as error:
        raise _wrong(text, at, "a text has an escape that JSON does not know") from error


def _bare(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word  # a JSON5 number; it is kept as text


def _wrong(text: str, at: int, why: str) -> BadInput:
    return BadInput(f"It is no JSON: {why} in line {text.count(chr(10), 0, at) + 1}.")


# Insertion and removal of JSON entries. All other text stays as it is.

_REST_OF_LINE: Final = re.compile(r"(?:[ \t]|/\*[^\n\r]*?\*/)*(,?)(?:[ \t]|/\*[^\n\r]*?\*/)*(?://[^\n\r]*)?")
_UNIT: Final = "  "
_ONE_LINE: Final = 200

Path = tuple[str | int, ...]
IsOurs = Callable[[Any], bool]
WasThere = Callable[[Path], bool]


def insert_entry(text: str, path: tuple[str, ...], value: Any, *, listed: bool) -> str:
    """Return the text with a value added at that path: as a new element of the list there, or as the value itself.

    Raises:
        BadInput: the file is not JSON, or another value is in the way.
    """
    root = read_json(text)
    node, known = root, 0
    while known < len(path) and (step := node.parts.get(path[known])) is not None:
        node, known = step, known + 1
    rest = path[known:]
    missing: Any = [value] if listed else value
    if not rest:
        if not listed:
            raise BadInput(f"{'.'.join(path)} is there already.")
        return _checked(text, _added(text, node, list, None, value), path, value, listed=listed)
    for key in reversed(rest[1:]):
        missing = _NewObject({key: missing})
    return _checked(text, _added(text, node, dict, rest[0], missing), path, value, listed=listed)


def _checked(before: str, after: str, path: tuple[str, ...], value: Any, *, listed: bool) -> str:
    wanted = read_json(before).value
    place = wanted
    for key in path[:-1]:
        place = place.setdefault(key, {})
    if listed:
        place.setdefault(path[-1], []).append(value)
    else:
        place[path[-1]] = value
    if read_json(after).value != wanted:
        raise BadInput(f"{'.'.join(path)} cannot be written into this file without changing something else.")
    return after


def _added(text: str, node: Node, kind: type, key: str | None, value: Any) -> str:
    if not isinstance(node.value, kind):
        raise BadInput(f"Where {'an object' if kind is dict else 'a list'} belongs stands {node.value!r:.60}.")
    newline = "\r\n" if "\r\n" in text else "\n"
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if node.start == node.end:  # an empty file
        return f"{text}{{{newline}{_UNIT}{label}{_written_json(value, _UNIT, newline)}{newline}}}{newline}"
    if not node.parts:
        return _first(text, node, label, value, newline)
    last = list(node.parts.values())[-1]
    if newline not in text[node.start : node.end]:
        comma = _REST_OF_LINE.match(text, last.end)
        at = comma.end(1) if comma and comma[1] else last.end
        lead = " " if comma and comma[1] else ", "
        return text[:at] + lead + label + json.dumps(value, ensure_ascii=False) + text[at:]
    indent = _indent(text, list(node.begins.values())[-1]) or _indent(text, node.start) + _UNIT
    entry = f"{newline}{indent}{label}{_written_json(value, indent, newline)}"
    rest = _REST_OF_LINE.match(text, last.end)
    if rest is None or text[rest.end() : rest.end() + 1].strip():
        return f"{text[: last.end]},{entry}{text[last.end :]}"
    # Insert after a comment at the end of the previous entry's line; a trailing comma stays at the end.
    said = text[last.end : rest.end()]
    between, closing = (said, ",") if rest[1] else (f",{said}", "")
    return text[: last.end] + between + entry + closing + text[rest.end() :]


def _first(text: str, node: Node, label: str, value: Any, newline: str) -> str:
    outer = _indent(text, node.start)
    inner = outer + _UNIT
    at = node.start + 1
    inside = text[at : node.end - 1]
    entry = f"{newline}{inner}{label}{_written_json(value, inner, newline)}"
    if not inside.strip():
        return text[:at] + entry + newline + outer + text[node.end - 1 :]
    return text[:at] + entry + (newline if newline not in inside else "") + text[at:]  # before a comment


class _NewObject(dict[str, Any]):
    """A new intermediate object. It is written over several lines, so that other entries can be added to it."""


def _written_json(value: Any, indent: str, newline: str) -> str:
    """Format a value; one that fits into a line is written on one line."""
    plain = json.dumps(value, ensure_ascii=False)
    fits = len(plain) <= _ONE_LINE and not isinstance(value, _NewObject)
    if fits or not isinstance(value, (dict, list)) or not value:
        return plain
    inner = indent + _UNIT
    if isinstance(value, dict):
        said = cast("dict[str, Any]", value)
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_written_json(one, inner, newline)}" for key, one in said.items()
        ]
    else:
        parts = [_written_json(one, inner, newline) for one in cast("list[Any]", value)]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{opening}{newline}{inner}" + f",{newline}{inner}".join(parts) + f"{newline}{indent}{closing}"


def _indent(text: str, at: int) -> str:
    """Return the indentation of the line that contains this position."""
    begin = text.rfind("\n", 0, at) + 1
    found = re.match(r"[ \t]*", text[begin:])
    return found[0] if found else ""


def remove_matching(text: str, path: Path, is_ours: IsOurs, *, listed: bool, was_there: WasThere) -> str:
    """Return the text without our entries at that path: elements of the list there, or the value itself.

    Args:
        text: the text of the file.
        path: the keys that lead to the list or the value.
        is_ours: returns True for a value of ours.
        listed: the entries are elements of a list.
        was_there: returns True if the object or list at a path existed before us, so that it stays when it is empty.

    Raises:
        BadInput: the file is not JSON, or our entries cannot be removed alone.
    """
    node = read_json(text).at(path)
    if node is None:
        return text
    if not listed:
        return _remove(text, path, was_there) if is_ours(node.value) else text
    if not isinstance(node.value, list):
        return text
    ours = [key for key, part in node.parts.items() if is_ours(part.value)]
    for key in reversed(ours):
        text = _remove_child(text, _found(text, path), key)
    if not ours or len(ours) < len(node.parts) or was_there(path):
        return text
    return _remove(text, path, was_there)


def _found(text: str, path: Path) -> Node:
    found = read_json(text).at(path)
    assert found is not None, path
    return found


def _remove(text: str, path: Path, was_there: WasThere) -> str:
    """Remove the value at that path, and parents that become empty and did not exist before."""
    holder = _found(text, path[:-1])
    text = _remove_child(text, holder, path[-1])
    if path[:-1] and len(holder.parts) == 1 and not was_there(path[:-1]):
        return _remove(text, path[:-1], was_there)
    return text


def _remove_child(text: str, holder: Node, key: str | int) -> str:
    keys = list(holder.parts)
    place = keys.index(key)
    start, end = holder.begins[key], holder.parts[key].end
    rest = _REST_OF_LINE.match(text, end)
    # Its comma may be on a later line, behind a comment.
    until = holder.begins[keys[place + 1]] if place + 1 < len(keys) else holder.end - 1
    comma = end if rest is None or not rest[1] else rest.start(1)
    if rest is None or not rest[1]:
        comma = _comma_between(text, end, until)
    pieces = [(start, end)]
    if comma is not None:
        pieces.append((comma, comma + 1))
    elif place > 0:
        before = _comma_between(text, holder.parts[keys[place - 1]].end, start)
        if before is not None:
            pieces.insert(0, (before, before + 1))
    wanted = _without_key(holder.value, key)
    after = _cut(text, pieces, start)
    for candidate in (after, _cut(text, pieces, None)):
        if _same_but(text, candidate, holder, wanted):
            return candidate
    raise BadInput("Filrouge's entries cannot be removed without changing something else.")


def _comma_between(text: str, start: int, end: int) -> int | None:
    """Return the position of the comma after a value; only white space and comments may come before it."""
    at = start
    while at < end:
        found = re.compile(r"[ \t\r\n]+|//[^\n\r]*|/\*.*?\*/", re.DOTALL).match(text, at)
        if found is None:
            return at if text[at] == "," else None
        at = found.end()
    return None


def _cut(text: str, pieces: list[tuple[int, int]], line_of: int | None) -> str:
    """Remove those pieces, and the line in which the value began if it becomes blank."""
    for start, end in reversed(pieces):
        text = text[:start] + text[end:]
    if line_of is None:
        return text
    at = line_of - sum(end - start for start, end in pieces if end <= line_of)
    begin = text.rfind("\n", 0, at) + 1
    close = text.find("\n", at)
    line = text[begin : close if close >= 0 else len(text)]
    if line.strip() or close < 0:
        return text
    return text[:begin] + text[close + 1 :]


def _without_key(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if name != key}  # pyright: ignore[reportUnknownVariableType]
    return [one for place, one in enumerate(value) if place != key]


def _same_but(before: str, after: str, holder: Node, wanted: Any) -> bool:
    """Return True if the changed file differs from the old one only in having `wanted` in the holder's place."""
    try:
        found = read_json(after).value
    except BadInput:
        return False
    return _replaced(read_json(before), holder, wanted) == found


def _replaced(node: Node, holder: Node, wanted: Any) -> Any:
    if (node.start, node.end) == (holder.start, holder.end):
        return wanted
    if isinstance(node.value, dict):
        return {key: _replaced(part, holder, wanted) for key, part in node.parts.items()}
    if isinstance(node.value, list):
        return [_replaced(part, holder, wanted) for part in node.parts.values()]
    return node.value


NAME: Final = "filrouge"


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The parts of the user's machine that the agents' settings depend on.

    Attributes:
        environ: the environment.
        executable: the absolute path of `filrouge`.
    """

    environ: Mapping[str, str]
    executable: str

    def folder(self, variable: str, *usual: str) -> str:
        """Return the folder that a variable names, else the usual one below the user's home."""
        named = self.environ.get(variable, "").strip() if variable else ""
        if named:
            return os.path.abspath(os.path.expanduser(named))
        return os.path.join(self.environ.get("HOME") or os.path.expanduser("~"), *usual)

    def program(self, name: str) -> str | None:
        """Return the path of a command, or None."""
        return shutil.which(name, path=self.environ.get("PATH"))


def this_machine(environ: Mapping[str, str]) -> Machine:
    """Describe this machine, with the running `filrouge` command as the executable."""
    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), NAME)
    is_called = os.path.basename(called) == NAME and os.access(called, os.X_OK)
    found = called if is_called else beside if os.access(beside, os.X_OK) else shutil.which(NAME) or beside
    return Machine(environ=environ, executable=os.path.abspath(found))


# Files are read and written as a whole and keep their mode.

_LARGEST = 64 * 1024 * 1024
_PRIVATE = 0o600
_PRIVATE_FOLDER = 0o700


def read_bytes(path: str) -> bytes | None:
    """Return the bytes of a file, or None if it does not exist; a symbolic link is followed.

    Raises:
        BadInput: it cannot be read, or is too large for a settings file.
    """
    try:
        with open(path, "rb") as file:
            found = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    if len(found) > _LARGEST:
        raise BadInput(f"{path} is too large for a file of settings.")
    return found


def text_of(content: bytes | None, path: str) -> str:
    """Decode a file; None gives an empty text.

    Raises:
        BadInput: it is not UTF-8.
    """
    try:
        return (content or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8.", remedy="Save it as UTF-8.") from error


def write_file(path: str, content: bytes) -> None:
    """Write a file atomically; a symbolic link is kept and its target is replaced.

    Raises:
        CannotWrite: the disk or the permissions refuse.
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    try:
        for missing in missing_folders(real):
            os.mkdir(missing, _PRIVATE_FOLDER)
        mode = os.stat(real).st_mode & 0o7777 if os.path.exists(real) else _PRIVATE
        descriptor, part = tempfile.mkstemp(prefix=".filrouge-", dir=folder)
        with on_failure(lambda: unlink_quietly(part)):
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(part, mode)
            os.replace(part, real)
    except OSError as error:
        raise CannotWrite(
            f"{path} cannot be written: {error.strerror}.", remedy="Fix its permissions and run the command again."
        ) from error


def remove_file(path: str, made: Iterable[str]) -> None:
    """Delete a file, and those folders that were created for it and are empty.

    Raises:
        CannotWrite: the permissions refuse.
    """
    try:
        os.unlink(os.path.realpath(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CannotWrite(f"{path} cannot be removed: {error.strerror}.") from error
    for folder in reversed(list(made)):
        with suppress(OSError):
            os.rmdir(folder)


def missing_folders(path: str) -> list[str]:
    """Return the folders that writing this file would create, outermost first."""
    found = list[str]()
    folder = os.path.dirname(os.path.realpath(path))
    while folder and not os.path.isdir(folder):
        found.insert(0, folder)
        folder = os.path.dirname(folder)
    return found


# Manifest: `setup.json` in the home lists the changed files; the folder `setup` holds their originals.


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One file that Filrouge changed.

    Attributes:
        path: the file.
        agent: the agent that owns it.
        before: the name of the copy of the original; empty if the file did not exist.
        written: the SHA-256 of the content that Filrouge wrote.
        made: folders that were created for it.
    """

    path: str
    agent: str
    before: str
    written: str
    made: tuple[str, ...]


class Manifest:
    """The records of one home."""

    def __init__(self, home: str) -> None:
        self._home = home

    def records(self) -> dict[str, Record]:
        """Return every record by its file path.

        Raises:
            BadInput: the list is damaged.
        """
        path = inside(self._home, SETUP_LIST)
        try:
            found: list[Mapping[str, Any]] = json.loads(read_bytes(path) or b"[]")
            return {one["path"]: _record(one) for one in found}
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{path} is damaged, so the original settings are unknown.",
                remedy=f"Remove {path}: entries of Filrouge are then found by what they run.",
            ) from error

    def former(self, record: Record) -> bytes | None:
        """Return the original content of a file; None if the file did not exist.

        Raises:
            BadInput: the copy is missing.
        """
        found = read_bytes(self._copy(record.before)) if record.before else None
        if record.before and found is None:
            raise BadInput(
                f"The copy of what {record.path} was before is gone.",
                remedy=f"Remove {inside(self._home, SETUP_LIST)}: entries of Filrouge are then found by what they run.",
            )
        return found

    def keep(self, path: str, agent: str, before: bytes | None, written: bytes) -> None:
        """Record a file and copy its original before it is written."""
        make_private(self._home)
        name = f"{sha256_of(path.encode())[:16]}.before" if before is not None else ""
        if before is not None:
            write_file(self._copy(name), before)
        known = self.records()
        made = known[path].made if path in known else tuple(missing_folders(path))
        self._write({**known, path: Record(path=path, agent=agent, before=name, written=sha256_of(written), made=made)})

    def drop(self, path: str) -> None:
        """Remove the record and the copy of a file without entries of ours."""
        known = self.records()
        gone = known.pop(path, None)
        self._write(known)
        if gone is not None and gone.before:
            remove_file(self._copy(gone.before), [inside(self._home, SETUP)])

    def _copy(self, name: str) -> str:
        return os.path.join(inside(self._home, SETUP), name)

    def _write(self, records: Mapping[str, Record]) -> None:
        listed = [asdict(record) for record in records.values()]
        if listed:
            write_file(inside(self._home, SETUP_LIST), json.dumps(listed, indent=2).encode())
        else:
            remove_file(inside(self._home, SETUP_LIST), [])


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return sha256(content).hexdigest()


def _record(said: Mapping[str, Any]) -> Record:
    return Record(
        path=str(said["path"]),
        agent=str(said["agent"]),
        before=str(said["before"]),
        written=str(said["written"]),
        made=tuple(str(folder) for folder in said["made"]),
    )
