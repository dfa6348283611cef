"""The bundled sample: statements of unrelated subjects, some told twice, some asked for, in English and French.

Each line of `sample.jsonl` is one subject. Two texts of one subject mean the same or belong together; two texts of
two subjects have nothing to do with each other. The lines are sorted by kind, and every second one is set aside:
what is measured on one half is checked on the other.
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

from filrouge.ports import Embedder, Vectors

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
    lines = (files("filrouge.embed") / "sample.jsonl").read_text(encoding="utf-8").splitlines()
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
