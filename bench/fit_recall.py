"""Fit the weights by which turns are ranked, each conversation judged by weights that have not seen it.

    python bench/fit_recall.py --data DIR            # prints the figures
    python bench/fit_recall.py --data DIR --write    # and writes src/filrouge/recall/weights.py

The questions and evidence are LoCoMo's development split. For each question the pool is what the product would
gather: the best 50 by words, the best 50 by meaning, and their neighbours. The weights maximise the likelihood that
the evidence is drawn from the pool (a softmax over the weighted features). Figures are of leaving one conversation
out; the ablations leave one feature out as well.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from filrouge.embed.registry import embedder
from filrouge.index.analyser import TextAnalyser
from filrouge.model.scope import Scope
from filrouge.model.turn import Turn
from filrouge.ports import Vectors
from filrouge.recall.bm25 import Collection, Okapi, bm25
from filrouge.recall.neighbourhood import NAMES, Asked, Spoken, features
from filrouge.recall.times import spans

ROOT: Final = Path(__file__).parents[1]
POOL: Final = 50
STEPS: Final = 400
RIDGE: Final = 1e-3
#: The two values that FTS5 has built in.
FTS5: Final = Okapi(k1=1.2, b=0.75)

Weights = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One question: the features of its pool, and which of them are its evidence, of how many in all."""

    rows: NDArray[np.float32]
    gold: NDArray[np.bool_]
    wanted: int


def conversations(data: Path) -> list[dict[str, Any]]:
    with lzma.open(data / "locomo.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def turns_of(conversation: dict[str, Any]) -> list[tuple[Turn, str, str]]:
    """Every turn with its id and session in the data; the caption of a shared picture is part of the text."""
    found: list[tuple[Turn, str, str]] = []
    for session in conversation["sessions"]:
        start = datetime.fromisoformat(session["date"]).replace(tzinfo=UTC)
        for number, raw in enumerate(session["turns"]):
            shared = f" [shares a picture: {raw['caption']}]" if raw.get("caption") else ""
            turn = Turn(
                id=raw["turn_id"],
                key=raw["turn_id"],
                scope=Scope(user="local", session=session["session_id"]),
                host="chat",
                role="user",
                source="prompt",
                text=f"{raw['speaker']}: {raw['content']}{shared}",
                at=start + timedelta(seconds=number),
                trust=2,
            )
            found.append((turn, raw["turn_id"], session["session_id"]))
    return found


def judged(conversation: dict[str, Any], gold: dict[str, set[str]], engine: Any) -> list[Judged]:
    analyser = TextAnalyser()
    turns = turns_of(conversation)
    tokens = {turn.id: analyser.tokens(turn.text).split() for turn, _, _ in turns}
    vectors: Vectors = engine.passages([turn.text for turn, _, _ in turns])
    have = Counter(token for one in tokens.values() for token in set(one))
    mean = sum(map(len, tokens.values())) / len(turns)
    collection = Collection(rows=len(turns), mean=mean, frequencies=have)
    last = max(turn.at for turn, _, _ in turns).date()
    found: list[Judged] = []
    for question in conversation["questions"]:
        evidence = gold.get(question["qid"], set())
        if not evidence:
            continue
        vector = engine.query(question["question"])
        cosines = vectors @ vector
        scores = bm25(analyser.terms(question["question"]), tokens, collection, FTS5)
        by_words = np.array([scores[turn.id] for turn, _, _ in turns], dtype=np.float32)
        pool = {int(at) for at in np.argsort(-by_words, kind="stable")[:POOL] if by_words[at] > 0}
        pool |= {int(at) for at in np.argsort(-cosines, kind="stable")[:POOL]}
        pool |= {at for one in pool for at in (one - 1, one + 1) if _together(turns, one, at)}
        spoken = [
            Spoken(
                turn=turn,
                words=float(by_words[place]),
                vector=vectors[place],
                nearest=float(cosines[place]),
                before=place - 1 if _together(turns, place, place - 1) else None,
                after=place + 1 if _together(turns, place, place + 1) else None,
                candidate=place in pool,
            )
            for place, (turn, _, _) in enumerate(turns)
        ]
        asked = Asked(text=question["question"], vector=vector, times=spans(question["question"], last))
        places = sorted(pool)
        rows = features(asked, spoken)[places]
        found.append(
            Judged(
                rows=rows,
                gold=np.array([turns[place][1] in evidence for place in places], dtype=bool),
                wanted=len(evidence),
            )
        )
    return found


def _together(turns: Sequence[tuple[Turn, str, str]], one: int, other: int) -> bool:
    return 0 <= other < len(turns) and turns[one][2] == turns[other][2]


def fit(questions: Sequence[Judged], used: Sequence[int]) -> Weights:
    """Softmax weights by gradient ascent with momentum (Nesterov), which a convex likelihood needs no more than."""
    weights, speed = np.zeros(len(used)), np.zeros(len(used))
    rows = [one.rows[:, used].astype(np.float64) for one in questions]
    shares = [one.gold / one.gold.sum() if one.gold.any() else None for one in questions]
    for _ in range(STEPS):
        ahead = weights + 0.9 * speed
        slope = -2 * RIDGE * ahead
        for row, share in zip(rows, shares, strict=True):
            if share is not None:
                scores = row @ ahead
                chances = np.exp(scores - scores.max())
                slope += (share - chances / chances.sum()) @ row / len(rows)
        speed = 0.9 * speed + 2.0 * slope
        weights = weights + speed
    return weights


def measured(questions: Sequence[Judged], weights: Weights, used: Sequence[int]) -> list[tuple[bool, bool, bool, bool]]:
    """Per question: the evidence is first, any of it within 5, any within 10, all of it within 10."""
    found: list[tuple[bool, bool, bool, bool]] = []
    for one in questions:
        hits = one.gold[np.argsort(-(one.rows[:, used] @ weights), kind="stable")]
        found.append((bool(hits[0]), bool(hits[:5].any()), bool(hits[:10].any()), int(hits[:10].sum()) == one.wanted))
    return found


def left_out(groups: Sequence[Sequence[Judged]], used: Sequence[int]) -> NDArray[np.float64]:
    results: list[tuple[bool, bool, bool, bool]] = []
    for number, group in enumerate(groups):
        others = [one for at, other in enumerate(groups) if at != number for one in other]
        results += measured(group, fit(others, used), used)
    return np.array(results, dtype=float)


def line(name: str, results: NDArray[np.float64]) -> str:
    half = 1.96 * np.sqrt(results.mean(0) * (1 - results.mean(0)) / len(results))
    cells = " | ".join(f"{mean:.3f} ± {part:.3f}" for mean, part in zip(results.mean(0), half, strict=True))
    return f"| {name} | {cells} |"


def main() -> int:
    options = argparse.ArgumentParser(description="fit the ranking of turns")
    options.add_argument("--data", required=True, type=Path)
    options.add_argument("--embedder", default="e5")
    options.add_argument("--write", action="store_true", help="write the weights fitted on all conversations")
    options.add_argument("--ablations", action="store_true", help="also leave each feature out")
    given = options.parse_args()
    with open(given.data / "locomo.labels.jsonl", encoding="utf-8") as file:
        gold = {row["qid"]: set(row["gold"]["turn"]) for row in map(json.loads, file)}
    engine = embedder(given.embedder)
    groups = [judged(one, gold, engine) for one in conversations(given.data)]
    everything = list(range(len(NAMES)))
    print(f"{sum(map(len, groups))} questions of {len(groups)} conversations, each left out in turn\n")
    print("| features | any@1 | any@5 | any@10 | all@10 |\n|---|---|---|---|---|")
    print(line("all", left_out(groups, everything)))
    for at, name in enumerate(NAMES) if given.ablations else ():
        print(line(f"without {name}", left_out(groups, [one for one in everything if one != at])))
    weights = fit([one for group in groups for one in group], everything)
    table = {name: round(float(weight), 3) for name, weight in zip(NAMES, weights, strict=True)}
    print("\n" + json.dumps(table, indent=1))
    if given.write:
        path = ROOT / "src/filrouge/recall/weights.py"
        rows = "".join(f'    "{name}": {weight},\n' for name, weight in table.items())
        source = path.read_text("utf-8")
        head, rest = source.split("TABLE: Final = {\n")
        path.write_text(f"{head}TABLE: Final = {{\n{rows}}}\n{rest.split('}', 1)[1].lstrip()}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
