"""Measuring the calibration of a space: where its cosines land on the scale that every threshold is written on.

The scale is that of the bundled model, multilingual-e5-small: the straight line from its median of unrelated turns (0)
to the same text (1). A space is brought to it by shares. At each of a few levels of the scale, it is known which share
of the sample's unrelated pairs, and of its pairs of one meaning, e5 puts above; the anchor of another space is the
cosine with the nearest shares. A straight line does not do: the median of an English model is low, but French pairs
lie far above it, so that one unrelated pair in eight passes 0.35; of e5 not one in a hundred does.

Pairs of one language are counted, not those across two. A model that knows one language only holds paraphrases
across two for unrelated, and no curve can change the order of its cosines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from filrouge.embed.sample import Cosines, EmbeddedSample, Floats, Subject, bundled
from filrouge.ports import Anchor, Calibration, Embedder, Vectors

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
