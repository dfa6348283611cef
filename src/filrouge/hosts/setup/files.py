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
from hashlib import sha256
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import asdict

from filrouge.core.errors import BadInput, CannotWrite
from filrouge.core.guard import on_failure
from filrouge.core.paths import SETUP, SETUP_LIST, inside, make_private, unlink_quietly

# TOML: a table is added at the end of the file, and found by its heading for removal.

_TABLE_HEADING: Final = re.compile(r"^[ \t]*\[\[?([^\]\n]+)\]\]?[ \t]*(?:#.*)?$")


def read_toml(text: str) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        BadInput: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"It is not TOML: {error}.") from error


def add_table(text: str, path: tuple[str, str], values: Mapping[str, Any]) -> str:
    """Return the text with that table at its end.

    Raises:
        BadInput: the file is not TOML, or it holds another value at that path.
    """
    before = read_toml(text)
    upper = before.get(path[0], {})
    if not isinstance(upper, dict) or path[1] in upper:
        raise _cannot_write(path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_format_toml(value)}" for key, value in values.items())]
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    after = text + gap + newline.join(lines) + newline
    try:
        if read_toml(after) == before | {path[0]: upper | {path[1]: dict(values)}}:
            return after
    except BadInput:
        pass
    raise _cannot_write(path)


def _cannot_write(path: tuple[str, str]) -> BadInput:
    return BadInput(f"[{'.'.join(path)}] cannot be written into this file without changing something else.")


def remove_table(text: str, path: tuple[str, str]) -> str:
    """Return the text without that table and its subtables.

    Raises:
        BadInput: the file is not TOML, or the table cannot be removed alone.
    """
    before = read_toml(text)
    if path[1] not in before.get(path[0], {}):
        return text
    after = "".join(_lines_outside_table(text, path))
    rest = {key: value for key, value in before[path[0]].items() if key != path[1]}
    expected = {key: rest if key == path[0] else value for key, value in before.items() if key != path[0] or rest}
    found = read_toml(after)
    if found not in (expected, expected | {path[0]: rest}):
        raise BadInput(f"[{'.'.join(path)}] cannot be removed without changing something else.")
    return after


def _lines_outside_table(text: str, path: tuple[str, str]) -> list[str]:
    """Return all lines except the table's; a comment directly above the next heading belongs to that heading."""
    result_lines, comment_lines = list[str](), list[str]()
    inside = False
    for line in text.splitlines(keepends=True):
        heading = _TABLE_HEADING.match(line.rstrip("\r\n"))
        if heading is not None:
            names = tuple(name.strip().strip("\"'") for name in heading[1].split(".", 2))
            inside = names[:2] == path
            if not inside:
                result_lines += comment_lines
            comment_lines = []
        if not inside:
            result_lines.append(line)
        else:
            comment_lines = (
                [*comment_lines, line] if heading is None and line.lstrip().startswith(("#", "\n", "\r")) else []
            )
    return result_lines + comment_lines


def set_keys(text: str, values: Mapping[str, Any]) -> str:
    """Return the text with these top-level keys; an existing line is replaced, a new key is added at the top.

    Raises:
        BadInput: the file is not TOML, or a key cannot be written alone.
    """
    expected = read_toml(text) | dict(values)
    for key, value in values.items():
        line = f"{key} = {_format_toml(value)}"
        existing_line = re.search(rf"^{re.escape(key)}[ \t]*=[^\r\n]*", text, re.MULTILINE)
        text = (
            text[: existing_line.start()] + line + text[existing_line.end() :] if existing_line else f"{line}\n{text}"
        )
    if read_toml(text) != expected:
        raise BadInput(f"{', '.join(values)} cannot be written into this file without changing something else.")
    return text


def _format_toml(value: Any) -> str:
    """Format a text, a number, a list of texts, or an inline table of texts."""
    if isinstance(value, Mapping):
        pairs = (f"{_format_toml(key)} = {_format_toml(item)}" for key, item in value.items())  # pyright: ignore[reportUnknownVariableType]
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_format_toml(item) for item in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(value, ensure_ascii=False)  # TOML's basic strings accept JSON's escapes


# JSON parser that keeps the position of every value. It accepts JSON, comments and trailing commas (JSONC), and JSON5's
# unquoted keys and single quotes, because one agent or another accepts each of them. Parsed text is never written back
# from here.

_SPACE: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE: Final = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_JSON_WORD: Final = re.compile(r"[^\s,:\[\]{}\"'/]+")
_MAX_DEPTH: Final = 200


class Node(Struct, frozen=True):
    """A value and its position in the text.

    Attributes:
        start: the index of its first character.
        end: the index after its last character.
        value: the value in Python types.
        parts: child nodes by list index or object key; for a duplicate key, the last one.
        part_starts: where each part begins; for an object, the start of its key.
    """

    start: int
    end: int
    value: Any
    parts: dict[str | int, Node]
    part_starts: dict[str | int, int]

    @property
    def items(self) -> list[Any]:
        """The values of a list; empty for anything else."""
        return [part.value for part in self.parts.values()] if isinstance(self.value, list) else []

    @property
    def keys(self) -> list[str]:
        """The keys of an object; empty for anything else."""
        return [str(key) for key in self.parts] if isinstance(self.value, dict) else []

    def find(self, path: tuple[str | int, ...]) -> Node | None:
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
    start = _skip_space(text, 0)
    if start == len(text):
        return Node(start, start, {}, {}, {})
    node = _parse_value(text, start, 0)
    if _skip_space(text, node.end) != len(text):
        raise _syntax_error(text, _skip_space(text, node.end), "unexpected text after the end")
    return node


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _parse_value(text: str, position: int, depth: int) -> Node:
    if depth > _MAX_DEPTH:
        raise _syntax_error(text, position, "it is nested too deeply")
    opening = text[position : position + 1]
    if opening in ("{", "["):
        return _parse_container(text, position, depth)
    if opening in ("'", '"'):
        string, end = _parse_string(text, position)
        return Node(position, end, string, {}, {})
    found = _JSON_WORD.match(text, position)
    if found is None:
        raise _syntax_error(text, position, "a value is missing")
    return Node(position, found.end(), _parse_word(found[0]), {}, {})


def _parse_container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    parts: dict[str | int, Node] = {}
    part_starts: dict[str | int, int] = {}
    position = _skip_space(text, start + 1)
    while text[position : position + 1] != closing:
        key: str | int = len(parts)
        part_start = position
        if is_object:
            key, position = _parse_key(text, position)
        node = _parse_value(text, position, depth + 1)
        parts[key], part_starts[key] = node, part_start
        position = _skip_space(text, node.end)
        if text[position : position + 1] == ",":
            position = _skip_space(text, position + 1)
        elif text[position : position + 1] != closing:
            raise _syntax_error(text, position, f"a comma or {closing} is missing")
    value = {str(key): node.value for key, node in parts.items()} if is_object else [n.value for n in parts.values()]
    return Node(start, position + 1, value, parts, part_starts)


def _parse_key(text: str, position: int) -> tuple[str, int]:
    """Return a key and the position of its value."""
    if text[position : position + 1] in ("'", '"'):
        key, end = _parse_string(text, position)
    else:
        found = _JSON_WORD.match(text, position)
        if found is None:
            raise _syntax_error(text, position, "a key is missing")
        key, end = found[0], found.end()
    colon = _skip_space(text, end)
    if text[colon : colon + 1] != ":":
        raise _syntax_error(text, colon, "a colon is missing")
    return key, _skip_space(text, colon + 1)


def _parse_string(text: str, position: int) -> tuple[str, int]:
    pattern = _DOUBLE if text[position] == '"' else _SINGLE
    found = pattern.match(text, position)
    if found is None:
        raise _syntax_error(text, position, "a text has no end")
    raw = found[0]
    if raw[0] == "'":
        raw = '"' + raw[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    try:
        return str(json.loads(raw, strict=False)), found.end()
    except ValueError as error:
        raise _syntax_error(text, position, "a text has an escape that JSON does not know") from error


def _parse_word(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word  # a JSON5 number; it is kept as text


def _syntax_error(text: str, position: int, reason: str) -> BadInput:
    return BadInput(f"It is not JSON: {reason} in line {text.count(chr(10), 0, position) + 1}.")


# Insertion and removal of JSON entries. All other text stays as it is.

_REST_OF_LINE: Final = re.compile(r"(?:[ \t]|/\*[^\n\r]*?\*/)*(,?)(?:[ \t]|/\*[^\n\r]*?\*/)*(?://[^\n\r]*)?")
_INDENT_STEP: Final = "  "
_MAX_ONE_LINE_CHARACTERS: Final = 200

Path = tuple[str | int, ...]
IsOurs = Callable[[Any], bool]
ExistedBefore = Callable[[Path], bool]


def insert_entry(text: str, path: tuple[str, ...], value: Any, *, in_list: bool) -> str:
    """Return the text with a value added at that path: as a new element of the list there, or as the value itself.

    Raises:
        BadInput: the file is not JSON, or another value is in the way.
    """
    root = read_json(text)
    node, depth = root, 0
    while depth < len(path) and (child := node.parts.get(path[depth])) is not None:
        node, depth = child, depth + 1
    rest = path[depth:]
    missing: Any = [value] if in_list else value
    if not rest:
        if not in_list:
            raise BadInput(f"{'.'.join(path)} already exists.")
        return _verify_insertion(text, _insert(text, node, list, None, value), path, value, in_list=in_list)
    for key in reversed(rest[1:]):
        missing = _NewObject({key: missing})
    return _verify_insertion(text, _insert(text, node, dict, rest[0], missing), path, value, in_list=in_list)


def _verify_insertion(before: str, after: str, path: tuple[str, ...], value: Any, *, in_list: bool) -> str:
    expected = read_json(before).value
    holder = expected
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
    if in_list:
        holder.setdefault(path[-1], []).append(value)
    else:
        holder[path[-1]] = value
    if read_json(after).value != expected:
        raise BadInput(f"{'.'.join(path)} cannot be written into this file without changing something else.")
    return after


def _insert(text: str, node: Node, kind: type, key: str | None, value: Any) -> str:
    if not isinstance(node.value, kind):
        raise BadInput(f"The file has {node.value!r:.60} where {'an object' if kind is dict else 'a list'} belongs.")
    newline = "\r\n" if "\r\n" in text else "\n"
    prefix = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if node.start == node.end:  # an empty file
        return (
            f"{text}{{{newline}{_INDENT_STEP}{prefix}{_format_json(value, _INDENT_STEP, newline)}{newline}}}{newline}"
        )
    if not node.parts:
        return _insert_first(text, node, prefix, value, newline)
    last = list(node.parts.values())[-1]
    if newline not in text[node.start : node.end]:
        comma = _REST_OF_LINE.match(text, last.end)
        position = comma.end(1) if comma and comma[1] else last.end
        separator = " " if comma and comma[1] else ", "
        return text[:position] + separator + prefix + json.dumps(value, ensure_ascii=False) + text[position:]
    indent = _indent(text, list(node.part_starts.values())[-1]) or _indent(text, node.start) + _INDENT_STEP
    entry = f"{newline}{indent}{prefix}{_format_json(value, indent, newline)}"
    tail = _REST_OF_LINE.match(text, last.end)
    if tail is None or text[tail.end() : tail.end() + 1].strip():
        return f"{text[: last.end]},{entry}{text[last.end :]}"
    # Insert after a comment at the end of the previous entry's line; a trailing comma stays at the end.
    rest_of_line = text[last.end : tail.end()]
    between, closing = (rest_of_line, ",") if tail[1] else (f",{rest_of_line}", "")
    return text[: last.end] + between + entry + closing + text[tail.end() :]


def _insert_first(text: str, node: Node, prefix: str, value: Any, newline: str) -> str:
    outer = _indent(text, node.start)
    inner = outer + _INDENT_STEP
    position = node.start + 1
    inside = text[position : node.end - 1]
    entry = f"{newline}{inner}{prefix}{_format_json(value, inner, newline)}"
    if not inside.strip():
        return text[:position] + entry + newline + outer + text[node.end - 1 :]
    return text[:position] + entry + (newline if newline not in inside else "") + text[position:]  # before a comment


class _NewObject(dict[str, Any]):
    """A new intermediate object. It is written over several lines, so that other entries can be added to it."""


def _format_json(value: Any, indent: str, newline: str) -> str:
    """Format a value; one that fits into a line is written on one line."""
    one_line = json.dumps(value, ensure_ascii=False)
    fits = len(one_line) <= _MAX_ONE_LINE_CHARACTERS and not isinstance(value, _NewObject)
    if fits or not isinstance(value, (dict, list)) or not value:
        return one_line
    inner = indent + _INDENT_STEP
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_format_json(item, inner, newline)}"
            for key, item in fields.items()
        ]
    else:
        parts = [_format_json(item, inner, newline) for item in cast("list[Any]", value)]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{opening}{newline}{inner}" + f",{newline}{inner}".join(parts) + f"{newline}{indent}{closing}"


def _indent(text: str, position: int) -> str:
    """Return the indentation of the line that contains this position."""
    line_start = text.rfind("\n", 0, position) + 1
    found = re.match(r"[ \t]*", text[line_start:])
    return found[0] if found else ""


def remove_matching(text: str, path: Path, is_ours: IsOurs, *, in_list: bool, existed_before: ExistedBefore) -> str:
    """Return the text without our entries at that path: elements of the list there, or the value itself.

    Args:
        text: the text of the file.
        path: the keys that lead to the list or the value.
        is_ours: returns True for a value of ours.
        in_list: the entries are elements of a list.
        existed_before: returns True if the object or list at a path existed before us; it then stays when it is empty.

    Raises:
        BadInput: the file is not JSON, or our entries cannot be removed alone.
    """
    node = read_json(text).find(path)
    if node is None:
        return text
    if not in_list:
        return _remove_entry(text, path, existed_before) if is_ours(node.value) else text
    if not isinstance(node.value, list):
        return text
    ours = [key for key, part in node.parts.items() if is_ours(part.value)]
    for key in reversed(ours):
        text = _remove_child(text, _node_at(text, path), key)
    if not ours or len(ours) < len(node.parts) or existed_before(path):
        return text
    return _remove_entry(text, path, existed_before)


def _node_at(text: str, path: Path) -> Node:
    found = read_json(text).find(path)
    assert found is not None, path
    return found


def _remove_entry(text: str, path: Path, existed_before: ExistedBefore) -> str:
    """Remove the value at that path, and parents that become empty and did not exist before."""
    holder = _node_at(text, path[:-1])
    text = _remove_child(text, holder, path[-1])
    if path[:-1] and len(holder.parts) == 1 and not existed_before(path[:-1]):
        return _remove_entry(text, path[:-1], existed_before)
    return text


def _remove_child(text: str, holder: Node, key: str | int) -> str:
    keys = list(holder.parts)
    position = keys.index(key)
    start, end = holder.part_starts[key], holder.parts[key].end
    tail = _REST_OF_LINE.match(text, end)
    # Its comma may be on a later line, behind a comment.
    limit = holder.part_starts[keys[position + 1]] if position + 1 < len(keys) else holder.end - 1
    comma = end if tail is None or not tail[1] else tail.start(1)
    if tail is None or not tail[1]:
        comma = _comma_between(text, end, limit)
    spans = [(start, end)]
    if comma is not None:
        spans.append((comma, comma + 1))
    elif position > 0:
        earlier_comma = _comma_between(text, holder.parts[keys[position - 1]].end, start)
        if earlier_comma is not None:
            spans.insert(0, (earlier_comma, earlier_comma + 1))
    expected = _without_key(holder.value, key)
    after = _remove_spans(text, spans, start)
    for candidate in (after, _remove_spans(text, spans, None)):
        if _changes_only(text, candidate, holder, expected):
            return candidate
    raise BadInput("Filrouge's entries cannot be removed without changing something else.")


def _comma_between(text: str, start: int, end: int) -> int | None:
    """Return the position of the comma after a value; only white space and comments may come before it."""
    position = start
    while position < end:
        found = re.compile(r"[ \t\r\n]+|//[^\n\r]*|/\*.*?\*/", re.DOTALL).match(text, position)
        if found is None:
            return position if text[position] == "," else None
        position = found.end()
    return None


def _remove_spans(text: str, spans: list[tuple[int, int]], value_start: int | None) -> str:
    """Remove those spans, and the line in which the value began if it becomes blank."""
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    if value_start is None:
        return text
    position = value_start - sum(end - start for start, end in spans if end <= value_start)
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    if line.strip() or line_end < 0:
        return text
    return text[:line_start] + text[line_end + 1 :]


def _without_key(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if name != key}  # pyright: ignore[reportUnknownVariableType]
    return [item for index, item in enumerate(value) if index != key]


def _changes_only(before: str, after: str, holder: Node, expected: Any) -> bool:
    """Return True if the changed file differs from the old one only in having `expected` in place of the holder."""
    try:
        found = read_json(after).value
    except BadInput:
        return False
    return _replace_node(read_json(before), holder, expected) == found


def _replace_node(node: Node, holder: Node, replacement: Any) -> Any:
    if (node.start, node.end) == (holder.start, holder.end):
        return replacement
    if isinstance(node.value, dict):
        return {key: _replace_node(part, holder, replacement) for key, part in node.parts.items()}
    if isinstance(node.value, list):
        return [_replace_node(part, holder, replacement) for part in node.parts.values()]
    return node.value


NAME: Final = "filrouge"


class Machine(Struct, frozen=True, kw_only=True):
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
    invoked_path = os.path.abspath(sys.argv[0])
    sibling = os.path.join(os.path.dirname(sys.executable), NAME)
    was_invoked = os.path.basename(invoked_path) == NAME and os.access(invoked_path, os.X_OK)
    found = invoked_path if was_invoked else sibling if os.access(sibling, os.X_OK) else shutil.which(NAME) or sibling
    return Machine(environ=environ, executable=os.path.abspath(found))


# Files are read and written as a whole and keep their mode.

_MAX_FILE_BYTES = 64 * 1024 * 1024
_PRIVATE_FILE_MODE = 0o600
_PRIVATE_FOLDER_MODE = 0o700


def read_bytes(path: str) -> bytes | None:
    """Return the bytes of a file, or None if it does not exist; a symbolic link is followed.

    Raises:
        BadInput: it cannot be read, or is too large for a settings file.
    """
    try:
        with open(path, "rb") as file:
            found = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    if len(found) > _MAX_FILE_BYTES:
        raise BadInput(f"{path} is too large for a settings file.")
    return found


def decode_text(content: bytes | None, path: str) -> str:
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
            os.mkdir(missing, _PRIVATE_FOLDER_MODE)
        mode = os.stat(real).st_mode & 0o7777 if os.path.exists(real) else _PRIVATE_FILE_MODE
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


def remove_file(path: str, made_folders: Iterable[str]) -> None:
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
    for folder in reversed(list(made_folders)):
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


class Record(Struct, frozen=True, kw_only=True):
    """One file that Filrouge changed, as `setup.json` stores it.

    Attributes:
        path: the absolute path of the file.
        agent: the name of the agent that owns it.
        before: the name of the original's copy in the folder `setup`; empty if the file did not exist.
        written: the SHA-256 of the content that Filrouge wrote, in hexadecimal.
        made: the folders that were created for it, outermost first.
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
            return {fields["path"]: _parse_record(fields) for fields in found}
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{path} is damaged, so the original settings are unknown.",
                remedy=f"Remove {path}. Filrouge then finds its entries by their commands.",
            ) from error

    def original(self, record: Record) -> bytes | None:
        """Return a file's content from before Filrouge changed it; None if the file did not exist.

        Raises:
            BadInput: the copy is missing.
        """
        found = read_bytes(self._copy(record.before)) if record.before else None
        if record.before and found is None:
            raise BadInput(
                f"The copy of the original {record.path} is missing.",
                remedy=f"Remove {inside(self._home, SETUP_LIST)}. Filrouge then finds its entries by their commands.",
            )
        return found

    def add(self, path: str, agent: str, before: bytes | None, written: bytes) -> None:
        """Record a file and copy its original before it is written."""
        make_private(self._home)
        name = f"{sha256_of(path.encode())[:16]}.before" if before is not None else ""
        if before is not None:
            write_file(self._copy(name), before)
        records = self.records()
        made = records[path].made if path in records else tuple(missing_folders(path))
        self._write(
            {**records, path: Record(path=path, agent=agent, before=name, written=sha256_of(written), made=made)}
        )

    def remove(self, path: str) -> None:
        """Remove the record and the copy of a file without entries of ours."""
        records = self.records()
        removed = records.pop(path, None)
        self._write(records)
        if removed is not None and removed.before:
            remove_file(self._copy(removed.before), [inside(self._home, SETUP)])

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


def _parse_record(fields: Mapping[str, Any]) -> Record:
    return Record(
        path=str(fields["path"]),
        agent=str(fields["agent"]),
        before=str(fields["before"]),
        written=str(fields["written"]),
        made=tuple(str(folder) for folder in fields["made"]),
    )
