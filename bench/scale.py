"""How recall grows from ten thousand turns to a million: latency, filters, disk, memory, ready time.

    python bench/scale.py --data DIR                                  # 10k and 100k
    python bench/scale.py --data DIR --sizes 10000,100000,1000000 --check --out bench/results/scale.json

Turns are pieced together from two real sentences each (LoCoMo, PIAF, FQuAD, SciFact), so that words have their natural
frequencies; sessions of twenty, a hundred agents (one is the filter of 1 %), ten channels (one is that of 10 %), times
that rise (the filter of 99 %). Their vectors are resampled from real ones as in `bench/vectors.py`. Questions are real,
and their vectors are known beforehand: embedding a question is not measured. A home is filled through the store, and
measured by a process of its own, as the daemon starts it. Recall@10 under a filter is that of the search by meaning,
against all vectors that pass; an answer as near as the tenth counts.

`--out` also writes the Markdown table and the picture beside the JSON. `--check` exits 1 where a gate is missed:
p95 of the whole search at most 10 ms at 100,000 and 40 ms at a million, growth below the line, recall under the filter
of 1 % at least .99. Exit 2 without data.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from rivals import bytes_under
from scale_plot import drawing
from vectors import embed, questions, resample, texts

from filrouge.capture.models import Turn
from filrouge.core.clock import SystemClock
from filrouge.core.paths import DATABASE
from filrouge.core.protocols import Vector, Vectors
from filrouge.core.scope import Scope
from filrouge.memories.models import NO_FILTERS, Filters
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.runtime.sqlite import Database
from filrouge.search.repository import SWITCH, StoredVectors
from filrouge.search.service import Mode, Question, search_turns

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
AGENTS, CHANNELS, SESSION, AT_ONCE, ASKED = 100, 10, 20, 10_000, 100
SPACE: Final = EmbeddingSpace(
    id="known/1/384/mean/e5", model="known", revision="1", dimension=384, pooling="mean", prefix="e5"
)
ENVIRON: Final = {"FILROUGE_EMBEDDING_MODEL": "known"}
LIMITS: Final = {100_000: 10.0, 1_000_000: 40.0}
LEAST_RECALL: Final = 0.99


class Known:
    """An embedder that has read the questions before."""

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self._vectors = vectors

    @property
    def space(self) -> EmbeddingSpace:
        return SPACE

    def query(self, text: str) -> Vector:
        return self._vectors.get(text, next(iter(self._vectors.values())))

    def passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.query(text) for text in texts])


def said(sentences: Sequence[str], number: int) -> Turn:
    """The turn of that number: the beginning of one sentence and the end of another."""
    chance = random.Random(number)
    one, other = chance.choice(sentences).split(), chance.choice(sentences).split()
    cut = chance.random()
    text = " ".join([*one[: max(1, int(len(one) * cut))], *other[int(len(other) * cut) :]])
    channel = f"host-{number * 7 % CHANNELS}"
    scope = Scope(agent=f"agent-{number * 13 % AGENTS}", channel=channel, session=f"s{number // SESSION}")
    return Turn(
        id=f"{number:026d}", key=f"k{number}", scope=scope, host="bench", role="user" if number % 2 else "assistant",
        source="prompt", text=text, at=START + timedelta(seconds=number), trust=2,
    )  # fmt: skip


def fill(home: str, sentences: Sequence[str], vectors: Vectors, known: Known) -> dict[str, float]:
    parts = wiring.build(home, environ=ENVIRON, clock=SystemClock(), embedder_factories={"known": lambda: known})
    parts.readers.close()
    parts.writer.close()
    database, begun, size = Database(os.path.join(home, DATABASE)), time.perf_counter(), 0
    for first in range(0, len(vectors), AT_ONCE):
        with database.transaction() as tx:
            store, stored = parts.turns(tx), StoredVectors(tx)
            for number in range(first, min(len(vectors), first + AT_ONCE)):
                turn = said(sentences, number)
                size += len(turn.text.encode())
                store.add(turn)
                stored.put("turn", turn.id, SPACE.id, vectors[number : number + 1])
        print(f"\r{first + AT_ONCE:,}", end="", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begun
    database.checkpoint()
    database.close()
    return {"turns_per_second": round(len(vectors) / seconds), "text_bytes": size}


def waited(ready: Callable[[], bool], begun: float) -> float:
    while not ready():
        time.sleep(0.02)
    return round(time.perf_counter() - begun, 2)


def megabytes() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return round(int(file.read().split()[1]) * resource.getpagesize() / 1e6)


def measure(home: str, asked: Sequence[str], known: Known, truth: Mapping[str, Any], size: int) -> dict[str, Any]:
    begun = time.perf_counter()
    running = wiring.start(home, environ=ENVIRON, embedder_factories={"known": lambda: known})
    ready = round(time.perf_counter() - begun, 2)
    parts = running.parts
    vectors_ready = waited(parts.vectors.ready.is_set, begun)
    waited(parts.resumed.is_set, begun)

    def fed() -> bool:
        due = size >= SWITCH and parts.words.has_engine
        return not due or parts.readers.here(lambda tx: parts.words.view(tx, "turn")) is not None

    words_ready = waited(fed, begun)
    try:
        row: dict[str, Any] = {"ready_s": ready, "vectors_s": vectors_ready, "words_s": words_ready}
        row["memory_mb"] = megabytes()
        for name, mode, filters in searches(size):
            row[name] = latency(parts, asked, mode, filters)
        row["recall"] = {name: recall(parts, asked, filters, truth[name]) for name, filters in filters_of(size).items()}
        return row
    finally:
        running.stop()


def filters_of(size: int) -> dict[str, Filters]:
    return {
        "1 %": Filters(agent="agent-7"),
        "10 %": Filters(channel="host-3"),
        "99 %": Filters(since=START + timedelta(seconds=size // 100)),
    }


def searches(size: int) -> list[tuple[str, Mode, Filters]]:
    plain: list[tuple[str, Mode, Filters]] = [
        ("words", "text", NO_FILTERS), ("meaning", "semantic", NO_FILTERS), ("both", "hybrid", NO_FILTERS)
    ]  # fmt: skip
    return [*plain, *((f"both, {name}", "hybrid", filters) for name, filters in filters_of(size).items())]


def latency(parts: Parts, asked: Sequence[str], mode: Mode, filters: Filters) -> dict[str, float]:
    times = list[float]()
    for number, text in enumerate([*asked[:5], *asked]):
        question = Question(text=text, everywhere=True, mode=mode, filters=filters)
        begun = time.perf_counter()
        parts.readers.here(lambda tx, question=question: search_turns(parts, tx, question))
        if number >= 5:
            times.append((time.perf_counter() - begun) * 1000)
        if sum(times) > 20_000:
            break
    return {"p50": round(float(np.median(times)), 2), "p95": round(float(np.quantile(times, 0.95)), 2), "n": len(times)}


def recall(parts: Parts, asked: Sequence[str], filters: Filters, tenth: Sequence[float]) -> float:
    """The share of the ten nearest that are found: those found which are as near as the tenth."""
    found = 0
    for text, least in zip(asked, tenth, strict=True):
        question = Question(text=text, everywhere=True, mode="semantic", filters=filters)
        vector = parts.vectors.embedder.query(text)
        hits = parts.readers.here(lambda tx, question=question: search_turns(parts, tx, question)).hits[:10]
        stored = parts.readers.here(
            lambda tx, hits=hits: StoredVectors(tx).some("turn", [hit.id for hit in hits], SPACE.id)
        )
        found += sum(float((one @ vector).max()) >= least - 1e-3 for one in stored.values())
    return round(found / (10 * len(asked)), 4)


def tenths(vectors: Vectors, known: Vectors) -> dict[str, list[float]]:
    """The cosine of the tenth nearest that passes, for each filter and question."""
    size = len(vectors)
    numbers = np.arange(size)
    masks = {"1 %": numbers * 13 % AGENTS == 7, "10 %": numbers * 7 % CHANNELS == 3, "99 %": numbers >= size // 100}
    best = {name: np.full((len(known), 10), -1.0, np.float32) for name in masks}
    for first in range(0, size, 50_000):
        scores = known @ np.asarray(vectors[first : first + 50_000]).T
        for name, mask in masks.items():
            some = np.concatenate([best[name], scores[:, mask[first : first + 50_000]]], axis=1)
            best[name] = -np.partition(-some, 9, axis=1)[:, :10]
    return {name: [float(one.min()) for one in found] for name, found in best.items()}


def gates(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is missed."""
    missed = list[str]()
    for row in rows:
        limit = LIMITS.get(row["size"])
        if limit and row["both"]["p95"] > limit:
            missed.append(f"p95 at {row['size']:,} is {row['both']['p95']} ms, not {limit:g}")
        if row["recall"]["1 %"] < LEAST_RECALL:
            missed.append(f"recall under the filter of 1 % at {row['size']:,} is {row['recall']['1 %']}")
    for one, other in pairwise(rows):
        if other["both"]["p50"] / one["both"]["p50"] >= other["size"] / one["size"]:
            missed.append(f"from {one['size']:,} to {other['size']:,} the time grows as the size or faster")
    return missed


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    kinds = ["words", "meaning", "both", "both, 1 %", "both, 10 %", "both, 99 %"]
    others = " ready s | vectors, words s | memory MB | disk / text | bytes beyond 3x text | turns/s |"
    lines = [
        f"| turns | {' | '.join(f'{kind}: p50 / p95 ms' for kind in kinds)} | recall@10 at 1 / 10 / 99 % |{others}",
        f"|--:|{'--:|' * (len(kinds) + 7)}",
    ]
    for row in rows:
        times = " | ".join(f"{row[kind]['p50']:g} / {row[kind]['p95']:g}" for kind in kinds)
        recalls = " / ".join(f"{value:.3f}" for value in row["recall"].values())
        beyond = (row["disk_bytes"] - 3 * row["text_bytes"]) / row["size"]
        lines.append(
            f"| {row['size']:,} | {times} | {recalls} | {row['ready_s']} | {row['vectors_s']}, {row['words_s']} |"
            f" {row['memory_mb']:g} | {row['disk_bytes'] / row['text_bytes']:.1f} | {beyond:.0f} |"
            f" {row['turns_per_second']:g} |"
        )
    return "\n".join(lines)


def one(size: int, data: Path, work: Path) -> dict[str, Any]:
    """Fill a home where it is not filled yet, and measure it in a process of its own."""
    vectors = np.load(work / f"{size}.npy", mmap_mode="r")
    home, about = work / f"home-{size}", work / f"home-{size}.json"
    asked, queries = questions(data)[:ASKED], np.load(work / "queries.npy")[:ASKED]
    known = Known(dict(zip(asked, queries, strict=True)))
    if not about.exists():
        filled = fill(str(home), texts(data), vectors, known)
        about.write_text(json.dumps(filled), encoding="utf-8")
    truth = work / f"tenths-{size}.json"
    if not truth.exists():
        truth.write_text(json.dumps(tenths(vectors, queries)), encoding="utf-8")
    command = [sys.executable, __file__, "--data", str(data), "--work", str(work), "--measure", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = json.loads(done.stdout.splitlines()[-1])
    disk = {"disk_bytes": bytes_under(str(home)), "words_bytes": bytes_under(str(home / "words"))}
    return {"size": size, **row, **json.loads(about.read_text(encoding="utf-8")), **disk}


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", type=Path, required=True, help="the benchmark kit's data")
    options.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "filrouge-scale")
    options.add_argument("--sizes", default="10000,100000")
    options.add_argument("--out", type=Path)
    options.add_argument("--check", action="store_true")
    options.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args(arguments)
    if not (chosen.data / "locomo.jsonl.xz").exists():
        print(f"no data: {chosen.data} is not the folder of the benchmark kit", file=sys.stderr)
        return 2
    chosen.work.mkdir(parents=True, exist_ok=True)
    if chosen.measure:
        asked, queries = questions(chosen.data)[:ASKED], np.load(chosen.work / "queries.npy")
        known = Known(dict(zip(asked, queries[:ASKED], strict=True)))
        truth = json.loads((chosen.work / f"tenths-{chosen.measure}.json").read_text(encoding="utf-8"))
        home = str(chosen.work / f"home-{chosen.measure}")
        print(json.dumps(measure(home, asked, known, truth, chosen.measure)))
        return 0
    embed(chosen.data, chosen.work)
    sizes, real = sorted(int(size) for size in chosen.sizes.split(",")), np.load(chosen.work / "real.npy")
    rows = list[dict[str, Any]]()
    for size in sizes:
        resample(real, size, chosen.work / f"{size}.npy")
        rows.append(one(size, chosen.data, chosen.work))
    print(table(rows))
    if chosen.out:
        chosen.out.write_text(json.dumps({"rows": rows, "load": os.getloadavg()[0]}, indent=1) + "\n", encoding="utf-8")
        chosen.out.with_suffix(".md").write_text(table(rows) + "\n", encoding="utf-8")
        chosen.out.with_suffix(".svg").write_text(drawing(rows), encoding="utf-8")
    missed = gates(rows)
    for gate in missed:
        print(f"missed: {gate}")
    print("; ".join(f"{row['size']:,}: p95 {row['both']['p95']:g} ms" for row in rows))
    return 1 if chosen.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
