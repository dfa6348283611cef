"""How well bridges between threads are made: which pairs are tied, and what their confidence is worth.

    python bench/bridges.py

Each of the 60 French sessions of french_threads.json is a thread, named and given its topics as threads are, with the
bundled model's vectors. Two of them belong together where the set says that they are near each other in subject
(`near`). The set was written for threads, by hand, and nothing of bridges was fitted on it; it is small. Beside the
similarity that is used (beyond what is usual in the project) stands the one above the ground (ADR 14), for comparison.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from filrouge.capture.models import Turn
from filrouge.core.protocols import Vectors
from filrouge.core.scope import Scope
from filrouge.providers.calibration import bundled
from filrouge.providers.embedders import create_embedder
from filrouge.threads.assignment import Whitening, thread_vector
from filrouge.threads.bridges import DetectionInput, above_baseline, find_candidates, similarities
from filrouge.threads.upkeep import name_by_rules

FRENCH: Final = Path(__file__).with_name("french_threads.json")
BANDS: Final = (0.5, 0.55, 0.6, 0.7, 1.01)
Floats = NDArray[np.float64]


def main() -> None:
    """Print the figures."""
    sessions = json.loads(FRENCH.read_text(encoding="utf-8"))["sessions"]
    model = create_embedder("e5")
    prompts = [model.passages(one["turns"]) for one in sessions]
    texts = [text for one in bundled() for text in (one.text, one.same, one.question) if text]
    ground = Whitening.fit(np.concatenate([model.passages(texts), *prompts]))
    assert ground is not None
    threads = [_thread(one, vectors) for one, vectors in zip(sessions, prompts, strict=True)]
    off = ground.whiten(np.stack([thread.vector for thread in threads if thread.vector is not None]))
    above = off @ off.T
    group = {one["id"]: one["near"] for one in sessions}
    rows = list[tuple[bool, float, float, float]]()
    for number, thread in enumerate(threads):
        others = [one for one in threads if one.id != thread.id]
        beyond = above_baseline(similarities(thread, others, model.space))
        sure = {(tie.target if tie.source == thread.id else tie.source): tie.confidence
                for tie in find_candidates(thread, others, model.space)}  # fmt: skip
        for place, other in enumerate(threads):
            if other.id != thread.id:
                near = group[thread.id] == group[other.id]
                rows.append((near, sure.get(other.id, 0.0), beyond[other.id], float(above[number, place])))
    table = np.asarray(rows, dtype=np.float64)
    near, confidence = table[:, 0] > 0, table[:, 1]
    tied = confidence > 0
    print(f"{len(near):,} pairs, {near.sum()} belong together")
    print(f"tied: {tied[near].mean():.3f} of these, {tied[~near].mean():.4f} of the others")
    print(f"{tied.sum()} tied, {near[tied].mean():.2f} of them belong together")
    for low, high in pairwise(BANDS):
        band = (confidence >= low) & (confidence < high)
        if band.any():
            print(f"  confidence from {low}: {band.sum()} tied, {near[band].mean():.2f} belong together")
    for what, column in (("beyond the usual", 2), ("above the ground", 3)):
        print(f"area under the curve, similarity {what}: {_area(table[:, column], near):.3f}")


def _thread(session: dict[str, Any], vectors: Vectors) -> DetectionInput:
    said = [str(text) for text in session["turns"]]
    at, scope = datetime(2026, 1, 1, tzinfo=UTC), Scope(channel="codex", session=str(session["id"]))
    turns = [
        Turn(id=str(n), key=str(n), scope=scope, host="codex", role="user", source="prompt", text=text, at=at, trust=2)
        for n, text in enumerate(said)
    ]
    named = name_by_rules(turns, [])
    vector = thread_vector([one[None] for one in vectors])
    return DetectionInput(
        id=str(session["id"]), title=named.title, topics=named.topics, vector=vector, prompts=tuple(said)
    )


def _area(values: Floats, right: NDArray[np.bool_]) -> float:
    """How often a pair that belongs together is the nearer one of two."""
    return float((values[right][:, None] > values[~right][None]).mean())


if __name__ == "__main__":
    main()
