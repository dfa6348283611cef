"""Replies of a daemon or a hub, their conversion to errors, and comparing versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from filrouge.core import errors
from filrouge.core.errors import DaemonUnavailable, FilrougeError, Unreadable


class Peer(NamedTuple):
    """The server that a client asks, as its errors name it."""

    name: str
    error: type[FilrougeError]
    """What is raised if it does not answer."""
    address: str
    """Where its address is set."""
    remedy: str | None = None
    """What to do if it does not answer; None = the error's own."""

    def unavailable(self, message: str) -> FilrougeError:
        """Return the error that says why there is no answer."""
        return self.error(message, remedy=self.remedy)


DAEMON: Final = Peer("daemon", DaemonUnavailable, "FILROUGE_URL")


def parse_error(body: Any, peer: Peer = DAEMON) -> FilrougeError:
    """Return the error for a problem document."""
    problem: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, dict) else {}
    name = str(problem.get("type", "")).rpartition(":")[2]
    remedy = problem.get("remedy")
    message = str(problem.get("detail") or f"The {peer.name} could not answer.")
    return named_error(name, message, remedy if isinstance(remedy, str) else None)


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
    """The server's version; empty if the answer does not contain it."""
    value: Any = None
    """The JSON value of the answer, which may also be a list."""


def parse_reply(status: int, version: str, raw: bytes, peer: Peer = DAEMON) -> Reply:
    """Build the reply from an answer's body.

    Raises:
        DaemonUnavailable: the body is not JSON, so the answer is not from our daemon; for another peer, its error.
    """
    try:
        value = json.loads(raw) if raw.strip() else None
    except (ValueError, RecursionError) as error:
        raise foreign_server(peer, status) from error
    body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return Reply(status, body, version, value)


def foreign_server(peer: Peer, status: int) -> FilrougeError:
    """Return the error for an answer that is not the peer's: another server has its address, or stands before it."""
    return peer.unavailable(f"The server at the {peer.name}'s address is not a Filrouge {peer.name} (status {status}).")


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
