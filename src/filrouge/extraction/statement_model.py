"""The statement model: does a unit of a prompt state something to remember, and of which kind.

Two models answer, and their log odds are added. One is a logistic regression over the words of the unit, per question
(`bench/fit_statements.py`); it alone answers for users of another embedder than the bundled one. The other is the
network that was taught to read prompts (`PartEmbedder`, `bench/fit_reader.py`): here are its last weights, from the
states of a sentence's tokens to the answers. Both were fitted on labelled talk, with thresholds chosen on other
projects (`bench/results/statements.md`). `bench/fit_subject_words.py` fits the weights of `subject_score`.

Pure: no database, no file.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from filrouge.core import lazy_re as re
from filrouge.extraction.sentences import Unit
from filrouge.extraction.vocabulary import fold
from filrouge.memories.models import MIN_CONFIDENCE_INJECT, Statement

# Regressions over dense features and hashed words, fitted by `bench/logistic.py`.

Numbers = NDArray[np.float32]

#: Number of hash buckets for words.
BUCKETS: Final = 1 << 13
#: The weight arrays of a regression.
PARTS: Final = ("dense", "hashed", "bias")


class Regression(Struct, frozen=True, kw_only=True):
    """Weights of dense features and of hashed words (rows) for each question (columns).

    Attributes:
        threshold: the probability from which on the first question counts as yes.
    """

    dense: Numbers
    hashed: Numbers
    bias: Numbers
    threshold: float


def load(file: str) -> Regression:
    """Load a regression from a file of this package."""
    found = load_arrays(file)
    return Regression(**{part: found[part] for part in PARTS}, threshold=float(found["threshold"]))


def load_arrays(file: str) -> dict[str, Numbers]:
    """Load all arrays of a file of this package, by name."""
    with resources.files(__package__ or "").joinpath(file).open("rb") as opened, np.load(opened) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


def buckets(words: Iterable[str]) -> list[int]:
    """Return the sorted hash buckets of words. Words may hold lone surrogates, as messages do."""
    return sorted({zlib.crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS for word in words})


def weight(hashed_words: Sequence[int]) -> float:
    """Return the weight of each hashed word; it falls with their number, so length adds no certainty."""
    return 2.0 / float(np.sqrt(max(1, len(hashed_words))))


def log_odds(features: Numbers, hashed_texts: Sequence[Sequence[int]], regression: Regression) -> Numbers:
    """Return the log odds: a row per text, a column per question.

    Args:
        features: shape (texts, dense features).
        hashed_texts: the hash buckets of each text's words.
        regression: the weights.
    """
    found = features @ regression.dense + regression.bias
    for row, hashed_words in enumerate(hashed_texts):
        found[row] += regression.hashed[list(hashed_words)].sum(axis=0) * weight(hashed_words)
    return found


def sigmoid(odds: Numbers) -> Numbers:
    """Return the probabilities for log odds."""
    return (1.0 / (1.0 + np.exp(-np.clip(odds, -30, 30)))).astype(np.float32)


def confidence(chance: float, threshold: float) -> float:
    """Return the confidence of a statement taken at this probability: at the threshold, just enough to be injected."""
    surer = (max(chance, threshold) - threshold) / max(1e-9, 1.0 - threshold)
    return round(MIN_CONFIDENCE_INJECT + (1.0 - MIN_CONFIDENCE_INJECT) * surer * 0.9, 2)


# Features of a unit: plain signs, the pattern that matched, and hashed words.

_MAX_WORDS: Final = 80
#: Pattern confidence from which on, in a prompt of one sentence, nine of ten are right; in a long prompt only half are.
STRONG: Final = 0.8
_STATEMENT_KINDS: Final = ("fact", "rule", "constraint", "decision", "preference", "intent", "episode")

_FEATURE_TOKEN: Final = re.compile(r"[\w'’$€%.]+|[?!]")
_DIGIT: Final = re.compile(r"\d")
_CAPITALISED_WORD: Final = re.compile(r"[A-Z][a-z]+")
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


def text_features(unit: Unit, pattern: Statement | None) -> list[float]:
    """Return the plain features of a unit, and of the pattern statement found in it."""
    text, plain = unit.text, fold(unit.text)
    words, digits = len(plain.split()), len(_DIGIT.findall(text))
    features: list[float | bool] = [
        1.0,
        min(words, 40) / 20,
        words <= 3,
        words <= 6,
        words > 25,
        "?" in text,
        text.rstrip().endswith("?"),
        digits > 0,
        min(digits, 8) / 4,
        _CAPITALISED_WORD.search(text[1:]) is not None,
        "`" in text,
        _FIRST_PERSON.search(plain) is not None,
        _ORDER.match(plain) is not None,
        unit.index == 0,
        unit.index == unit.count - 1,
        min(unit.count, 10) / 5,
        unit.index / max(1, unit.count - 1),
        "?" in unit.after,
        "?" in unit.before,
        *(sign.search(plain) is not None for sign in (_NOT, ALWAYS, _PERHAPS, _REASON, _CHANGE)),
    ]
    may_state = "?" not in text and _ORDER.match(plain) is None
    features += [unit.count == 1, unit.count == 2, unit.count == 1 and may_state, unit.count == 2 and may_state]
    strong = pattern is not None and pattern.confidence >= STRONG
    features += [strong, strong and unit.count == 1, strong and unit.count == 2, strong and may_state]
    pattern_features: list[float | bool] = [pattern is not None]
    pattern_features += [pattern is not None and pattern.kind == kind for kind in _STATEMENT_KINDS]
    pattern_features += (
        [pattern.confidence, pattern.scope == "user", pattern.is_correction, pattern.key is not None]
        if pattern
        else [0.0] * 4
    )
    return [float(value) for value in [*features, *pattern_features]]


def hash_words(unit: Unit) -> list[int]:
    """Return the hash buckets of a unit's words, word pairs, first and last words, and neighbouring words."""
    words = _words(unit.text)[:_MAX_WORDS]
    found = [f"w:{word}" for word in words] + [f"b:{a} {b}" for a, b in itertools.pairwise(words)]
    found += [f"s:{' '.join(words[:1])}", f"s:{' '.join(words[:2])}", f"e:{' '.join(words[-1:])}"]
    found += [f"pb:{word}" for word in _words(unit.before)[-1:]] + [f"pa:{' '.join(_words(unit.after)[:1])}"]
    return buckets(found)


def _words(text: str) -> list[str]:
    return [_DIGIT.sub("0", word) for word in _FEATURE_TOKEN.findall(fold(text))]


# Matching pattern statements to units.


def pattern_of(unit: Unit, found: Sequence[Statement]) -> Statement | None:
    """Return the first statement that covers more than half of the unit, or lies more than half in it; or None."""
    for statement in found:
        if unit.shared(statement.span.start, statement.span.end) > 0.5 * min(
            unit.end - unit.start, statement.span.end - statement.span.start
        ):
            return statement
    return None


# Subject words: whether a word can be the subject of talk, judged by its letters alone. *Deployment*, *invoices* and
# *traçabilité* can; *however*, *plutôt* and *wouldn't* cannot. The score sums the weights of the word's hashed runs of
# two to five letters. `bench/fit_subject_words.py` fitted them to the bundled embedder's vectors of words, and to names
# that people gave to threads of labelled talk (`bench/results/subject_words.md`).

#: Lengths of letter runs.
_RUNS: Final = (2, 3, 4, 5)
_CACHE_SIZE: Final = 4096


@lru_cache(maxsize=_CACHE_SIZE)
def subject_score(word: str) -> float:
    """Return how well a word serves as a subject, in standard deviations above the usual word of talk."""
    hash_indexes = hash_letters(word)
    return float(_weights()[hash_indexes].sum() / np.sqrt(len(hash_indexes)))


def hash_letters(word: str) -> list[int]:
    """Return the hash buckets of a word and of its letter runs, including its beginning and end."""
    plain = fold(word)
    marked = f"^{plain}$"
    runs = [
        f"{size}:{marked[start : start + size]}" for size in _RUNS for start in range(max(0, len(marked) - size + 1))
    ]
    return buckets([f"w:{plain}", *runs])


@cache
def _weights() -> Numbers:
    return load_arrays("subject_words.npz")["weights"]


# The network's answers: a linear function of the vector of a part (mean, first and last state of its tokens within the
# prompt and what it answers) and of plain features. A part is a unit of a prompt, or a sentence of the agent's message.

#: The embedder that has the network.
EMBEDDER: Final = "multilingual-e5-small"
#: The questions per unit: does it state anything; of which kind; does it concern the user in every project.
QUESTIONS: Final = (
    "states", "fact", "decision", "rule", "preference", "constraint", "intent", "deadline", "cause", "user",
)  # fmt: skip
LABELS: Final = QUESTIONS[1:-1]
#: What the network answers, in this order: the questions, and whether the user agrees to the part.
NETWORK_QUESTIONS: Final = (*QUESTIONS, "agreed")
#: Number of states in the vector of a part, and the length that each is given.
STATES: Final = 3
STATE_LENGTH: Final = 2.8


class NetworkHead(Struct, frozen=True, kw_only=True):
    """The last weights of the network, one column per network question.

    Attributes:
        usual: the mean vector of parts, shape (3 x hidden,).
        states: weights of vectors, shape (3 x hidden, questions).
        units, sentences: weights of the plain features of units, and of those of sentences of a message.
        bias: shape (questions,).
        threshold: the probability from which on a unit states something, by both models together.
        threshold_agreed: the probability from which on a sentence is agreed to, by both models together.
    """

    usual: Numbers
    states: Numbers
    units: Numbers
    sentences: Numbers
    bias: Numbers
    threshold: float
    threshold_agreed: float


@cache
def network_head() -> NetworkHead:
    """Return the network's last weights."""
    found = load_arrays("reading.npz")
    return NetworkHead(
        usual=found["usual"],
        states=found["states"],
        units=found["units"],
        sentences=found["sentences"],
        bias=found["bias"],
        threshold=float(found["threshold"]),
        threshold_agreed=float(found["threshold_agreed"]),
    )


def network_odds(vectors: Numbers, features: Numbers, weights: Numbers, head: NetworkHead) -> Numbers:
    """Return the network's log odds: a row per part, a column per network question.

    Args:
        vectors: the vectors of the parts (`PartEmbedder`).
        features: their plain features, and `weights` the weights of these.
        head: the network's last weights.
    """
    return (scaled(vectors, head.usual) @ head.states + features @ weights + head.bias).astype(np.float32)


def scaled(vectors: Numbers, usual: Numbers) -> Numbers:
    """Return the vectors of parts: each state less the usual one, with the same length.

    All states have a few large components in common, which say nothing.
    """
    states = (vectors - usual).reshape(len(vectors), STATES, -1)
    lengths = np.linalg.norm(states, axis=2, keepdims=True)
    return (states * (STATE_LENGTH / np.maximum(lengths, np.float32(1e-6)))).reshape(vectors.shape)


# The model itself.


class Prediction(Struct, frozen=True, kw_only=True):
    """The model's output for a unit.

    Attributes:
        states: the probability that it states something to remember.
        kind: the most likely of `LABELS`, given that it does.
        sure: the share of that kind in the sum over all kinds.
        user: the probability that it concerns the user in every project.
    """

    states: float
    kind: str
    sure: float
    user: float


@cache
def weights() -> Regression:
    """Return the weights of words."""
    return load("statements.npz")


def odds_of(units: Sequence[Unit], features: Numbers, regression: Regression) -> Numbers:
    """Return the log odds by words: a row per unit, a column per question; `features` come from `features_of`."""
    return log_odds(features, [hash_words(unit) for unit in units], regression)


def features_of(units: Sequence[Unit], patterns: Sequence[Statement | None]) -> Numbers:
    """Return the plain features, a row per unit."""
    return np.array([text_features(*pair) for pair in zip(units, patterns, strict=True)], np.float32)


def predict(
    units: Sequence[Unit], patterns: Sequence[Statement | None], vectors: Numbers | None
) -> tuple[list[Prediction], float]:
    """Return the model's output for each unit, and the threshold.

    Args:
        units: the units of a prompt.
        patterns: the statement that patterns found in each.
        vectors: of the units (`PartEmbedder`); None uses the words alone.
    """
    regression = weights()
    if not units:
        return [], regression.threshold
    features = features_of(units, patterns)
    odds = odds_of(units, features, regression)
    if vectors is None:
        return [_to_prediction(row) for row in sigmoid(odds)], regression.threshold
    head = network_head()
    by_network = network_odds(vectors, features, head.units, head)
    return [_to_prediction(row) for row in sigmoid(odds + by_network[:, : len(QUESTIONS)])], head.threshold


def _to_prediction(row: Numbers) -> Prediction:
    kinds = row[1:-1]
    best = int(kinds.argmax())
    return Prediction(
        states=float(row[0]), kind=LABELS[best], sure=float(kinds[best] / max(kinds.sum(), 1e-9)), user=float(row[-1])
    )
