"""Asking what was discussed is recognised in three languages, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from filrouge.extraction.intents import Period, asked_period, period_bounds

ASKED: list[tuple[Period, str]] = [
    ("last_week", "what did we talk about last week?"),
    ("yesterday", "What were we discussing yesterday?"),
    ("all", "What have we talked about so far?"),
    ("today", "hey, can you remind me what we discussed today?"),
    ("recently", "What topics did we cover recently?"),
    ("week", "list the topics we discussed this week"),
    ("yesterday", "what did we work on yesterday"),
    ("last_month", "Do you remember what we talked about last month?"),
    ("all", "summarize our recent conversations"),
    ("week", "What did we do in the last few days?"),
    ("yesterday", "de quoi a-t-on parlé hier ?"),
    ("last_week", "De quoi avons-nous parlé la semaine dernière ?"),
    ("all", "on a parlé de quoi déjà ?"),
    ("today", "Rappelle-moi ce dont on a parlé aujourd’hui"),
    ("recently", "Quels sujets avons-nous abordés récemment ?"),
    ("week", "Qu’est-ce qu’on a fait cette semaine ?"),
    ("last_month", "sur quoi a-t-on travaillé le mois dernier ?"),
    ("all", "De quoi est-ce qu'on a parlé ?"),
    ("yesterday", "¿De qué hablamos ayer?"),
    ("last_week", "¿qué temas tratamos la semana pasada?"),
    ("today", "Recuérdame lo que hemos hablado hoy, por favor"),
    ("month", "¿Qué hicimos este mes?"),
]
OTHERS = [
    "",
    "What did we discuss about the cache?",
    "what did we talk about regarding the Drizzle migration last week?",
    "What did we decide about the port?",
    "What did we do wrong?",
    "What have we done?",
    "what does the report talk about?",
    "Fix the bug that we discussed yesterday in the parser",
    "De quoi a-t-on besoin pour déployer hier ?",
    "De quoi avons-nous parlé à propos du cache ?",
    "Qu'est-ce qu'on a fait du cache ?",
    "¿De qué color es el botón?",
    "¿De qué hablamos sobre la base de datos?",
    "what did we talk about last week? " + "and " * 60,
    "yesterday",
]


@pytest.mark.parametrize(("period", "prompt"), ASKED)
def test_asking_back_is_recognised_with_its_time(period: Period, prompt: str) -> None:
    assert asked_period(prompt) == period


@pytest.mark.parametrize("prompt", OTHERS)
def test_a_prompt_with_a_subject_of_its_own_is_left_to_recall(prompt: str) -> None:
    assert asked_period(prompt) is None


def test_a_time_is_a_span_of_days_in_the_zone_of_now() -> None:
    friday = datetime(2026, 5, 1, 15, 30, tzinfo=UTC)
    spans = {
        name: [at and f"{at:%m-%d %H:%M}" for at in period_bounds(name, friday)] for name in ("today", "yesterday")
    }
    assert spans == {"today": ["05-01 00:00", None], "yesterday": ["04-30 00:00", "05-01 00:00"]}
    assert [at and f"{at:%m-%d %H:%M}" for at in period_bounds("last_week", friday)] == ["04-17 15:30", "04-27 00:00"]
    assert [at and f"{at:%m-%d %H:%M}" for at in period_bounds("last_month", friday)][1] == "05-01 00:00"
    assert period_bounds("all", friday) == (None, None)
