"""The log: one line per record, with rotation, and without anything that users or agents said.

More people read a log than the memory, because logs are pasted into reports. So it holds only ids, counts and
Filrouge's own sentences. An exception is logged by its type and the places in the code; its message may quote the data
that caused it. Only messages of Filrouge's own errors are logged, because they are written for users.

The setting `log_format` chooses between plain lines and JSON lines (docs/reference/logs.md).
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Generator, Iterable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Any, Final, Literal

from filrouge.core.errors import FilrougeError, NotFound, StoreError
from filrouge.core.paths import LOG, inside, open_own
from filrouge.core.text import in_json, visible

Form = Literal["text", "json"]
LOG_BYTES: Final = 2_000_000
LOG_FILES: Final = 3
#: The record attribute that holds a decision.
DECISION: Final = "decision"
_POLL_SECONDS: Final = 0.2
_MOST_CAUSES: Final = 5


class PlainLines(logging.Formatter):
    """Formats as `2026-05-02T10:00:00.123Z INFO filrouge.daemon: filrouge 1.0 starting, pid 4711`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        return f"{_time(record)} {record.levelname} {record.name}: {_one_line(' | '.join(_message_and_error(record)))}"


class JsonLines(logging.Formatter):
    """Formats the same as a JSON object, with the keys `decision` and `error` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        message, *error = _message_and_error(record)
        line: dict[str, Any] = {
            "time": _time(record), "level": record.levelname, "logger": record.name, "message": message,
        }  # fmt: skip
        decision = getattr(record, DECISION, None)
        line |= {DECISION: decision} if decision else {}
        return in_json(json.dumps(line | ({"error": error[0]} if error else {}), ensure_ascii=False))


class _LogFile(RotatingFileHandler):
    """A log file that is opened without following a symbolic link."""

    def _open(self) -> TextIOWrapper:
        handle = open_own(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return open(handle, "a", encoding=self.encoding, errors=self.errors)


def log_to_file(home: str, form: Form = "text") -> None:
    """Write the log to the home, with rotation; a new file gets mode 0600."""
    handler = _LogFile(inside(home, LOG), maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # lower levels log request URLs with their queries


def describe_exception(error: BaseException) -> str:
    """Describe an exception and its causes in one line.

    Each is given by its type and code places, with the message only for Filrouge's own errors.
    """
    links, one = list[str](), error
    while len(links) < _MOST_CAUSES:
        links.append(f"{_kind(one)} at {_traceback_lines(one)}")
        cause = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if cause is None:
            break
        one = cause
    return " <- ".join(links)


def last_lines(home: str, number: int) -> list[str]:
    """Return the newest lines, oldest first, including rotated files.

    Raises:
        NotFound: there is no log yet.
    """
    path = inside(home, LOG)
    files = [path, *(f"{path}.{n}" for n in range(1, LOG_FILES + 1))]
    if not os.path.exists(path):
        raise NotFound(f"There is no log in {home} yet.", remedy="The daemon writes it: `filrouge daemon start`.")
    found = deque[str]()
    for name in files:
        if len(found) >= number or not os.path.exists(name):
            break
        with open(name, encoding="utf-8", errors="replace") as file:
            newest = deque((line.rstrip("\n") for line in file), maxlen=number - len(found))
        found.extendleft(reversed(newest))
    return list(found)


def new_lines(home: str) -> Generator[str | None]:
    """Yield every line written from now on, and None for each poll without a new line; follows log rotation."""
    path, pending = inside(home, LOG), ""
    file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 (it is replaced after a rotation)
    file.seek(0, os.SEEK_END)
    try:
        while True:
            pending += file.read()
            *whole, pending = pending.split("\n")
            yield from whole or [None]
            if whole:
                continue
            if os.path.exists(path) and os.stat(path).st_ino != os.fstat(file.fileno()).st_ino:
                file.close()
                file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115
                continue
            time.sleep(_POLL_SECONDS)
    finally:
        file.close()


def parsed(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Parse lines of either format; any other line becomes a record with only a message."""
    return [_parsed(line) for line in lines]


def _parsed(line: str) -> dict[str, Any]:
    if line.startswith("{"):
        try:
            return dict(json.loads(line))
        except ValueError:
            pass
    head, colon, message = line.partition(": ")
    words = head.split(" ")
    if not colon or len(words) != 3:
        return {"time": None, "level": None, "logger": None, "message": line}
    return {"time": words[0], "level": words[1], "logger": words[2], "message": message}


def _message_and_error(record: logging.LogRecord) -> list[str]:
    """Return the message, and the exception if there is one."""
    error = record.exc_info[1] if record.exc_info else None
    return [record.getMessage(), *([describe_exception(error)] if error else [])]


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03}Z"


def _one_line(text: str) -> str:
    return visible(text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r"))


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, FilrougeError) and type(error) is not StoreError:  # StoreError repeats the engine's message
        return f"{name} ({error.message})"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name} ({os.strerror(error.errno)})"
    return name


def _traceback_lines(error: BaseException) -> str:
    """Return the code places of the traceback, innermost first."""
    places, step = list[str](), error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        folder, name = os.path.split(code.co_filename)
        places.append(f"{os.path.basename(folder)}/{name}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return ", ".join(reversed(places)) or "an unknown place"
