"""FTS5's own bm25() over some rows of an index: what it would answer if there were no others.

A filtered question is ranked by it, so that rows behind the filter change nothing. The formula and its two values
(k1 = 1.2, b = 0.75, rarity never below a millionth) are those of https://sqlite.org/fts5.html, with the sign turned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

_K1: Final = 1.2
_B: Final = 0.75
_LEAST_RARITY: Final = 1e-6
#: A word that is its own stem stands twice in an expression (`index.lexical`).
_PHRASES_OF_A_WORD: Final = 2


def weights(
    terms: Sequence[Sequence[str]], counts: Mapping[str, Mapping[str, int]], rows: int
) -> tuple[dict[str, float], dict[str, int]]:
    """What each form of the question's words weighs, and in how many rows it occurs.

    Args:
        counts: how often each form occurs in each row that has one.
        rows: how many rows there are, with and without.
    """
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _PHRASES_OF_A_WORD if len(forms) == 1 else 1)
    having = {form: sum(form in row for row in counts.values()) for form in times}
    rarity = {form: math.log((rows - n + 0.5) / (n + 0.5)) for form, n in having.items()}
    return {form: times[form] * max(rarity[form], _LEAST_RARITY) for form in times}, having


def scores(
    counts: Mapping[str, Mapping[str, int]],
    lengths: Mapping[str, int],
    weight: Mapping[str, float],
) -> dict[str, float]:
    """The score of every row in `counts`; higher is better.

    Args:
        lengths: tokens of every row of the share, also of those that do not match.
    """
    mean = sum(lengths.values()) / len(lengths) if lengths else 1.0
    found = dict[str, float]()
    for id_, occurring in counts.items():
        norm = _K1 * (1 - _B + _B * lengths[id_] / mean)
        found[id_] = sum(weight[form] * (n * (_K1 + 1)) / (n + norm) for form, n in occurring.items())
    return found
