"""What the statement model sees of a unit: plain signs, the pattern that matched, hashed words, and two vectors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from filrouge import lazy_re as re
from filrouge.extraction.logistic import Numbers, places
from filrouge.extraction.units import Unit
from filrouge.model.memory import Statement
from filrouge.understand.words import fold

#: What a vector is multiplied with, so that its parts are of the size of the signs.
_VECTOR_SCALE: Final = 4.0
_MOST_WORDS: Final = 80
#: A pattern of this confidence reads a prompt of one sentence right in nine cases of ten, a long one in every second.
STRONG: Final = 0.8
_KINDS: Final = ("fact", "rule", "constraint", "decision", "preference", "intent", "episode")

_WORD: Final = re.compile(r"[\w'’$€%.]+|[?!]")
_DIGIT: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"[A-Z][a-z]+")
_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i'd|i've|my|me|we|our|us|je|j'|moi|mon|ma|mes|on|nous|nos|notre|yo|mi|mis|nosotros|nuestr\w+)\b"
)
_ORDER: Final = re.compile(
    r"^(?:please |ok(?:ay)?,? |so |and |now |then |bon,? |alors |s'il te plait |por favor |vale,? )*"
    r"(?:add|fix|write|make|run|show|check|put|create|change|remove|move|update|rename|try|look|find|tell|explain|give|use"
    r"|keep|set|let's|ajoute|corrige|ecris|fais|lance|montre|verifie|mets|cree|change|enleve|deplace|renomme|essaie"
    r"|regarde|trouve|dis|explique|donne|garde|utilise|agrega|anade|arregla|escribe|haz|corre|muestra|revisa|pon|crea"
    r"|cambia|quita|mueve|renombra|prueba|mira|busca|dime|explica|dame|usa)\b"
)
_NOT: Final = re.compile(r"\b(?:not|no|never|don.t|ne|pas|jamais|sin|nunca|plus|ya no)\b")
ALWAYS: Final = re.compile(
    r"\b(?:always|never|from now on|every|toujours|jamais|chaque|siempre|nunca|cada|desormais)\b"
)
_PERHAPS: Final = re.compile(
    r"\b(?:maybe|perhaps|what if|could we|should we|peut-etre|et si|quizas|tal vez|a lo mejor|might|wonder)\b"
)
_REASON: Final = re.compile(r"\b(?:because|since|so that|parce que|car|vu que|porque|ya que)\b")
_CHANGE: Final = re.compile(
    r"\b(?:now|anymore|instead|moved|switched|changed|maintenant|desormais|finalement|plutot|ahora|al final|en vez)\b"
)


def signs(unit: Unit, pattern: Statement | None) -> list[float]:
    """The plain signs of a unit, and those of the pattern that found a statement in it."""
    text, plain = unit.text, fold(unit.text)
    words, digits = len(plain.split()), len(_DIGIT.findall(text))
    own: list[float | bool] = [
        1.0,
        min(words, 40) / 20,
        words <= 3,
        words <= 6,
        words > 25,
        "?" in text,
        text.rstrip().endswith("?"),
        digits > 0,
        min(digits, 8) / 4,
        _NAME.search(text[1:]) is not None,
        "`" in text,
        _FIRST_PERSON.search(plain) is not None,
        _ORDER.match(plain) is not None,
        unit.place == 0,
        unit.place == unit.number - 1,
        min(unit.number, 10) / 5,
        unit.place / max(1, unit.number - 1),
        "?" in unit.after,
        "?" in unit.before,
        *(sign.search(plain) is not None for sign in (_NOT, ALWAYS, _PERHAPS, _REASON, _CHANGE)),
    ]
    tells = "?" not in text and _ORDER.match(plain) is None
    own += [unit.number == 1, unit.number == 2, unit.number == 1 and tells, unit.number == 2 and tells]
    strong = pattern is not None and pattern.confidence >= STRONG
    own += [strong, strong and unit.number == 1, strong and unit.number == 2, strong and tells]
    found: list[float | bool] = [pattern is not None]
    found += [pattern is not None and pattern.kind == kind for kind in _KINDS]
    found += (
        [pattern.confidence, pattern.scope == "user", pattern.is_correction, pattern.key is not None]
        if pattern
        else [0.0] * 4
    )
    return [float(one) for one in [*own, *found]]


def dense(
    units: Sequence[Unit], patterns: Sequence[Statement | None], vectors: tuple[Numbers, Numbers] | None
) -> Numbers:
    """A row a unit: its vector and that of it in its setting, where there are any, then the plain signs."""
    plain = np.array([signs(*pair) for pair in zip(units, patterns, strict=True)], np.float32)
    if vectors is None:
        return plain
    return np.concatenate([vectors[0] * _VECTOR_SCALE, vectors[1] * _VECTOR_SCALE, plain], axis=1)


def hashed(unit: Unit) -> list[int]:
    """The places of its words, pairs of words, first and last words, and of the words beside it."""
    words = _words(unit.text)[:_MOST_WORDS]
    found = [f"w:{word}" for word in words] + [f"b:{a} {b}" for a, b in itertools.pairwise(words)]
    found += [f"s:{' '.join(words[:1])}", f"s:{' '.join(words[:2])}", f"e:{' '.join(words[-1:])}"]
    found += [f"pb:{word}" for word in _words(unit.before)[-1:]] + [f"pa:{' '.join(_words(unit.after)[:1])}"]
    return places(found)


def _words(text: str) -> list[str]:
    return [_DIGIT.sub("0", word) for word in _WORD.findall(fold(text))]
