"""Fit the weights that tell whether a prompt needs a memory, on what the product itself offers for labelled prompts.

    python bench/fit_needed.py --keep DIR

Projects of `bench/data/talk` are played to a Filrouge in this process, every second one of `train`, and all of
`validation`. After each session its probes are asked, and the memories that are found, with their signs, are written to
`--keep`, a JSON file a project; those that are there are read instead of played (25 s a project). A logistic regression
is fitted on train: 1 for a memory that speaks of an expected statement, .6 for an accepted one, 0 else. The weights
belong into `src/filrouge/recall/needed.py`; the table below them is of validation, by the least probability shown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.talk import payloads
from bench.talk_format import Project, read, speaks_of

from filrouge import hosts
from filrouge.app.asking import Question, recall
from filrouge.app.observe import observe
from filrouge.app.parts import Parts
from filrouge.clock import SystemClock, new_id
from filrouge.model.event import Event
from filrouge.recall.needed import WEIGHTS, Found, chances, numbers
from filrouge.testing import idle, running

TALK: Final = Path(__file__).parent / "data" / "talk"
ACCEPTED: Final = 0.6
RIDGE: Final = 1e-3
MOST_LINES: Final = 4
Row = dict[str, Any]


def offered(path: Path) -> list[Row]:
    """What is found for each probe of a project but those of a start."""
    project, rows = read(path), list[Row]()
    with tempfile.TemporaryDirectory() as root:
        repository = Path(root, project["project"]["name"].replace(" ", "-"))
        repository.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
        with running(os.path.join(root, "home"), embedding="e5") as parts:
            place: str | None = None
            for session in project["sessions"]:
                for host, payload in payloads(project, session, str(repository), root):
                    for event in _events(host, payload):
                        place = observe(parts, [event]).result().projects[-1] or place
                idle(parts)
                asked = [one for one in project["probes"] if one["after"] == session["id"] and one["prompt"]]
                rows += [_probe(parts, place, one, project) for one in asked]
    return rows


def _events(host: str, payload: Project) -> list[Event]:
    now = SystemClock().now()
    return hosts.parse(payload, host=host, environ={}, at=now.timestamp(), new_id=partial(new_id, now))


def _probe(parts: Parts, place: str | None, probe: Project, project: Project) -> Row:
    keys = {one["id"]: one["keys"] for one in project["statements"]}
    question = Question(text=probe["prompt"], project=place, private=True, by_need=True)
    ranking = parts.readers.here(lambda tx: recall(parts, tx, question))
    hits = [
        {
            "rule": getattr(hit.item, "kind", "") == "rule",
            "found": {"needed": hit.needed, "covered": hit.coverage, "similarity": hit.similarity or 0.0},
            "expected": [id_ for id_ in probe["expect"] if speaks_of(hit.text, keys[id_])],
            "accepted": any(speaks_of(hit.text, keys[id_]) for id_ in probe.get("accept", [])),
        }
        for hit in ranking.hits
    ]
    return {"kind": probe["kind"], "expect": len(probe["expect"]), "known": ranking.known, "hits": hits}


def kept(part: str, every: int, folder: Path) -> list[Row]:
    """The rows of the projects of `train` or `validation`, each played once."""
    found = list[Row]()
    for path in sorted((TALK / part).glob("*.json"))[::every]:
        place = folder / path.name
        if not place.exists():
            place.write_text(json.dumps(offered(path)))
            print(path.stem, file=sys.stderr, flush=True)
        found += json.loads(place.read_text())
    return found


def found_of(row: Row) -> list[Found]:
    return [Found(**hit["found"]) for hit in row["hits"]]


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The weights, by Newton's method."""
    names = [name for name in WEIGHTS if name != "one"]
    table = [
        [*(numbers_[name] for name in names), 1.0] for row in rows for numbers_ in numbers(found_of(row), row["known"])
    ]
    wanted = np.array(
        [1.0 if hit["expected"] else ACCEPTED * hit["accepted"] for row in rows for hit in row["hits"]]
    )  # fmt: skip
    given = np.array(table)
    middle = np.append(given[:, :-1].mean(axis=0), 0.0)  # so that the ridge does not hold on to the origin
    given = given - middle
    weights, ridge = np.zeros(len(names) + 1), RIDGE * len(given) * np.eye(len(names) + 1)
    for _ in range(40):
        found = 1 / (1 + np.exp(-given @ weights))
        slope = given.T @ (found - wanted) + ridge @ weights
        weights = weights - np.linalg.solve((given.T * (found * (1 - found))) @ given + ridge, slope)
    weights[-1] -= middle[:-1] @ weights[:-1]
    return {name: round(float(value), 3) for name, value in zip([*names, "one"], weights, strict=True)}


def table(rows: Sequence[Row], weights: Mapping[str, float]) -> Iterator[str]:
    """What memories alone come to before prompts, by the least probability."""
    yield "| least | expected delivered | lines | of them good | silent where nothing is needed |"
    yield "|--:|--:|--:|--:|--:|"
    for least in (0.1, 0.15, 0.175, 0.2, 0.225, 0.25, 0.3):
        told, expected, lines, good, silent, needless = 0, 0, 0, 0, 0, 0
        for row in rows:
            scored = zip(chances(found_of(row), row["known"], weights), row["hits"], strict=True)
            passing = sorted((one for one in scored if one[0] >= least), key=lambda one: -one[0])
            shown = [hit for _, hit in passing if not hit["rule"]][:MOST_LINES]
            rules = [hit for _, hit in passing if hit["rule"]][:MOST_LINES]
            if row["kind"] in ("unknown", "unrelated"):
                needless, silent = needless + 1, silent + (not shown)
                continue
            told += len({id_ for hit in [*shown, *rules] for id_ in hit["expected"]})
            expected, lines = expected + row["expect"], lines + len(shown)
            good += sum(bool(hit["expected"]) or hit["accepted"] for hit in shown)
        yield (f"| {least} | {told / expected:.3f} | {lines} | {good / max(1, lines):.3f} | {silent / needless:.3f} |")


def main() -> int:
    options = argparse.ArgumentParser(description="weights of what a prompt needs")
    options.add_argument("--keep", type=Path, required=True, help="a folder for what was offered")
    folder: Path = options.parse_args().keep
    folder.mkdir(exist_ok=True)
    weights = fitted(kept("train", 2, folder))
    print(f"{weights}\n")
    rows = kept("validation", 1, folder)
    print(*table(rows, weights), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
