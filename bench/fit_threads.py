"""Fit what tells that two prompts are of one thread, and report what grouping by it comes to.

    python bench/fit_threads.py                  # writes src/filrouge/threads/pairs.npz
    python bench/fit_threads.py --dry-run        # only the report

Logistic regressions, fitted by Newton's method on `bench/data/talk/train`: whether a prompt goes on with the one before
it, and in two rounds whether two prompts of a session, and two of different sessions, are of one thread. Every round
gets the probabilities of the one before from weights that were fitted without the project in question (five folds), so
that it learns from the errors it will meet. All of it twice: with the vectors of the bundled model above the ground, so
that they mean the same in other spaces, and with words alone.

The report groups every project's prompts by average linkage, once all is said: of train by weights of the other folds,
of validation by those that are written. Nothing is fitted on validation, nor is the band chosen there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.talk_format import Project, read

from filrouge.app.exchanges import as_one
from filrouge.app.meaning import in_passes
from filrouge.embed.onnx import OnnxE5
from filrouge.embed.sample import bundled
from filrouge.ports import Embedder
from filrouge.threads import pairs
from filrouge.threads.ground import Ground
from filrouge.threads.grouping import grouped
from filrouge.threads.pairs import BUCKETS, FILE, ROUNDS, Exchange, Kind, Read, Table, bucket, read_in, roots
from filrouge.threads.routing import BAND

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "threads" / FILE
FOLDS: Final = 5
#: What large weights cost.
RIDGE: Final = 2e-3
Fitted = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """A project's exchanges, and the number of the thread of each prompt; -1 = of none."""

    exchanges: list[Exchange]
    threads: np.ndarray


def spoken(project: Project, model: Embedder, sample: np.ndarray) -> Spoken:
    """The exchanges of a project, as the product has them."""
    turns = [(session["id"], turn) for session in project["sessions"] for turn in session["turns"]]
    prompts = in_passes(model, [turn["user"] for _, turn in turns])
    ground = Ground.of(np.concatenate([sample, prompts]))
    assert ground is not None
    wholes = in_passes(model, [as_one(turn["user"], turn["assistant"]) for _, turn in turns])
    numbers: dict[str, int] = {}
    return Spoken(
        exchanges=[
            Exchange(
                session=str(session),
                prompt=prompt,
                whole=whole,
                said=roots([turn["user"]]),
                answered=roots([turn["assistant"]]),
                letters=len(turn["user"]),
                asks=turn["assistant"].rstrip().endswith("?"),
            )
            for (session, turn), prompt, whole in zip(turns, ground.off(prompts), ground.off(wholes), strict=True)
        ],
        threads=np.array(
            [
                -1 if turn.get("thread", "-") == "-" else numbers.setdefault(turn["thread"], len(numbers))
                for _, turn in turns
            ]
        ),
    )


def rarity_of(given: Sequence[Spoken]) -> np.ndarray:
    """How rare the words of each bucket are."""
    having, count = np.zeros(BUCKETS), 0
    for one in given:
        for exchange in one.exchanges:
            having[list({bucket(word) for word in exchange.said | exchange.answered})] += 1
            count += 1
    return np.log(1 + count / (1 + having)).astype(np.float32)


def regressed(given: np.ndarray, wanted: np.ndarray, ridge: float) -> np.ndarray:
    """The weights of a logistic regression, the last one the constant."""
    mean, spread = given.mean(axis=0), given.std(axis=0) + 1e-9
    rows = np.concatenate([(given - mean) / spread, np.ones((len(given), 1))], axis=1)
    weights, cost = np.zeros(rows.shape[1]), ridge * len(rows) * np.eye(rows.shape[1])
    cost[-1, -1] = 0.0
    for _ in range(25):
        found = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (found - wanted) + cost @ weights
        weights -= np.linalg.solve((rows.T * (found * (1 - found))) @ rows + cost, slope)
    plain = weights[:-1] / spread
    return np.append(plain, weights[-1] - mean @ plain).astype(np.float32)


def went_on(one: Read, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signs that a prompt goes on, and whether it did: in the thread of the last prompt before it that has one."""
    later, before = pairs.followers(one)
    given, wanted = pairs.continuing(one, later, before), np.full(len(later), -1)
    for row, place in enumerate(later):
        own = [at for at in range(place) if one.sessions[at] == one.sessions[place] and threads[at] >= 0]
        if own and threads[place] >= 0:
            wanted[row] = threads[own[-1]] == threads[place]
    return given[wanted >= 0], wanted[wanted >= 0]


def paired(one: Read, chances: Table, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs of every two prompts that have a thread, whether it is one, and whether they are of one session."""
    there = np.flatnonzero(threads >= 0)
    left, right = (there[axis] for axis in np.triu_indices(len(there), 1))
    given = np.stack([sign[left, right] for sign in pairs.signs(one, chances)], axis=1)
    return given, threads[left] == threads[right], one.sessions[left] == one.sessions[right]


def fitted(read: Sequence[Read], threads: Sequence[np.ndarray], kind: Kind) -> tuple[Fitted, list[Table]]:
    """The weights of all projects, and each project's probabilities by those of the other folds."""
    folds = [place % FOLDS for place in range(len(read))]
    parts: list[Fitted] = [{} for _ in range(FOLDS + 1)]  # the last is of all

    def others(fold: int) -> list[int]:
        return [place for place in range(len(read)) if folds[place] != fold]

    rows: list[Any] = [went_on(one, own) for one, own in zip(read, threads, strict=True)]
    for fold, made in enumerate(parts):
        given, wanted = map(np.concatenate, zip(*(rows[place] for place in others(fold)), strict=True))
        made[f"{kind}.on"] = regressed(given, wanted, RIDGE)
    near = [pairs.going_on(one, parts[fold], kind) for one, fold in zip(read, folds, strict=True)]
    for number in range(ROUNDS):
        name = f"{kind}.{number}"
        rows = [paired(*one) for one in zip(read, near, threads, strict=True)]
        for fold, made in enumerate(parts):
            given, wanted, same = map(np.concatenate, zip(*(rows[place] for place in others(fold)), strict=True))
            made[f"{name}.within"] = regressed(given[same], wanted[same], RIDGE)
            made[f"{name}.across"] = regressed(given[~same], wanted[~same], RIDGE)
        near = [
            pairs.weighed(one, chances, parts[fold], name) for one, chances, fold in zip(read, near, folds, strict=True)
        ]
    return parts[-1], near


def probabilities(one: Read, weights: Mapping[str, Table], kind: Kind) -> Table:
    chances = pairs.going_on(one, weights, kind)
    for number in range(ROUNDS):
        chances = pairs.weighed(one, chances, weights, f"{kind}.{number}")
    return chances


def row(what: str, near: Sequence[Table], threads: Sequence[np.ndarray], band: float) -> str:
    """F1 and largest share, the mean over projects, and precision and recall of all pairs."""
    scores, largest, count = list[float](), list[float](), list[int]()
    hits = Counter[tuple[bool, bool]]()
    for chances, true in zip(near, threads, strict=True):
        found = grouped((chances - band).astype(np.float32), np.arange(len(true)))
        own = Counter((true[a] == true[b], found[a] == found[b]) for a, b in combinations(np.flatnonzero(true >= 0), 2))
        together = 2 * own[True, True]
        scores.append(together / max(1, together + own[True, False] + own[False, True]))
        largest.append(max(Counter[int](found[true >= 0].tolist()).values()) / int((true >= 0).sum()))
        count.append(len(set(found.tolist())))
        hits += own
    right = hits[True, True]
    return (
        f"| {what} | {band:.2f} | {np.mean(scores):.3f} | {np.mean(largest):.3f} | {np.mean(count):.1f} "
        f"| {right / max(1, right + hits[False, True]):.2f} / {right / max(1, right + hits[True, False]):.2f} |"
    )


def main() -> int:
    options = argparse.ArgumentParser(description="what tells that two prompts are of one thread")
    options.add_argument("--dry-run", action="store_true", help="write nothing")
    given = options.parse_args()
    model = OnnxE5()
    sample = in_passes(model, [text for one in bundled() for text in (one.text, one.same, one.question) if text])
    parts = {
        part: [spoken(read(path), model, sample) for path in sorted((TALK / part).glob("*.json"))]
        for part in ("train", "validation")
    }
    threads = {part: [one.threads for one in own] for part, own in parts.items()}
    weights: Fitted = {"rarity": rarity_of(parts["train"])}
    print("| prompts | band | F1 | largest | threads | precision / recall |\n|---|--:|--:|--:|--:|---|")
    kinds: tuple[Kind, ...] = ("vectors", "words")
    for kind in kinds:
        rows = {
            part: [
                read_in(without_vectors(one.exchanges) if kind == "words" else one.exchanges, weights["rarity"])
                for one in own
            ]
            for part, own in parts.items()
        }
        made, near = fitted(rows["train"], threads["train"], kind)
        weights |= {name: one.astype(np.float16).astype(np.float32) for name, one in made.items()}
        held = [probabilities(one, weights, kind) for one in rows["validation"]]
        for band in (BAND - 0.04, BAND - 0.02, BAND, BAND + 0.02, BAND + 0.04):
            print(row(f"train, {kind}", near, threads["train"], band))
            print(row(f"validation, {kind}", held, threads["validation"], band), flush=True)
    if not given.dry_run:
        stored: dict[str, Any] = {name: one.astype(np.float16) for name, one in sorted(weights.items())}
        np.savez_compressed(TARGET, **stored)
        print(json.dumps({"bytes": TARGET.stat().st_size}))
    return 0


def without_vectors(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return [
        Exchange(
            session=one.session,
            prompt=None,
            whole=None,
            said=one.said,
            answered=one.answered,
            letters=one.letters,
            asks=one.asks,
        )
        for one in exchanges
    ]


if __name__ == "__main__":
    sys.exit(main())
