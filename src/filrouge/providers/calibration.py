"""Calibration of an embedding space: where its cosines land on the scale that thresholds are written in.

The bundled sample has statements of unrelated subjects, some of them told twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Embedder, Vectors
from filrouge.providers.models import Anchor, Calibration

# The bundled sample: statements of unrelated subjects, some told twice, some asked for, in English and French.
#
# Each line of `sample.jsonl` is one subject. Two texts of one subject mean the same or belong together; two texts of
# two subjects have nothing to do with each other. The lines are sorted by kind, and every second one is set aside:
# what is measured on one half is checked on the other.

Half = Literal["measure", "check"]
Language = Literal["en", "fr"]
Floats = NDArray[np.floating]

_HALVES: Final[dict[Half, int]] = {"measure": 0, "check": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One statement, and what else is said of it.

    Attributes:
        language: of the text.
        other: language of `same` and `question`, where it is not the text's.
        same: the same meaning in other words.
        question: what the text answers.
    """

    language: Language
    text: str
    other: Language | None = None
    same: str | None = None
    question: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cosines:
    """The cosines that a calibration is measured on.

    Attributes:
        unrelated: of two texts of different subjects.
        same: of two texts of one meaning, in the order of the sample.
        unrelated_questions: of a question and a text of another subject.
        answers: of a question and the text that answers it, in the order of the sample.
    """

    unrelated: Floats
    same: Floats
    unrelated_questions: Floats
    answers: Floats


@cache
def bundled(half: Half | None = None) -> tuple[Subject, ...]:
    """The subjects of one half of the sample, or all of them."""
    lines = (files("filrouge.providers") / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    subjects = tuple(Subject(**json.loads(line)) for line in lines)
    return subjects if half is None else subjects[_HALVES[half] :: 2]


class EmbeddedSample:
    """A sample with its vectors in one space.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """

    def __init__(self, embedder: Embedder, subjects: Sequence[Subject]) -> None:
        self.subjects = tuple(subjects)
        self._told_twice = [at for at, subject in enumerate(subjects) if subject.same is not None]
        self._asked = [at for at, subject in enumerate(subjects) if subject.question is not None]
        self._texts = embedder.passages([subject.text for subject in subjects])
        self._same = embedder.passages([subject.same for subject in subjects if subject.same is not None])
        questions = [embedder.query(subject.question) for subject in subjects if subject.question is not None]
        self._questions: Vectors = np.stack(questions) if questions else self._texts[:0]

    def cosines(self, languages: frozenset[Language] = frozenset({"en", "fr"}), *, across: bool = False) -> Cosines:
        """Of the pairs within each of these languages, or of those with one text in each of two languages."""
        have = np.array([subject.language for subject in self.subjects])
        wanted = np.isin(have, list(languages))
        alike = (have[:, None] == have[None, :]) != across
        pairs = np.triu(wanted[:, None] & wanted[None, :] & alike, 1)
        same = [
            at for at, owner in enumerate(self._told_twice) if self._takes_part(owner, wanted=wanted, across=across)
        ]
        asked = [at for at, owner in enumerate(self._asked) if self._takes_part(owner, wanted=wanted, across=across)]
        questions = self._questions[asked] @ self._texts.T
        owners = [self._asked[at] for at in asked]
        spoken = np.array([self.subjects[owner].other or self.subjects[owner].language for owner in owners], dtype=str)
        stray = ((spoken[:, None] == have[None, :]) != across) & wanted[None, :]
        stray[np.arange(len(owners)), owners] = False
        return Cosines(
            unrelated=(self._texts @ self._texts.T)[pairs],
            same=(self._same[same] * self._texts[[self._told_twice[at] for at in same]]).sum(axis=1),
            unrelated_questions=questions[stray],
            answers=questions[np.arange(len(owners)), owners],
        )

    def _takes_part(self, owner: int, *, wanted: NDArray[np.bool_], across: bool) -> bool:
        return bool(wanted[owner]) and (self.subjects[owner].other is not None) == across


# Measuring the calibration of a space: where its cosines land on the scale that every threshold is written on.
#
# The scale is that of the bundled model, multilingual-e5-small: the straight line from its median of unrelated turns
# (0) to the same text (1). A space is brought to it by shares. At each of a few levels of the scale, it is known
# which share of the sample's unrelated pairs, and of its pairs of one meaning, e5 puts above; the anchor of another
# space is the cosine with the nearest shares. A straight line does not do: the median of an English model is low, but
# French pairs lie far above it, so that one unrelated pair in eight passes 0.35; of e5 not one in a hundred does.
#
# Pairs of one language are counted, not those across two. A model that knows one language only holds paraphrases
# across two for unrelated, and no curve can change the order of its cosines.

Shares = tuple[tuple[float, float, float], ...]

#: Level of the scale, share of unrelated pairs above it, share of related pairs above it: two texts of one language
#: by multilingual-e5-small (`e5`), on the half of the sample that is measured on. `python bench/calibration.py` prints
#: them. There is no level above .65: of the paraphrases next to none is above .88, so nothing there could be measured.
TEXTS: Final[Shares] = (
    (0.0, 0.4190, 1.0000),
    (0.15, 0.1763, 1.0000),
    (0.35, 0.0081, 0.9460),
    (0.5, 0.0000, 0.8000),
    (0.65, 0.0000, 0.4071),
)
#: The same of a question and a text; of the answers none is above .65.
QUESTIONS: Final[Shares] = (
    (0.0, 0.5551, 1.0000),
    (0.15, 0.1234, 1.0000),
    (0.35, 0.0000, 0.6370),
    (0.5, 0.0000, 0.1113),
)
#: Level, and the share of pairs of turns of different conversations above it. 0 is the median; the others lie between
#: what e5's line gives from .83 (.230 and .019) and from the very median of these turns, .8366 (.169 and .013): LoCoMo
#: dev, 240,000 pairs of 800 turns.
TURNS: Final[tuple[tuple[float, float], ...]] = ((0.0, 0.5), (0.15, 0.20), (0.35, 0.016))

#: Fewer pairs of turns say too little about a tail of 1.6 %.
FEWEST_PAIRS: Final = 2_000
#: What counts as a short turn, in characters: about 60 words, like the longest of the sample.
SHORT_TURN: Final = 400
_MOST_TURNS: Final = 800
_SEED: Final = 7
#: Anchors are at least this far apart, so that the scale never jumps.
_APART: Final = 0.005
_STEPS: Final = 4_001


def measure(embedder: Embedder, sample: Sequence[Subject] | None = None) -> Calibration:
    """The calibration of an embedder's space, from the bundled sample: about 300 short texts are embedded.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    return fitted(EmbeddedSample(embedder, bundled("measure") if sample is None else sample).cosines())


def fitted(cosines: Cosines) -> Calibration:
    """The calibration that these cosines ask for.

    Raises:
        ValueError: there is not one pair of each kind.
    """
    return Calibration(
        texts=_anchors(TEXTS, cosines.unrelated, cosines.same),
        questions=_anchors(QUESTIONS, cosines.unrelated_questions, cosines.answers),
        origin="sample",
        pairs=len(cosines.unrelated) + len(cosines.same),
    )


def from_turns(vectors: Vectors, sessions: Sequence[str], sample: Calibration) -> Calibration | None:
    """The calibration refined by the user's own short turns, or None while they make fewer than 2,000 pairs.

    Turns of different sessions are unrelated pairs, so they tell where 0 is and where the unrelated end (0.35). What
    lies above, and questions, they cannot tell: that stays as the sample has it, no nearer to the unrelated than
    there. The order of the turns does not matter, and a turn that was said again counts once.

    Args:
        vectors: one for each turn of at most `SHORT_TURN` characters.
        sessions: the session of each turn.
        sample: the calibration measured on the sample.
    """
    unrelated = unrelated_turns(vectors, sessions)
    if len(unrelated) < FEWEST_PAIRS:
        return None
    tail = [(float(np.quantile(unrelated, 1.0 - share)), level) for level, share in TURNS]
    end, top = tail[-1]
    before = float(np.interp(top, [level for _, level in sample.texts], [cosine for cosine, _ in sample.texts]))
    stretch = (1.0 - end) / (1.0 - before) if before < 1.0 else 1.0
    upper = [(max(cosine, end + (cosine - before) * stretch), level) for cosine, level in sample.texts if level > top]
    return Calibration(
        texts=_rising([*tail, *upper[:-1]]), questions=sample.questions, origin="turns", pairs=len(unrelated)
    )


def unrelated_turns(vectors: Vectors, sessions: Sequence[str]) -> Floats:
    """The cosines of pairs of turns of different sessions, of at most 800 turns, drawn the same way every time."""
    distinct: dict[bytes, tuple[str, int]] = {}
    for at, (vector, session) in enumerate(zip(vectors, sessions, strict=True)):
        key = vector.tobytes()
        distinct[key] = min(distinct.get(key, (session, at)), (session, at))
    ordered = [distinct[key] for key in sorted(distinct)]
    drawn = np.random.default_rng(_SEED).permutation(len(ordered))[:_MOST_TURNS]
    kept = vectors[[ordered[place][1] for place in drawn]]
    owners = np.array([ordered[place][0] for place in drawn], dtype=str)
    return (kept @ kept.T)[np.triu(owners[:, None] != owners[None, :], 1)]


def shares(cosines: Floats, at: Floats) -> Floats:
    """The share of these cosines above each of some others, straight between two neighbours."""
    ordered = np.sort(cosines)
    places = (np.arange(len(ordered)) + 0.5) / len(ordered)
    return 1.0 - np.interp(at, ordered, places, left=0.0, right=1.0)


def _anchors(reference: Shares, unrelated: Floats, related: Floats) -> tuple[Anchor, ...]:
    """At each level, the cosine whose two shares are nearest to the reference's (least squares)."""
    if not len(unrelated) or not len(related):
        raise ValueError("A calibration is measured on unrelated pairs and on related ones; one kind is missing.")
    candidates = np.linspace(-1.0, 1.0, _STEPS)
    above_unrelated, above_related = shares(unrelated, candidates), shares(related, candidates)
    found: list[Anchor] = []
    for level, of_unrelated, of_related in reference:
        apart = (above_unrelated - of_unrelated) ** 2 + (above_related - of_related) ** 2
        best = np.flatnonzero(apart <= apart.min() + 1e-12)
        found.append((float(candidates[best[len(best) // 2]]), level))
    return _rising(found)


def _rising(anchors: Sequence[Anchor]) -> tuple[Anchor, ...]:
    """The anchors with the same text at their end, each a little above the one before, whatever was measured."""
    found: list[Anchor] = []
    lowest = -1.0
    for place, (cosine, level) in enumerate(anchors):
        highest = 1.0 - _APART * (len(anchors) - place)
        lowest = min(max(cosine, lowest), highest)
        found.append((lowest, level))
        lowest += _APART
    return (*found, (1.0, 1.0))
