"""Fit the weights of ranking turns and of relevance; every figure is of questions that the weights have not seen.

    python bench/fit_recall.py --data DIR                # prints the figures (Markdown)
    python bench/fit_recall.py --data DIR --ablations    # also leaves each feature out
    python bench/fit_recall.py --data DIR --write        # and writes src/filrouge/search/weights.py

**Ranking.** For each question of the development sets the pool is what the product would gather
(`haystacks.py`). The weights maximise the likelihood that the evidence is drawn from the pool (a softmax over the
weighted features). One LoCoMo conversation is left out in turn, a quarter of LongMemEval, one set of passages.

**Relevance.** Each question is asked where its answer is, and once where it is not: another conversation, another
haystack, another set of passages; for the bundled sample of statements, without the statement that answers. Two
logistic fits: is this result the evidence, and is anything about the question here. What speaks for a result
(similarity, words) cannot weigh against it: such weights are held at nought. Left out in turn: the groups above, and
each half of the sample.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from haystacks import Embedded, Gathered, Haystack, haystack_of
from numpy.typing import NDArray
from recall import Said, lines, stores

from filrouge.providers.calibration import bundled
from filrouge.providers.models import EmbeddingSpace
from filrouge.search.models import FEATURE_NAMES
from filrouge.search.ranking import known_features, known_probability, relevance_probabilities

ROOT: Final = Path(__file__).parents[1]
STEPS: Final = 400
RIDGE: Final = 1e-3
GOLD: Final = {"locomo": "turn", "longmemeval_s": "turn_all", "piaf": "doc", "fquad": "doc", "scifact": "doc"}
PASSAGES: Final = ("piaf", "fquad", "scifact")
#: How much each source counts in ranking, and in relevance.
RANKING_SHARES: Final = {"locomo": 1.0, "longmemeval_s": 0.3, "piaf": 0.1, "fquad": 0.1, "scifact": 0.1}
RELEVANCE_SHARES: Final = {
    "locomo": 1.0,
    "sample": 1.0,
    "longmemeval_s": 0.5,
    "piaf": 0.7,
    "fquad": 0.7,
    "scifact": 0.7,
}
#: The same for whether anything is known. Not LongMemEval: its haystacks are filled up from one source, so that a
#: stranger's question often finds something.
KNOWN_SHARES: Final = RELEVANCE_SHARES | {"longmemeval_s": 0.0}
#: A memory that is missed costs more than a line too many: the odds that something is known are raised by this.
MISSED_COSTS: Final = 1.3
#: What can only speak for a result.
NEVER_AGAINST: Final = (
    "similarity", "around", "wide", "covered", "telling", "stands_out", "similar_and_covered", "wide_and_covered",
    "any", "words_found",
)  # fmt: skip
BY_MEANING: Final = ("similarity", "around", "wide", "similar_and_covered", "wide_and_covered")
EVERYTHING: Final = tuple(range(len(FEATURE_NAMES)))
_SEED: Final = 7

Weights = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question with where it comes from; `strange` is the same asked where its answer is not."""

    source: str
    group: str
    here: Gathered
    strange: Gathered


def labels(data: Path, name: str) -> dict[str, set[str]]:
    return {
        row["qid"]: set(row["gold"][GOLD[name]])
        for row in lines(data, f"{name}.labels.jsonl")
        if not row.get("abstention") and row["gold"][GOLD[name]]
    }


def questions(data: Path, kept: Path, engine: str) -> tuple[list[Question], EmbeddingSpace]:
    found: list[Question] = []
    passages: dict[str, tuple[Haystack, list[tuple[str, str, datetime]]]] = {}
    space: EmbeddingSpace | None = None
    for name in GOLD:
        vectors = Embedded(kept / f"{name}.pkl", engine)
        space = space or vectors.space
        gold = labels(data, name)
        places = list(stores(data, name))
        if name in PASSAGES:
            passages[name] = (haystack_of(places[0], vectors), list(places[0].questions))
            continue
        haystacks = [haystack_of(one, vectors) for one in places]
        for number, place in enumerate(places):
            other = haystacks[(number + 1) % len(haystacks)]
            group = f"{name} {number if name == 'locomo' else number % 4}"
            found += [
                Question(
                    source=name,
                    group=group,
                    here=haystacks[number].gathered(qid, asked, at, gold[qid]),
                    strange=other.gathered(qid, asked, at, None),
                )
                for qid, asked, at in place.questions
                if qid in gold
            ]
        print(f"  {name}: {len(found)} questions", file=sys.stderr, flush=True)
    for name, other in (("piaf", "scifact"), ("fquad", "scifact"), ("scifact", "piaf")):
        gold = labels(data, name)
        found += [
            Question(
                source=name,
                group=name,
                here=passages[name][0].gathered(qid, asked, at, gold[qid]),
                strange=passages[other][0].gathered(qid, asked, at, None),
            )
            for qid, asked, at in passages[name][1]
            if qid in gold
        ]
    assert space is not None
    return found + sampled(kept, engine), space


def sampled(kept: Path, engine: str) -> list[Question]:
    """Each question of the bundled sample, among 8 to 119 other statements of its half, with and without its own."""
    chance = np.random.default_rng(_SEED)
    vectors = Embedded(kept / "sample.pkl", engine)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found: list[Question] = []
    for half in ("measure", "check"):
        subjects = bundled(half)
        said = [
            Said(id=f"{half} {at}", session=f"{half} {at}", kind="prompt", text=one.text, at=now)
            for at, one in enumerate(subjects)
        ]
        for at, one in enumerate(subjects):
            if one.question is None:
                continue
            others = [other for other in range(len(subjects)) if other != at]
            chosen = [said[int(n)] for n in chance.choice(others, int(chance.integers(8, 120)), replace=False)]
            gathered = [Haystack([*chosen, *more], vectors, are_memories=True) for more in ([said[at]], [])]
            found.append(
                Question(
                    source="sample",
                    group=f"sample {half}",
                    here=gathered[0].gathered(f"{half} {at}", one.question, now, {said[at].id}),
                    strange=gathered[1].gathered(f"{half} {at}", one.question, now, None),
                )
            )
    return found


def ranking(asked: Sequence[Question], used: Sequence[int]) -> Weights:
    """Softmax weights by gradient ascent with momentum (Nesterov), which a convex likelihood needs no more than."""
    asked = [one for one in asked if one.source in RANKING_SHARES and one.here.gold.any()]
    counts = {source: sum(one.source == source for one in asked) for source in RANKING_SHARES}
    total = sum(share for source, share in RANKING_SHARES.items() if counts[source])
    longest = max(len(one.here.gold) for one in asked)
    rows = np.zeros((len(asked), longest, len(used)))
    wanted, absent = np.zeros((len(asked), longest)), np.full((len(asked), longest), -np.inf)
    for number, one in enumerate(asked):
        size = len(one.here.gold)
        rows[number, :size] = one.here.features[:, used]
        wanted[number, :size] = one.here.gold / one.here.gold.sum()
        absent[number, :size] = 0.0
    counted = np.array([RANKING_SHARES[one.source] / counts[one.source] / total for one in asked])
    flat = rows.reshape(-1, len(used))
    weights: Weights = np.zeros(len(used))
    speed: Weights = np.zeros(len(used))
    for _ in range(STEPS):
        ahead = weights + 0.9 * speed
        scores = (flat @ ahead).reshape(wanted.shape) + absent
        parts = np.exp(scores - scores.max(axis=1, keepdims=True))
        missing = (wanted - parts / parts.sum(axis=1, keepdims=True)) * counted[:, None]
        speed = 0.9 * speed + 2.0 * (missing.reshape(-1) @ flat - 2 * RIDGE * ahead)
        weights = weights + speed
    return weights


def logistic(
    rows: Sequence[dict[str, float]], truths: Sequence[bool], counts: Sequence[float], names: Sequence[str]
) -> dict[str, float]:
    """Logistic weights by Newton's method; those that may not be negative are held at nought one after the other."""
    names = ["one", *names]
    matrix = np.array([[1.0, *(row[name] for name in names[1:])] for row in rows])
    truth, count = np.array(truths, dtype=float), np.array(counts) * len(counts) / sum(counts)
    spread: Weights = matrix.std(axis=0)
    spread[spread == 0] = 1.0
    kept = list(range(len(names)))
    while True:
        part = matrix[:, kept] / spread[kept]
        weights: Weights = np.zeros(len(kept))
        for _ in range(60):
            chance: Weights = 1 / (1 + np.exp(-np.clip(part @ weights, -30, 30)))
            slope: Weights = part.T @ (count * (truth - chance)) - RIDGE * len(rows) * weights
            bend = (part * (count * chance * (1 - chance))[:, None]).T @ part + RIDGE * len(rows) * np.eye(len(kept))
            weights = weights + np.linalg.solve(bend, slope)
        wrong = [at for at, place in enumerate(kept) if names[place] in NEVER_AGAINST and weights[at] < -1e-9]
        if not wrong:
            return {names[place]: float(weights[at] / spread[place]) for at, place in enumerate(kept)}
        del kept[min(wrong, key=lambda at: weights[at])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """All weights, as the product has them."""

    ranking: Weights
    relevance: dict[str, float]
    known: dict[str, float]


def learn(asked: Sequence[Question], space: EmbeddingSpace, weights: Weights, *, blind: bool = False) -> Learned:
    """Fit relevance on these questions, ranked by these weights; `blind` = where there are no vectors."""
    counts = {source: sum(one.source == source for one in asked) for source in RELEVANCE_SHARES}
    seen = [(one, place, *place.signs(weights, space)) for one in asked for place in (one.here, one.strange)]
    rows = [sign.by_name() for _, _, _, signs in seen for sign in signs]
    truths = [bool(place.gold[at]) for _, place, first, _ in seen for at in first]
    shares = [RELEVANCE_SHARES[one.source] / counts[one.source] for one, _, _, signs in seen for _ in signs]
    left_out = BY_MEANING if blind else ()
    relevance = logistic(rows, truths, shares, [name for name in rows[0] if name not in left_out])
    sums = [
        known_features(signs, relevance_probabilities(signs, relevance), place.words_found(first))
        for _, place, first, signs in seen
        if signs
    ]
    here = [place.own for _, place, _, signs in seen if signs]
    counted = [KNOWN_SHARES[one.source] / counts[one.source] for one, _, _, signs in seen if signs]
    left_out = ("similarity", "wide", "similar_and_covered") if blind else ()
    anything = logistic(sums, here, counted, [name for name in sums[0] if name not in left_out])
    anything["one"] += float(np.log(MISSED_COSTS))
    return Learned(ranking=weights, relevance=relevance, known=anything)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One question after learning from the others: what was said of its results, and what is true."""

    question: Question
    order: list[int]
    relevance: list[float]
    truth: list[bool]
    known_here: float
    known_elsewhere: float


def outcomes(asked: Sequence[Question], space: EmbeddingSpace, learned: Callable[[str], Learned]) -> list[Outcome]:
    found: list[Outcome] = []
    for one in asked:
        those = learned(one.group)
        first, signs = one.here.signs(those.ranking, space)
        said = relevance_probabilities(signs, those.relevance)
        elsewhere, strange = one.strange.signs(those.ranking, space)
        found.append(
            Outcome(
                question=one,
                order=list(np.argsort(-(one.here.features @ those.ranking), kind="stable")),
                relevance=said + relevance_probabilities(strange, those.relevance),
                truth=[bool(one.here.gold[at]) for at in first] + [False for _ in elsewhere],
                known_here=known_probability(signs, said, one.here.words_found(first), those.known),
                known_elsewhere=known_probability(
                    strange,
                    relevance_probabilities(strange, those.relevance),
                    one.strange.words_found(elsewhere),
                    those.known,
                ),
            )
        )
    return found


def ranked(found: Sequence[Outcome]) -> str:
    """any@1, any@5, any@10, all@10 and nDCG@10 of one source, as cells."""
    rows: list[tuple[float, ...]] = []
    for one in found:
        hits = one.question.here.gold[one.order]
        wanted = one.question.here.wanted
        ideal = sum(1 / np.log2(place + 2) for place in range(min(10, wanted)))
        gain = sum(hit / np.log2(place + 2) for place, hit in enumerate(hits[:10])) / ideal
        whole = hits[:10].sum() == wanted
        rows.append((float(hits[:1].any()), float(hits[:5].any()), float(hits[:10].any()), float(whole), float(gain)))
    values = np.array(rows, dtype=float)
    half = 1.96 * values.std(axis=0) / np.sqrt(len(values))
    return " | ".join(f"{mean:.3f} ± {part:.3f}" for mean, part in zip(values.mean(axis=0), half, strict=True))


def calibration_error(said: Sequence[float], truth: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error over ten equal bins (Naeini et al. 2015)."""
    values, truths = np.array(said), np.array(truth, dtype=float)
    place = np.minimum((values * bins).astype(int), bins - 1)
    parts = [place == number for number in range(bins)]
    return float(sum(part.mean() * abs(values[part].mean() - truths[part].mean()) for part in parts if part.any()))


def judged(found: Sequence[Outcome]) -> str:
    """Calibration, and what silence at `known` < .5 costs, as cells."""
    said = [value for one in found for value in one.relevance]
    truth = [value for one in found for value in one.truth]
    error = calibration_error(said, truth)
    silent = float(np.mean([one.known_elsewhere < 0.5 for one in found]))
    hit = [any(one.truth[:4]) for one in found]
    kept = [any(one.truth[:4]) and one.known_here >= 0.5 for one in found]
    known_error = calibration_error(
        [value for one in found for value in (one.known_here, one.known_elsewhere)], [True, False] * len(found)
    )
    lost = sum(hit) / len(hit) - sum(kept) / len(kept)
    return f"{error:.3f} | {known_error:.3f} | {silent:.3f} | {sum(hit) / len(hit):.3f} | {lost:.3f}"


def tables(asked: Sequence[Question], space: EmbeddingSpace) -> None:
    groups = sorted({one.group for one in asked})
    others = {group: [one for one in asked if one.group != group] for group in groups}
    weights = {group: ranking(others[group], EVERYTHING) for group in groups}
    for blind in (False, True):
        by_group = {group: learn(others[group], space, weights[group], blind=blind) for group in groups}
        found = outcomes(asked, space, by_group.__getitem__)
        by_source = {source: [one for one in found if one.question.source == source] for source in RELEVANCE_SHARES}
        if not blind:
            print("\n| source | n | any@1 | any@5 | any@10 | all@10 | nDCG@10 |\n|---|--:|---|---|---|---|---|")
            for source, part in by_source.items():
                print(f"| {source} | {len(part)} | {ranked(part)} |", flush=True)
        print(f"\nRelevance {'by words alone' if blind else 'with vectors'}:\n")
        print("| source | n | ECE of relevance | ECE of known | silent elsewhere | any@4 | lost by silence |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for source, part in by_source.items():
            print(f"| {source} | {len(part)} | {judged(part)} |", flush=True)


def ablations(asked: Sequence[Question]) -> None:
    print("\n| LoCoMo without | any@1 | any@5 | any@10 | all@10 | nDCG@10 |\n|---|---|---|---|---|---|")
    chats = [one for one in asked if one.source == "locomo"]
    for out, name in [(-1, "nothing"), *enumerate(FEATURE_NAMES)]:
        used = [at for at in range(len(FEATURE_NAMES)) if at != out]
        found: list[Outcome] = []
        for group in sorted({one.group for one in chats}):
            weights = ranking([one for one in asked if one.group != group], used)
            for one in (one for one in chats if one.group == group):
                order = list(np.argsort(-(one.here.features[:, used] @ weights), kind="stable"))
                found.append(
                    Outcome(question=one, order=order, relevance=[], truth=[], known_here=0, known_elsewhere=0)
                )
        print(f"| {name} | {ranked(found)} |", flush=True)


def written(seeing: Learned, blind: Learned) -> str:
    def table(name: str, weights: Mapping[str, float]) -> str:
        rows = "".join(f'    "{key}": {round(value, 3)},\n' for key, value in weights.items())
        return f"{name}: Final = {{\n{rows}}}\n"

    ranks: dict[str, float] = {
        str(name): float(weight) for name, weight in zip(FEATURE_NAMES, seeing.ranking, strict=True)
    }
    return (
        '"""The weights of ranking turns and of relevance. `bench/fit_recall.py --write` writes this file."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Final\n\n"
        "import numpy as np\nfrom numpy.typing import NDArray\n\n"
        "from filrouge.search.models import NAMES\n\n"
        + table("TABLE", ranks)
        + "#: One weight for each feature of a turn, in the order of `FEATURE_NAMES`.\n"
        "TURN_WEIGHTS: Final[NDArray[np.float32]] = np.array([TABLE[name] for name in NAMES], dtype=np.float32)\n"
        "#: What words and meaning count for a text that stands alone: it is its own neighbourhood.\n"
        'ALONE_WORDS: Final = sum(TABLE[name] for name in ("words", "words_before", "words_after", "session_words"))\n'
        'ALONE_MEANING: Final = sum(value for name, value in TABLE.items() if "meaning" in name)\n\n'
        "#: Log-odds that a result holds what was asked, with vectors and by words alone\n"
        "#: (`ranking.RelevanceFeatures.by_name`).\n"
        + table("RELEVANCE", seeing.relevance)
        + table("RELEVANCE_BY_WORDS", blind.relevance)
        + "#: Log-odds that anything about the question is known (`ranking.known_features`).\n"
        + table("KNOWN", seeing.known)
        + table("KNOWN_BY_WORDS", blind.known)
    )


def main() -> int:
    options = argparse.ArgumentParser(description="fit the ranking of turns, and relevance")
    options.add_argument("--data", required=True, type=Path)
    options.add_argument("--embedder", default="e5")
    options.add_argument("--vectors", type=Path, default=Path("/tmp/filrouge-vectors"), help="where vectors are kept")
    options.add_argument("--write", action="store_true", help="write the weights fitted on everything")
    options.add_argument("--ablations", action="store_true", help="also leave each feature out")
    given = options.parse_args()
    if not (given.data / "locomo.labels.jsonl").exists():
        print(f"no data in {given.data}")
        return 2
    given.vectors.mkdir(parents=True, exist_ok=True)
    asked, space = questions(given.data, given.vectors, given.embedder)
    print(f"{len(asked)} questions, {len({one.group for one in asked})} groups, each left out in turn")
    tables(asked, space)
    if given.ablations:
        ablations(asked)
    weights = ranking(asked, EVERYTHING)
    seeing, blind = learn(asked, space, weights), learn(asked, space, weights, blind=True)
    print("\n" + json.dumps({"relevance": seeing.relevance, "known": seeing.known}, indent=1))
    if given.write:
        (ROOT / "src/filrouge/search/weights.py").write_text(written(seeing, blind), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
