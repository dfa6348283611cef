"""Retrieval by words alone, and what it costs: quality, bytes, speed.

Every text goes through the product's own tables (`Turns.add`) and every question through its own expression. The
candidates are ranked as FTS5 ranks them, and again by BM25 with other k1 and b over the best fifty.

    python bench/lexical.py --data DIR                              # all sets
    python bench/lexical.py --data DIR --sets locomo --grid         # k1 and b

Data in the format of the benchmark kit: `NAME.corpus.jsonl.xz`, `.queries.jsonl`, `.labels.jsonl`; `locomo.jsonl.xz`.
Exit 2 where there is none.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from filrouge.capture.models import Turn
from filrouge.capture.repository import Turns
from filrouge.core.clock import SystemClock, from_epoch, new_id
from filrouge.core.scope import Scope
from filrouge.runtime.sqlite import Database
from filrouge.search.analyser import TextAnalyser, any_of
from filrouge.search.ranking import CollectionStatistics, Okapi, bm25
from filrouge.search.repository import FullTextIndex

SETS: Final = ("locomo", "piaf", "fquad", "scifact")
POOL: Final = 50
_AT: Final = from_epoch(1_750_000_000)
_GRID: Final = [Okapi(k1=k1, b=b) for k1 in (0.4, 0.6, 0.9, 1.2, 1.5) for b in (0.2, 0.4, 0.6, 0.75)]
_BYTES: Final = "select sum(pgsize) from dbstat where name like '%_fts_%'"

Gold = Mapping[str, set[str]]


@dataclass(kw_only=True)
class Run:
    """What one set came to: the answers of each way of ranking, and the cost."""

    ranked: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    text_bytes: int = 0
    index_bytes: int = 0
    file_bytes: int = 0
    seconds: float = 0.0

    def answer(self, way: str, question: str, ids: Sequence[str]) -> None:
        self.ranked.setdefault(way, {})[question] = list(ids)[:10]


def read(path: str) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8") as file:
        yield from map(json.loads, file)


def stores(data: str, name: str) -> Iterator[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """Texts and questions of each store, both with their ids."""
    if name == "locomo":
        for talk in read(os.path.join(data, "locomo.jsonl.xz")):
            turns = [turn for session in talk["sessions"] for turn in session["turns"]]
            texts = [(turn["turn_id"], f"{turn['speaker']}: {turn['content']}{caption(turn)}") for turn in turns]
            yield texts, [(one["qid"], one["question"]) for one in talk["questions"]]
        return
    corpus = read(os.path.join(data, f"{name}.corpus.jsonl.xz"))
    texts = [(one["doc_id"], f"{one['title']} {one['text']}".strip()) for one in corpus]
    yield texts, [(one["qid"], one["question"]) for one in read(os.path.join(data, f"{name}.queries.jsonl"))]


def caption(turn: Mapping[str, Any]) -> str:
    return f" [image: {turn['caption']}]" if turn.get("caption") else ""


def labels(data: str, name: str) -> Gold:
    key = "turn" if name == "locomo" else "doc"
    rows = read(os.path.join(data, f"{name}.labels.jsonl"))
    return {row["qid"]: set(row["gold"][key]) for row in rows if row["gold"][key]}


def measure(data: str, name: str, ways: Sequence[Okapi]) -> Run:
    run, analyser = Run(), TextAnalyser()
    for texts, questions in stores(data, name):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.db")
            database = Database(path)
            database.migrate(SystemClock())
            ids = fill(database, analyser, texts, run)
            for id_, question in questions:
                for way, found in ask(database, analyser, question, ways).items():
                    run.answer(way, id_, [ids[turn] for turn in found])
            database.checkpoint()
            connection: Any = database.tx._connection  # pyright: ignore[reportPrivateUsage] (bytes are not its language)
            run.index_bytes += int(connection.execute(_BYTES).fetchone()[0])
            run.file_bytes += os.path.getsize(path)
            database.close()
    return run


def fill(database: Database, analyser: TextAnalyser, texts: Sequence[tuple[str, str]], run: Run) -> dict[str, str]:
    """Store the texts as turns; returns whose text each turn is."""
    ids = dict[str, str]()
    with database.transaction() as tx:
        for name, text in texts:
            turn = Turn(
                id=new_id(_AT), key=name, scope=Scope(channel="bench", session="s"), host="bench", role="assistant",
                source="reply", text=text, at=_AT, trust=1,
            )  # fmt: skip
            Turns(tx, analyser).add(turn)
            ids[turn.id] = name
            run.text_bytes += len(text.encode())
    started = time.process_time()
    for _, text in texts:
        analyser.tokens(text)
    run.seconds += time.process_time() - started
    return ids


def ask(database: Database, analyser: TextAnalyser, question: str, ways: Sequence[Okapi]) -> dict[str, list[str]]:
    """The turns found for a question, best first, by each way of ranking."""
    terms = analyser.terms(question)
    place = {"match": any_of(terms), "project_id": None, "everywhere": True, "limit": POOL}
    rows = database.tx.all("turns.best", place) if terms else []
    words = FullTextIndex(database.tx, analyser, "turn")
    totals = words.totals()
    frequencies = words.frequencies([form for forms in terms for form in forms])
    collection = CollectionStatistics(rows=totals.rows, mean=totals.mean, frequencies=frequencies)
    texts = database.tx.all("turns.searched", {"ids": json.dumps([row["id"] for row in rows])})
    tokens = {row["id"]: analyser.tokens(row["text"]).split() for row in texts}
    candidates = {row["id"]: tokens[row["id"]] for row in rows}
    found = {"FTS5": list(candidates)}
    for okapi in ways:
        scores = bm25(terms, candidates, collection, okapi)
        found[f"k1 {okapi.k1:g}, b {okapi.b:g}"] = sorted(scores, key=lambda id_: -scores[id_])
    return found


def quality(ranked: Mapping[str, Sequence[str]], gold: Gold) -> list[float]:
    """any@1, any@5, any@10, MRR and nDCG@10, the mean over the questions that have an answer."""
    totals = [0.0] * 5
    for question, wanted in gold.items():
        hits = [id_ in wanted for id_ in ranked.get(question, [])]
        first = hits.index(True) + 1 if any(hits) else 0
        ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(wanted))))
        gained = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits) if hit)
        each = [any(hits[:1]), any(hits[:5]), any(hits), 1 / first if first else 0.0, gained / ideal]
        totals = [total + value for total, value in zip(totals, each, strict=True)]
    return [total / len(gold) for total in totals]


def main() -> int:
    options = argparse.ArgumentParser(description="Retrieval by words alone")
    options.add_argument("--data", default="", help="directory of the benchmark data")
    options.add_argument("--sets", default=",".join(SETS))
    options.add_argument("--grid", action="store_true", help="many values of k1 and b")
    given = options.parse_args()
    names = [one for one in given.sets.split(",") if os.path.exists(os.path.join(given.data, f"{one}.labels.jsonl"))]
    if not given.data or not names:
        print("not measured: no data (--data DIR)")
        return 2
    print("| set | n | ranking | any@1 | any@5 | any@10 | MRR | nDCG@10 |\n|---|---|---|---|---|---|---|---|")
    costs: list[str] = []
    for name in names:
        gold, run = labels(given.data, name), measure(given.data, name, _GRID if given.grid else [Okapi()])
        for way, ranked in run.ranked.items():
            print(f"| {name} | {len(gold)} | {way} | {' | '.join(f'{one:.3f}' for one in quality(ranked, gold))} |")
        share = [run.index_bytes / run.text_bytes, run.file_bytes / run.text_bytes]
        costs.append(
            f"| {name} | {run.text_bytes / 1e6:.2f} | {share[0]:.2f} | {share[1]:.2f}"
            f" | {run.text_bytes / 1e6 / run.seconds:.2f} |"
        )
    print("\n| set | text MB | index / text | file / text | analyser MB/s |\n|---|---|---|---|---|")
    print("\n".join(costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
