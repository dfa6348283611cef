"""What `observe` does where nobody answers: the messages wait in the home's spool, like a hook's events.

They become the very events that the route would have made of them, so that a message which was delivered after all,
or is handed over again, is recognised. They are redacted before they are written: a file of the spool may wait long.
Loaded by name, for that case alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from filrouge.capture import inbox
from filrouge.capture.intake import cleaned
from filrouge.capture.programs import events_of
from filrouge.capture.redact_complete import redact_completely
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, CannotWrite, DaemonUnavailable
from filrouge.core.paths import SPOOL, inside
from filrouge.server.routes.turns import TurnsBody

# What `observe` does where nobody answers: the messages wait in the home's spool, like a hook's events.
#
# They become the very events that the route would have made of them, so that a message which was delivered after all,
# or is handed over again, is recognised. They are redacted before they are written: a file of the spool may wait
# long. Loaded by name, for that case alone.


def spool(home: str, body: Mapping[str, Any]) -> int:
    """Put the messages of a request on disk for good, and return how many there are.

    Raises:
        BadInput: one cannot be read.
        DaemonUnavailable: only the daemon knows which project a short name means.
        CannotWrite: the home cannot be written.
    """
    told = _read(body)
    where, messages = told.conversation(), told.said()
    if any(":" not in name for name in where.project):
        raise DaemonUnavailable(
            "The daemon does not answer, and it alone knows which project that is.",
            remedy="Hand the messages over again, or name the project by its id, so that they can wait.",
        )
    try:
        for event in events_of(where, messages, where.project, SystemClock().now()).events:
            inbox.append(inside(home, SPOOL), cleaned(event, redact_completely).to_json())
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error
    return len(messages)


def _read(body: Mapping[str, Any]) -> TurnsBody:
    try:
        return TurnsBody.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("body", *first["loc"]))
        raise BadInput(f"{where}: {first['msg']}.", remedy="See the API reference.") from None
