"""Calibration: maps the cosines of an embedding space to the scale of all thresholds.

The scale is that of the bundled model, multilingual-e5-small. A space is measured on the bundled sample, and refined
with the user's own turns.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from filrouge.core.guard import on_failure
from filrouge.core.protocols import Embedder, Vectors
from filrouge.providers.models import Anchor, Calibration, EmbeddingSpace

# The bundled sample: statements on unrelated subjects in English and French, some with a paraphrase, some with a
# question. Each line of `sample.jsonl` is one subject. Texts of the same subject are related; texts of different
# subjects are unrelated. The lines are sorted by kind, and every second line belongs to the other half: values measured
# on one half are checked on the other.

Half = Literal["measure", "check"]
Language = Literal["en", "fr"]
Floats = NDArray[np.floating]

_HALVES: Final[dict[Half, int]] = {"measure": 0, "check": 1}


class Subject(Struct, frozen=True, kw_only=True):
    """One statement, with its paraphrase and its question.

    Attributes:
        language: the language of the text.
        other: the language of `same` and `question`, if it differs from that of the text.
        same: a paraphrase of the text.
        question: a question that the text answers.
    """

    language: Language
    text: str
    other: Language | None = None
    same: str | None = None
    question: str | None = None


class Cosines(Struct, frozen=True, kw_only=True):
    """The cosines that a calibration is computed from.

    Attributes:
        unrelated: cosines of two texts of different subjects.
        same: cosines of a text and its paraphrase, in the order of the sample.
        unrelated_questions: cosines of a question and a text of another subject.
        answers: cosines of a question and the text that answers it, in the order of the sample.
    """

    unrelated: Floats
    same: Floats
    unrelated_questions: Floats
    answers: Floats


@cache
def bundled(half: Half | None = None) -> tuple[Subject, ...]:
    """Return the subjects of one half of the sample, or all of them."""
    lines = (files("filrouge.providers") / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    subjects = tuple(Subject(**json.loads(line)) for line in lines)
    return subjects if half is None else subjects[_HALVES[half] :: 2]


def sample_texts() -> list[str]:
    """Return all texts of the sample, in a fixed order."""
    return [text for subject in bundled() for text in (subject.text, subject.same, subject.question) if text]


def load_sample(directory: str, space: EmbeddingSpace) -> Vectors | None:
    """Return the vectors of `sample_texts` that `save_sample` stored; None if there are none, or not of these texts."""
    try:
        vectors = np.load(_sample_path(directory, space), allow_pickle=False).astype(np.float32)
    except (OSError, ValueError, EOFError):
        return None
    fits = vectors.shape == (len(sample_texts()), space.dimension) and bool(np.isfinite(vectors).all())
    return vectors if fits else None


def save_sample(directory: str, space: EmbeddingSpace, vectors: Vectors) -> None:
    """Store the vectors of `sample_texts` for the next start; what cannot be written is computed again then."""
    path = _sample_path(directory, space)
    with suppress(OSError):
        os.makedirs(directory, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=directory, prefix="sample-", delete=False) as file,
            on_failure(lambda: os.unlink(file.name)),
        ):
            np.save(file, vectors.astype(np.float16))
            file.close()
            os.replace(file.name, path)


def _sample_path(directory: str, space: EmbeddingSpace) -> str:
    digest = blake2b("\n".join((space.id, *sample_texts())).encode(), digest_size=8).hexdigest()
    return os.path.join(directory, f"sample-{digest}.npy")


class EmbeddedSample:
    """A sample with its vectors in one space.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """

    def __init__(self, embedder: Embedder, subjects: Sequence[Subject]) -> None:
        self.subjects = tuple(subjects)
        self._with_paraphrase = [index for index, subject in enumerate(subjects) if subject.same is not None]
        self._with_question = [index for index, subject in enumerate(subjects) if subject.question is not None]
        self._texts = embedder.passages([subject.text for subject in subjects])
        self._same = embedder.passages([subject.same for subject in subjects if subject.same is not None])
        questions = [embedder.query(subject.question) for subject in subjects if subject.question is not None]
        self._questions: Vectors = np.stack(questions) if questions else self._texts[:0]

    def cosines(self, languages: frozenset[Language] = frozenset({"en", "fr"}), *, across: bool = False) -> Cosines:
        """Return cosines of pairs within each language, or with `across` of pairs in two different languages."""
        subject_languages = np.array([subject.language for subject in self.subjects])
        selected = np.isin(subject_languages, list(languages))
        language_pair_fits = (subject_languages[:, None] == subject_languages[None, :]) != across
        pairs = np.triu(selected[:, None] & selected[None, :] & language_pair_fits, 1)
        same = [
            index
            for index, owner in enumerate(self._with_paraphrase)
            if self._takes_part(owner, selected=selected, across=across)
        ]
        used_questions = [
            index
            for index, owner in enumerate(self._with_question)
            if self._takes_part(owner, selected=selected, across=across)
        ]
        questions = self._questions[used_questions] @ self._texts.T
        owners = [self._with_question[index] for index in used_questions]
        question_languages = np.array(
            [self.subjects[owner].other or self.subjects[owner].language for owner in owners], dtype=str
        )
        unrelated_pairs = ((question_languages[:, None] == subject_languages[None, :]) != across) & selected[None, :]
        unrelated_pairs[np.arange(len(owners)), owners] = False
        return Cosines(
            unrelated=(self._texts @ self._texts.T)[pairs],
            same=(self._same[same] * self._texts[[self._with_paraphrase[index] for index in same]]).sum(axis=1),
            unrelated_questions=questions[unrelated_pairs],
            answers=questions[np.arange(len(owners)), owners],
        )

    def _takes_part(self, owner: int, *, selected: NDArray[np.bool_], across: bool) -> bool:
        return bool(selected[owner]) and (self.subjects[owner].other is not None) == across


# Measuring a calibration. The scale is that of the bundled model, multilingual-e5-small: the straight line from its
# median of unrelated turns (0) to the same text (1).
#
# Another space is mapped to it by shares. For a few levels of the scale, the tables below give the share of the
# sample's unrelated pairs, and of its paraphrase pairs, that e5 scores above that level. The anchor of the other space
# is the cosine with the nearest shares. A straight line does not suffice: the median of an English model is low, but
# its French pairs lie far above it, so that one unrelated pair in eight exceeds 0.35; with e5 it is less than one in a
# hundred.
#
# Only pairs within one language are counted. A model for one language treats paraphrases across two languages as
# unrelated, and no curve can change the order of its cosines.

Shares = tuple[tuple[float, float, float], ...]

#: Level of the scale, share of unrelated pairs above it, share of related pairs above it: two texts of one language by
#: multilingual-e5-small (`e5`), on the half of the sample used for measuring. Printed by `python bench/calibration.py`.
#: There is no level above .65: almost no paraphrase is above .88, so nothing there could be measured.
TEXTS: Final[Shares] = (
    (0.0, 0.4190, 1.0000),
    (0.15, 0.1763, 1.0000),
    (0.35, 0.0081, 0.9460),
    (0.5, 0.0000, 0.8000),
    (0.65, 0.0000, 0.4071),
)
#: The same for a question and a text; no answer is above .65.
QUESTIONS: Final[Shares] = (
    (0.0, 0.5551, 1.0000),
    (0.15, 0.1234, 1.0000),
    (0.35, 0.0000, 0.6370),
    (0.5, 0.0000, 0.1113),
)
#: Level, and share of pairs of turns from different conversations above it. 0 is the median. The other shares lie
#: between those from e5's line at .83 (.230 and .019) and from the actual median of these turns, .8366 (.169 and .013).
#: Measured on LoCoMo dev, 240,000 pairs of 800 turns.
TURNS: Final[tuple[tuple[float, float], ...]] = ((0.0, 0.5), (0.15, 0.20), (0.35, 0.016))

#: Minimum number of turn pairs; fewer cannot determine a tail of 1.6 %.
MIN_PAIRS: Final = 2_000
#: Maximum length of a short turn, in characters: about 60 words, like the longest text in the sample.
SHORT_TURN: Final = 400
_MAX_TURNS: Final = 800
_SEED: Final = 7
#: Minimum distance between anchors, so that the scale never jumps.
_MIN_ANCHOR_DISTANCE: Final = 0.005
_CANDIDATE_COUNT: Final = 4_001


def measure(embedder: Embedder, sample: Sequence[Subject] | None = None) -> Calibration:
    """Return the calibration of an embedder's space, from the bundled sample; embeds about 300 short texts.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    return fit_calibration(EmbeddedSample(embedder, bundled("measure") if sample is None else sample).cosines())


def fit_calibration(cosines: Cosines) -> Calibration:
    """Return the calibration computed from these cosines.

    Raises:
        ValueError: a kind of pair is missing.
    """
    return Calibration(
        texts=_anchors(TEXTS, cosines.unrelated, cosines.same),
        questions=_anchors(QUESTIONS, cosines.unrelated_questions, cosines.answers),
        origin="sample",
        pairs=len(cosines.unrelated) + len(cosines.same),
    )


def from_turns(vectors: Vectors, sessions: Sequence[str], sample: Calibration) -> Calibration | None:
    """Return the calibration refined by the user's own short turns, or None below 2,000 pairs of turns.

    Turns of different sessions are unrelated pairs, so they determine level 0 and the upper end of unrelated pairs
    (0.35). They cannot determine the levels above or the anchors for questions. Those are taken from the sample; the
    upper levels are kept at least as far from the unrelated end as in the sample. The order of the turns does not
    matter, and a repeated turn counts once.

    Args:
        vectors: one for each turn of at most `SHORT_TURN` characters.
        sessions: the session of each turn.
        sample: the calibration measured on the sample.
    """
    unrelated = unrelated_turns(vectors, sessions)
    if len(unrelated) < MIN_PAIRS:
        return None
    tail = [(float(np.quantile(unrelated, 1.0 - share)), level) for level, share in TURNS]
    tail_cosine, tail_level = tail[-1]
    sample_cosine = float(
        np.interp(tail_level, [level for _, level in sample.texts], [cosine for cosine, _ in sample.texts])
    )
    stretch = (1.0 - tail_cosine) / (1.0 - sample_cosine) if sample_cosine < 1.0 else 1.0
    upper = [
        (max(cosine, tail_cosine + (cosine - sample_cosine) * stretch), level)
        for cosine, level in sample.texts
        if level > tail_level
    ]
    return Calibration(
        texts=_rising([*tail, *upper[:-1]]), questions=sample.questions, origin="turns", pairs=len(unrelated)
    )


def unrelated_turns(vectors: Vectors, sessions: Sequence[str]) -> Floats:
    """Return the cosines of turn pairs from different sessions, of at most 800 turns; the sample is deterministic."""
    distinct: dict[bytes, tuple[str, int]] = {}
    for index, (vector, session) in enumerate(zip(vectors, sessions, strict=True)):
        key = vector.tobytes()
        distinct[key] = min(distinct.get(key, (session, index)), (session, index))
    ordered = [distinct[key] for key in sorted(distinct)]
    order = np.random.default_rng(_SEED).permutation(len(ordered))[:_MAX_TURNS]
    sample = vectors[[ordered[number][1] for number in order]]
    owners = np.array([ordered[number][0] for number in order], dtype=str)
    return (sample @ sample.T)[np.triu(owners[:, None] != owners[None, :], 1)]


def shares(cosines: Floats, thresholds: Floats) -> Floats:
    """Return the share of these cosines above each value in `thresholds`, interpolated linearly."""
    ordered = np.sort(cosines)
    ranks = (np.arange(len(ordered)) + 0.5) / len(ordered)
    return 1.0 - np.interp(thresholds, ordered, ranks, left=0.0, right=1.0)


def _anchors(reference: Shares, unrelated: Floats, related: Floats) -> tuple[Anchor, ...]:
    """Return for each level the cosine whose two shares are nearest to the reference shares (least squares)."""
    if not len(unrelated) or not len(related):
        raise ValueError("A calibration is measured on unrelated pairs and on related ones; one kind is missing.")
    candidates = np.linspace(-1.0, 1.0, _CANDIDATE_COUNT)
    above_unrelated, above_related = shares(unrelated, candidates), shares(related, candidates)
    anchors: list[Anchor] = []
    for level, of_unrelated, of_related in reference:
        distances = (above_unrelated - of_unrelated) ** 2 + (above_related - of_related) ** 2
        best = np.flatnonzero(distances <= distances.min() + 1e-12)
        anchors.append((float(candidates[best[len(best) // 2]]), level))
    return _rising(anchors)


def _rising(anchors: Sequence[Anchor]) -> tuple[Anchor, ...]:
    """Return the anchors with (1, 1) appended, each forced to be at least a little above the one before."""
    rising: list[Anchor] = []
    lowest = -1.0
    for index, (cosine, level) in enumerate(anchors):
        highest = 1.0 - _MIN_ANCHOR_DISTANCE * (len(anchors) - index)
        lowest = min(max(cosine, lowest), highest)
        rising.append((lowest, level))
        lowest += _MIN_ANCHOR_DISTANCE
    return (*rising, (1.0, 1.0))
