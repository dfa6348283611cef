"""FTS5 match expressions from analysed terms. Any punctuation a user types is legal, because none is left.

FTS5's bm25() adds up every phrase of the expression and cannot weigh one against another, except by naming it twice:
a word that is its own stem stands twice, so that every word of a question weighs the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.index.folding import unspaced
from filrouge.index.stop_words import STOP_WORDS

Terms = Sequence[Sequence[str]]
_PHRASES_OF_A_WORD = 2


def any_of(terms: Terms) -> str:
    """An expression that matches where any form of any term occurs; empty for no terms.

    Where a question is nothing but small words ("to be or not to be"), their sequence counts as a word more.
    """
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _PHRASES_OF_A_WORD if len(forms) == 1 else 1)
    phrases = [_phrase(form) for form, count in times.items() for _ in range(count)]
    if len(terms) > 1 and all(forms[0] in STOP_WORDS for forms in terms):
        phrases.insert(0, '"' + " ".join(forms[0] for forms in terms) + '"')
    return " OR ".join(phrases)


def _phrase(form: str) -> str:
    # One character of a script without spaces is indexed as the beginning of a pair.
    return f'"{form}" *' if len(form) == 1 and unspaced(form) else f'"{form}"'
