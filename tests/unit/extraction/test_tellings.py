"""What a statement is about, without the words that only say that it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.extraction.summaries import title_of
from filrouge.extraction.vocabulary import subject_of


@pytest.mark.parametrize(
    ("told", "title"),
    [
        ("For the API we decided on Drizzle over Prisma, because of the edge.", "API: Drizzle over Prisma"),
        ("Heads-up: we moved from port 8443 to 9443 for production.", "Port 8443 to 9443 for production"),
        ("Pour les PDF on a choisi Typst plutôt que LaTeX : rapide, un seul binaire.", "PDF : Typst plutôt que LaTeX"),
        ("Finalement on revient à LaTeX pour les PDF : le comptable en a besoin.", "LaTeX pour les PDF"),
        ("Nous avons retenu Hetzner pour l'hébergement", "Hetzner pour l'hébergement"),
        ("We've decided to go with Redis for the queue", "Redis for the queue"),
        ("Rappelle-toi que la prod est derrière Caddy.", "La prod est derrière Caddy"),
        ("Règle pour toi : toujours faire un plan avant d'implémenter", "Toujours faire un plan avant d'implémenter"),
        ("In the tests we use pytest, not unittest", "Tests: pytest, not unittest"),
    ],
)  # fmt: skip
def test_a_title_says_what_a_statement_is_about(told: str, title: str) -> None:
    assert title_of(told) == title


@pytest.mark.parametrize("asked", ["Fix the login form", "Why do we use Redis?", "Ajouter un export CSV", "We wait"])
def test_what_is_no_telling_stays_as_it_is(asked: str) -> None:
    assert subject_of(asked) == asked


@given(st.text(max_size=200))
def test_no_word_is_made_up(text: str) -> None:
    assert set(subject_of(text).replace(":", " ").split()) <= set(text.replace(":", " ").split())
