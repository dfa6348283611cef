"""What the garden would take for one, among texts of which it is known whether they are.

Three sets, with their real vectors. Statements of the bundled sample that are told twice, in other words and partly in
another language, should be one and may stay two. Statements of two of its subjects, and messages of different people's
chats, must never be one. Neither must the old and the new message of an update pair: the closer two of them are, the
more a merge would cost, because it would hide the newer value.

    python bench/merging.py --data DIR           # DIR as for understanding.py
    python bench/merging.py --data DIR --check   # exit 1 when a gate is missed

Gate: no two that must not be one are merged. Without data it exits 2 and says so.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import update_pairs
from numpy.typing import NDArray

from filrouge.core.protocols import Embedder
from filrouge.core.scope import Scope
from filrouge.maintenance.consolidation import contradiction, is_same
from filrouge.memories.models import Memory
from filrouge.providers.calibration import bundled
from filrouge.providers.embedders import EmbedderOptions, create_embedder

_LONGEST: Final = 600
_PROBES: Final = 600
_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


def memory(text: str, name: str, day: int = 1) -> Memory:
    """A text as a memory."""
    at = _AT.replace(day=day)
    return Memory(
        id=name, scope=Scope(), scope_name="user", kind="fact", text=text, trust=2, created_at=at, valid_from=at
    )


def judged(made_by: Embedder, ones: Sequence[str], others: Sequence[str]) -> dict[str, object]:
    """Of pairs of texts, how many are merged, how many put up for review, and how alike they are."""
    cosines = (made_by.passages(ones) * made_by.passages(others)).sum(axis=1)
    return _row([(one, other) for one, other in zip(ones, others, strict=True)], cosines, made_by)


def among(made_by: Embedder, texts: Sequence[str]) -> dict[str, object]:
    """The same of every two of these texts."""
    vectors = made_by.passages(texts)
    places = list(itertools.combinations(range(len(texts)), 2))
    cosines = (vectors @ vectors.T)[tuple(np.array(places).T)]
    return _row([(texts[one], texts[other]) for one, other in places], cosines, made_by)


def _row(pairs: Sequence[tuple[str, str]], cosines: NDArray[np.floating], made_by: Embedder) -> dict[str, object]:
    alike = [made_by.space.calibrated(float(cosine)) for cosine in cosines.tolist()]
    told = [(memory(one, "a", 1), memory(other, "b", 2), near) for (one, other), near in zip(pairs, alike, strict=True)]
    return {
        "pairs": len(pairs),
        "merged": sum(is_same(*one) for one in told),
        "put up for review": sum(contradiction(*one) is not None for one in told),
        "similarity, median / 99 % / most": [round(float(n), 3) for n in np.percentile(alike, [50, 99, 100])],
    }


def main() -> int:
    """Measure, print a row, and judge."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--data", type=Path, required=True)
    asked.add_argument("--embedding", default="e5", help="the embedder's name")
    asked.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    options = asked.parse_args()
    if not (options.data / "audn.jsonl.xz").exists():
        sys.stderr.write(f"There is no audn.jsonl.xz in {options.data}.\n")
        return 2
    made_by = create_embedder(options.embedding, EmbedderOptions(url="", dimensions=0, environ={}))
    subjects = [one for one in bundled() if one.same]
    old, new = list[str](), list[str]()
    for pair in update_pairs.pairs(options.data)[0]:
        said = {number: text for number, text in pair.messages if len(text) < _LONGEST}
        for one, other in itertools.product(sorted(pair.old & said.keys()), sorted(pair.new & said.keys())):
            old.append(said[one])
            new.append(said[other])
    strangers = sorted({text for _, text in update_pairs.probes(options.data, _PROBES) if len(text) < _LONGEST})
    row = {
        "told twice": judged(made_by, [one.text for one in subjects], [str(one.same) for one in subjects]),
        "two subjects": among(made_by, [one.text for one in subjects]),
        "two people": among(made_by, strangers),
        "old and new": judged(made_by, old, new),
    }
    print(json.dumps(row, indent=1))
    missed = any(row[name]["merged"] for name in ("two subjects", "two people", "old and new"))
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
