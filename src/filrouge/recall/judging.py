"""Judging: how far a question's words are in a text, and what that says of results, whatever kind they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from filrouge.recall.relevance import Signs, chances, coverage, known, rarity, telling
from filrouge.recall.weights import KNOWN, KNOWN_BY_WORDS, RELEVANCE, RELEVANCE_BY_WORDS

Forms = Sequence[str]
#: Results that are judged and shown; ranking has put them first.
JUDGED: Final = 10
#: Of fewer items than this nothing can be learned of how rare a word is: the one memory that there is has its words
#: "in all memories".
_SMALLEST: Final = 20


class Questioned:
    """The words of a question, weighed by how rare they are where it is asked.

    Args:
        terms: its meaningful words, each with every form that counts as having it.
        frequencies: in how many items each form occurs.
        size: how many items there are.
    """

    def __init__(self, terms: Sequence[Forms], frequencies: Mapping[str, int], size: int) -> None:
        self._terms = terms
        self._often = {forms[0]: max(frequencies.get(form, 0) for form in forms) for forms in terms}
        self._size = max(size, _SMALLEST)
        self._rarities = {word: rarity(often, self._size) for word, often in self._often.items()}

    def __len__(self) -> int:
        """How many words there are."""
        return len(self._terms)

    def matched(self, tokens: frozenset[str]) -> list[str]:
        """The words that stand in a text, given its tokens."""
        return [forms[0] for forms in self._terms if not tokens.isdisjoint(forms)]

    def covered(self, words: Sequence[str]) -> float:
        """Which share of the question these words are."""
        return coverage(words, self._rarities)

    def is_telling(self, words: Iterable[str]) -> bool:
        """True where one of the words says what the talk is about."""
        return any(telling(word, self._often[word], self._size) for word in words)


def alone(questioned: Questioned, matched: Sequence[str], *, similarity: float | None, share: float) -> Signs:
    """What speaks for a text that is its own neighbourhood: a memory, a passage."""
    near = similarity or 0.0
    return Signs(
        similarity=near,
        around=near,
        wide=near,
        covered=questioned.covered(matched),
        telling=questioned.is_telling(matched),
        share=share,
        words=len(questioned),
    )


def judged(
    questioned: Questioned, signs: Sequence[Signs], matched: Sequence[Sequence[str]], *, by_meaning: bool
) -> tuple[list[float], float]:
    """The relevance of each result, and the probability that anything is known, which the first of them tell.

    Args:
        matched: the question's words in each result.
        by_meaning: false where no vector had a say.
    """
    found = chances(signs, RELEVANCE if by_meaning else RELEVANCE_BY_WORDS)
    words = questioned.covered(list(dict.fromkeys(word for one in matched[:JUDGED] for word in one)))
    return found, known(signs[:JUDGED], found[:JUDGED], words, KNOWN if by_meaning else KNOWN_BY_WORDS)
