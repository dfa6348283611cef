"""The sections of a block: their headings, how many items each may have, and which of them may break the silence.

Before a prompt nothing relevant means no text at all. What was found for the prompt itself speaks by itself, and its
source has refused what does not bear on it. What only goes along (the thread, its decisions, what is known anyway)
speaks by itself where it is as probable to help as a whole block must be, and else goes along with what does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from filrouge.model.piece import Section
from filrouge.model.when import Language

Occasion = Literal["start", "prompt"]

MOST_THREADS: Final = 5
"""Of all sections together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a section is like.

    Attributes:
        heading: by language.
        at_start, before_prompt: items at the most.
        goes_along: it does not break the silence unless it is as relevant as a whole block must be.
    """

    heading: Mapping[Language, str]
    at_start: int
    before_prompt: int
    goes_along: bool = True


def _named(en: str, fr: str, es: str) -> Mapping[Language, str]:
    return {"en": f"## {en}", "fr": f"## {fr}", "es": f"## {es}"}


SHAPES: Final[Mapping[Section, Shape]] = {
    "rules": Shape(heading=_named("Rules", "Règles", "Reglas"), at_start=40, before_prompt=4, goes_along=False),
    "reminders": Shape(
        heading=_named("Reminders", "Rappels", "Recordatorios"), at_start=3, before_prompt=3, goes_along=False
    ),
    "synthesis": Shape(
        heading=_named("Where the work stands", "Où en est le travail", "Estado del trabajo"),
        at_start=8,
        before_prompt=6,
    ),
    "thread": Shape(
        heading=_named("Current thread", "Fil en cours", "Hilo actual"),
        at_start=8,
        before_prompt=8,
    ),
    "memories": Shape(
        heading=_named("Relevant memories", "Souvenirs pertinents", "Recuerdos pertinentes"),
        at_start=8,
        before_prompt=4,
        goes_along=False,
    ),
    "facts": Shape(heading=_named("Known facts", "Faits connus", "Hechos conocidos"), at_start=28, before_prompt=20),
    "topics": Shape(
        heading=_named("Topics discussed", "Sujets abordés", "Temas tratados"),
        at_start=20,
        before_prompt=50,
        goes_along=False,
    ),
    "threads": Shape(
        heading=_named("Other threads", "Autres fils", "Otros hilos"),
        at_start=MOST_THREADS,
        before_prompt=MOST_THREADS,
    ),
    "decisions": Shape(
        heading=_named("Decisions in force", "Décisions en vigueur", "Decisiones vigentes"),
        at_start=8,
        before_prompt=3,
    ),
    "questions": Shape(
        heading=_named("Open questions", "Questions ouvertes", "Preguntas abiertas"), at_start=5, before_prompt=3
    ),
    "constraints": Shape(heading=_named("Constraints", "Contraintes", "Restricciones"), at_start=8, before_prompt=3),
    "hints": Shape(
        heading=_named("Worth recalling", "À ne pas oublier", "Para no olvidar"), at_start=3, before_prompt=3
    ),
    "notes": Shape(
        heading=_named("Reference notes", "Notes de référence", "Notas de referencia"),
        at_start=12,
        before_prompt=12,
        goes_along=False,
    ),
}


def most(section: Section, occasion: Occasion) -> int:
    """How many items a section may have."""
    shape = SHAPES[section]
    return shape.at_start if occasion == "start" else shape.before_prompt
