"""What the daemon answered, over whatever way it was reached."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

from filrouge.errors import DaemonUnavailable

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
