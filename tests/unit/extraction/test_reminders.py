"""A reminder is said where the prompt gives occasion for it, and nowhere else."""

from __future__ import annotations

import pytest

from filrouge.extraction.intents import REMINDER_TEXTS, find_reminders
from filrouge.extraction.models import REMINDERS, Reminder

PLAN, CAUSE, CHOICES = REMINDERS


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Implement the refund endpoint for the orders API.", (PLAN,)),
        ("Can you migrate the store to PostgreSQL?", (PLAN,)),
        ("Ajoute une page d'export au tableau de bord.", (PLAN,)),
        ("Implementa la integración con Stripe.", (PLAN,)),
        ("Fix the flaky login test, please.", (CAUSE,)),
        ("Corrige l'erreur 500 du panier.", (CAUSE,)),
        ("Arregla el fallo del inicio de sesión.", (CAUSE,)),
        ("Which queue should we use for the mails?", (CHOICES,)),
        ("Quelle bibliothèque utiliser pour les graphiques ?", (CHOICES,)),
        ("¿Cual base de datos es mejor para esto?", (CHOICES,)),
        ("Refactor the importer. What is the best way to test it?", (PLAN, CHOICES)),
        ("merci, à demain !", ()),
        ("What does this function return?", ()),
        ("I fixed the login test yesterday.", ()),
        ("<task-notification>Implement the plan.</task-notification>", ()),
    ],
)
def test_a_prompt_gives_occasion_for(prompt: str, expected: tuple[Reminder, ...]) -> None:
    assert find_reminders(prompt, REMINDERS) == expected
    assert find_reminders(prompt, ()) == ()


def test_only_what_was_switched_on_is_said() -> None:
    assert find_reminders("Refactor the importer. What is the best way to test it?", [CHOICES]) == (CHOICES,)


def test_every_reminder_has_its_words_in_every_language() -> None:
    assert {name: sorted(words) for name, words in REMINDER_TEXTS.items()} == {
        name: ["en", "es", "fr"] for name in REMINDERS
    }
    assert max(len(text) for words in REMINDER_TEXTS.values() for text in words.values()) <= 120
