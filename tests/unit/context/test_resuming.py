"""A prompt that goes back to work which was put down is told from one that asks about it or begins something else."""

from __future__ import annotations

import pytest

from filrouge.extraction.intents import is_resuming


@pytest.mark.parametrize(
    "prompt",
    [
        "let's get back to the importer",
        "Where were we with the rate limiter?",
        "Back to the login page.",
        "can we pick up where we left off on the billing tests",
        "Continue with the migration please",
        "On reprend le cache des images",
        "on en était où avec la facturation ?",
        "Revenons à l'import des contacts.",
        "qu'est-ce qu'il reste à faire sur l'export ?",
        "Retomemos lo del buscador",
        "¿Dónde nos quedamos con las facturas?",
        "seguimos con la pantalla de pagos",
    ],
)
def test_going_back_to_work_is_recognised(prompt: str) -> None:
    assert is_resuming(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "What port does production listen on?",
        "Add a back button to the login page.",
        "How do I resume a paused download in curl?",
        "Why does the continuous integration fail?",
        "Quel est le port de la production ?",
        "Ajoute un test pour la suite de tests du panier.",
        "¿Qué puerto usa producción?",
        "Haz que el botón vuelva a la lista.",
    ],
)
def test_a_question_or_other_work_is_not(prompt: str) -> None:
    assert not is_resuming(prompt)
