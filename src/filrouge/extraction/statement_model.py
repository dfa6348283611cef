"""The statement model: the probability that a unit of a prompt states something worth remembering, and of which kind.

Logistic regressions over plain signs, hashed words and the vector of the unit. `bench/fit_statements.py` and
`bench/fit_subject_words.py` make the weights.

Pure: no database, no file.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.core import text as re
from filrouge.extraction.sentences import Unit
from filrouge.extraction.vocabulary import fold
from filrouge.memories.models import LEAST_TO_INJECT, Statement

# Logistic regressions over dense features and hashed words: how the models of this room are stored and asked.
#
# They are fitted by `bench/logistic.py`.

Numbers = NDArray[np.float32]

#: Places of hashed words.
BUCKETS: Final = 1 << 13
#: Of weights that are rows of numbers.
PARTS: Final = ("dense", "hashed", "bias")


@dataclass(frozen=True, kw_only=True, slots=True)
class Regression:
    """Weights of dense features and of hashed words (rows), for each question (columns).

    Attributes:
        threshold: the probability of the first question from which on its answer is taken for a yes.
    """

    dense: Numbers
    hashed: Numbers
    bias: Numbers
    threshold: float


def load(file: str, prefix: str = "") -> Regression:
    """The weights in a file of this room, under names that begin so."""
    found = arrays(file)
    return Regression(**{part: found[prefix + part] for part in PARTS}, threshold=float(found[f"{prefix}threshold"]))


def arrays(file: str) -> dict[str, Numbers]:
    """All arrays in a file of this room, by name."""
    with resources.files(__package__ or "").joinpath(file).open("rb") as opened, np.load(opened) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


def places(words: Iterable[str]) -> list[int]:
    """The places of words, each once. A message may hold half a character, so words may too."""
    return sorted({zlib.crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS for word in words})


def weight(places: Sequence[int]) -> float:
    """What each of so many hashed words counts: a long text is no surer for its length."""
    return 2.0 / float(np.sqrt(max(1, len(places))))


def log_odds(features: Numbers, hashed: Sequence[Sequence[int]], given: Regression) -> Numbers:
    """A row a text, a column a question.

    Args:
        features: shape (texts, dense features).
        hashed: the places of the words of each text.
    """
    found = features @ given.dense + given.bias
    for row, own in enumerate(hashed):
        found[row] += given.hashed[list(own)].sum(axis=0) * weight(own)
    return found


def chances(odds: Numbers) -> Numbers:
    """The probabilities that log odds stand for."""
    return (1.0 / (1.0 + np.exp(-np.clip(odds, -30, 30)))).astype(np.float32)


def confidence(chance: float, threshold: float) -> float:
    """What a statement is kept with that was taken at this probability: just enough to be injected at the threshold."""
    surer = (max(chance, threshold) - threshold) / max(1e-9, 1.0 - threshold)
    return round(LEAST_TO_INJECT + (1.0 - LEAST_TO_INJECT) * surer * 0.9, 2)


# What the statement model sees of a unit: plain signs, the pattern that matched, hashed words, and two vectors.

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


# Which of the statements that patterns found belongs to a unit.


def pattern_of(unit: Unit, found: Sequence[Statement]) -> Statement | None:
    """The first statement that holds more than half of the unit, or of which the unit holds more than half."""
    for one in found:
        if unit.shared(one.span.start, one.span.end) > 0.5 * min(unit.end - unit.start, one.span.end - one.span.start):
            return one
    return None


# Subject words: whether a word can be what talk is about, judged by its letters alone.
#
# *Deployment*, *invoices* and *traçabilité* can; *however*, *plutôt* and *wouldn't* cannot. A word is taken apart into
# runs of two to five letters, which are hashed, and the weights of these add up. They were fitted by
# `bench/fit_subject_words.py` to what the bundled embedder knows of words, and to the names that people gave to threads
# of labelled talk (`bench/results/subject_words.md`).

#: Letters of a run.
_RUNS: Final = (2, 3, 4, 5)
_KNOWN: Final = 4096


@lru_cache(maxsize=_KNOWN)
def fitness(word: str) -> float:
    """How fit a word is to be a subject, in standard deviations above the usual word of talk."""
    own = letters(word)
    return float(_weights()[own].sum() / np.sqrt(len(own)))


def letters(word: str) -> list[int]:
    """The places of a word and of the runs of its letters, its beginning and end among them."""
    plain = fold(word)
    whole = f"^{plain}$"
    runs = [f"{size}:{whole[at : at + size]}" for size in _RUNS for at in range(max(0, len(whole) - size + 1))]
    return places([f"w:{plain}", *runs])


@cache
def _weights() -> Numbers:
    return arrays("subject_words.npz")["weights"]


# The statement model: the probability that a unit states something worth remembering, its kind and its scope.
#
# Logistic regressions over the same features (`features`), one a question, fitted by `bench/fit_statements.py` on
# labelled talk, with thresholds chosen on other projects (`bench/results/statements.md`). There are two sets of
# weights: with vectors of the bundled embedder, and of words alone, for whoever uses another embedder or has none.

#: The embedder whose vectors the weights were fitted on.
EMBEDDER: Final = "multilingual-e5-small"
#: What is asked of a unit: states it anything; of each kind; is it of the user, whatever the project.
QUESTIONS: Final = (
    "states", "fact", "decision", "rule", "preference", "constraint", "intent", "deadline", "cause", "user",
)  # fmt: skip
LABELS: Final = QUESTIONS[1:-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What the model says of a unit.

    Attributes:
        states: the probability that it states something to be remembered.
        kind: the likeliest of `LABELS`, if it does.
        sure: the share of that kind in the sum of all.
        user: the probability that it holds of the user, whatever the project.
    """

    states: float
    kind: str
    sure: float
    user: float


@cache
def weights(name: str) -> Regression:
    """The weights `with vectors` or `words alone`."""
    return load("statements.npz", f"{name.replace(' ', '_')}_")


def odds_of(
    units: Sequence[Unit],
    patterns: Sequence[Statement | None],
    vectors: tuple[Numbers, Numbers] | None,
    given: Regression,
) -> Numbers:
    """A row a unit, a column a question."""
    return log_odds(dense(units, patterns, vectors), [hashed(unit) for unit in units], given)


def judge(
    units: Sequence[Unit], patterns: Sequence[Statement | None], vectors: tuple[Numbers, Numbers] | None
) -> tuple[list[Judged], float]:
    """What the model says of each unit, and the threshold that holds for it."""
    given = weights("words alone" if vectors is None else "with vectors")
    if not units:
        return [], given.threshold
    return [_judged(row) for row in chances(odds_of(units, patterns, vectors, given))], given.threshold


def _judged(row: Numbers) -> Judged:
    kinds = row[1:-1]
    best = int(kinds.argmax())
    return Judged(
        states=float(row[0]), kind=LABELS[best], sure=float(kinds[best] / max(kinds.sum(), 1e-9)), user=float(row[-1])
    )
