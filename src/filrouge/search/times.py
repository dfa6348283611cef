"""The time a question is about: months, years, dates and words like "yesterday" or "la semaine dernière".

A question's time raises what was said then; it never hides anything else, because people misremember dates and
tell things later. Each expression becomes a span of days, read from the day on which the question is asked.
English and French.

Pure: no database, no file.
"""

from __future__ import annotations

import calendar
import unicodedata
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from filrouge.core import lazy_re as re

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan janvier janv",
            "february feb fevrier fevr",
            "march mar mars",
            "april apr avril avr",
            "may mai",
            "june jun juin",
            "july jul juillet juil",
            "august aug aout",
            "september sep sept septembre",
            "october oct octobre",
            "november nov novembre",
            "december dec decembre",
        ),
        start=1,
    )
    for name in names.split()
}
_NAMES: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
#: "may", "mar" and "mars" are words, too: alone they need a preposition or a number beside them.
_MONTH: Final = re.compile(
    rf"(?:\b(?:in|of|on|during|since|until|before|after|en|de|du|le|last|this|next|debut|fin|mi)[ -]+)?"
    rf"(?:\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?(?: of)? )?\b(?P<month>{_NAMES})\b\.?"
    rf"(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,? (?P<year>(?:19|20)\d\d))?"
)
_DOUBTFUL: Final = frozenset("may march mar mars mai jan sept dec oct nov jun jul apr".split())
_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_YEAR: Final = re.compile(r"\b(?:in|of|during|since|en|de) ((?:19|20)\d\d)\b")
_AGO: Final = re.compile(
    r"\b(?:(\d{1,3}|an?|one|two|three|four|five|six) (day|week|month|year)s? ago"
    r"|il y a (\d{1,3}|une?|deux|trois|quatre|cinq|six) (jour|semaine|mois|an)s?)\b"
)
_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("a an one un une", "two deux", "three trois", "four quatre", "five cinq", "six"), start=1
    )
    for word in words.split()
}
_UNIT_DAYS: Final = {"day": 1, "jour": 1, "week": 7, "semaine": 7, "month": 30, "mois": 30, "year": 365, "an": 365}
_FIXED: Final = (
    (re.compile(r"\b(?:today|this morning|this afternoon|tonight|aujourd'?hui|ce matin|ce soir)\b"), 0, 0),
    (re.compile(r"\b(?:yesterday|last night|hier)\b"), 1, 1),
    (re.compile(r"\b(?:the other day|l'autre jour|recently|recemment|lately|dernierement)\b"), 10, 1),
    (re.compile(r"\b(?:last week|past week|la semaine derniere|la semaine passee)\b"), 14, 5),
    (re.compile(r"\b(?:this week|cette semaine)\b"), 7, 0),
    (re.compile(r"\b(?:last month|past month|le mois dernier|le mois passe)\b"), 62, 25),
    (re.compile(r"\b(?:this month|ce mois-ci|ce mois)\b"), 31, 0),
    (re.compile(r"\b(?:last year|l'annee derniere|l'an dernier|l'an passe)\b"), 730, 180),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Days from `first` to `last`, both included."""

    first: date
    last: date

    def closeness(self, day: date) -> float:
        """1 within the span, falling to 0 over a month outside it: things are told before and after they happen."""
        away = max((self.first - day).days, (day - self.last).days, 0)
        return max(0.0, 1.0 - away / 31) if away else 1.0


def spans(question: str, today: date) -> tuple[Span, ...]:
    """The spans a question names."""
    plain = _plain(question)
    found = [Span(first=day, last=day) for match in _ISO.finditer(plain) if (day := _day(*match.groups()))]
    found += [span for match in _MONTH.finditer(plain) if (span := _month(match, today))]
    if not found:
        found += [Span(first=date(int(y), 1, 1), last=date(int(y), 12, 31)) for y in _YEAR.findall(plain)]
    for match in _AGO.finditer(plain):
        count, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
        days = _UNIT_DAYS[unit] * (_COUNTS.get(count) or int(count))
        margin = max(1, days // 4) if _UNIT_DAYS[unit] > 1 else 0
        found.append(Span(first=_before(today, days + margin), last=_before(today, days - margin)))
    for pattern, first, last in _FIXED:
        if pattern.search(plain):
            found.append(Span(first=_before(today, first), last=_before(today, last)))
    return tuple(found)


def closeness(named: tuple[Span, ...], day: date) -> float:
    """How near a day is to the nearest span, in [0, 1]; 0 where the question names no time."""
    return max((span.closeness(day) for span in named), default=0.0)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
    return "".join(char for char in folded if not unicodedata.combining(char))


def _month(match: re.Match[str], today: date) -> Span | None:
    name = match["month"]
    number = _MONTHS[name]
    day = match["day"] or match["after"]
    if name in _DOUBTFUL and not (day or match["year"] or match[0].strip(" .") != name):
        return None
    year = int(match["year"]) if match["year"] else today.year - (number > today.month)
    if day and 1 <= int(day) <= 31:
        exact = _day(year, number, day)
        return Span(first=exact, last=exact) if exact else None
    return Span(first=date(year, number, 1), last=date(year, number, calendar.monthrange(year, number)[1]))


def _day(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _before(today: date, days: int) -> date:
    try:
        return today - timedelta(days=days)
    except OverflowError:
        return date.min
