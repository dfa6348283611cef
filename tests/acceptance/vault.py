"""A vault of 300 notes in French and English, on whatever people write down.

Thirty were written for a question each (`vault_notes.json`): half are French, and a question paraphrases its note, or
is asked in the other language. The others are of 45 subjects with six notes each, short and worded alike, so that every
question has something near it. None is to be changed for the sake of the score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A note, and a question that it answers."""

    path: str
    text: str
    question: str


TARGETS: Final = tuple(
    Target(**one) for one in json.loads((Path(__file__).parent / "vault_notes.json").read_text(encoding="utf-8"))
)

#: A folder, and the subject in the words of its language.
_FRENCH: Final = (
    ("Jardin", "le potager"), ("Jardin", "les rosiers"), ("Jardin", "le compost"), ("Cuisine", "la soupe au potiron"),
    ("Cuisine", "les crêpes"), ("Cuisine", "le riz pilaf"), ("Voyages", "la Bretagne"), ("Voyages", "le train de nuit"),
    ("Voyages", "Naples"), ("Maison", "la toiture"), ("Maison", "la peinture du salon"), ("Maison", "le lave-linge"),
    ("Travail", "la revue de code"), ("Travail", "le budget de l'équipe"), ("Travail", "la migration des serveurs"),
    ("Santé", "le sommeil"), ("Santé", "le dentiste"), ("Administratif", "l'assurance auto"),
    ("Administratif", "la carte grise"), ("Musique", "la chorale"), ("Lectures", "les romans policiers"),
    ("Famille", "l'anniversaire de Léa"), ("Famille", "les vacances d'été"),
)  # fmt: skip
_ENGLISH: Final = (
    ("Work", "the payment gateway"), ("Work", "the mobile release"), ("Work", "the search index"),
    ("Work", "the design system"), ("Work", "onboarding"), ("Work", "customer support"), ("Home", "the balcony"),
    ("Home", "the dishwasher"), ("Home", "the bicycle shed"), ("Home", "the neighbours"), ("Health", "swimming"),
    ("Health", "the eye doctor"), ("Money", "the savings plan"), ("Money", "the electricity bill"),
    ("Learning", "Rust lifetimes"), ("Learning", "drawing hands"), ("Learning", "Italian pronouns"),
    ("Photo", "the tripod"), ("Photo", "portraits in winter"), ("Ideas", "a board game"), ("Ideas", "a weekly letter"),
    ("Ideas", "the community garden"),
)  # fmt: skip
_IN_FRENCH: Final = (
    ("À faire", "Penser à {0} avant la fin du mois : demander deux devis et comparer."),
    ("Bilan", "Cette année {0} a pris plus de temps que prévu, surtout au printemps."),
    ("Contacts", "Pour {0}, appeler Martine le matin ; elle connaît tout le monde."),
    ("Idées", "Et si on changeait tout pour {0} ? Noter trois possibilités, en garder une."),
    ("Questions", "Qu'est-ce qui bloque encore pour {0} ? Les délais, et l'humeur de chacun."),
    ("Journal", "Aujourd'hui {0}, un peu de pluie, beaucoup de patience."),
)
_IN_ENGLISH: Final = (
    ("Todo", "Sort out {0} before the end of the month: ask for two offers and compare them."),
    ("Review", "This year {0} took longer than planned, mostly in spring."),
    ("Contacts", "About {0}, ring Martin in the morning; he knows everybody."),
    ("Ideas", "What if we changed everything about {0}? Write down three ways, keep one."),
    ("Questions", "What is still in the way of {0}? Deadlines, and everybody's mood."),
    ("Journal", "Today {0}, a little rain, a lot of patience."),
)


def notes() -> Mapping[str, str]:
    """All 300, by path."""
    found = {one.path: f"# {Path(one.path).stem}\n\n{one.text}\n" for one in TARGETS}
    for subjects, forms in ((_FRENCH, _IN_FRENCH), (_ENGLISH, _IN_ENGLISH)):
        for folder, subject in subjects:
            for name, form in forms:
                path = f"{folder}/{name} {subject.replace('/', ' ')}.md"
                found[path] = f"---\ntags: [{folder.lower()}]\n---\n# {name}\n\n{form.format(subject)}\n"
    return found


def write(folder: Path) -> None:
    """Write the vault."""
    for path, text in notes().items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
