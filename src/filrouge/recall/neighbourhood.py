"""Turns judged in their neighbourhood: what a turn means is said by the turns around it.

An answer rarely repeats the words of its question, so each turn is scored by its own words and meaning, by
those of the turns before and after it, and by the best of its session. Nothing of this is stored: the meaning of a
neighbourhood is the mean of its turns' vectors weighted by length, which is nearly what the model would give for the
joined text, since it takes the mean of its tokens.

Every feature lies in [0, 1]. One is the best of the candidates; nought is no word of the question, or of meaning the
farthest of the candidates. The weights were
fitted by `bench/fit_recall.py` on conversations that the figures in `bench/results` leave out in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.model.turn import Turn
from filrouge.ports import Vector
from filrouge.recall.times import Span, closeness

Features = NDArray[np.float32]
Places = NDArray[np.int64]

NAMES: Final = (
    "words",
    "words_before",
    "words_after",
    "meaning",
    "meaning_before",
    "meaning_around",
    "meaning_wide",
    "session_words",
    "session_meaning",
    "length",
    "asks",
    "time",
    "speaker",
    "dated",
    "reply",
)
_LONG: Final = 300
_SPEAKER: Final = re.compile(r"\s*([A-Z][\w.'\u2019-]{1,24}(?: [A-Z][\w.'\u2019-]{1,24})?):\s")
_WHEN: Final = re.compile(
    r"\b(?:when|how long|what (?:date|day|month|year|time)"
    r"|quand|depuis combien|quel(?:le)? (?:date|jour|mois|ann[ée]e))\b",
    re.IGNORECASE,
)
_DATED: Final = re.compile(
    r"\d|\b(?:yesterday|today|tomorrow|last|next|ago|weeks?|months?|years?|since"
    r"|hier|aujourd|demain|derni[eè]re?|prochaine?|semaine|mois|ans?|depuis)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """A turn as it is ranked.

    Attributes:
        words: its BM25; 0 where the question's words do not occur, or not enough for the index to name it.
        vector: its meaning, None while it has none; of a text of several windows, their mean.
        nearest: the cosine of its best window to the question, None without a vector.
        before, after: the places of its neighbours in the sequence that is ranked, None where a session begins or
            ends, or where the neighbour was not fetched.
        candidate: False for a turn that is only there as a neighbour.
    """

    turn: Turn
    words: float
    vector: Vector | None
    nearest: float | None
    before: int | None
    after: int | None
    candidate: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question as turns are held against it."""

    text: str
    vector: Vector | None
    times: tuple[Span, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What was measured of some turns, in their order.

    Attributes:
        features: a row for every turn, in the order of `NAMES`.
        around, wide: the cosine of the question to the mean of one turn on each side and of two; -1 without vectors.
    """

    features: Features
    around: Features
    wide: Features


def measured(asked: Asked, spoken: Sequence[Spoken]) -> Measured:
    """Measure every turn; what is no candidate has no say in how others are stretched."""
    pool = np.array([one.candidate for one in spoken], dtype=bool)
    if not spoken:
        nothing = np.empty(0, dtype=np.float32)
        return Measured(features=np.empty((0, len(NAMES)), dtype=np.float32), around=nothing, wide=nothing)
    before, around, wide = (_windows(spoken, *reach) for reach in ((1, 0), (1, 1), (2, 2)))
    close, far = _meanings(asked, spoken, around), _meanings(asked, spoken, wide)
    # A text that stands alone is its own neighbourhood, in words as in meaning.
    alone = (around[:, 1:] < 0).all(axis=1)
    words = _each(spoken, lambda one: one.words)
    meaning = np.array([-1.0 if one.nearest is None else one.nearest for one in spoken], dtype=np.float32)
    asks_when = bool(_WHEN.search(asked.text))
    speaker = _named_speaker(asked.text, [one.turn.text for one in spoken])
    columns: Mapping[str, Features] = {
        "words": _stretched(words, pool, 0.0),
        "words_before": _stretched(np.where(alone, words, _padded(words)[before[:, 1]]), pool, 0.0),
        "words_after": _stretched(np.where(alone, words, _padded(words)[around[:, 2]]), pool, 0.0),
        "meaning": _stretched(meaning, pool),
        "meaning_before": _stretched(_meanings(asked, spoken, before), pool),
        "meaning_around": _stretched(close, pool),
        "meaning_wide": _stretched(far, pool),
        "session_words": _best_of_session(_stretched(words, pool, 0.0), spoken),
        "session_meaning": _best_of_session(_stretched(meaning, pool), spoken),
        "length": _each(spoken, lambda one: min(1.0, len(one.turn.text) / _LONG)),
        "asks": _each(spoken, lambda one: float(one.turn.text.rstrip().endswith("?"))),
        "time": _each(spoken, lambda one: closeness(asked.times, one.turn.at.date())),
        "speaker": _each(spoken, lambda one: float(bool(speaker) and speaker_of(one.turn.text) == speaker)),
        "dated": _each(spoken, lambda one: float(asks_when and bool(_DATED.search(one.turn.text)))),
        "reply": _each(spoken, lambda one: float(one.turn.role == "assistant")),
    }
    return Measured(features=np.stack([columns[name] for name in NAMES], axis=1), around=close, wide=far)


def speaker_of(text: str) -> str:
    """Who is named at the beginning of a turn from a chat ("Caroline: …"), or nobody."""
    found = _SPEAKER.match(text)
    return found[1] if found else ""


def _named_speaker(question: str, texts: Sequence[str]) -> str:
    """The one speaker that the question names; nobody where it names none, or several."""
    speakers = {speaker_of(text) for text in texts} - {""}
    named = [one for one in speakers if re.search(rf"\b{re.escape(one.split()[0])}\b", question, re.IGNORECASE)]
    return named[0] if len(named) == 1 else ""


def _windows(spoken: Sequence[Spoken], back: int, ahead: int) -> Places:
    """For each turn the places of its window, shape (turns, back + 1 + ahead); -1 where nobody stands."""
    befores = np.array([-1 if one.before is None else one.before for one in spoken] + [-1])
    afters = np.array([-1 if one.after is None else one.after for one in spoken] + [-1])
    own = np.arange(len(spoken))
    columns = [own]
    for reach, step in ((back, befores), (ahead, afters)):
        at = own
        for _ in range(reach):
            at = step[at]
            columns.append(at)
    return np.stack(columns, axis=1)


def _meanings(asked: Asked, spoken: Sequence[Spoken], windows: Places) -> Features:
    """Cosines of the question to the means of windows; -1 where nothing of a window has a vector."""
    if asked.vector is None:
        return np.full(len(windows), -1.0, dtype=np.float32)
    nothing = np.zeros_like(asked.vector)
    weighted = [nothing if one.vector is None else one.vector * (1 + len(one.turn.text)) for one in spoken]
    means = _padded(np.array(weighted, dtype=np.float32).reshape(len(spoken), -1))[windows].sum(axis=1)
    lengths = np.linalg.norm(means, axis=1)
    return np.where(lengths > 0, means @ asked.vector / np.maximum(lengths, 1e-9), -1.0).astype(np.float32)


def _padded(rows: Features) -> Features:
    """With a row of zeros at the end, which is where -1 points."""
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def _stretched(values: Features, pool: NDArray[np.bool_], nothing: float | None = None) -> Features:
    """From what means nothing to the best of the candidates; without the one, from the worst of them."""
    inside = values[pool]
    if not inside.size:
        return np.zeros_like(values)
    low, high = float(inside.min()) if nothing is None else nothing, float(inside.max())
    if high <= low:
        return np.zeros_like(values)
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def _best_of_session(values: Features, spoken: Sequence[Spoken]) -> Features:
    best: dict[tuple[str, str], float] = {}
    for value, one in zip(values, spoken, strict=True):
        if one.candidate:
            session = (one.turn.host, one.turn.scope.session)
            best[session] = max(best.get(session, 0.0), float(value))
    return _each(spoken, lambda one: best.get((one.turn.host, one.turn.scope.session), 0.0))


def _each(spoken: Sequence[Spoken], measure: Callable[[Spoken], float]) -> Features:
    return np.array([measure(one) for one in spoken], dtype=np.float32)
