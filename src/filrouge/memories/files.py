"""Memory files: what a model stores under `/memories` with Anthropic's memory tool.

Files are notes in the store. A file is a live memory of kind `note`, with an agent's trust: its first line is the path,
the rest is the content. So a file has versions and a history, and every change is in the journal. A deleted file is in
the bin and can be restored by the user; `search` finds files, and `forget` erases them. Notes are not compared with the
user's statements, and no file is written to disk. The answers match those of the tool's own file implementation, where
it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from filrouge.capture.models import TRUST_AGENT
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER, Scope
from filrouge.memories.changes import AGENT, run_change
from filrouge.memories.models import ROOT, Memory, Span, Statement, checked_path, is_within
from filrouge.memories.repository import Notes, Origin
from filrouge.projects.repository import Projects, project_names
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors

#: Maximum number of characters per file, and of files per project.
MAX_FILE: Final = 100_000
MAX_FILES: Final = 1000
_NUMBER_WIDTH: Final = 6
_MAX_LEVELS: Final = 2
_UNITS: Final = "BKMG"

Json = Mapping[str, Any]


class _Folder(Struct, frozen=True, kw_only=True):
    """The files of one project within a transaction; `ended` collects the ids of memories that ended."""

    parts: Parts
    tx: Tx
    project: str | None
    files: Mapping[str, Memory]
    ended: list[str]

    def content(self, path: str) -> str:
        """Return the content of a file."""
        memory = self.files.get(path)
        if memory is None:
            if self.is_directory(path):
                raise _refused(f"The path {path} is not a file.")
            raise _refused(f"The path {path} does not exist. Please provide a valid path.")
        return content_of(memory)

    def is_directory(self, path: str) -> bool:
        """Return whether a path contains files; the root is always a directory."""
        return path == ROOT or any(is_within(file, path) for file in self.files)

    def put(self, path: str, content: str, old: Memory | None = None) -> None:
        """Write a file, as a new version of `old` if given."""
        if len(content) > MAX_FILE:
            raise _refused(f"The file would have {len(content)} characters; it may have {MAX_FILE}.")
        if old is None and len(self.files) >= MAX_FILES:
            raise _refused(f"There are {MAX_FILES} files already. Delete or merge some.")
        text = self.parts.redact(f"{path}\n{content}")
        statement = Statement(kind="note", text=text, span=Span(start=0, end=0), subject=path)
        store, origin = self.parts.memories(self.tx), self._origin()
        if old is not None and old.text == text:
            return
        action = (
            store.supersede(old.id, statement, origin, "edited") if old else store.add(statement, origin, "written")
        )
        self.ended.extend(action.closed)
        queue_vectors(self.tx, "memory", action.memory_id, origin.at)

    def bin(self, memory: Memory) -> None:
        """Move a file to the bin."""
        self.parts.memories(self.tx).bin(memory.id, self._origin(), "deleted")
        self.ended.append(memory.id)

    def _origin(self) -> Origin:
        scope = Scope(user=LOCAL_USER, project=self.project, channel="memory-tool")
        return Origin(scope=scope, trust=TRUST_AGENT, at=self.parts.clock.now(), made_by=AGENT, actor=AGENT)


def run(parts: Parts, command: Json, *, names: Collection[str] = ()) -> str:
    """Run one command of the memory tool; return the text for the model.

    Args:
        command: `command` (view, create, str_replace, insert, delete, rename) and its parameters, as the tool sends
            them.
        names: names of the project whose files are meant; empty = the files outside all projects.

    Raises:
        BadInput: the error text for the model.
        NotFound: a single plain project name was given, and no project has it.
    """
    verb = _COMMANDS.get(str(command.get("command")))
    if verb is None:
        raise _refused(f"Unknown command: {str(command.get('command'))[:40]}. It is one of {', '.join(_COMMANDS)}.")
    all_names = parts.readers.here(lambda tx: project_names(tx, list(names)))
    if verb is _view:
        project = parts.readers.here(lambda tx: Projects(tx).find(all_names))
        return parts.readers.here(lambda tx: verb(_folder(parts, tx, project), command))

    def write(tx: Tx) -> tuple[str, Collection[str], Collection[str]]:
        folder = _folder(parts, tx, Projects(tx).resolve(all_names, at=parts.clock.now()))
        answer = verb(folder, command)
        return answer, (), tuple(folder.ended)

    return run_change(parts, write)


def content_of(memory: Memory) -> str:
    """Return the content of a note: its text without the path line."""
    path, _, content = memory.text.partition("\n")
    return content if path == memory.subject else memory.text


def _folder(parts: Parts, tx: Tx, project: str | None) -> _Folder:
    notes = Notes(tx).live(project=project, user=LOCAL_USER)
    files = {note.subject: note for note in notes if note.subject.startswith(f"{ROOT}/")}  # the newer of two wins
    return _Folder(parts=parts, tx=tx, project=project, files=files, ended=[])


def _view(folder: _Folder, command: Json) -> str:
    path = checked_path(_text_argument(command, "path"))
    if path in folder.files:
        return _numbered(path, folder.content(path), command.get("view_range"))
    if not folder.is_directory(path):
        raise _refused(f"The path {path} does not exist. Please provide a valid path.")
    sizes: dict[str, int] = {}
    for file, memory in sorted(folder.files.items()):
        size = len(content_of(memory).encode())
        sizes[path] = sizes.get(path, 0) + size
        names = file[len(path) + 1 :].split("/") if is_within(file, path) else []
        if not names or any(name.startswith(".") for name in names):
            continue
        for level in range(1, min(len(names), _MAX_LEVELS) + 1):
            entry = "/".join(names[:level]) + ("/" if level < len(names) else "")
            sizes[f"{path}/{entry}"] = sizes.get(f"{path}/{entry}", 0) + size
    header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    sizes.setdefault(path, 0)
    return "\n".join([header, *(f"{_format_size(size)}\t{entry}" for entry, size in sorted(sizes.items()))])


def _create(folder: _Folder, command: Json) -> str:
    path, content = _file_path(command, "path"), _text_argument(command, "file_text")
    if path in folder.files:
        raise _refused(f"File {path} already exists")
    _require_free(folder, path)
    folder.put(path, content)
    return f"File created successfully at: {path}"


def _str_replace(folder: _Folder, command: Json) -> str:
    path, old, new = (
        checked_path(_text_argument(command, "path")),
        _text_argument(command, "old_str"),
        _text_argument(command, "new_str", ""),
    )
    content = folder.content(path)
    count = content.count(old) if old else 0
    if count == 0:
        raise _refused(f"No replacement was performed, old_str `{old[:500]}` did not appear verbatim in {path}.")
    if count > 1:
        lines = ", ".join(str(content.count("\n", 0, position) + 1) for position in _positions(content, old)[:50])
        raise _refused(
            f"No replacement was performed. Multiple occurrences of old_str `{old[:500]}` in lines: {lines}."
            " Please ensure it is unique"
        )
    changed = content.replace(old, new)
    folder.put(path, changed, folder.files[path])
    line = content.count("\n", 0, content.find(old))
    lines = changed.split("\n")
    snippet = [_numbered_line(n + 1, lines[n]) for n in range(max(0, line - 2), min(len(lines), line + 3))]
    header = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return "\n".join([header, *snippet])


def _insert(folder: _Folder, command: Json) -> str:
    path, text = checked_path(_text_argument(command, "path")), _text_argument(command, "insert_text")
    line = command.get("insert_line")
    lines = folder.content(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= len(lines):
        value = str(line)[:20]
        raise _refused(f"Invalid `insert_line` parameter: {value}. It should be within the range [0, {len(lines)}].")
    lines.insert(line, text.rstrip("\n"))
    folder.put(path, "\n".join(lines) + "\n", folder.files[path])
    return f"The file {path} has been edited."


def _delete(folder: _Folder, command: Json) -> str:
    path = checked_path(_text_argument(command, "path"))
    if path == ROOT:
        raise _refused(f"Cannot delete the {ROOT} directory itself")
    deleted = [memory for file, memory in folder.files.items() if file == path or is_within(file, path)]
    if not deleted:
        raise _refused(f"The path {path} does not exist")
    for memory in deleted:
        folder.bin(memory)
    return f"Successfully deleted {path}"


def _rename(folder: _Folder, command: Json) -> str:
    old, new = checked_path(_text_argument(command, "old_path")), _file_path(command, "new_path")
    if old == ROOT:
        raise _refused(f"Cannot rename the {ROOT} directory itself")
    moved = {file: memory for file, memory in folder.files.items() if file == old or is_within(file, old)}
    if not moved:
        raise _refused(f"The path {old} does not exist")
    if new in folder.files or folder.is_directory(new):
        raise _refused(f"The destination {new} already exists")
    if is_within(new, old):
        raise _refused(f"Cannot move {old} into itself")
    _require_free(folder, new)
    for file, memory in moved.items():
        folder.put(checked_path(new + file[len(old) :]), content_of(memory), memory)
    return f"Successfully renamed {old} to {new}"


_COMMANDS: Final[Mapping[str, Callable[[_Folder, Json], str]]] = {
    "view": _view,
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}


def _require_free(folder: _Folder, path: str) -> None:
    """Reject a path that is a directory already, or that is below a file."""
    if folder.is_directory(path):
        raise _refused(f"The path {path} is a directory.")
    if (parent := next((file for file in folder.files if is_within(path, file)), None)) is not None:
        raise _refused(f"The path {parent} is not a directory.")


def _file_path(command: Json, name: str) -> str:
    path = checked_path(_text_argument(command, name))
    if path == ROOT:
        raise _refused(f"The path {ROOT} is a directory.")
    return path


def _text_argument(command: Json, name: str, default: str | None = None) -> str:
    value = command.get(name, default)
    if not isinstance(value, str):
        raise _refused(f"The command needs `{name}`, a text.")
    if len(value) > MAX_FILE:
        raise _refused(f"`{name}` has {len(value)} characters; it may have {MAX_FILE}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(f"`{name}` is not a text: it contains half a character.") from None
    return value


def _numbered(path: str, content: str, view_range: object) -> str:
    lines = content.split("\n")
    first, last = 1, len(lines)
    match view_range:
        case None:
            pass
        case [int(begin), int(end)]:
            first, last = max(1, begin), len(lines) if end == -1 else end
        case _:
            raise _refused("`view_range` must be two line numbers; -1 as the second means the last line.")
    numbered = [_numbered_line(first + n, line) for n, line in enumerate(lines[first - 1 : max(last, 0)])]
    return "\n".join([f"Here's the content of {path} with line numbers:", *numbered])


def _numbered_line(number: int, text: str) -> str:
    return f"{number:>{_NUMBER_WIDTH}}\t{text}"


def _positions(content: str, old: str) -> list[int]:
    found = [content.find(old)]
    while (position := content.find(old, found[-1] + 1)) >= 0:
        found.append(position)
    return found


def _format_size(count: int) -> str:
    unit = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    size = count / 1024**unit
    return f"{int(size) if size == int(size) else f'{size:.1f}'}{_UNITS[unit]}"


def _refused(message: str) -> BadInput:
    return BadInput(message, remedy="")
