"""Helpers for the transcript readers: JSON objects, timestamps, and removing the host's reminders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from filrouge.hosts.reading import as_object

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line that holds one; other lines are skipped."""
    for line in lines:
        try:
            value = as_object(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if value:
            yield value


def epoch(value: Any) -> float:
    """Convert an ISO 8601 text to seconds since 1970 (UTC if it has no zone); 0.0 for anything else."""
    try:
        at = datetime.fromisoformat(value)
        return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


def without_reminders(text: str) -> str:
    """Return the text without the reminders that the host inserted for the model only."""
    if "<system-reminder>" not in text:
        return text
    return re.sub(r"\n{3,}", "\n\n", _REMINDER.sub("", text)).strip()
