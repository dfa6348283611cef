"""What repeats something that ended is told by its words and by when it was said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from filrouge.search.ranking import EndedMemory, is_outdated, topic_words

END = datetime(2026, 3, 1, tzinfo=UTC)
BEFORE, AFTER = END - timedelta(days=1), END + timedelta(days=1)
PORT = EndedMemory(words=topic_words("Production listens on port 8443, behind Caddy."), at=END)
TYPESETTING = EndedMemory(words=topic_words("Pour les PDF on a choisi Typst plutôt que LaTeX."), at=END)


@pytest.mark.parametrize(
    "said",
    [
        "Noted: production is on port 8443 behind Caddy.",
        "C'est noté : la production écoute sur le port 8443, derrière Caddy.",
        "Port 8443.",
        "We looked at the logs of the night and at the three workers; production still listens on port 8443.",
    ],
)
def test_what_says_the_same_before_the_end_is_outdated_in_any_language_and_length(said: str) -> None:
    assert is_outdated(topic_words(said), BEFORE, [TYPESETTING, PORT])


@pytest.mark.parametrize("at", [END, AFTER])
def test_what_ends_it_and_what_is_said_afterwards_is_not(at: datetime) -> None:
    assert not is_outdated(topic_words("Production moved from port 8443 to 9443, Caddy too."), at, [PORT])


@pytest.mark.parametrize(
    "said",
    ["The staging database is Postgres 16.", "Caddy", "Les factures partent le lundi.", "Is the build green on main?"],
)
def test_what_speaks_of_other_things_is_not(said: str) -> None:
    assert not is_outdated(topic_words(said), BEFORE, [PORT, TYPESETTING])
