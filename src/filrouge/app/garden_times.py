"""When the garden is tended without being asked: while nobody works, and at an hour of the day.

At idle a run begins once nothing was captured for some time, there is something to do, and the last run is long enough
ago; where there was nothing to do it is not looked again before something else is captured. At the hour of the
settings, in the zone of this machine, a run begins once a day, and a daemon that slept through that hour catches up on
it within half a day.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from filrouge.app.every import Every
from filrouge.app.gardening import begin
from filrouge.app.parts import Parts
from filrouge.clock import from_text
from filrouge.config import Settings
from filrouge.errors import Busy
from filrouge.model.garden import Garden, Occasion
from filrouge.ports import Tx
from filrouge.store.gardens import Gardens

_LOOK_SECONDS: Final = 60.0
_LATE: Final = timedelta(hours=12)


def garden_watch(parts: Parts) -> Every:
    """Looks once a minute whether it is time."""
    failed = "it could not be looked whether the garden is to be tended"
    return Every(_LOOK_SECONDS, Watch(parts).look, name="garden", failed=failed)


class Watch:
    """Begins runs in their time. `look` is called again and again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._nothing_since: datetime | None = None

    def look(self) -> str | None:
        """Begin a run if it is time; its id, or None."""
        parts = self._parts
        occasion, captured = parts.readers.here(lambda tx: self._occasion(parts, tx))
        if occasion is None:
            return None
        try:
            begun = begin(parts, occasion)
        except Busy:  # somebody began one by hand a moment ago
            return None
        self._nothing_since = captured if begun.garden_id is None else None
        return begun.garden_id

    def _occasion(self, parts: Parts, tx: Tx) -> tuple[Occasion | None, datetime | None]:
        """What a run would begin for now, and when something was captured last."""
        last = next(iter(Gardens(tx).newest(1)), None)
        row = tx.one("events.last")
        captured = from_text(row["at"]) if row and row["at"] else None
        now, settings = parts.clock.now(), parts.settings(tx)
        if Gardens(tx).running() is not None or captured is None or captured == self._nothing_since:
            return None, captured
        if is_hour(settings, last, now):
            return "schedule", captured
        return ("idle" if is_idle(settings, last, captured, now) else None), captured


def is_idle(settings: Settings, last: Garden | None, captured: datetime, now: datetime) -> bool:
    """True once nothing was captured for some time, and the last run is long enough ago."""
    rested = last is None or now - last.started_at >= timedelta(hours=settings.garden_rest_hours)
    quiet = now - captured >= timedelta(minutes=settings.garden_idle_minutes)
    return settings.garden_idle_minutes > 0 and rested and quiet


def is_hour(settings: Settings, last: Garden | None, now: datetime) -> bool:
    """True from the hour of the settings on, until a run was begun since, or half a day is over."""
    if settings.garden_hour < 0:
        return False
    here = now.astimezone()
    due = here.replace(hour=settings.garden_hour, minute=0, second=0, microsecond=0)
    if due > here:
        due -= timedelta(days=1)
    return here - due < _LATE and (last is None or last.started_at < due)
