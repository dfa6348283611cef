"""Replies of the daemon, their conversion to errors, and comparing versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from filrouge.core import errors
from filrouge.core.errors import DaemonUnavailable, FilrougeError, Unreadable


def parse_error(body: Any) -> FilrougeError:
    """Return the error for a problem document."""
    problem: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, dict) else {}
    name = str(problem.get("type", "")).rpartition(":")[2]
    return named_error(name, str(problem.get("detail") or "The daemon could not answer."), problem.get("remedy"))


def named_error(name: str, message: str, remedy: str | None) -> FilrougeError:
    """Return an error of the class with that name; `FilrougeError` if there is none."""
    error_class = getattr(errors, name, FilrougeError) if name in errors.__all__ else FilrougeError
    if error_class is Unreadable:  # the model's answer stays in the daemon
        return _unreadable(message, remedy)
    return error_class(message, remedy=remedy)


def _unreadable(message: str, remedy: str | None) -> Unreadable:
    error = Unreadable(message, text="", prompt="", operation="")
    error.remedy = error.remedy if remedy is None else remedy
    return error


VERSION_HEADER = "x-filrouge-version"
#: A longer answer is refused.
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class Reply(NamedTuple):
    """One answer."""

    status: int
    body: dict[str, Any]
    """The JSON object of the answer; empty if the answer is empty or is not an object."""
    version: str
    """The daemon's version; empty if the answer does not contain it."""
    value: Any = None
    """The JSON value of the answer, which may also be a list."""


def parse_reply(status: int, version: str, raw: bytes) -> Reply:
    """Build the reply from an answer's body.

    Raises:
        DaemonUnavailable: the body is not JSON, so the answer is not from our daemon.
    """
    try:
        value = json.loads(raw) if raw.strip() else None
    except (ValueError, RecursionError) as error:
        raise DaemonUnavailable("The server at the daemon's address is not Filrouge.") from error
    body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return Reply(status, body, version, value)


def is_newer(mine: str, theirs: str) -> bool:
    """Return True if `mine` is a later version; a version that cannot be parsed is neither newer nor older."""
    our_numbers, their_numbers = _numbers(mine), _numbers(theirs)
    return bool(our_numbers and their_numbers) and our_numbers > their_numbers


def _numbers(version: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in version.strip().removeprefix("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits[:9]))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers) or ((0,) if version.strip()[:1] == "0" else ())
