"""Time, ULIDs, and relative dates in English, French and Spanish.

Code that needs the time takes a `Clock` as an argument. Every datetime is aware and in UTC; a naive one is a
programming error. Ids are lower-case ULIDs (48 bits of milliseconds, 80 random bits, Crockford base 32), so sorting by
id sorts by creation time.

`relative_date` prints just now, minutes, hours (under a day), days (under a week), weeks (under 30 days, plural from
14 days), then a long date with the year.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, date, datetime, timedelta
from typing import Literal, Protocol

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class Clock(Protocol):
    """Source of the current time. `testing.ManualClock` is the fake."""

    def now(self) -> datetime:
        """Return the current time, aware and in UTC."""
        ...


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the current time, aware and in UTC."""
        return datetime.now(UTC)


def new_id(at: datetime) -> str:
    """Return a new 26-character ULID with the timestamp `at`."""
    number = (int(at.timestamp() * 1000) << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))


def to_text(at: datetime) -> str:
    """Format as ISO 8601 in UTC with microseconds and a `Z`; text order equals time order.

    Raises:
        ValueError: `at` is naive.
    """
    if at.tzinfo is None:
        raise ValueError("a stored datetime must be aware")
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def from_text(text: str) -> datetime:
    """Parse the output of `to_text` or any ISO 8601 text; text without a zone is read as UTC."""
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def text_or_none(at: datetime | None) -> str | None:
    """Return `to_text` of a time, and None for none."""
    return to_text(at) if at else None


def time_or_none(text: str | None) -> datetime | None:
    """Return `from_text` of a text, and None for none."""
    return from_text(text) if text else None


def from_epoch(seconds: float) -> datetime:
    """Convert seconds since 1970 to a UTC datetime."""
    return datetime.fromtimestamp(seconds, UTC)


def monotonic() -> float:
    """Return monotonic seconds, for measuring durations."""
    return time.monotonic()


def add_seconds(at: datetime, seconds: float) -> datetime:
    """Return `at` plus `seconds`."""
    return at + timedelta(seconds=seconds)


def next_day(at: datetime) -> datetime:
    """Return midnight UTC at the end of the day of `at`."""
    today = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=1)


Language = Literal["en", "fr", "es"]

_UNITS = {
    "en": {"minute": "minute", "hour": "hour", "day": "day", "week": "week"},
    "fr": {"minute": "minute", "hour": "heure", "day": "jour", "week": "semaine"},
    "es": {"minute": "minuto", "hour": "hora", "day": "día", "week": "semana"},
}
_NOW = {"en": "just now", "fr": "à l'instant", "es": "ahora mismo"}
_PHRASE = {"en": "{n} {unit} ago", "fr": "il y a {n} {unit}", "es": "hace {n} {unit}"}
_DATE = {"en": "{month} {day}, {year}", "fr": "{day} {month} {year}", "es": "{day} de {month} de {year}"}
_MONTHS = {
    "en": [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
    "fr": [
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ],
    "es": [
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ],
}

_SHORT_MONTHS: dict[Language, str] = {
    "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "fr": "janv févr mars avr mai juin juil août sept oct nov déc",
    "es": "ene feb mar abr may jun jul ago sept oct nov dic",
}
_DATE_LENGTH = len("2026-05-01")


def relative_date(at: datetime, now: datetime, language: Language) -> str:
    """Describe how long ago `at` was; a time in the future counts as now."""
    seconds = (now - at).total_seconds()
    for limit, size, unit in ((60, 0, ""), (3600, 60, "minute"), (86400, 3600, "hour"), (604800, 86400, "day")):
        if seconds < limit:
            return _NOW[language] if not size else _with_plural(int(seconds // size), unit, language)
    if seconds < 30 * 86400:
        return _with_plural(int(seconds // 604800), "week", language)
    return format_long_date(at, language)


def format_long_date(at: datetime, language: Language) -> str:
    """Return a date such as `28 février 2026`."""
    day = "1er" if language == "fr" and at.day == 1 else str(at.day)
    return _DATE[language].format(day=day, month=_MONTHS[language][at.month - 1], year=at.year)


def short_month(at: date, language: Language) -> str:
    """Return the month of a day in short: `oct`."""
    return _SHORT_MONTHS[language].split()[at.month - 1]


def format_day_and_time(at: datetime, language: Language) -> str:
    """Return day and time without the year, in the time zone of `at`: `5 oct 14h32`, `5 Oct 14:32`."""
    return f"{at.day} {short_month(at, language)} {at:%H}{'h' if language == 'fr' else ':'}{at:%M}"


def parse_datetime(text: str, *, end: bool = False) -> datetime:
    """Parse a day or an ISO 8601 date and time; without a zone it is read in the local time zone.

    Args:
        end: read a day as its end (the start of the next day) instead of its start.

    Raises:
        ValueError: the text is neither, or the date is out of range.
    """
    at = datetime.fromisoformat(text.strip())
    if len(text.strip()) <= _DATE_LENGTH and end:
        at += timedelta(days=1)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is out of range") from None


def _with_plural(n: int, unit: str, language: Language) -> str:
    word = _UNITS[language][unit] + ("s" if n > 1 else "")
    return _PHRASE[language].format(n=n, unit=word)
