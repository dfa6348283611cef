# ruff: noqa: E501
"""Conversations that analyses are tested on: who said what, as turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, Role, SourceType, Turn
from filrouge.core.scope import Scope

_SOURCES: dict[Role, SourceType] = {"user": "prompt", "assistant": "reply", "tool": "command"}
_TRUST: dict[Role, int] = {"user": TRUST_PROMPT, "assistant": TRUST_AGENT, "tool": TRUST_TOOL}

ENGLISH: tuple[tuple[Role, str], ...] = (
    ("user", "Hi! The checkout page is slow since yesterday. I think the Stripe webhook blocks the request."),
    (
        "assistant",
        "I looked at `src/checkout/webhook.py`. The root cause is a synchronous call to the Stripe API inside the webhook.",
    ),
    ("tool", "Bash: pytest tests/test_checkout.py\n3 passed, see https://ci.example.com/run/1"),
    (
        "user",
        (
            "Great. We decided to use Redis for the payment queue, not RabbitMQ. Lena maintains the infra repo, ask Lena for"
            " credentials. Always run the payment tests before pushing."
        ),
    ),
    ("assistant", "I've added a payment queue in src/checkout/queue.py and updated the webhook. All tests pass."),
    ("user", "Which Redis version does production run? Our office is in Lyon and I work at Northwind."),
)
FRENCH: tuple[tuple[Role, str], ...] = (
    ("user", "Bonjour, peux-tu m'aider à corriger l'export des factures en PDF ? Le modèle Typst casse les accents."),
    ("assistant", "J'ai corrigé l'export : la police n'était pas embarquée dans le PDF."),
    (
        "user",
        (
            "On a choisi Typst pour les factures, plus LaTeX. Demande à Inès si le logo change."
            " Pourquoi la génération des factures prend 4 secondes ?"
        ),
    ),
    ("assistant", "Je ne sais pas encore, je vérifie le profilage."),
    ("user", "Le serveur d'export écoute sur le port 7070. Je préfère des réponses courtes."),
)


def turn(role: Role, text: str, *, number: int = 0, source: SourceType | None = None, skipped: str = "") -> Turn:
    """One message of a session."""
    return Turn(
        id=f"turn-{number}",
        key=f"key-{number}",
        scope=Scope(session="s"),
        host="claude-code",
        role=role,
        source=source or _SOURCES[role],
        text=text,
        at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number),
        trust=_TRUST[role],
        skipped=skipped,
    )


def conversation(*messages: tuple[Role, str], first: int = 0) -> list[Turn]:
    """Messages as the turns of a session, numbered from `first` on."""
    return [turn(role, text, number=first + place) for place, (role, text) in enumerate(messages)]
