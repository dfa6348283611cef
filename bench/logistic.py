"""Logistic regressions, as the models of talk are fitted.

Those over dense features and hashed words are fitted full batch by Adam (Kingma and Ba, 2015, arxiv.org/abs/1412.6980)
from zero, those over a few signs by Newton's method, so that the same data and machine give the same weights, bit for
bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from filrouge.extraction.statement_model import BUCKETS, PARTS, Numbers, Regression, sigmoid, weight

RATE: Final = 0.02


def fitted(
    features: Numbers,
    places: Sequence[Sequence[int]],
    wanted: Numbers,
    counts: Numbers,
    decay: tuple[float, float],
    epochs: int,
) -> Regression:
    """The weights for these rows, rounded to half precision; the threshold is still to be chosen.

    Args:
        places: of the hashed words of each row.
        wanted, counts: the answer to each question, and what it counts, shape (rows, questions).
        decay: of dense and of hashed weights.
    """
    column = np.concatenate([np.array(one, np.int64) for one in places])
    row = np.repeat(np.arange(len(places)), [len(one) for one in places])
    value = np.array([weight(one) for one in places], np.float32)[row]
    many = wanted.shape[1]
    shapes: list[tuple[int, ...]] = [(features.shape[1], many), (BUCKETS, many), (many,)]
    parts: list[NDArray[Any]] = [np.zeros(shape, np.float32) for shape in shapes]
    mean: list[NDArray[Any]] = [np.zeros_like(part) for part in parts]
    square: list[NDArray[Any]] = [np.zeros_like(part) for part in parts]
    for epoch in range(1, epochs + 1):
        odds = features @ parts[0] + parts[2]
        for one in range(many):
            odds[:, one] += np.bincount(row, parts[1][column, one] * value, len(places)).astype(np.float32)
        error = (sigmoid(odds) - wanted) * counts
        hashed_slope = np.stack([np.bincount(column, error[row, one] * value, BUCKETS) for one in range(many)], axis=1)
        slopes = [features.T @ error + decay[0] * parts[0], hashed_slope + decay[1] * parts[1], error.sum(axis=0)]
        for at, slope in enumerate(slopes):
            mean[at] = 0.9 * mean[at] + 0.1 * slope
            square[at] = 0.999 * square[at] + 0.001 * slope * slope
            step = mean[at] / (1 - 0.9**epoch) / (np.sqrt(square[at] / (1 - 0.999**epoch)) + 1e-8)
            parts[at] -= (RATE * step).astype(np.float32)
    rounded = [part.astype(np.float16).astype(np.float32) for part in parts]
    return Regression(dense=rounded[0], hashed=rounded[1], bias=rounded[2], threshold=0.5)


def by_newton(
    rows: NDArray[np.floating[Any]],
    right: NDArray[Any],
    decay: NDArray[np.floating[Any]],
    counts: NDArray[np.floating[Any]] | None = None,
    steps: int = 40,
) -> NDArray[np.float64]:
    """The weights of a ridge regression, one for each column; a constant is a column of ones.

    Args:
        right: the answer of each row, in [0, 1].
        decay: what each weight costs.
        counts: what each row counts; None = 1.
    """
    of_row = np.ones(len(rows)) if counts is None else counts
    weights, cost = np.zeros(rows.shape[1]), np.diag(decay)
    for _ in range(steps):
        with np.errstate(over="ignore"):
            found = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ ((found - right) * of_row) + cost @ weights
        bend = (rows.T * (found * (1 - found) * of_row)) @ rows + cost
        weights = weights - np.linalg.solve(bend, slope)
    return weights


def stored(made: Regression) -> dict[str, Any]:
    """The weights as they are written to a file."""
    found: dict[str, Any] = {part: getattr(made, part).astype(np.float16) for part in PARTS}
    return found | {"threshold": np.float32(made.threshold)}


def average_precision(right: NDArray[np.bool_], odds: Numbers) -> float:
    """The mean precision at each labelled row, by falling odds."""
    hits = right[np.argsort(-odds, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / max(1, hits.sum()))


def likeliest(groups: Sequence[Hashable], odds: Numbers) -> NDArray[np.bool_]:
    """Which row is the likeliest of its group; the first of equal ones."""
    best: dict[Hashable, int] = {}
    for at, group in enumerate(groups):
        if odds[at] > odds[best.setdefault(group, at)]:
            best[group] = at
    found = np.zeros(len(groups), np.bool_)
    found[list(best.values())] = True
    return found


def threshold_at(right: NDArray[np.bool_], odds: Numbers, precision: float) -> float:
    """The probability at the lowest odds above which that share is labelled."""
    order = np.argsort(-odds, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share >= precision)
    lowest = float(odds[order[good[-1]]]) if len(good) else float(odds.max())
    return 1.0 / (1.0 + float(np.exp(-lowest)))
