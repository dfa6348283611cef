"""Spooling for `observe`: when no daemon answers, the messages wait on disk in the home's spool.

The spool receives the same events that the route would have created, so a message that was delivered after all, or is
sent again, is recognised as a duplicate. Events are redacted before they are written, because a spooled file can wait
for a long time. The module is imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from filrouge.capture import inbox
from filrouge.capture.intake import clean_event, redact_completely
from filrouge.capture.programs import events_of
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, CannotWrite, DaemonUnavailable
from filrouge.core.paths import SPOOL, inside
from filrouge.server.routes.turns import TurnsBody


def spool(home: str, body: Mapping[str, Any]) -> int:
    """Write the messages of a request to the spool and return how many there are.

    Raises:
        BadInput: a message is invalid.
        DaemonUnavailable: the project is given by a short name, which only the daemon can resolve.
        CannotWrite: the home is not writable.
    """
    turns = _parse(body)
    conversation, messages = turns.conversation(), turns.to_messages()
    if any(":" not in name for name in conversation.project):
        raise DaemonUnavailable(
            "The daemon does not answer, and only the daemon can tell which project this name means.",
            remedy="Send the messages again later, or name the project by its id, so that they can be spooled.",
        )
    try:
        for event in events_of(conversation, messages, conversation.project, SystemClock().now()).events:
            inbox.append_event(inside(home, SPOOL), clean_event(event, redact_completely).to_json())
    except OSError as error:
        raise CannotWrite(f"The home {home} cannot be written: {error.strerror}.") from error
    return len(messages)


def _parse(body: Mapping[str, Any]) -> TurnsBody:
    try:
        return TurnsBody.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("body", *first["loc"]))
        raise BadInput(f"{where}: {first['msg']}.", remedy="See the API reference.") from None
