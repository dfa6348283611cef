"""Agreement: what an agent proposed, or found, and the user said yes to.

"Ok, the second one" states nothing by itself: what is to be remembered stands in the message that it answers. Of each
sentence of that message a logistic regression says how likely it is that the user agrees to it with this prompt, from
the words of both and plain signs. It was fitted by `bench/fit_agreement.py` on labelled talk, and its threshold was
chosen on other projects (`bench/results/agreement.md`). Vectors of the embedder add little to the words here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from filrouge import lazy_re as re
from filrouge.extraction.logistic import Numbers, Regression, chances, confidence, load, log_odds, places
from filrouge.extraction.reader import LONGEST
from filrouge.extraction.units import Unit, units
from filrouge.model.memory import Span, Statement
from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.understand.heuristics import is_own_prompt
from filrouge.understand.masked import unmasked
from filrouge.understand.profile import subject
from filrouge.understand.reading import read
from filrouge.understand.words import content, fold

#: What `Turn.skipped` may say of a prompt that is a "yes": it was read, or was passed over for saying so little.
_SAYS_LITTLE: Final = frozenset({"", "too short", "small talk"})
#: Columns of the weights: does the user agree to it; if so, is it a decision, and not a fact that was found.
QUESTIONS: Final = ("agreed", "decision")
#: Characters at the end of the agent's message that are looked at, and sentences among them.
_LAST_CHARACTERS: Final = 4_000
_LAST_SENTENCES: Final = 12
#: Characters of the prompt that are looked at: a "yes" stands at its beginning.
_FIRST_CHARACTERS: Final = 2_000
_LEAST_WORDS: Final = 3
#: Words of the prompt, and of the sentence, that are hashed.
_OF_PROMPT, _OF_SENTENCE = 12, 60

_WORD: Final = re.compile(r"[\w'’]+|[?!]")
_LONG_WORD: Final = re.compile(r"\w{4,}")
_DIGIT: Final = re.compile(r"\d")
_YES: Final = re.compile(
    r"^(?:ok|okay|yes|yep|yeah|sure|right|good|great|perfect|fine|agreed|deal|done|do it|go|k\b|oui|ouais|d'accord"
    r"|daccord|parfait|super|nickel|top|vas-y|vas y|si\b|vale|dale|listo|perfecto|de acuerdo|hecho|adelante|exact"
    r"|that works|works for me)"
)
_NO: Final = re.compile(r"\b(?:no|nope|nah|don.?t|not|non|pas|never|wait|instead|rather|plutot|mejor)\b")
_PROPOSES: Final = re.compile(
    r"\b(?:i'd|i would|i propose|i suggest|let's|we could|i could|should|je prendrais|je propose|je ferais|je mettrais"
    r"|propose|proposer\w*|pourrai\w+|propongo|pondria|haria|usaria|sugiero|option)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A sentence of an agent's message, and the prompt that answers it.

    Attributes:
        sentence: its place is that in the message.
        message, prompt: folded.
    """

    sentence: Unit
    message: str
    prompt: str


def may_agree(turn: Turn) -> bool:
    """Whether a turn is a prompt that may say yes to the message before it, however little it says."""
    return turn.trust == TRUST_PROMPT and turn.skipped in _SAYS_LITTLE and is_own_prompt(turn)


def proposals(message: str, prompt: str) -> list[Proposal]:
    """The last sentences of an agent's message, in order."""
    begin = max(0, len(message) - _LAST_CHARACTERS)
    begin += max(0, message[begin:].find(" ")) if begin else 0
    whole, asked = fold(message[begin:]), fold(prompt[:_FIRST_CHARACTERS])
    found = [
        Proposal(
            sentence=Unit(
                start=one.start + begin, end=one.end + begin, text=one.text, place=one.place, number=one.number
            ),
            message=whole,
            prompt=asked,
        )
        for one in units(message[begin:])
    ]
    return found[-_LAST_SENTENCES:]


def agreed(message: str, prompt: str) -> tuple[Statement, ...]:
    """What of an agent's message the user agrees to with this prompt: its likeliest sentence, or none of it.

    Returns:
        At most one statement, whose span is of the message.
    """
    given, found = weights(), proposals(message, prompt)
    if not found:
        return ()
    likely = chances(odds_of(found, given))
    best = int(likely[:, 0].argmax())
    if likely[best, 0] < given.threshold:
        return ()
    made = _statement(found[best].sentence, float(likely[best, 0]), float(likely[best, 1]), given.threshold)
    return unmasked([made], message) if made else ()


def _statement(sentence: Unit, chance: float, decision: float, threshold: float) -> Statement | None:
    clause = read(sentence.text, sentence.start)
    words = " ".join(sentence.text[clause.start - sentence.start :].split())
    if len(words) > LONGEST or len(content(words)) < _LEAST_WORDS:
        return None
    return Statement(
        kind="decision" if decision >= 0.5 else "fact",
        text=words,
        span=Span(start=clause.start, end=sentence.end),
        scope="project",
        subject=subject(words),
        confidence=confidence(chance, threshold),
    )


@cache
def weights() -> Regression:
    """The fitted ones."""
    return load("agreement.npz")


def odds_of(found: Sequence[Proposal], given: Regression) -> Numbers:
    """A row a sentence, a column a question."""
    return log_odds(np.array([signs(one) for one in found], np.float32), [hashed(one) for one in found], given)


def signs(one: Proposal) -> list[float]:
    """The plain signs of a sentence and of the prompt after it."""
    sentence, prompt = fold(one.sentence.text), one.prompt
    many, asked = len(sentence.split()), len(prompt.split())
    yes, proposes = _YES.search(prompt) is not None, _PROPOSES.search(sentence) is not None
    both = set(_LONG_WORD.findall(prompt)) & set(_LONG_WORD.findall(sentence))
    found: list[float | bool] = [
        1.0,
        asked <= 3,
        asked <= 8,
        asked <= 15,
        min(asked, 40) / 20,
        min(many, 40) / 20,
        many <= 4,
        one.sentence.place == 0,
        one.sentence.place == one.sentence.number - 1,
        min(one.sentence.number, 6) / 3,
        "?" in prompt,
        "?" in sentence,
        "?" in one.message,
        one.message.rstrip().endswith("?"),
        yes,
        yes and asked <= 8,
        _NO.search(" ".join(prompt.split()[:8])) is not None,
        proposes,
        proposes and yes,
        _DIGIT.search(sentence) is not None,
        min(len(both), 6) / 3,
        "?" in sentence and yes,
    ]
    return [float(sign) for sign in found]


def hashed(one: Proposal) -> list[int]:
    """The places of the words of the sentence, and of those that the prompt begins with."""
    said = _WORD.findall(fold(one.sentence.text))[:_OF_SENTENCE]
    asked = _WORD.findall(one.prompt[:400])[:_OF_PROMPT]
    found = [f"s:{word}" for word in said] + [f"sb:{a} {b}" for a, b in itertools.pairwise(said[:12])]
    found += [f"p:{word}" for word in asked] + [f"pb:{a} {b}" for a, b in itertools.pairwise(asked[:8])]
    found += [f"p0:{' '.join(asked[:1])}", f"p1:{' '.join(asked[:2])}", f"s0:{' '.join(said[:2])}"]
    return places(found)
