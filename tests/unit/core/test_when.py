"""Relative time in three languages, at the very edges of its units."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.clock import Language, format_long_date, relative_date

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "en", "fr", "es"),
    [
        (-5, "just now", "à l'instant", "ahora mismo"),
        (0, "just now", "à l'instant", "ahora mismo"),
        (MINUTE - 1, "just now", "à l'instant", "ahora mismo"),
        (MINUTE, "1 minute ago", "il y a 1 minute", "hace 1 minuto"),
        (2 * MINUTE, "2 minutes ago", "il y a 2 minutes", "hace 2 minutos"),
        (HOUR - 1, "59 minutes ago", "il y a 59 minutes", "hace 59 minutos"),
        (HOUR, "1 hour ago", "il y a 1 heure", "hace 1 hora"),
        (DAY - 1, "23 hours ago", "il y a 23 heures", "hace 23 horas"),
        (DAY, "1 day ago", "il y a 1 jour", "hace 1 día"),
        (3 * DAY, "3 days ago", "il y a 3 jours", "hace 3 días"),
        (7 * DAY - 1, "6 days ago", "il y a 6 jours", "hace 6 días"),
        (7 * DAY, "1 week ago", "il y a 1 semaine", "hace 1 semana"),
        (14 * DAY - 1, "1 week ago", "il y a 1 semaine", "hace 1 semana"),
        (14 * DAY, "2 weeks ago", "il y a 2 semaines", "hace 2 semanas"),
        (30 * DAY - 1, "4 weeks ago", "il y a 4 semaines", "hace 4 semanas"),
        (30 * DAY, "March 1, 2026", "1er mars 2026", "1 de marzo de 2026"),
        (31 * DAY, "February 28, 2026", "28 février 2026", "28 de febrero de 2026"),
    ],
)
def test_each_unit_begins_at_its_own_second(seconds: int, en: str, fr: str, es: str) -> None:
    at = NOW - timedelta(seconds=seconds)
    assert (relative_date(at, NOW, "en"), relative_date(at, NOW, "fr"), relative_date(at, NOW, "es")) == (en, fr, es)


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["en", "fr", "es"]))
def test_a_long_date_names_day_and_year_on_every_platform(at: datetime, language: Language) -> None:
    text = format_long_date(at, language)
    assert str(at.year) in text
    assert ("1er" in text) == (language == "fr" and at.day == 1)
    assert "0" + str(at.day) not in text.replace(str(at.year), "")


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=29)), st.sampled_from(["en", "fr", "es"]))
def test_the_zone_of_a_moment_changes_nothing(back: timedelta, language: Language) -> None:
    at = NOW - back
    assert relative_date(at.astimezone(), NOW, language) == relative_date(at, NOW, language)
