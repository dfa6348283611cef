"""Importers: readers of other programs' exports and stores, which yield messages and statements.

One function per format, listed in `FORMATS`; a new importer is a function here and an entry there. A reader gets a
path, writes nothing, and trusts nothing in the file. It reads element by element, so that a file of any size needs
little memory. What cannot be read is yielded as an `ImportProblem`, and reading continues.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from filrouge.capture.models import (
    ImportedKind,
    ImportedMemory,
    ImportedTurn,
    ImportItem,
    ImportProblem,
    Role,
    SourceType,
)
from filrouge.core.errors import BadInput
from filrouge.hosts.command_hooks import as_list, as_object
from filrouge.hosts.transcript_lines import epoch_seconds

# Opening files, zip members and folders, and streaming JSON.
#
# An export may be a single JSON list of several gigabytes. Its elements are decoded one by one from a buffer. An
# element, a line or a whole document has a maximum size; anything larger is refused before it fills the memory.

#: Maximum characters of an element, and maximum bytes of a line or of a document that is read as a whole.
MAX_ELEMENT_LENGTH: Final = 64 * 1024 * 1024
#: Maximum declared size of a zip member, in bytes.
_MAX_MEMBER_BYTES: Final = 8 * 1024**3
_CHUNK_BYTES: Final = 1024 * 1024
_BLANK: Final = " \t\r\n\ufeff"
#: Remedy for a file that cannot be read to its end.
_CUT_OFF_REMEDY: Final = "Export it again. Everything before that was imported; a second run adds no duplicates."
#: The file of all conversations in an export of ChatGPT or Claude.ai; a large export has several.
_CONVERSATIONS: Final = r"(?:^|[/_-])conversations(?:[-_]\d+)?\.json$"
#: Role and source of a message, by the word for its speaker; some programs have more words.
_ROLES: Final[Mapping[str, tuple[Role, SourceType]]] = {
    "user": ("user", "prompt"),
    "assistant": ("assistant", "reply"),
}


def text_of(value: Any, *names: str) -> str:
    """The first of these fields that holds non-empty text; empty if there is none."""
    fields = as_object(value)
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), "")


def to_epoch(value: Any) -> float:
    """Seconds since 1970 from a number or an ISO 8601 text; 0.0 for anything else.

    A large number is taken as milliseconds; a text without a time zone as UTC.
    """
    if isinstance(value, bool):
        return 0.0
    if isinstance(value, int | float):
        number = float(value)
        return 0.0 if not 0 < number < 1e15 else number / 1000 if number > 1e11 else number
    return max(0.0, epoch_seconds(value))


def blocks_text(content: Any) -> str:
    """The text of a message: a string, or a list of strings and objects with a `text` field."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else text_of(part, "text") for part in as_list(content)]
    return "\n".join(part for part in parts if part.strip())


@contextmanager
def open_regular_file(path: str) -> Generator[IO[bytes]]:
    """A regular file, open for reading.

    Raises:
        BadInput: it is not a regular file or cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path} is not a file.", remedy="Give the path of the file.")
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror}.", remedy="Check the path and its permissions."
        ) from error
    with file:
        yield file


class Readable(Protocol):
    """The file methods that readers need."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        ...

    def readline(self, size: int = -1, /) -> bytes:
        """The next line."""
        ...


def export_files(path: str, pattern: str) -> Iterator[tuple[str, Readable]]:
    """The files whose name matches a pattern, in a zip or a folder; a single file is yielded as it is.

    Raises:
        BadInput: there is none, or the zip is damaged.
    """
    found = False
    for name, file in _zipped_files(path, pattern) if _is_zip(path) else _plain_files(path, pattern):
        found = True
        yield name, file
    if not found:
        raise BadInput(
            f"{path} contains no file whose name matches {pattern}.", remedy="Use the export as you downloaded it."
        )


def _is_zip(path: str) -> bool:
    return os.path.isfile(path) and zipfile.is_zipfile(path)


def _plain_files(path: str, pattern: str) -> Iterator[tuple[str, Readable]]:
    paths = [path] if not os.path.isdir(path) else [name for name in walk_files(path) if re.search(pattern, name)]
    for file_path in paths:
        with open_regular_file(file_path) as file:
            yield file_path, file


def _zipped_files(path: str, pattern: str) -> Iterator[tuple[str, Readable]]:
    with _unpacking(path):
        archive = zipfile.ZipFile(path)
    with archive:
        for member in sorted(archive.infolist(), key=lambda info: info.filename):
            if not re.search(pattern, member.filename) or member.is_dir():
                continue
            if member.file_size > _MAX_MEMBER_BYTES:
                raise BadInput(
                    f"{member.filename} in {path} declares a size of {member.file_size / 1e9:.0f} GB.",
                    remedy="No export is that large; unpack it and look at it first.",
                )
            with _unpacking(path):
                file = archive.open(member)
            with file:
                yield f"{path}:{member.filename}", _Member(file, path)


class _Member:
    """A zip member; damage is reported while it is read."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file, self._path = file, path

    def read(self, size: int = -1, /) -> bytes:
        with _unpacking(self._path):
            return self._file.read(size)

    def readline(self, size: int = -1, /) -> bytes:
        with _unpacking(self._path):
            return self._file.readline(size)


@contextmanager
def _unpacking(path: str) -> Generator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadInput(
            f"{path} cannot be unpacked: {error}.", remedy="Download the export again, or give the unpacked file."
        ) from error


def walk_files(root: str) -> Iterator[str]:
    """The files below a folder, sorted; hidden folders, `node_modules` and symbolic links are skipped."""
    for folder, directories, names in os.walk(root):
        directories[:] = sorted(
            directory for directory in directories if not directory.startswith(".") and directory != "node_modules"
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def json_lines(file: Readable, name: str) -> Iterator[tuple[int, Any | ImportProblem]]:
    """The decoded JSON of each line, with its number; an invalid or overlong line gives an `ImportProblem`."""
    number = 0
    while line := file.readline(MAX_ELEMENT_LENGTH + 1):
        number += 1
        if len(line) > MAX_ELEMENT_LENGTH:
            yield (
                number,
                ImportProblem(f"{name}:{number}", "the line is longer than 64 MB, and what follows was not read"),
            )
            return
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            yield number, ImportProblem(f"{name}:{number}", "the line is not valid JSON")


def json_document(file: Readable, name: str) -> Any:
    """A small JSON document, read as a whole.

    Raises:
        BadInput: it is not JSON, or too large.
    """
    raw = file.read(MAX_ELEMENT_LENGTH + 1)
    if len(raw) > MAX_ELEMENT_LENGTH:
        raise BadInput(f"{name} is larger than 64 MB.", remedy="Split it, or export less at once.")
    try:
        return json.loads(raw.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise _json_error(
            name, "it is not valid JSON", "Export it again. Nothing of this file was imported."
        ) from error


def json_elements(file: Readable, name: str) -> Iterator[Any]:
    """The elements of a JSON list, one by one; a document that is not a list is its only element.

    Raises:
        BadInput: the file ends early, is not JSON, or an element is too large; elements already yielded stay valid.
    """
    text = _JsonStream(file, name)
    if text.next() != "[":
        yield text.value()
        return
    text.skip()
    while (character := text.next()) != "]":
        if character == ",":
            text.skip()
        elif character:
            yield text.value()
        else:
            raise _json_error(name, "it ends in the middle of the list")


class _JsonStream:
    """Decodes JSON values from a file one by one; little more than the current one is in memory."""

    def __init__(self, file: Readable, name: str) -> None:
        self._file, self._name = file, name
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._json = json.JSONDecoder()
        self._buffer, self._position, self._at_end = "", 0, False

    def next(self) -> str:
        """The next character that is not blank, without consuming it; empty at the end."""
        while True:
            while self._position < len(self._buffer):
                if self._buffer[self._position] not in _BLANK:
                    return self._buffer[self._position]
                self._position += 1
            if self._at_end:
                return ""
            self._more(_CHUNK_BYTES)

    def skip(self) -> None:
        """Consume one character."""
        self._position += 1

    def value(self) -> Any:
        """The JSON value at the current position."""
        while True:
            try:
                value, end = self._json.raw_decode(self._buffer, self._position)
            except RecursionError as error:
                raise _json_error(self._name, "a value is nested too deeply") from error
            except ValueError as error:
                if self._at_end:
                    raise _json_error(self._name, "it ends early, or is not JSON from some point on") from error
            else:
                if end < len(self._buffer) or self._at_end:  # at the buffer's end, a number may be incomplete
                    self._position = end
                    return value
            if len(self._buffer) - self._position > MAX_ELEMENT_LENGTH:
                raise _json_error(self._name, "an element is larger than 64 MB, or is not JSON")
            self._more(max(_CHUNK_BYTES, len(self._buffer) - self._position))  # doubling keeps the total cost linear

    def _more(self, count: int) -> None:
        raw = self._file.read(count)
        self._at_end = len(raw) < count
        self._buffer = self._buffer[self._position :] + self._decoder.decode(raw, self._at_end)
        self._position = 0


def _json_error(name: str, problem: str, remedy: str = _CUT_OFF_REMEDY) -> BadInput:
    return BadInput(f"{name} cannot be read: {problem}.", remedy=remedy)


# ai_smartness: a project's folder `.ai`, with its rules and the messages of its threads.
#
# `user_rules.json` contains standing instructions of the user; they become rules if the user confirms the import.
# Times have no time zone and are read as UTC.

RULES: Final = "user_rules.json"


def read_ai_smartness(path: str) -> Iterator[ImportItem]:
    """Every rule, and every message of every thread."""
    rules, threads = os.path.join(path, RULES), os.path.join(path, "db", "threads")
    if not os.path.isfile(rules) and not os.path.isdir(threads):
        raise BadInput(f"{path} is not a folder of ai_smartness.", remedy="Pass the project's .ai folder.")
    if os.path.isfile(rules):
        yield from _ai_smartness_rules(rules)
    for file_path in walk_files(threads):
        if os.path.basename(file_path).startswith("_") or not file_path.endswith(".json"):
            continue
        try:
            with open_regular_file(file_path) as file:
                thread = as_object(json_document(file, file_path))
        except BadInput as error:
            yield ImportProblem(file_path, error.message)
            continue
        yield from _ai_smartness_turns(thread, os.path.basename(file_path).removesuffix(".json"))


def _ai_smartness_rules(path: str) -> Iterator[ImportItem]:
    with open_regular_file(path) as file:
        document = json_document(file, path)
    rules = as_list(as_object(document).get("rules")) or as_list(document)
    at = to_epoch(as_object(document).get("last_updated"))
    for number, rule in enumerate(rules, 1):
        text = rule if isinstance(rule, str) else text_of(rule, "rule", "text", "content")
        if text.strip():
            yield ImportedMemory(key=f"rule\0{text}", text=text, kind="rule", at=at, place=f"{RULES}:{number}")
        else:
            yield ImportProblem(f"{path}, rule {number}", "it has no text")


def _ai_smartness_turns(thread: dict[str, Any], name: str) -> Iterator[ImportItem]:
    session = text_of(thread, "id") or name
    for index, message in enumerate(as_list(thread.get("messages"))):
        speaker, text = _ROLES.get(text_of(message, "source", "role")), text_of(message, "content", "text")
        if speaker is not None and text.strip():
            at = to_epoch(as_object(message).get("timestamp"))
            yield ImportedTurn(session, text_of(message, "id") or str(index), *speaker, text, at)


# ChatGPT's export: `conversations.json`, in a zip, sometimes split into several files.
#
# A conversation is a tree, because questions can be edited and answers regenerated. The user last saw the path that
# ends at `current_node`; other branches are ignored. Hidden, system and tool messages are skipped.

_TEXT_TYPES: Final = frozenset({"text", "multimodal_text"})


def read_chatgpt(path: str) -> Iterator[ImportItem]:
    """Every message of every conversation, as last seen."""
    for name, file in export_files(path, _CONVERSATIONS):
        for index, conversation in enumerate(json_elements(file, name)):
            if not as_object(conversation).get("mapping"):
                yield ImportProblem(f"{name}, conversation {index + 1}", "it has no messages")
                continue
            yield from _chatgpt_turns(as_object(conversation), f"{name}, conversation {index + 1}")


def _chatgpt_turns(conversation: dict[str, Any], location: str) -> Iterator[ImportItem]:
    session = text_of(conversation, "conversation_id", "id")
    if not session:
        yield ImportProblem(location, "it has no id")
        return
    started_at = to_epoch(conversation.get("create_time"))
    mapping, current = as_object(conversation.get("mapping")), text_of(conversation, "current_node")
    for node_id, node in _branch(mapping, current if current in mapping else _newest_chatgpt_leaf(mapping), "parent"):
        message = as_object(node.get("message"))
        speaker = _ROLES.get(text_of(message.get("author"), "role"))
        if speaker is None or _is_hidden(message):
            continue
        text = _chatgpt_text(as_object(message.get("content")))
        if text.strip():
            at = to_epoch(message.get("create_time")) or started_at
            yield ImportedTurn(session, text_of(message, "id") or node_id, *speaker, text, at)


def _branch(nodes: Mapping[str, Any], leaf: str, parent: str) -> list[tuple[str, dict[str, Any]]]:
    """The nodes from the root to the leaf; `parent` is the field that names a node's parent."""
    nodes_by_id = dict[str, dict[str, Any]]()
    while leaf in nodes and leaf not in nodes_by_id:  # a file may contain a cycle
        nodes_by_id[leaf] = as_object(nodes[leaf])
        leaf = text_of(nodes_by_id[leaf], parent)
    return list(nodes_by_id.items())[::-1]


def _newest_chatgpt_leaf(mapping: dict[str, Any]) -> str:
    leaves = [id_ for id_, node in mapping.items() if not as_list(as_object(node).get("children"))]
    return max(leaves, key=lambda id_: _chatgpt_time(mapping[id_]), default="")


def _chatgpt_time(node: object) -> float:
    return to_epoch(as_object(as_object(node).get("message")).get("create_time"))


def _is_hidden(message: dict[str, Any]) -> bool:
    metadata = as_object(message.get("metadata"))
    hidden = metadata.get("is_visually_hidden_from_conversation") or metadata.get("is_user_system_message")
    # A message to a recipient other than `all` is a tool call.
    return bool(hidden) or message.get("weight") == 0 or text_of(message, "recipient") not in ("", "all")


def _chatgpt_text(content: dict[str, Any]) -> str:
    """The text; of a non-text part such as a picture, only its `text` field, if any."""
    if content.get("content_type", "text") not in _TEXT_TYPES:
        return ""
    return blocks_text(as_list(content.get("parts")) or [content.get("text")])


# Claude.ai's export: `conversations.json`, in a zip; messages are in `chat_messages` or `messages`.
#
# If messages name their parents and the conversation names its last message, only that branch is read.

_CLAUDE_AI_ROLES: Final = {**_ROLES, "human": _ROLES["user"]}


def read_claude_ai(path: str) -> Iterator[ImportItem]:
    """Every message of every conversation."""
    for name, file in export_files(path, _CONVERSATIONS):
        for number, conversation in enumerate(json_elements(file, name), 1):
            session = text_of(conversation, "uuid", "id")
            if not session:
                yield ImportProblem(f"{name}, conversation {number}", "it has no id")
                continue
            yield from _claude_ai_turns(as_object(conversation), session)


def _claude_ai_turns(conversation: dict[str, Any], session: str) -> Iterator[ImportedTurn]:
    started_at = to_epoch(conversation.get("created_at"))
    messages = [
        as_object(value) for value in as_list(conversation.get("chat_messages") or conversation.get("messages"))
    ]
    for index, message in enumerate(_visible_branch(messages, text_of(conversation, "current_leaf_message_uuid"))):
        speaker = _CLAUDE_AI_ROLES.get(text_of(message, "sender", "role"))
        text = _claude_ai_text(message)
        if speaker is not None and text.strip():
            key = text_of(message, "uuid", "id") or str(index)
            yield ImportedTurn(session, key, *speaker, text, to_epoch(message.get("created_at")) or started_at)


def _visible_branch(messages: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """The path to the last message; all messages if none is named."""
    by_id = {text_of(item, "uuid", "id"): item for item in messages}
    if leaf not in by_id or not any(text_of(item, "parent_message_uuid") in by_id for item in messages):
        return messages
    return [message for _, message in _branch(by_id, leaf, "parent_message_uuid")]


def _claude_ai_text(message: dict[str, Any]) -> str:
    """The text blocks; unlike the field `text`, they leave out tool calls and thinking."""
    blocks = [block for block in as_list(message.get("content")) if as_object(block).get("type", "text") == "text"]
    content = message.get("content")
    return blocks_text(blocks) or text_of(message, "text") or (content if isinstance(content, str) else "")


# claude-mem: its SQLite database, opened read-only. Its columns changed often, so they are looked up.
#
# Observations and session summaries are a model's words. The prompts it stored are ignored: Claude Code's own history
# is the better source.

_SUMMARY_FIELDS: Final = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_SQLITE_HEADER: Final = b"SQLite format 3\0"


def read_claude_mem(path: str) -> Iterator[ImportItem]:
    """Every observation and every session summary, as a fact of its project."""
    with open_regular_file(path) as file:
        if file.read(len(_SQLITE_HEADER)) != _SQLITE_HEADER:
            raise BadInput(
                f"{path} is not an SQLite database.", remedy="Give the path of claude-mem.db, usually in ~/.claude-mem."
            )
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            yield from _claude_mem_observations(connection)
            yield from _claude_mem_summaries(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise BadInput(
            f"{path} cannot be read: {error}.", remedy="Stop claude-mem, or copy the file with its -wal and -shm."
        ) from error


def _claude_mem_rows(connection: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table with the columns that exist; nothing if there is no such table."""
    columns = [str(row["name"]) for row in connection.execute(f"PRAGMA table_info({table})")]
    if columns:
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid"):  # noqa: S608 (table is a literal of this module)
            yield dict(row)


def _claude_mem_observations(connection: sqlite3.Connection) -> Iterator[ImportItem]:
    for row in _claude_mem_rows(connection, "observations"):
        location = f"observations {row.get('id')}"
        fields = [_claude_mem_text(row, name) for name in ("title", "subtitle", "narrative")]
        body = "\n".join(field for field in fields if field) or _claude_mem_text(row, "text")
        facts = [fact for fact in as_list(_parse_json(row.get("facts"))) if isinstance(fact, str) and fact not in body]
        text = "\n".join([body, *facts]).strip()
        if not text:
            yield ImportProblem(location, "it has no text")
            continue
        kind: ImportedKind = "decision" if row.get("type") == "decision" else "fact"
        yield _claude_mem_memory(row, "observations", location, text, kind)


def _claude_mem_summaries(connection: sqlite3.Connection) -> Iterator[ImportItem]:
    for row in _claude_mem_rows(connection, "session_summaries"):
        parts = [
            f"{name.replace('_', ' ').capitalize()}: {value}"
            for name in _SUMMARY_FIELDS
            if (value := _claude_mem_text(row, name))
        ]
        if parts:
            location = f"session_summaries {row.get('id')}"
            yield _claude_mem_memory(row, "session_summaries", location, "\n".join(parts), "fact")


def _claude_mem_memory(
    row: Mapping[str, Any], table: str, location: str, text: str, kind: ImportedKind
) -> ImportedMemory:
    project = _claude_mem_text(row, "project")
    at = to_epoch(row.get("created_at_epoch")) or to_epoch(row.get("created_at"))
    return ImportedMemory(
        key=f"{table}\0{row.get('id')}\0{row.get('created_at')}",
        text=text,
        kind=kind,
        at=at,
        place=location,
        subject=_claude_mem_text(row, "title"),
        project=(project,) if project else (),
    )


def _claude_mem_text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def _parse_json(value: object) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


# Gemini CLI's sessions: `session-*.jsonl`, one message per line, and the older `session-*.json`, one object.
#
# A `message_update` line replaces fields of an earlier message. A project's folder is named by a hash of its path,
# which cannot be reversed, so the messages belong to no project unless the user names one.

_GEMINI_NAMES: Final = r"(?:^|/)session-[^/]*\.jsonl?$"
_GEMINI_ROLES: Final = {**_ROLES, "gemini": _ROLES["assistant"]}


def read_gemini(path: str) -> Iterator[ImportItem]:
    """Every message of the user and the agent."""
    for name, file in export_files(path, _GEMINI_NAMES):
        stem = os.path.splitext(os.path.basename(name))[0]
        if name.endswith(".jsonl"):
            lines = list(json_lines(file, name))
            yield from (record for _, record in lines if isinstance(record, ImportProblem))
            records = [as_object(record) for _, record in lines if not isinstance(record, ImportProblem)]
        else:
            document = as_object(json_document(file, name))
            records = [document, *map(as_object, as_list(document.get("messages")))]
        session = next(
            (session_id for record in records if (session_id := text_of(record, "sessionId", "session_id"))), stem
        )
        yield from _gemini_turns(session, _merge_updates(records))


def _merge_updates(records: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each message with its key, after all updates."""
    messages: dict[str, dict[str, Any]] = {}
    for index, record in enumerate(records):
        update = as_object(record.get("message")) or as_object(record.get("update"))
        key = text_of(record, "id", "messageId", "message_id") or text_of(update, "id")
        if record.get("type") == "message_update":
            if key in messages:
                messages[key] = messages[key] | {
                    name: value for name, value in (record | update).items() if name != "type"
                }
        elif record.get("type") in _GEMINI_ROLES:
            messages[key or str(index)] = record
    yield from messages.items()


def _gemini_turns(session: str, messages: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[ImportedTurn]:
    for key, message in messages:
        text = blocks_text(message.get("content"))
        if text.strip():
            at = to_epoch(message.get("timestamp"))
            yield ImportedTurn(session, key, *_GEMINI_ROLES[str(message["type"])], text, at)


# Markdown: notes, `CLAUDE.md`, `AGENTS.md`, OpenClaw's daily pages, split by heading, each with file and line.
#
# Lines in a code fence are not headings. Front matter, hidden folders and symbolic links are skipped.

_MAX_MARKDOWN_BYTES: Final = 4 * 1024 * 1024
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def read_markdown(path: str) -> Iterator[ImportItem]:
    """Every non-empty section, as a note."""
    is_folder = os.path.isdir(path)
    paths = (
        [file_name for file_name in walk_files(path) if file_name.lower().endswith((".md", ".markdown"))]
        if is_folder
        else [path]
    )
    if not paths:
        raise BadInput(f"There is no Markdown file in {path}.", remedy="Give the folder of the notes.")
    for file_path in paths:
        name = os.path.relpath(file_path, path) if is_folder else os.path.basename(file_path)
        with open_regular_file(file_path) as file:
            raw = file.read(_MAX_MARKDOWN_BYTES + 1)
            at = os.fstat(file.fileno()).st_mtime
        if len(raw) > _MAX_MARKDOWN_BYTES:
            yield ImportProblem(file_path, "it is larger than 4 MB")
            continue
        yield from _markdown_sections(raw.decode("utf-8-sig", "replace").splitlines(), name, max(0.0, at))


def _markdown_sections(lines: Sequence[str], name: str, at: float) -> Iterator[ImportedMemory]:
    """Each heading with the text below it; the titles of its parent headings give the subject."""
    above: list[tuple[int, str]] = []
    start, body, fence = _after_front_matter(lines), list[str](), ""
    first = start
    for number in range(start, len(lines)):
        line = lines[number]
        fence_line = _FENCE.match(line)
        if fence_line and not fence:
            fence = fence_line[1]
        elif fence_line and fence_line[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        heading = None if fence else _HEADING.match(line)
        if heading is None:
            body.append(line)
            continue
        yield from _markdown_section(above, body, name, first, at)
        level = len(heading[1])
        above = [
            *(heading_above for heading_above in above if heading_above[0] < level),
            (level, (heading[2] or "").strip()),
        ]
        body, first = [], number
    yield from _markdown_section(above, body, name, first, at)


def _markdown_section(
    above: Sequence[tuple[int, str]], body: Sequence[str], name: str, line: int, at: float
) -> Iterator[ImportedMemory]:
    content = "\n".join(body).strip()
    if not content:
        return
    title = " > ".join(heading for _, heading in above if heading)
    text = f"{title}\n{content}" if title else content
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    yield ImportedMemory(
        key=f"{name}\0{digest}", text=text, kind="note", at=at, place=f"{name}:{line + 1}", subject=title or name
    )


def _after_front_matter(lines: Sequence[str]) -> int:
    if not lines or lines[0].strip() != "---":
        return 0
    return next((n + 1 for n, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), 0)


# The MCP memory server: a graph of entities and relations, one per line; older versions use one JSON document.


def read_mcp_memory(path: str) -> Iterator[ImportItem]:
    """Every observation of an entity and every relation, as a fact."""
    with open_regular_file(path) as file:
        if path.endswith(".json"):
            graph = as_object(json_document(file, path))
            rows = [("entity", as_object(item)) for item in as_list(graph.get("entities"))]
            rows += [("relation", as_object(item)) for item in as_list(graph.get("relations"))]
            for number, (kind, row) in enumerate(rows, 1):
                yield from _mcp_memory_items({**row, "type": kind}, f"{path}, {kind} {number}")
            return
        for number, row in json_lines(file, path):
            if isinstance(row, ImportProblem):
                yield row
            else:
                yield from _mcp_memory_items(as_object(row), f"{path}:{number}")


def _mcp_memory_items(row: dict[str, Any], location: str) -> Iterator[ImportItem]:
    match row.get("type"):
        case "entity" if text_of(row, "name"):
            name = text_of(row, "name")
            for observation in as_list(row.get("observations")):
                if isinstance(observation, str) and observation.strip():
                    yield ImportedMemory(
                        key=f"{name}\0{observation}", text=f"{name}: {observation}", place=location, subject=name
                    )
        case "relation" if text_of(row, "from") and text_of(row, "to"):
            source, target = text_of(row, "from"), text_of(row, "to")
            relation = text_of(row, "relationType").replace("_", " ") or "relates to"
            key = f"{source}\0{relation}\0{target}"
            yield ImportedMemory(key=key, text=f"{source} {relation} {target}", place=location, subject=source)
        case _:
            yield ImportProblem(location, "it is neither an entity with a name nor a relation")


# mem0: the result of `get_all`, `{"results": [{"id", "memory", ...}]}`, or the bare list.


def read_mem0(path: str) -> Iterator[ImportItem]:
    """Every memory, as a fact."""
    with open_regular_file(path) as file:
        for index, value in enumerate(json_elements(file, path)):
            rows = as_object(value).get("results", as_object(value).get("memories"))
            if rows is None:
                yield _mem0_memory(value, f"{path}, memory {index + 1}")
                continue
            if not isinstance(rows, list):
                raise BadInput(f"{path} has no list `results`.", remedy="Save the unmodified result of `get_all`.")
            yield from (_mem0_memory(row, f"{path}, memory {n}") for n, row in enumerate(as_list(rows), 1))


def _mem0_memory(row: object, location: str) -> ImportItem:
    text = text_of(row, "memory", "text", "data", "content")
    if not text.strip():
        return ImportProblem(location, "it has no field `memory`")
    fields = as_object(row)
    id_ = text_of(row, "id", "hash") or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    topics = [topic for topic in as_list(fields.get("categories")) if isinstance(topic, str)]
    at = to_epoch(fields.get("updated_at")) or to_epoch(fields.get("created_at"))
    return ImportedMemory(key=id_, text=text, at=at, place=id_, subject=", ".join(topics))


class Format(NamedTuple):
    """How one format is read.

    Attributes:
        default_path: where its program stores it, with `~` for the home directory; empty if there is no such path.
        description: what the user has to give.
    """

    read: Callable[[str], Iterator[ImportItem]]
    default_path: str
    description: str


FORMATS: Final[Mapping[str, Format]] = {
    "chatgpt": Format(read_chatgpt, "", "the zip of ChatGPT's export, or its conversations.json"),
    "claude-ai": Format(read_claude_ai, "", "the zip of Claude.ai's export, or its conversations.json"),
    "gemini": Format(read_gemini, "~/.gemini/tmp", "a session file of Gemini CLI, or the folder of them"),
    "mem0": Format(read_mem0, "", "the result of mem0's get_all, as JSON"),
    "claude-mem": Format(read_claude_mem, "~/.claude-mem/claude-mem.db", "claude-mem's database"),
    "mcp-memory": Format(read_mcp_memory, "", "the memory.jsonl of the MCP memory server"),
    "markdown": Format(read_markdown, "", "a folder of Markdown files, or one of them"),
    "ai-smartness": Format(read_ai_smartness, ".ai", "the folder .ai of a project"),
}
