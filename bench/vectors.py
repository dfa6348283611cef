"""Vector indexes side by side: latency with and without filters, recall, rate of insertion, deletion, memory.

    python bench/vectors.py --data DIR                               # 10k and 100k, every candidate
    python bench/vectors.py --data DIR --sizes 10k,100k,1M --out bench/results/vectors.json

Texts of the benchmark kit (LoCoMo turns, sentences of PIAF, FQuAD and SciFact) are embedded by the bundled model;
the vectors stay in `--work`. Larger sets are resampled: what an added vector has beyond the common mean is that of a
real one, mixed with that of another, in such parts that it lies as near to its origin as real vectors lie to their
nearest neighbours (drawn from their distribution). Queries are real questions.

Every candidate proposes 100 (signs: 400) and has them measured again by half-precision rows, but for float32. Each runs
in a process of its own, one after the other. `filrouge` is the product's own index with its rows in SQLite, with
turbovec and with the fallback; its rate of insertion is that of the daemon's start, from the stored rows.

Exit 2 where there is no data or a candidate's package is missing.
"""

# The candidates' packages have no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUnknownLambdaType=false

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.embedders import create_embedder
from filrouge.search.vector_codes import Codes, SignCodes
from filrouge.search.vector_index import AdaptiveIndex, ExactIndex

SIZES: Final = {"10k": 10_000, "100k": 100_000, "1M": 1_000_000}
PACKAGES: Final = {"turbovec": "turbovec", "faiss": "faiss", "numkong": "numkong", "filrouge": "turbovec"}
TEXTS, QUESTIONS, TOP, GUESSES, WORDS = 12_000, 200, 10, 100, 40
_STEP: Final = 50_000

Slots = NDArray[np.int64]
Mask = NDArray[np.bool_]


def read(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def texts(data: Path) -> list[str]:
    """Short texts, as memories are: turns and sentences."""
    turns = [
        turn["content"]
        for talk in read(data / "locomo.jsonl.xz")
        for session in talk["sessions"]
        for turn in session["turns"]
    ]
    paragraphs = [
        row["text"] for name in ("piaf", "scifact", "fquad") for row in read(data / f"{name}.corpus.jsonl.xz")
    ]
    sentences = [one.strip() for text in paragraphs for one in re.split(r"(?<=[.!?])\s+", text)]
    fit = [" ".join(text.split()[:WORDS]) for text in dict.fromkeys([*turns, *sentences]) if len(text.split()) >= 4]
    step = max(1, len(fit) // TEXTS)
    return fit[::step][:TEXTS]


def questions(data: Path) -> list[str]:
    asked = [one["question"] for talk in read(data / "locomo.jsonl.xz") for one in talk["questions"]]
    asked += [row["question"] for name in ("piaf", "scifact") for row in read(data / f"{name}.queries.jsonl")]
    return asked[:: max(1, len(asked) // QUESTIONS)][:QUESTIONS]


def embed(data: Path, work: Path) -> None:
    if (work / "real.npy").exists():
        return
    model, found = create_embedder("e5"), list[Vectors]()
    passages = texts(data)
    for start in range(0, len(passages), 64):
        found.append(model.passages(passages[start : start + 64]))
    np.save(work / "queries.npy", np.stack([model.query(one) for one in questions(data)]))
    np.save(work / "real.npy", np.concatenate(found))


def unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def resample(real: Vectors, size: int, path: Path) -> None:
    """Real vectors first, then moved ones, to `size` of them."""
    if path.exists():
        return
    random, sample = np.random.default_rng(1), real[:2000]
    near = sample @ real.T
    near[np.arange(len(sample)), np.arange(len(sample))] = -1
    nearest, common = near.max(axis=1), real.mean(axis=0)
    shared, own = float(common @ common), real - common

    def moved(count: int) -> Vectors:
        kept = np.clip((random.choice(nearest, (count, 1)) - shared) / (1 - shared), 0, 1)
        one, other = (own[random.integers(0, len(real), count)] for _ in range(2))
        return unit(common + kept * one + np.sqrt(1 - kept * kept) * other).astype(np.float32)

    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(size, real.shape[1]))
    out[: min(size, len(real))] = real[:size]
    for start in range(len(real), size, _STEP):
        stop = min(size, start + _STEP)
        out[start:stop] = moved(stop - start)
    out.flush()


def masks(size: int) -> dict[str, Mask | None]:
    """No filter; one in ten at random; one in a hundred, side by side as a project's memories are."""
    random = np.random.default_rng(2)
    tenth = random.random(size) < 0.1
    hundredth = np.zeros(size, dtype=bool)
    hundredth[size // 2 : size // 2 + size // 100] = True
    return {"none": None, "10 %": tenth, "1 %": hundredth}


def truth(vectors: Vectors, queries: Vectors, work: Path, size: str) -> dict[str, Slots]:
    path = work / f"truth-{size}.npz"
    if not path.exists():
        found = dict[str, Slots]()
        for name, mask in masks(len(vectors)).items():
            places = np.arange(len(vectors)) if mask is None else np.flatnonzero(mask)
            kept: list[Any] = [np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)]
            for start in range(0, len(places), _STEP):
                part = places[start : start + _STEP]
                scores = np.concatenate([kept[0], queries @ vectors[part].T], axis=1)
                slots = np.concatenate([kept[1], np.broadcast_to(part, (len(queries), len(part)))], axis=1)
                best = np.argsort(-scores, axis=1)[:, :100]
                kept = [np.take_along_axis(scores, best, 1), np.take_along_axis(slots, best, 1)]
            found[name] = kept[1]
            found[f"{name} cosine"] = kept[0]
        np.savez(path, allow_pickle=False, **found)
    return dict(np.load(path))


class Candidate:
    """One way to find the nearest: `best` proposes slots, `halves` measure them again."""

    rescored = True

    def __init__(self, vectors: Vectors, add: Callable[[Vectors], object], best: Callable[..., Any]) -> None:
        self.add, self._best, self._halves = add, best, np.empty((len(vectors), vectors.shape[1]), dtype=np.float16)
        self.drop: Callable[[int], object] | None = None
        self._size = 0

    def fill(self, vectors: Vectors) -> None:
        for start in range(0, len(vectors), _STEP):
            self.add(vectors[start : start + _STEP])

    def keep(self, vectors: Vectors) -> None:
        for start in range(0, len(vectors), _STEP):
            self._halves[start : start + _STEP] = vectors[start : start + _STEP]

    def ask(self, query: Vector, mask: Mask | None) -> Slots:
        slots = self._best(query, mask)
        if not self.rescored:
            return slots
        return slots[np.argsort(-(self._halves[slots].astype(np.float32) @ query))[:TOP]]


def common_part(vectors: Vectors) -> Vector:
    return np.asarray(vectors[:8192]).mean(axis=0)


def codes_of(made: Codes, vectors: Vectors) -> Candidate:
    count = made.oversampling.min_candidates
    one = Candidate(vectors, lambda rows: made.add(np.asarray(rows)), lambda q, m: made.best(q, count, m))
    one.drop = made.remove
    return one


def turbovec_of(vectors: Vectors, *, centred: bool, ids: bool = False) -> Candidate:
    import turbovec

    index: Any = (turbovec.IdMapIndex if ids else turbovec.TurboQuantIndex)(dim=vectors.shape[1], bit_width=4)
    common = common_part(vectors) * centred

    def add(rows: Vectors) -> None:
        if ids:
            index.add_with_ids(rows - common, np.arange(len(index), len(index) + len(rows), dtype=np.uint64))
        else:
            index.add(rows - common)

    def best(query: Vector, mask: Mask | None) -> Slots:
        if ids:
            allowed = None if mask is None else np.flatnonzero(mask).astype(np.uint64)
            return index.search(query[None], k=GUESSES, allowlist=allowed)[1][0].astype(np.int64)
        return index.search(query[None], k=GUESSES, mask=mask)[1][0]

    one = Candidate(vectors, add, best)
    one.drop = index.remove if ids else index.swap_remove
    return one


def faiss_of(vectors: Vectors, make: str) -> Candidate:
    import faiss

    index: Any = faiss.index_factory(vectors.shape[1], make, faiss.METRIC_INNER_PRODUCT)
    common = common_part(vectors)
    index.train(np.ascontiguousarray(vectors[:8192] - common))

    def best(query: Vector, mask: Mask | None) -> Slots:
        asked: dict[str, Any] = {}
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")
            asked = {"params": cast("Any", faiss).SearchParameters(sel=cast("Any", faiss).IDSelectorBitmap(bits))}
        return index.search(query[None], GUESSES, **asked)[1][0]

    one = Candidate(vectors, lambda rows: index.add(np.ascontiguousarray(rows - common)), best)
    one.drop = lambda slot: index.remove_ids(np.array([slot]))
    return one


def int8_of(vectors: Vectors) -> Candidate:
    import numkong

    rows = np.zeros(vectors.shape, dtype=np.int8)
    common = common_part(vectors)
    size = [0]

    def eighths(some: Vectors) -> NDArray[np.int8]:
        return np.clip(np.round(some * (127 / 0.25)), -127, 127).astype(np.int8)

    def add(some: Vectors) -> None:
        rows[size[0] : size[0] + len(some)] = eighths(some - common)
        size[0] += len(some)

    def best(query: Vector, mask: Mask | None) -> Slots:
        asked = np.clip(np.round(query * (127 / np.abs(query).max())), -127, 127).astype(np.int8)
        places = None if mask is None else np.flatnonzero(mask)
        found = np.asarray(numkong.cdist(asked[None], rows if places is None else rows[places], "dot"))[0]
        top = np.argsort(-found)[:GUESSES] if len(found) <= GUESSES else np.argpartition(-found, GUESSES)[:GUESSES]
        return top if places is None else places[top]

    return Candidate(vectors, add, best)


def float32_of(vectors: Vectors) -> Candidate:
    rows, size = np.zeros(vectors.shape, dtype=np.float32), [0]

    def add(some: Vectors) -> None:
        rows[size[0] : size[0] + len(some)] = some
        size[0] += len(some)

    def best(query: Vector, mask: Mask | None) -> Slots:
        places = None if mask is None else np.flatnonzero(mask)
        found = (rows if places is None else rows[places]) @ query
        top = np.argpartition(-found, TOP)[:TOP]
        return top if places is None else places[top]

    one = Candidate(vectors, add, best)
    one.rescored = False
    return one


def turbo_codes(sample: Vectors) -> Codes:
    from filrouge.search.turbo import TurboCodes

    return TurboCodes(sample)


class Product(Candidate):
    """An index of the product behind its port; groups are the filters, rows lie in SQLite as the store keeps them."""

    rescored = False

    def __init__(self, vectors: Vectors, folder: str, make: Callable[[Any], Any]) -> None:
        import apsw

        self._database = apsw.Connection(os.path.join(folder, "rows.db"))
        self._database.execute(
            "CREATE TABLE vectors (kind, id, space, part, vector, PRIMARY KEY (kind, id, space, part)) WITHOUT ROWID"
        )
        self._names = [f"01J{n:023d}" for n in range(len(vectors))]
        self._index: Any = make(self._rows)
        self.filters = masks(len(vectors))
        self.drop = lambda slot: self._index.remove(self._names[slot])
        self._size = 0

    def keep(self, vectors: Vectors) -> None:
        with self._database:
            rows = ((self._names[n], vectors[n].astype("<f2").tobytes()) for n in range(len(vectors)))
            self._database.executemany("INSERT INTO vectors VALUES ('memory', ?, 'e5', 0, ?)", rows)

    def fill(self, vectors: Vectors) -> None:
        """As the daemon does at its start: from the stored rows."""
        del vectors
        tenth, hundredth = self.filters["10 %"], self.filters["1 %"]
        assert tenth is not None
        assert hundredth is not None
        for n, (name, blob) in enumerate(
            self._database.execute("SELECT id, vector FROM vectors WHERE kind = 'memory' ORDER BY id")
        ):
            group = f"{int(tenth[n])}{int(hundredth[n])}"
            self._index.put(name, n + 1, group, np.frombuffer(blob, dtype="<f2").astype(np.float32)[None])

    def ask(self, query: Vector, mask: Mask | None) -> Slots:
        groups = None
        if mask is not None:
            groups = frozenset({"10", "11"}) if mask is self.filters["10 %"] else frozenset({"01", "11"})
        return np.array([int(one.owner_id[3:]) for one in self._index.nearest(query, TOP, groups)])

    def _rows(self, owners: Collection[str]) -> Mapping[str, Vectors]:
        found = self._database.execute(
            "SELECT vectors.id, vector FROM json_each(?) CROSS JOIN vectors"
            " ON kind = 'memory' AND vectors.id = value AND space = 'e5'",
            (json.dumps(list(owners)),),
        )
        return {name: np.frombuffer(blob, dtype="<f2").astype(np.float32)[None] for name, blob in found}


def made(name: str, vectors: Vectors, folder: str) -> Candidate:
    dimension = vectors.shape[1]
    makers: dict[str, Callable[[], Candidate]] = {
        "numpy float32": lambda: float32_of(vectors),
        "numpy signs": lambda: codes_of(SignCodes(np.asarray(vectors[:8192])), vectors),
        "turbovec 4-bit": lambda: turbovec_of(vectors, centred=False),
        "turbovec 4-bit, by ids": lambda: turbovec_of(vectors, centred=False, ids=True),
        "turbovec 4-bit, centred": lambda: turbovec_of(vectors, centred=True),
        "turbovec 4-bit, calibrated": lambda: codes_of(turbo_codes(np.asarray(vectors[:8192])), vectors),
        "faiss SQ8": lambda: faiss_of(vectors, "SQ8"),
        "faiss RaBitQ fast scan": lambda: faiss_of(vectors, "RaBitQfs"),
        "faiss PQ192x4 fast scan": lambda: faiss_of(vectors, "PQ192x4fs"),
        "numkong int8": lambda: int8_of(vectors),
        "filrouge, exact": lambda: Product(vectors, folder, lambda _: ExactIndex(dimension)),
        "filrouge, signs": lambda: Product(
            vectors, folder, lambda rows: AdaptiveIndex(dimension, rows, codes=SignCodes)
        ),
        "filrouge": lambda: Product(vectors, folder, lambda rows: AdaptiveIndex(dimension, rows, codes=turbo_codes)),
    }
    return makers[name]()


CANDIDATES: Final = (
    "numpy float32", "numkong int8", "numpy signs", "faiss SQ8", "faiss RaBitQ fast scan",
    "turbovec 4-bit", "turbovec 4-bit, by ids", "turbovec 4-bit, centred", "turbovec 4-bit, calibrated",
    "filrouge, exact", "filrouge, signs", "filrouge",
)  # fmt: skip


def resident() -> float:
    """Megabytes of this process's own; mapped files do not count."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def measure(name: str, size: str, work: Path) -> dict[str, Any]:
    vectors = np.load(work / f"{size}.npy", mmap_mode="r")
    queries = np.load(work / "queries.npy")
    wanted = truth(vectors, queries, work, size)
    queries = queries[: 60 if len(vectors) > SIZES["100k"] else None]
    with tempfile.TemporaryDirectory(dir=work) as folder:
        candidate = made(name, vectors, folder)
        candidate.keep(vectors)
        before, start = resident(), time.perf_counter()
        candidate.fill(vectors)
        seconds = time.perf_counter() - start
        row: dict[str, Any] = {"name": name, "size": size, "insert_per_s": round(len(vectors) / seconds)}
        row["memory_mb"] = round(resident() - before, 1)
        filters = candidate.filters if isinstance(candidate, Product) else masks(len(vectors))
        for kind, mask in filters.items():
            if mask is not None and "RaBitQ" in name:
                row[kind] = None  # faiss: search parameters are not supported for this index
                continue
            candidate.ask(queries[0], mask)
            times, hits = list[float](), 0
            for query, right in zip(queries, wanted[kind], strict=False):
                start = time.perf_counter()
                found = candidate.ask(query, mask)
                times.append((time.perf_counter() - start) * 1000)
                hits += len(set(found.tolist()) & set(right[:TOP].tolist()))
            row[kind] = {
                "p50": float(np.percentile(times, 50)),
                "p95": float(np.percentile(times, 95)),
                "recall": hits / len(queries) / TOP,
            }
        row["delete_ms"] = None
        if candidate.drop is not None:
            start = time.perf_counter()
            for _ in range(20):
                candidate.drop(int(_ * 7))
            row["delete_ms"] = (time.perf_counter() - start) * 1000 / 20
    return row


def line(row: Mapping[str, Any]) -> str:
    found = [row[kind] for kind in ("none", "10 %", "1 %")]
    cells = [f"{one['p50']:.2f} / {one['p95']:.2f} ({one['recall']:.3f})" if one else "no filter" for one in found]
    gone = "-" if row["delete_ms"] is None else f"{row['delete_ms']:.3f}"
    rest = [f"{row['insert_per_s'] / 1000:.0f}k", gone, f"{row['memory_mb']:.0f}"]
    return f"| {' | '.join([row['size'], row['name'], *cells, *rest])} |"


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", type=Path, help="the benchmark kit's data")
    options.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "filrouge-vectors")
    options.add_argument("--sizes", default="10k,100k")
    options.add_argument("--only", default="", help="candidates whose name contains one of these, separated by commas")
    options.add_argument("--out", type=Path)
    options.add_argument("--one", nargs=2, metavar=("NAME", "SIZE"), help=argparse.SUPPRESS)
    chosen = options.parse_args(arguments)
    if chosen.one:
        print(json.dumps(measure(chosen.one[0], chosen.one[1], chosen.work)))
        return 0
    names = [name for name in CANDIDATES if any(part in name for part in chosen.only.split(","))]
    missing = {
        package
        for start, package in PACKAGES.items()
        for name in names
        if name.startswith(start) and not find_spec(package)
    }
    if missing:
        print(f"not installed: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    chosen.work.mkdir(parents=True, exist_ok=True)
    if not (chosen.work / "real.npy").exists() and not (chosen.data and (chosen.data / "locomo.jsonl.xz").exists()):
        print("no data: --data must name the folder of the benchmark kit", file=sys.stderr)
        return 2
    embed(chosen.data, chosen.work)
    real, queries = np.load(chosen.work / "real.npy"), np.load(chosen.work / "queries.npy")
    rows, statistics = list[dict[str, Any]](), dict[str, Any]()
    print("| N | index | none: p50 / p95 ms (recall@10) | 10 % | 1 % | inserts/s | delete ms | memory MB |")
    print("|---|---|---|---|---|--:|--:|--:|")
    for size in chosen.sizes.split(","):
        resample(real, SIZES[size], chosen.work / f"{size}.npy")
        cosines = truth(np.load(chosen.work / f"{size}.npy", mmap_mode="r"), queries, chosen.work, size)["none cosine"]
        statistics[size] = {f"top {n}": round(float(np.median(cosines[:, n - 1])), 3) for n in (1, 10, 100)}
        for name in names:
            command = [sys.executable, __file__, "--work", str(chosen.work), "--one", name, size]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name} at {size}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            rows.append(json.loads(done.stdout))
            print(line(rows[-1]), flush=True)
    print("\nMedian cosine of a question to its nearest:", json.dumps(statistics))
    if chosen.out:
        chosen.out.write_text(
            json.dumps({"rows": rows, "median_cosines": statistics, "real": len(real)}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
