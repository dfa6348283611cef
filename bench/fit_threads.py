"""Fit what tells that two prompts are of one thread, and report what grouping by it comes to.

    python bench/fit_threads.py                  # writes src/filrouge/threads/pairs.npz
    python bench/fit_threads.py --dry-run        # only the report

Logistic regressions, fitted by Newton's method on `bench/data/talk/train`: whether a prompt goes on with the one before
it, and in three rounds whether two prompts of a session, and two of different sessions, are of one thread. Every round
gets the probabilities of the one before from weights that were fitted without the project in question (five folds), so
that it learns from the errors it will meet. All of it twice: with the whitened vectors of the bundled model, which mean
the same in other spaces, and with words alone. Whether a prompt goes on is also told by its vector as the bundled model
makes it; with another model these numbers are left at their mean.

A project of two sessions with a prompt each looks otherwise than one of fifty prompts, and a prompt that is placed has
no reply yet. So short excerpts of projects count as well: some sessions, of each a few prompts in a row, the last one
without its reply.

The report groups every project's prompts by average linkage, once all is said: of train by weights of the other folds,
of validation by those that are written. Nothing is fitted on validation, nor is the band chosen there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.logistic import by_newton
from bench.talk_format import Project, read

from filrouge.capture.intake import skip_reason
from filrouge.core.protocols import Embedder
from filrouge.providers.calibration import bundled
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.embedders import windows
from filrouge.search.vector_search import embed_in_batches
from filrouge.threads import assignment
from filrouge.threads.assignment import (
    BUCKETS,
    ROUNDS,
    WEIGHTS_FILE,
    Exchange,
    FeatureTables,
    FloatArray,
    TableKind,
    Whitening,
    bucket,
    build_tables,
    cluster,
)
from filrouge.threads.placing import (
    MAX_FOLLOWING_TURNS,
    build_exchange,
    join_replies,
    texts_in_sessions,
    vector_with_replies,
)

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "threads" / WEIGHTS_FILE
FOLDS: Final = 5
#: Excerpts of each project, of so many sessions and prompts of each, and what a pair of them counts beside 1.
EXCERPTS, SESSIONS, PROMPTS, COUNT = 24, (2, 4), (1, 3), 2.0
#: Bands that are reported.
BANDS: Final = (0.2, 0.22, 0.24, 0.26, 0.28, 0.32)
#: What large weights cost, and those of the numbers of a vector.
RIDGE, RIDGE_OF_VECTOR = 2e-3, 0.3
Numbers = NDArray[Any]
Fitted = dict[str, Numbers]


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """A project as the product hears it.

    Attributes:
        exchanges: of the prompts that are placed by themselves; what is too short or only courtesy follows them.
        threads: the number of the thread of each of them; -1 = of none.
        said: of every prompt that is in a thread, which exchange it is of, and the number of its thread.
    """

    exchanges: list[Exchange]
    threads: Numbers
    said: list[tuple[int, int]]


def spoken(project: Project, model: Embedder, sample: Numbers) -> Spoken:
    """The exchanges of a project."""
    heard, said, numbers = list[tuple[str, Project, list[str]]](), list[tuple[int, int]](), dict[str, int]()
    for session in project["sessions"]:
        first = len(heard)
        for turn in session["turns"]:
            if not skip_reason(turn["user"], "prompt"):
                heard.append((str(session["id"]), turn, [turn["assistant"]]))
            elif len(heard) > first:
                heard[-1][2].extend((turn["user"], turn["assistant"]))
            if len(heard) > first:
                said.append((len(heard) - 1, _number(turn, numbers)))
    prompts = embed_in_batches(model, [turn["user"] for _, turn, _ in heard])
    ground = Whitening.fit(np.concatenate([sample, prompts]))
    assert ground is not None
    heard = [(session, turn, [text for text in own if text][:MAX_FOLLOWING_TURNS]) for session, turn, own in heard]
    replies = [join_replies(own) for _, _, own in heard]
    answers = iter(embed_in_batches(model, [windows(text)[0] for _, _, own in heard for text in own]))
    wholes = np.stack(
        [
            vector_with_replies(turn["user"], prompt, [(text, next(answers)) for text in own])
            for (_, turn, own), prompt in zip(heard, prompts, strict=True)
        ]
    )
    texts = texts_in_sessions(
        [(session, turn["user"], own) for (session, turn, _), own in zip(heard, replies, strict=True)]
    )
    inside = prompts.copy()
    later = [place for place, text in enumerate(texts) if text is not None]
    inside[later] = embed_in_batches(model, [text for text in texts if text is not None])
    vectors = zip(ground.whiten(prompts), ground.whiten(wholes), ground.whiten(inside), prompts, strict=True)
    return Spoken(
        exchanges=[
            replace(
                build_exchange(session, turn["user"], own),
                prompt_vector=prompt,
                vector_with_reply=whole,
                vector_in_session=in_session,
                model_vector=plain,
            )
            for (session, turn, _), own, (prompt, whole, in_session, plain) in zip(heard, replies, vectors, strict=True)
        ],
        threads=np.array([_number(turn, numbers) for _, turn, _ in heard]),
        said=[one for one in said if one[1] >= 0],
    )


def _number(turn: Project, numbers: dict[str, int]) -> int:
    thread = turn.get("thread", "-")
    return -1 if thread == "-" else numbers.setdefault(thread, len(numbers))


def excerpts(one: Spoken, chance: np.random.Generator) -> Iterator[Spoken]:
    """Short pieces of a project."""
    places: dict[str, list[int]] = {}
    for place, it in enumerate(one.exchanges):
        places.setdefault(it.session, []).append(place)
    sessions = list(places.values())
    for _ in range(EXCERPTS):
        count = min(len(sessions), int(chance.integers(*SESSIONS, endpoint=True)))
        kept = list[int]()
        for number in sorted(int(one) for one in chance.choice(len(sessions), count, replace=False)):
            length = int(chance.integers(*PROMPTS, endpoint=True))
            start = int(chance.integers(0, max(1, len(sessions[number]) - length)))
            kept.extend(sessions[number][start : start + length])
        *before, last = _beginning([one.exchanges[place] for place in kept])
        alone = replace(last, vector_with_reply=last.prompt_vector, reply_roots=frozenset(), reply_asks=False)
        yield Spoken(exchanges=[*before, alone], threads=one.threads[kept], said=[])


def _beginning(given: Sequence[Exchange]) -> list[Exchange]:
    """An excerpt, in which nothing was said before the first prompt of each session."""
    begun, found = set[str](), list[Exchange]()
    for one in given:
        found.append(one if one.session in begun else replace(one, vector_in_session=one.prompt_vector))
        begun.add(one.session)
    return found


def rarity_of(given: Sequence[Spoken]) -> Numbers:
    """How rare the words of each bucket are."""
    having, count = np.zeros(BUCKETS), 0
    for one in given:
        for it in one.exchanges:
            having[list({bucket(word) for word in it.prompt_roots | it.reply_roots})] += 1
            count += 1
    return np.log(1 + count / (1 + having)).astype(np.float32)


def usual_of(given: Sequence[Spoken]) -> Numbers:
    """The mean vector of prompts."""
    vectors = [it.model_vector for one in given for it in one.exchanges if it.model_vector is not None]
    return np.mean(vectors, axis=0).astype(np.float32)


def regressed(given: Numbers, wanted: Numbers, counts: Numbers, of_vector: int = 0) -> Numbers:
    """The weights of a logistic regression, the last one the constant; the last `of_vector` columns are a vector's."""
    mean, spread = given.mean(axis=0), given.std(axis=0) + 1e-9
    rows: Numbers = np.concatenate([(given - mean) / spread, np.ones((len(given), 1))], axis=1)
    decay: Numbers = np.full(len(spread) + 1, RIDGE * counts.sum())
    decay[len(spread) - of_vector :] *= RIDGE_OF_VECTOR / RIDGE
    decay[-1] = 0.0
    weights = by_newton(rows, wanted, decay, counts, steps=25)
    plain: Numbers = weights[:-1] / spread
    return np.append(plain, weights[-1] - mean @ plain).astype(np.float32)


def went_on(one: FeatureTables, threads: Numbers) -> tuple[Numbers, Numbers]:
    """Signs that a prompt goes on, and whether it did: in the thread of the last prompt before it that has one."""
    later, before = assignment.consecutive_pairs(one)
    given, wanted = assignment.continuation_features(one, later, before), np.full(len(later), -1)
    for row, place in enumerate(later):
        own = [at for at in range(place) if one.sessions[at] == one.sessions[place] and threads[at] >= 0]
        if own and threads[place] >= 0:
            wanted[row] = threads[own[-1]] == threads[place]
    return given[wanted >= 0], wanted[wanted >= 0]


def paired(one: FeatureTables, chances: FloatArray, threads: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Signs of every two prompts that have a thread, whether it is one, and whether they are of one session."""
    there = np.flatnonzero(threads >= 0)
    left, right = (there[axis] for axis in np.triu_indices(len(there), 1))
    given = np.stack([sign[left, right] for sign in assignment.pair_features(one, chances)], axis=1)
    return given, threads[left] == threads[right], one.sessions[left] == one.sessions[right]


def fitted(
    read: Sequence[FeatureTables],
    threads: Sequence[Numbers],
    projects: Sequence[int],
    counts: Sequence[float],
    kind: TableKind,
) -> tuple[Fitted, list[FloatArray]]:
    """The weights of all, and each one's probabilities by those of the other folds.

    Args:
        projects: the number of the project that each is of.
        counts: what each one's prompts count.
    """
    folds = [project % FOLDS for project in projects]
    parts: list[Fitted] = [{} for _ in range(FOLDS + 1)]  # the last is of all

    def others(fold: int) -> list[int]:
        return [place for place in range(len(read)) if folds[place] != fold]

    def counted(rows: Sequence[Any], places: Sequence[int]) -> Numbers:
        return np.concatenate([np.full(len(rows[place][1]), counts[place]) for place in places])

    rows: list[Any] = [went_on(one, own) for one, own in zip(read, threads, strict=True)]
    for fold, made in enumerate(parts):
        given, wanted = map(np.concatenate, zip(*(rows[place] for place in others(fold)), strict=True))
        of_vector = read[0].model_vectors.shape[1]
        made[f"{kind}.on"] = regressed(given, wanted, counted(rows, others(fold)), of_vector)
    near = [assignment.continuation_probability(one, parts[fold], kind) for one, fold in zip(read, folds, strict=True)]
    for number in range(ROUNDS):
        name = f"{kind}.{number}"
        rows = [paired(*one) for one in zip(read, near, threads, strict=True)]
        for fold, made in enumerate(parts):
            given, wanted, same = map(np.concatenate, zip(*(rows[place] for place in others(fold)), strict=True))
            count = counted(rows, others(fold))
            made[f"{name}.within"] = regressed(given[same], wanted[same], count[same])
            made[f"{name}.across"] = regressed(given[~same], wanted[~same], count[~same])
        near = [
            assignment.score_round(one, chances, parts[fold], name)
            for one, chances, fold in zip(read, near, folds, strict=True)
        ]
    return parts[-1], near


def probabilities(one: FeatureTables, weights: Mapping[str, FloatArray], kind: TableKind) -> FloatArray:
    chances = assignment.continuation_probability(one, weights, kind)
    for number in range(ROUNDS):
        chances = assignment.score_round(one, chances, weights, f"{kind}.{number}")
    return chances


def row(what: str, near: Sequence[FloatArray], given: Sequence[Spoken], band: float) -> str:
    """F1 and largest share, the mean over projects, and precision and recall of all pairs of prompts."""
    scores, largest, count = list[float](), list[float](), list[int]()
    hits = Counter[tuple[bool, bool]]()
    for chances, one in zip(near, given, strict=True):
        groups = cluster((chances - band).astype(np.float32), np.arange(len(chances))).tolist()
        said = [(groups[place], thread) for place, thread in one.said]
        own = Counter((a[1] == b[1], a[0] == b[0]) for a, b in combinations(said, 2))
        together = 2 * own[True, True]
        scores.append(together / max(1, together + own[True, False] + own[False, True]))
        largest.append(max(Counter(group for group, _ in said).values()) / len(said))
        count.append(len({group for group, _ in said}))
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
    sample = embed_in_batches(model, [text for one in bundled() for text in (one.text, one.same, one.question) if text])
    parts = {
        part: [spoken(read(path), model, sample) for path in sorted((TALK / part).glob("*.json"))]
        for part in ("train", "validation")
    }
    chance = np.random.default_rng(20261126)
    pieces = [(project, piece) for project, one in enumerate(parts["train"]) for piece in excerpts(one, chance)]
    weights: Fitted = {"rarity": rarity_of(parts["train"]), "usual": usual_of(parts["train"])}
    print("| prompts | band | F1 | largest | threads | precision / recall |\n|---|--:|--:|--:|--:|---|")
    kinds: tuple[TableKind, ...] = ("vectors", "words")
    for kind in kinds:
        rows = {part: [build_tables(one.exchanges, weights, kind) for one in own] for part, own in parts.items()}
        short = [build_tables(one.exchanges, weights, kind) for _, one in pieces]
        made, near = fitted(
            [*rows["train"], *short],
            [one.threads for one in (*parts["train"], *(one for _, one in pieces))],
            [*range(len(parts["train"])), *(project for project, _ in pieces)],
            [1.0] * len(parts["train"]) + [COUNT] * len(pieces),
            kind,
        )
        near = near[: len(parts["train"])]
        weights |= {name: one.astype(np.float16).astype(np.float32) for name, one in made.items()}
        held = [probabilities(one, weights, kind) for one in rows["validation"]]
        for band in BANDS:
            print(row(f"train, {kind}", near, parts["train"], band))
            print(row(f"validation, {kind}", held, parts["validation"], band), flush=True)
    if not given.dry_run:
        stored: dict[str, Any] = {name: one.astype(np.float16) for name, one in sorted(weights.items())}
        np.savez_compressed(TARGET, **stored)
        print(json.dumps({"bytes": TARGET.stat().st_size}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
