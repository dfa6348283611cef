"""Fit the weights by which a newer version of a statement is recognised (src/filrouge/extraction/profile.py).

    python bench/fit_versions.py --data DIR

Right are the pairs of statements of which `update_pairs.py` says that the later one is a newer version of the earlier
one; wrong are all pairs of statements of different people. A logistic regression with a ridge, on all pairs; then on
half of the people and asked about the other half, which is what the weights can be believed to be worth. The weights in
the source began as these, were rounded and made stricter by hand where a wrong supersede was seen (a goal beside a
result, durations, nothing shared), and `always` is what leaves hardly any wrong one.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import update_pairs
from numpy.typing import NDArray

from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.profile import version, version_features
from filrouge.memories.models import Statement
from filrouge.testing import running

_RIDGE: Final = 3.0
_STRANGERS: Final = 1200
_ODDS: Final = (-3.0, -2.0, -1.0, 0.0, 1.0)


def gathered(data: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Names of the signs, the signs of every pair, whether it is right, and the number of its person."""
    found, _ = update_pairs.pairs(data)
    said: list[tuple[int, update_pairs.Pair | None, bool, Statement]] = [
        (number, pair, n in pair.old, statement)
        for number, pair in enumerate(found)
        for n, text in pair.messages
        for statement in statements_of(text)
    ]
    people = {name: len(found) + n for n, name in enumerate(dict(update_pairs.probes(data, _STRANGERS)))}
    said += [
        (people[name], None, False, statement)
        for name, text in update_pairs.probes(data, _STRANGERS)
        for statement in statements_of(text)
    ]
    texts = sorted({one.text for *_, one in said})
    with tempfile.TemporaryDirectory() as home, running(home, embedding="") as parts:
        made = [parts.vectors.passages(texts[start : start + 64]) for start in range(0, len(texts), 64)]
        space = parts.vectors.space
    rows_of = np.concatenate([one for one in made if one is not None])
    vectors = {text: rows_of[place] for place, text in enumerate(texts)}
    rows: list[dict[str, float]] = []
    right: list[float] = []
    who: list[int] = []
    for (a, pair, _, new), (b, other, older, old) in itertools.permutations(said, 2):
        if a == b and not (pair and older and pair.category == "update"):
            continue
        if a != b and pair and other and update_pairs.one_matter(pair, other):
            continue
        mine, theirs = version(new.text, new.subject), version(old.text, old.subject)
        told = [] if mine.denied or theirs.denied else version_features(mine, theirs)
        good = a == b and pair is not None and update_pairs.answers(pair, old.text, new.text)
        if not told or (a == b and not good):
            continue
        close = space.calibrated(float(vectors[new.text] @ vectors[old.text]))
        rows.append(min(told, key=lambda one: one["other sort"]) | {"similarity": close})
        right.append(float(good))
        who.append(a)
    names = list(rows[0])
    return names, np.array([[row[name] for name in names] for row in rows]), np.array(right), np.array(who)


def fitted(signs_: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of a ridge logistic regression on signs of one spread, by Newton's steps; `always` is not shrunk."""
    weights = np.zeros(len(signs_[0]), dtype=np.float64)
    ridge: NDArray[np.float64] = _RIDGE * np.var(signs_, axis=0) + 1e-6
    for _ in range(50):
        p: NDArray[np.float64] = 1 / (1 + np.exp(-(signs_ @ weights)))
        slope: NDArray[np.float64] = signs_.T @ (p - right) + np.multiply(ridge, weights)
        bend: NDArray[np.float64] = (signs_ * np.multiply(p, 1 - p)[:, None]).T @ signs_ + np.diag(ridge)
        step: NDArray[np.floating[Any]] = np.linalg.solve(bend, slope)
        weights -= step
    return weights


def counts(odds: NDArray[np.float64], right: NDArray[np.float64]) -> str:
    return "; ".join(
        f"above {least:+.0f}: {int(((odds >= least) & (right > 0)).sum())} right,"
        f" {int(((odds >= least) & (right == 0)).sum())} wrong"
        for least in _ODDS
    )


def main() -> None:
    options = argparse.ArgumentParser(description="fit the weights of newer versions")
    options.add_argument("--data", type=Path, required=True)
    names, rows, right, who = gathered(options.parse_args().data)
    print(f"{int(right.sum())} right, {int((right == 0).sum())} wrong pairs")
    weights = fitted(rows, right)
    print({name: round(float(weight), 2) for name, weight in zip(names, weights, strict=True)})
    print("all      ", counts(rows @ weights, right))
    for half in (0, 1):
        inside = who % 2 == half
        print(f"half {half}   ", counts(rows[~inside] @ fitted(rows[inside], right[inside]), right[~inside]))


if __name__ == "__main__":
    main()
