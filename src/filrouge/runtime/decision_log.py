"""Decision records: what was decided about which ids, by whom and with which version, one line each at info.

They are the messages of the live feed, written down, so the log has a line for whatever the feed tells of a decision,
and none of them has a word of what was said. Why something was decided is in the journal under the number of its
entry, where reasons may quote and forgetting finds them; `filrouge why` shows it.
"""

from __future__ import annotations

import logging
from typing import Final

from filrouge.runtime.feed_messages import EventCaptured, EventSettled, Told

_LOG: Final = logging.getLogger("filrouge.decisions")
_PREFIX: Final = "ws:"


def log_decisions() -> bool:
    """Whether anybody writes them down."""
    return _LOG.isEnabledFor(logging.INFO)


def record(told: Told) -> None:
    """Write one down. What comes in and is understood as ever decides nothing: the ledger counts it."""
    if not log_decisions() or isinstance(told, EventCaptured):
        return
    if isinstance(told, EventSettled) and told.state in ("done", "forgotten"):
        return
    said = told.to_json()
    kind = str(said.pop("type")).removeprefix(_PREFIX)
    if "kind" in said:
        said["job"] = said.pop("kind")
    line = " ".join(f"{name}={_shown(value)}" for name, value in said.items() if value not in ("", None, ()))
    _LOG.info("%s %s", kind, line, extra={"decision": {"kind": kind, **said}})


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    text = str(value)
    return f'"{text}"' if " " in text else text
