"""What the daemon answered, over whatever way it was reached, and whose version is the later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from filrouge.core import errors
from filrouge.core.errors import DaemonUnavailable, FilrougeError, Unreadable

# What a daemon refused, as the error that it was there.
#
# A problem document (RFC 9457) names its class in `type`. A name that this version does not know, of a daemon that is
# newer, becomes the root of the tree with the same words.


def error_of(body: Any) -> FilrougeError:
    """The error that a problem document stands for."""
    problem: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, dict) else {}
    name = str(problem.get("type", "")).rpartition(":")[2]
    return named_error(name, str(problem.get("detail") or "The daemon could not answer."), problem.get("remedy"))


def named_error(name: str, message: str, remedy: str | None) -> FilrougeError:
    """The error of that name."""
    kind = getattr(errors, name, FilrougeError) if name in errors.__all__ else FilrougeError
    if kind is Unreadable:  # what the model said stays where it was said
        return _unreadable(message, remedy)
    return kind(message, remedy=remedy)


def _unreadable(message: str, remedy: str | None) -> Unreadable:
    error = Unreadable(message, text="", prompt="", operation="")
    error.remedy = error.remedy if remedy is None else remedy
    return error


VERSION_HEADER = "x-filrouge-version"


class Reply(NamedTuple):
    """One answer."""

    status: int
    body: dict[str, Any]
    """The JSON object of the answer; empty where the answer is none or is not an object."""
    version: str
    """The daemon's version, or empty where it does not tell."""
    value: Any = None
    """The whole JSON value of the answer: some routes answer a list."""


def reply_of(status: int, version: str, raw: bytes) -> Reply:
    """The reply with that body.

    Raises:
        DaemonUnavailable: the body is no JSON, so it is not our daemon that answered.
    """
    try:
        value = json.loads(raw) if raw.strip() else None
    except (ValueError, RecursionError) as error:
        raise DaemonUnavailable("What answers at the daemon's address is not Filrouge.") from error
    body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return Reply(status, body, version, value)


def is_newer(mine: str, theirs: str) -> bool:
    """True where `mine` is a later version; one that cannot be read is neither older nor newer."""
    own, other = _numbers(mine), _numbers(theirs)
    return bool(own and other) and own > other


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
