"""What the applications of the daemon and of the hub share: no telemetry, and the error for an invalid request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fastapi.exceptions import RequestValidationError

from filrouge.core.choices import REMEDY, invalid_choice
from filrouge.core.errors import BadInput

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

#: FastAPI passes requests to OpenTelemetry if the environment or the host program has set it up; a FastAPI version
#: without the parameter ignores it.
NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip


def invalid_request_error(error: RequestValidationError, *, remedy: str, quotes: bool) -> BadInput:
    """Return the error that names the first invalid field of a request.

    Args:
        remedy: where the fields are described.
        quotes: a wrong choice is quoted, and the valid ones are named, the closest first. Without it no value is
            quoted: it may be the text of a memory.
    """
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if quotes and first["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return BadInput(invalid_choice(where, first["input"], choices), remedy=REMEDY)
    return BadInput(f"{where}: {first['msg']}.", remedy=remedy)
