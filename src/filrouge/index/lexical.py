"""FTS5 match expressions from analysed terms. Any punctuation a user types is legal, because none is left.

FTS5's bm25() adds up every phrase of the expression and cannot weigh one against another, except by naming it twice:
a word that is its own stem stands twice, so that every word of a question weighs the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from filrouge.index.folding import unspaced
from filrouge.index.stop_words import STOP_WORDS

Terms = Sequence[Sequence[str]]
_PHRASES_OF_A_WORD = 2


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of a question as a full-text index is asked for it.

    Attributes:
        words: one token, or several that follow each other.
        times: how often it counts.
        is_start: any token that begins so will do.
    """

    words: tuple[str, ...]
    times: int = 1
    is_start: bool = False


def phrases(terms: Terms) -> list[Phrase]:
    """The pieces of a question.

    Where it is nothing but small words ("to be or not to be"), their sequence counts as a word more.
    """
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _PHRASES_OF_A_WORD if len(forms) == 1 else 1)
    # One character of a script without spaces is indexed as the beginning of a pair.
    found = [Phrase((form,), count, len(form) == 1 and unspaced(form)) for form, count in times.items()]
    if len(terms) > 1 and all(forms[0] in STOP_WORDS for forms in terms):
        found.insert(0, Phrase(tuple(forms[0] for forms in terms)))
    return found


def any_of(terms: Terms) -> str:
    """An FTS5 expression that matches where any form of any term occurs; empty for no terms."""
    return " OR ".join(_fts5(phrase) for phrase in phrases(terms) for _ in range(phrase.times))


def _fts5(phrase: Phrase) -> str:
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.is_start else "")
