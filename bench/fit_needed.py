"""Fit the weights that tell whether a prompt needs a memory, on what the product itself offers for labelled prompts.

    python bench/fit_needed.py --keep DIR

The projects of `bench/data/talk/validation` are played to a Filrouge in this process: the encoder has learned the
prompts of `train` (`bench/fit_questions.py`), so what it says of those is too good. After each session its probes are
asked, and at the end those of another project, which need nothing here. The memories that are found, with their signs,
are written to `--keep`, a JSON file a project; those that are there are read instead of played (25 s a project). One
logistic regression tells whether a memory is needed: 1 for one that speaks of an expected statement, .6 for an accepted
one, 0 else; its weights belong into `src/filrouge/search/ranking.py`. In the table each fifth of the projects is judged
by weights of the others. Another regression tells whether anything is needed. It is printed for comparison: the weights
in use were chosen by recorded sessions of another hand, too (`tests/acceptance/test_injection_of_each_host.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.logistic import by_newton
from bench.talk import tell
from bench.talk_format import Project, read, speaks_of

from filrouge.runtime.services import Parts
from filrouge.search.ranking import (
    ANYTHING_WEIGHTS,
    MIN_NEED_PROBABILITY,
    NEED_WEIGHTS,
    LogOdds,
    NeedFeatures,
    anything_inputs,
    logistic,
    need_inputs,
    need_probabilities,
)
from filrouge.search.service import Question, recall
from filrouge.testing import idle, running

TALK: Final = Path(__file__).parent / "data" / "talk"
ACCEPTED: Final = 0.6
RIDGE: Final = 1e-4
PARTS: Final = 5
#: What must be as probable, at the least, for anything to be shown; lines; the share of the best that others must have.
KNOWN, MOST_LINES, BESIDE = 0.5, 4, 0.4
Row = dict[str, Any]
#: A prompt of another project needs nothing here, though it is of the kind that needs something.
ELSEWHERE: Final[Row] = {"kind": "elsewhere", "expect": [], "accept": []}


def offered(path: Path, other: Path) -> list[Row]:
    """What is found for each probe of a project but those of a start, and for those of another project at its end."""
    project, rows = read(path), list[Row]()
    with tempfile.TemporaryDirectory() as root:
        repository = Path(root, project["project"]["name"].replace(" ", "-"))
        repository.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
        with running(os.path.join(root, "home"), embedding="e5") as parts:
            place = ""
            for session in project["sessions"]:
                place = tell(parts, project, session, str(repository), root) or place
                idle(parts)
                asked = [one for one in project["probes"] if one["after"] == session["id"] and one["prompt"]]
                rows += [_probe(parts, place, one, project) for one in asked]
            strange = [one for one in read(other)["probes"] if one["kind"] in ("question", "task")]
            rows += [_probe(parts, place, one | ELSEWHERE, project) for one in strange]
    return rows


def _probe(parts: Parts, place: str, probe: Project, project: Project) -> Row:
    keys = {one["id"]: one["keys"] for one in project["statements"]}
    question = Question(text=probe["prompt"], project=place, own_only=True, by_need=True)
    ranking = parts.readers.here(lambda tx: recall(parts, tx, question))
    hits = [
        {
            "rule": getattr(hit.item, "kind", "") == "rule",
            "found": {"needed": hit.needed, "covered": hit.coverage},
            "expected": [id_ for id_ in probe["expect"] if speaks_of(hit.text, keys[id_])],
            "accepted": any(speaks_of(hit.text, keys[id_]) for id_ in probe.get("accept", [])),
        }
        for hit in ranking.hits
    ]
    return {"kind": probe["kind"], "expect": len(probe["expect"]), "hits": hits if ranking.by_need else []}


def kept(folder: Path) -> list[list[Row]]:
    """The rows of each project, played once."""
    found = list[list[Row]]()
    paths = sorted((TALK / "validation").glob("*.json"))
    for path, other in zip(paths, [*paths[1:], paths[0]], strict=True):
        place = folder / path.name
        if not place.exists():
            place.write_text(json.dumps(offered(path, other)))
            print(path.stem, file=sys.stderr, flush=True)
        found.append(json.loads(place.read_text()))
    return found


def found_of(row: Row) -> list[NeedFeatures]:
    return [NeedFeatures(**hit["found"]) for hit in row["hits"]]


def needs_nothing(row: Row) -> bool:
    return row["kind"] in ("unknown", "unrelated", "elsewhere")


def fitted_anything(rows: Sequence[Row]) -> dict[str, float]:
    """The weights that tell whether anything is needed, by the memory of each prompt that the weights in use prefer:
    one step from these weights, not a fit of its own."""
    here, names = [row for row in rows if row["hits"]], [name for name in ANYTHING_WEIGHTS if name != "one"]
    table = [[anything_inputs(found_of(row))[name] for name in names] for row in here]
    fitted = logistic_of(table, [float(not needs_nothing(row)) for row in here])
    return dict(zip([*names, "one"], fitted, strict=True))


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The weights for these rows."""
    names = [name for name in NEED_WEIGHTS if name != "one"]
    here = [row for row in rows if row["kind"] != "elsewhere"]
    table = [[one[name] for name in names] for row in here for one in need_inputs(found_of(row))]
    wanted = [1.0 if hit["expected"] else ACCEPTED * hit["accepted"] for row in here for hit in row["hits"]]
    return dict(zip([*names, "one"], logistic_of(table, wanted), strict=True))


def logistic_of(table: Sequence[Sequence[float]], wanted: Sequence[float]) -> list[float]:
    """The weight of each column, then the intercept, by Newton's method over standardised columns."""
    given = np.array(table, np.float64)
    middle, spread = given.mean(axis=0), given.std(axis=0) + 1e-9
    rows = np.concatenate([(given - middle) / spread, np.ones((len(given), 1))], axis=1)
    decay = np.full(rows.shape[1], RIDGE * len(rows), np.float64)
    weights = by_newton(rows, np.array(wanted), decay)
    slopes = weights[:-1] / spread
    return [round(float(one), 3) for one in [*slopes, weights[-1] - middle @ slopes]]


def shown(row: Row, weights: Mapping[str, float], anything: LogOdds, least: float) -> tuple[list[Row], list[Row]]:
    """The memories and the rules that would stand before a prompt."""
    if not row["hits"] or logistic(anything_inputs(found_of(row)), anything) < KNOWN:
        return [], []
    scored = sorted(
        zip(need_probabilities(found_of(row), weights), row["hits"], strict=True), key=lambda one: -one[0]
    )  # fmt: skip
    passing = [hit for chance, hit in scored if chance >= max(least, BESIDE * scored[0][0])]
    return [hit for hit in passing if not hit["rule"]][:MOST_LINES], [hit for hit in passing if hit["rule"]][
        :MOST_LINES
    ]


def table(projects: Sequence[Sequence[Row]]) -> Iterator[str]:
    """What memories alone come to before prompts, by the least probability and by the intercept of "anything"."""
    judged = list[tuple[Row, LogOdds]]()
    for part in range(PARTS):
        weights = fitted([row for at, project in enumerate(projects) if at % PARTS != part for row in project])
        judged += [(row, weights) for project in projects[part::PARTS] for row in project]
    yield "| least | intercept | delivered | lines | of them good | silent where nothing is needed | elsewhere |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    chosen = ANYTHING_WEIGHTS["one"]
    for least, one in [
        *((least, chosen) for least in (0.13, 0.14, 0.15, 0.16, 0.17)),
        *((MIN_NEED_PROBABILITY, round(chosen + more, 2)) for more in (-0.25, 0.25)),
    ]:
        told, expected, lines, good = 0, 0, 0, 0
        silent = {"here": list[bool](), "elsewhere": list[bool]()}
        for row, weights in judged:
            memories, rules = shown(row, weights, {**ANYTHING_WEIGHTS, "one": one}, least)
            if needs_nothing(row):
                silent["elsewhere" if row["kind"] == "elsewhere" else "here"].append(not memories)
                continue
            told += len({id_ for hit in [*memories, *rules] for id_ in hit["expected"]})
            expected, lines = expected + row["expect"], lines + len(memories)
            good += sum(bool(hit["expected"]) or hit["accepted"] for hit in memories)
        quiet = " | ".join(f"{np.mean(one):.3f}" for one in silent.values())
        yield f"| {least} | {one} | {told / expected:.3f} | {lines} | {good / max(1, lines):.3f} | {quiet} |"


def main() -> int:
    options = argparse.ArgumentParser(description="weights of what a prompt needs")
    options.add_argument("--keep", type=Path, required=True, help="a folder for what was offered")
    folder: Path = options.parse_args().keep
    folder.mkdir(exist_ok=True)
    projects = kept(folder)
    rows = [row for project in projects for row in project]
    print(fitted(rows), fitted_anything(rows))
    print(*table(projects), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
