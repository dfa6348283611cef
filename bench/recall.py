"""Recall by the whole product: conversations and passages go in as events, questions are searched, a run comes out.

    python bench/recall.py --data DIR --set locomo --out RUN.jsonl       # writes the run, prints the figures
    python bench/recall.py --data DIR --check                            # every set; exit 1 when a gate is missed

Every conversation, and every haystack, has a home of its own; a passage is a session of one reply. Events take the way
of any event: written down, read into turns, embedded and indexed by the daemon's own worker; a question is the search
that `filrouge search` makes (turns only). Nothing is known of the labels until the ranking is written.
The caption of a shared picture is part of its turn. Questions are asked at the time the data says, or else when the
last turn was said.

A run has a line for each question, `{"qid", "ranked": [[id, score], ...], "ms"}`. The gates are those of a product that
may never be below plain BM25: LoCoMo turns any@10 >= .84, each other set its BM25 floor + .02 (dev splits).
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

from filrouge.capture.events import Event
from filrouge.capture.service import store_events
from filrouge.runtime import wiring
from filrouge.search.service import Question, search_turns
from filrouge.testing import ManualClock, idle

SETS: Final = ("locomo", "longmemeval_s", "piaf", "fquad", "scifact")
#: What each set is judged by: its gold list, the figure, and the gate (BM25 floor + .02, or what the issue says).
GATES: Final = {
    "locomo": ("turn", "any@10", 0.84),
    "longmemeval_s": ("session_all", "all@10", 0.955),
    "piaf": ("doc", "ndcg@10", 0.805),
    "fquad": ("doc", "ndcg@10", 0.841),
    "scifact": ("doc", "ndcg@10", 0.742),
}
_RANKED: Final = 50
_AT_ONCE: Final = 256
_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One event to be: its id in the data, its session, who said it and when."""

    id: str
    session: str
    kind: str
    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """What goes into one home, and what is asked of it, each question with its moment."""

    said: Sequence[Said]
    questions: Sequence[tuple[str, str, datetime]]


def lines(data: Path, name: str) -> Iterator[dict[str, Any]]:
    path = data / name
    with lzma.open(path, "rt", encoding="utf-8") if name.endswith(".xz") else open(path, encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("/", "-").split(" (")[0]).replace(tzinfo=UTC)


def stores(data: Path, name: str) -> Iterator[Store]:
    if name == "locomo":
        yield from map(conversation, lines(data, "locomo.jsonl.xz"))
    elif name == "longmemeval_s":
        yield from map(haystack, lines(data, "longmemeval_s.jsonl.xz"))
    else:
        said = [
            Said(id=row["doc_id"], session=row["doc_id"], kind="reply", text=f"{row['title']}\n{row['text']}", at=_DAY)
            for row in lines(data, f"{name}.corpus.jsonl.xz")
        ]
        questions = [(row["qid"], row["question"], _DAY) for row in lines(data, f"{name}.queries.jsonl")]
        yield Store(said=said, questions=questions)


def conversation(raw: dict[str, Any]) -> Store:
    said: list[Said] = []
    for session in raw["sessions"]:
        for number, turn in enumerate(session["turns"]):
            shared = f" [shares a picture: {turn['caption']}]" if turn.get("caption") else ""
            said.append(
                Said(
                    id=turn["turn_id"],
                    session=session["session_id"],
                    kind="prompt",
                    text=f"{turn['speaker']}: {turn['content']}{shared}",
                    at=moment(session["date"]) + timedelta(seconds=number),
                )
            )
    last = max(one.at for one in said)
    return Store(said=said, questions=[(one["qid"], one["question"], last) for one in raw["questions"]])


def haystack(raw: dict[str, Any]) -> Store:
    said = [
        Said(
            id=turn["turn_id"],
            session=session["session_id"],
            kind="prompt" if turn["role"] == "user" else "reply",
            text=turn["content"],
            at=moment(session["date"]) + timedelta(seconds=number),
        )
        for session in raw["sessions"]
        for number, turn in enumerate(session["turns"])
        if turn["content"].strip()
    ]
    return Store(said=said, questions=[(raw["question_id"], raw["question"], moment(raw["question_date"]))])


def played(
    store: Store,
    embedder: str,
    mode: str,
    *,
    recipe: str = "balanced",
    limit: int = _RANKED,
    makers: wiring.EmbedderFactories | None = None,
) -> Iterator[tuple[dict[str, Any], float]]:
    """The run's lines, each with the seconds that taking in one event of its store took."""
    home = tempfile.mkdtemp(prefix="filrouge-recall-")
    clock = ManualClock(max(one.at for one in store.said) + timedelta(minutes=1))
    running = wiring.start(home, environ={"FILROUGE_EMBEDDING_MODEL": embedder}, clock=clock, embedder_factories=makers)
    parts = running.parts
    try:
        began = time.perf_counter()
        for start in range(0, len(store.said), _AT_ONCE):
            events = [event(one) for one in store.said[start : start + _AT_ONCE]]
            store_events(parts, events).result()
        idle(parts, 7200)
        spent = (time.perf_counter() - began) / len(store.said)
        for qid, asked, at in store.questions:
            clock.move(seconds=(at - clock.now()).total_seconds())
            question = Question(text=asked, everywhere=True, limit=limit, mode=mode, recipe=recipe)  # pyright: ignore[reportArgumentType]
            began = time.perf_counter()
            hits = parts.readers.here(lambda tx, question=question: search_turns(parts, tx, question)).hits
            ms = 1000 * (time.perf_counter() - began)
            ranked = [[hit.item.key, round(hit.score, 5)] for hit in hits if hasattr(hit.item, "role")]  # pyright: ignore[reportAttributeAccessIssue]
            yield {"qid": qid, "ranked": ranked, "ms": round(ms, 2)}, spent
    finally:
        running.stop()
        shutil.rmtree(home, ignore_errors=True)


def event(one: Said) -> Event:
    return Event(
        id=blake2b(f"{one.session} {one.id}".encode(), digest_size=13).hexdigest(),
        host="bench",
        kind=one.kind,  # pyright: ignore[reportArgumentType]
        session=one.session,
        at=one.at.timestamp(),
        key=one.id,
        cwd="",
        project=(),
        transcript="",
        agent="",
        data={"text": one.text},
    )


def figures(name: str, rows: Sequence[dict[str, Any]], data: Path) -> dict[str, tuple[float, float]]:
    """Each figure with half the width of its interval of 95 %."""
    unit = GATES[name][0]
    gold = {
        row["qid"]: set(row["gold"][unit]) for row in lines(data, f"{name}.labels.jsonl") if not row.get("abstention")
    }
    found: dict[str, list[float]] = {key: [] for key in ("any@1", "any@5", "any@10", "all@10", "ndcg@10")}
    for row in rows:
        wanted = gold.get(row["qid"])
        if not wanted:
            continue
        ids = [id_.rpartition(":")[0] if unit.startswith("session") else id_ for id_, _ in row["ranked"]]
        hits = [id_ in wanted for id_ in dict.fromkeys(ids)]
        for most in (1, 5, 10):
            found[f"any@{most}"].append(float(any(hits[:most])))
        found["all@10"].append(float(sum(hits[:10]) == len(wanted)))
        ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(wanted))))
        found["ndcg@10"].append(sum(hit / math.log2(place + 2) for place, hit in enumerate(hits[:10])) / ideal)
    return {
        key: (float(np.mean(values)), 1.96 * float(np.std(values)) / math.sqrt(len(values)))
        for key, values in found.items()
    }


def measure(name: str, given: argparse.Namespace) -> tuple[str, bool]:
    rows: list[dict[str, Any]] = []
    spent: list[float] = []
    for number, store in enumerate(stores(given.data, name)):
        if given.limit and number >= given.limit:
            break
        for row, seconds in played(store, given.embedder, given.mode, recipe=given.recipe):
            rows.append(row)
            spent.append(seconds)
        print(f"  {name}: {number + 1} stores, {len(rows)} questions", file=sys.stderr, flush=True)
    if given.out:
        target = given.out if given.set else f"{given.out}.{name}"
        Path(target).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = figures(name, rows, given.data)
    ms = sorted(row["ms"] for row in rows)
    _, key, limit = GATES[name]
    holds = found[key][0] >= limit
    cells = " | ".join(f"{mean:.3f} ± {half:.3f}" for mean, half in found.values())
    verdict = f"{key} ≥ {limit:g} {'holds' if holds else 'does not hold'}"
    speed = f"{1 / float(np.median(spent)):.0f} | {ms[len(ms) // 2]:.1f} / {ms[int(len(ms) * 0.95)]:.1f}"
    return f"| {name} | {len(rows)} | {cells} | {speed} | {verdict} |", holds


def main() -> int:
    options = argparse.ArgumentParser(description="recall by the whole product")
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--set", choices=SETS, help="one set; without it all of them")
    options.add_argument("--out", help="where the run is written; with all sets the name of each is added")
    options.add_argument("--embedder", default="e5")
    options.add_argument("--mode", default="hybrid", choices=("hybrid", "text", "semantic"))
    options.add_argument("--recipe", default="balanced", choices=("fast", "balanced", "deep", "rrf"))
    options.add_argument("--limit", type=int, default=0, help="at most this many stores of a set")
    options.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    given = options.parse_args()
    names = [given.set] if given.set else [*SETS]
    missing = [name for name in names if not os.path.exists(given.data / f"{name}.labels.jsonl")]
    if missing:
        print(f"no data: {', '.join(missing)} not in {given.data}")
        return 2
    print("| set | n | any@1 | any@5 | any@10 | all@10 | nDCG@10 | events/s | ms p50 / p95 | gate |")
    print("|---|--:|---|---|---|---|---|--:|--:|---|", flush=True)
    held: list[bool] = []
    for name in names:
        row, holds = measure(name, given)
        print(row, flush=True)
        held.append(holds)
    print(f"{sum(held)} of {len(held)} gates hold")
    return 1 if given.check and not all(held) else 0


if __name__ == "__main__":
    sys.exit(main())
