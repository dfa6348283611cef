"""Turn ranking: features of each turn and of the turns around it, and detection of outdated turns.

An answer rarely repeats the words of its question, so each turn is scored by its own words and vector, by those of the
turns around it, and by the best of its session. The module also parses the times that a question names.

Pure: no database, no file.
"""

from __future__ import annotations

import calendar
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.core import lazy_re as re
from filrouge.core.protocols import Vector, Vectors
from filrouge.extraction.vocabulary import content, topic

# The time a question is about: months, years, dates, and expressions like "yesterday" or "la semaine dernière".
#
# A time in the question raises the score of turns from that time. It never excludes other turns, because people
# misremember dates and report things later. Each expression becomes a span of days, relative to the day of the
# question. English and French are supported.

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan janvier janv",
            "february feb fevrier fevr",
            "march mar mars",
            "april apr avril avr",
            "may mai",
            "june jun juin",
            "july jul juillet juil",
            "august aug aout",
            "september sep sept septembre",
            "october oct octobre",
            "november nov novembre",
            "december dec decembre",
        ),
        start=1,
    )
    for name in names.split()
}
_NAMES: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
#: "may", "mar" and "mars" are also ordinary words: alone they need a preposition or a number next to them.
_MONTH: Final = re.compile(
    rf"(?:\b(?:in|of|on|during|since|until|before|after|en|de|du|le|last|this|next|debut|fin|mi)[ -]+)?"
    rf"(?:\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?(?: of)? )?\b(?P<month>{_NAMES})\b\.?"
    rf"(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,? (?P<year>(?:19|20)\d\d))?"
)
_DOUBTFUL: Final = frozenset("may march mar mars mai jan sept dec oct nov jun jul apr".split())
_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_YEAR: Final = re.compile(r"\b(?:in|of|during|since|en|de) ((?:19|20)\d\d)\b")
_AGO: Final = re.compile(
    r"\b(?:(\d{1,3}|an?|one|two|three|four|five|six) (day|week|month|year)s? ago"
    r"|il y a (\d{1,3}|une?|deux|trois|quatre|cinq|six) (jour|semaine|mois|an)s?)\b"
)
_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("a an one un une", "two deux", "three trois", "four quatre", "five cinq", "six"), start=1
    )
    for word in words.split()
}
_UNIT_DAYS: Final = {"day": 1, "jour": 1, "week": 7, "semaine": 7, "month": 30, "mois": 30, "year": 365, "an": 365}
_FIXED: Final = (
    (re.compile(r"\b(?:today|this morning|this afternoon|tonight|aujourd'?hui|ce matin|ce soir)\b"), 0, 0),
    (re.compile(r"\b(?:yesterday|last night|hier)\b"), 1, 1),
    (re.compile(r"\b(?:the other day|l'autre jour|recently|recemment|lately|dernierement)\b"), 10, 1),
    (re.compile(r"\b(?:last week|past week|la semaine derniere|la semaine passee)\b"), 14, 5),
    (re.compile(r"\b(?:this week|cette semaine)\b"), 7, 0),
    (re.compile(r"\b(?:last month|past month|le mois dernier|le mois passe)\b"), 62, 25),
    (re.compile(r"\b(?:this month|ce mois-ci|ce mois)\b"), 31, 0),
    (re.compile(r"\b(?:last year|l'annee derniere|l'an dernier|l'an passe)\b"), 730, 180),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Days from `first` to `last`, both included."""

    first: date
    last: date

    def closeness(self, day: date) -> float:
        """Return 1 within the span, falling to 0 over a month outside it, because reports precede or follow events."""
        away = max((self.first - day).days, (day - self.last).days, 0)
        return max(0.0, 1.0 - away / 31) if away else 1.0


def parse_times(question: str, today: date) -> tuple[Span, ...]:
    """Return the time spans that a question names."""
    plain = _plain(question)
    found = [Span(first=day, last=day) for match in _ISO.finditer(plain) if (day := _day(*match.groups()))]
    found += [span for match in _MONTH.finditer(plain) if (span := _month(match, today))]
    if not found:
        found += [Span(first=date(int(y), 1, 1), last=date(int(y), 12, 31)) for y in _YEAR.findall(plain)]
    for match in _AGO.finditer(plain):
        count, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
        days = _UNIT_DAYS[unit] * (_COUNTS.get(count) or int(count))
        margin = max(1, days // 4) if _UNIT_DAYS[unit] > 1 else 0
        found.append(Span(first=_before(today, days + margin), last=_before(today, days - margin)))
    for pattern, first, last in _FIXED:
        if pattern.search(plain):
            found.append(Span(first=_before(today, first), last=_before(today, last)))
    return tuple(found)


def closeness(named: tuple[Span, ...], day: date) -> float:
    """Return how near a day is to the nearest span, in [0, 1]; 0 if the question names no time."""
    return max((span.closeness(day) for span in named), default=0.0)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
    return "".join(char for char in folded if not unicodedata.combining(char))


def _month(match: re.Match[str], today: date) -> Span | None:
    name = match["month"]
    number = _MONTHS[name]
    day = match["day"] or match["after"]
    if name in _DOUBTFUL and not (day or match["year"] or match[0].strip(" .") != name):
        return None
    year = int(match["year"]) if match["year"] else today.year - (number > today.month)
    if day and 1 <= int(day) <= 31:
        exact = _day(year, number, day)
        return Span(first=exact, last=exact) if exact else None
    return Span(first=date(year, number, 1), last=date(year, number, calendar.monthrange(year, number)[1]))


def _day(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _before(today: date, days: int) -> date:
    try:
        return today - timedelta(days=days)
    except OverflowError:
        return date.min


# Features of a turn and its neighbourhood.
#
# No feature is stored. The vector of a neighbourhood is the mean of its turns' vectors, weighted by length. This is
# close to what the model returns for the joined text, because the model averages token vectors.
#
# Every feature is in [0, 1]. 1 is the best of the candidates. 0 means no word of the question, or for vectors the
# farthest candidate. `bench/fit_recall.py` fitted the weights; the results in `bench/results` leave each group of
# conversations out in turn.

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
_DIGIT: Final = re.compile(r"\d")
_WORD: Final = re.compile(r"\w+")
_DATED: Final = frozenset(
    "yesterday today tomorrow last next ago week weeks month months year years since hier aujourd demain dernier"
    " derniere dernièr dernière prochain prochaine semaine mois an ans depuis".split()
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTable:
    """Turns to be ranked, as columns; a neighbour is given by its index.

    Attributes:
        candidates: False for a turn that is only present as a neighbour.
        days: the day of each turn; read only if the question names a time, otherwise it may be empty.
        sessions: one value per session.
        replies: True for the agent's words.
        words: BM25; 0 if the question's words do not occur, or if the word search did not return the turn.
        vectors: the vector of each turn, a row of zeros if it has none; for a text of several windows, their mean. None
            if no turn has a vector.
        nearest: the cosine of the best window to the question, NaN without a vector.
        before: the index of the previous turn, -1 if a session begins or the neighbour was not fetched.
    """

    candidates: NDArray[np.bool_]
    texts: Sequence[str]
    days: Sequence[date]
    sessions: Sequence[Hashable]
    replies: NDArray[np.bool_]
    words: Features
    vectors: Vectors | None
    nearest: Features
    before: Places

    def __len__(self) -> int:
        """Return the number of turns."""
        return len(self.texts)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnQuestion:
    """A question as used for ranking turns."""

    text: str
    vector: Vector | None
    times: tuple[Span, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnFeatures:
    """The features of turns, in their order; only candidates have values.

    Attributes:
        features: one row per turn, columns in the order of `NAMES`; zeros for turns that are not candidates.
        around, wide: the cosine of the question to the mean of the turn with one turn on each side, and with two; -1
            without vectors, and for turns that are not candidates.
    """

    features: Features
    around: Features
    wide: Features


def turn_features(asked: TurnQuestion, spoken: TurnTable) -> TurnFeatures:
    """Compute the features of every candidate; the other turns contribute as neighbours only."""
    at = np.flatnonzero(spoken.candidates)
    places: list[int] = at.tolist()
    before, after = spoken.before, following(spoken.before)
    beside = (_stepped(before, at), _stepped(after, at))
    further = (_stepped(before, beside[0]), _stepped(after, beside[1]))
    back, close, far = _meanings(asked, spoken, at, beside, further)
    # A text without neighbours takes the place of its own neighbourhood, in words and in vectors.
    alone = (beside[0] < 0) & (beside[1] < 0)
    padded = np.append(spoken.words, np.float32(0.0))
    words = _stretched(padded[at], 0.0)
    meaning = _stretched(np.nan_to_num(spoken.nearest[at], nan=-1.0))
    texts = [spoken.texts[place] for place in places]
    sessions = [spoken.sessions[place] for place in places]
    columns: Mapping[str, Features] = {
        "words": words,
        "words_before": _stretched(np.where(alone, padded[at], padded[beside[0]]), 0.0),
        "words_after": _stretched(np.where(alone, padded[at], padded[beside[1]]), 0.0),
        "meaning": meaning,
        "meaning_before": _stretched(back),
        "meaning_around": _stretched(close),
        "meaning_wide": _stretched(far),
        "session_words": _best_of_session(words, sessions),
        "session_meaning": _best_of_session(meaning, sessions),
        "length": np.array([min(1.0, len(text) / _LONG) for text in texts], dtype=np.float32),
        "asks": np.array([text.rstrip().endswith("?") for text in texts], dtype=np.float32),
        "time": _times(asked, spoken, places),
        "speaker": _said_by_named(asked.text, spoken.texts)[at],
        "dated": _dated(asked.text, texts),
        "reply": spoken.replies[at].astype(np.float32),
    }
    return TurnFeatures(
        features=_spread(np.stack([columns[name] for name in NAMES], axis=1), at, len(spoken), 0.0),
        around=_spread(close, at, len(spoken), -1.0),
        wide=_spread(far, at, len(spoken), -1.0),
    )


def following(before: Places) -> Places:
    """Return the index of the turn after each turn, -1 if there is none."""
    after = np.full_like(before, -1)
    has = np.flatnonzero(before >= 0)
    after[before[has]] = has
    return after


def speaker_of(text: str) -> str:
    """Return the speaker named at the beginning of a chat turn ("Caroline: …"), or an empty string."""
    found = _SPEAKER.match(text)
    return found[1] if found else ""


def _said_by_named(question: str, texts: Sequence[str]) -> Features:
    """Return 1 for turns of the one speaker that the question names; all 0 if it names none or several."""
    speakers = [speaker_of(text) if ":" in text else "" for text in texts]
    names = {*speakers} - {""}
    named = [one for one in names if re.search(rf"\b{re.escape(one.split()[0])}\b", question, re.IGNORECASE)]
    if len(named) != 1:
        return np.zeros(len(texts), dtype=np.float32)
    return np.array([one == named[0] for one in speakers], dtype=np.float32)


def _times(asked: TurnQuestion, spoken: TurnTable, places: Sequence[int]) -> Features:
    if not asked.times:
        return np.zeros(len(places), dtype=np.float32)
    return np.array([closeness(asked.times, spoken.days[place]) for place in places], dtype=np.float32)


def _dated(question: str, texts: Sequence[str]) -> Features:
    if not _WHEN.search(question):
        return np.zeros(len(texts), dtype=np.float32)
    return np.array([_is_dated(text) for text in texts], dtype=np.float32)


def _is_dated(text: str) -> bool:
    return bool(_DIGIT.search(text)) or not _DATED.isdisjoint(_WORD.findall(text.lower()))


def _stepped(steps: Places, places: Places) -> Places:
    """Follow one step from each of these indices; -1 stays -1."""
    return np.append(steps, -1)[places]


def _meanings(
    asked: TurnQuestion, spoken: TurnTable, at: Places, beside: tuple[Places, Places], further: tuple[Places, Places]
) -> tuple[Features, Features, Features]:
    """Return cosines of the question to the means of the turn with the one before, with one on each side, with two."""
    if asked.vector is None or spoken.vectors is None:
        none = np.full(len(at), -1.0, dtype=np.float32)
        return none, none, none
    lengths = np.array([1 + len(text) for text in spoken.texts], dtype=np.float32)
    weighted = np.zeros((len(spoken) + 1, len(asked.vector)), dtype=np.float32)  # index -1 points to a zero row
    np.multiply(spoken.vectors, lengths[:, None], out=weighted[:-1])
    back = weighted[at] + weighted[beside[0]]
    close = back + weighted[beside[1]]
    far = close + weighted[further[0]] + weighted[further[1]]
    return _cosines(back, asked.vector), _cosines(close, asked.vector), _cosines(far, asked.vector)


def _cosines(means: Vectors, question: Vector) -> Features:
    """Return the cosine of the question to each mean of any length; -1 for a mean without any vector."""
    lengths = np.sqrt(np.vecdot(means, means))
    return np.where(lengths > 0, np.vecdot(means, question) / np.maximum(lengths, 1e-9), -1.0).astype(np.float32)


def _stretched(values: Features, nothing: float | None = None) -> Features:
    """Scale values to [0, 1], from `nothing` to the largest; without `nothing`, from the smallest."""
    if not values.size:
        return values
    low, high = float(values.min()) if nothing is None else nothing, float(values.max())
    if high <= low:
        return np.zeros_like(values)
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def _best_of_session(values: Features, sessions: Sequence[Hashable]) -> Features:
    numbers: dict[Hashable, int] = {}
    of = np.array([numbers.setdefault(session, len(numbers)) for session in sessions], dtype=np.int64)
    best = np.zeros(len(numbers), dtype=np.float32)
    np.maximum.at(best, of, values)
    return best[of]


def _spread(values: Features, at: Places, size: int, other: float) -> Features:
    """Return the values at their indices in an array of length `size`, with `other` everywhere else."""
    spread = np.full((size, *values.shape[1:]), other, dtype=np.float32)
    spread[at] = values
    return spread


# Outdated turns: turns that repeat a memory that has ended, so that they are not shown as valid.
#
# A correction ends a memory, but not the turns that said the same: the agent's "noted", an answer of last month, a
# summary. A turn is outdated if it is older than the end and shares with the ended memory at least two words and at
# least half of the words of the shorter text. Words are compared across languages (`extraction.vocabulary`). The turn
# with the correction, and later turns, are kept.

_HALF: Final = 0.5
_FEWEST: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A memory that was valid until `at`, by its words (`words_of`)."""

    words: frozenset[str]
    at: datetime


def words_of(text: str) -> frozenset[str]:
    """Return the topic words of a text, normalised across languages."""
    return frozenset(topic(content(text)))


def is_outdated(words: frozenset[str], at: datetime, ended: Iterable[Ended]) -> bool:
    """Return True if a turn with these words, said at this time, repeats something that has ended since."""
    return any(at < one.at and _says(words, one.words) for one in ended)


def _says(words: frozenset[str], old: frozenset[str]) -> bool:
    shared = len(words & old)
    return shared >= _FEWEST and shared >= _HALF * min(len(words), len(old))
