"""A prompt that only asks, greets or gives work tells nothing."""

from __future__ import annotations

import pytest

from filrouge.extraction.intents import states_anything


@pytest.mark.parametrize(
    "prompt",
    [
        "Which port does production listen on?",
        "pourquoi le build échoue ?",
        "Add a search bar to the contacts page.",
        "ajoute une barre de recherche",
        "can you look at the login form?",
        "hello!",
    ],
)
def test_what_asks_or_orders_tells_nothing(prompt: str) -> None:
    assert not states_anything(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "The port is 9443 now.",
        "Les factures partent le lundi.",
        "Look at the export. The cursor of the report was never closed, and the log grew.",
    ],
)
def test_what_states_something_tells_it(prompt: str) -> None:
    assert states_anything(prompt)
