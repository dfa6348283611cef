"""The statement model: the probability that a unit states something worth remembering, its kind and its scope.

Logistic regressions over the same features (`features`), one a question, fitted by `bench/fit_statements.py` on
labelled talk, with thresholds chosen on other projects (`bench/results/statements.md`). There are two sets of weights:
with vectors of the bundled embedder, and of words alone, for whoever uses another embedder or has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from filrouge.extraction.features import dense, hashed
from filrouge.extraction.logistic import Numbers, Regression, chances, load, log_odds
from filrouge.extraction.units import Unit
from filrouge.model.memory import Statement

#: The embedder whose vectors the weights were fitted on.
EMBEDDER: Final = "multilingual-e5-small"
#: What is asked of a unit: states it anything; of each kind; is it of the user, whatever the project.
QUESTIONS: Final = (
    "states", "fact", "decision", "rule", "preference", "constraint", "intent", "deadline", "cause", "user",
)  # fmt: skip
LABELS: Final = QUESTIONS[1:-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What the model says of a unit.

    Attributes:
        states: the probability that it states something to be remembered.
        kind: the likeliest of `LABELS`, if it does.
        sure: the share of that kind in the sum of all.
        user: the probability that it holds of the user, whatever the project.
    """

    states: float
    kind: str
    sure: float
    user: float


@cache
def weights(name: str) -> Regression:
    """The weights `with vectors` or `words alone`."""
    return load("statements.npz", f"{name.replace(' ', '_')}_")


def odds_of(
    units: Sequence[Unit],
    patterns: Sequence[Statement | None],
    vectors: tuple[Numbers, Numbers] | None,
    given: Regression,
) -> Numbers:
    """A row a unit, a column a question."""
    return log_odds(dense(units, patterns, vectors), [hashed(unit) for unit in units], given)


def judge(
    units: Sequence[Unit], patterns: Sequence[Statement | None], vectors: tuple[Numbers, Numbers] | None
) -> tuple[list[Judged], float]:
    """What the model says of each unit, and the threshold that holds for it."""
    given = weights("words alone" if vectors is None else "with vectors")
    if not units:
        return [], given.threshold
    return [_judged(row) for row in chances(odds_of(units, patterns, vectors, given))], given.threshold


def _judged(row: Numbers) -> Judged:
    kinds = row[1:-1]
    best = int(kinds.argmax())
    return Judged(
        states=float(row[0]), kind=LABELS[best], sure=float(kinds[best] / max(kinds.sum(), 1e-9)), user=float(row[-1])
    )
