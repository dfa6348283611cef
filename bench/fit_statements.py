"""Fit what the words of a prompt state on labelled talk, and report what they find on projects not seen before.

    python bench/fit_statements.py                       # writes src/filrouge/extraction/statements.npz
    python bench/fit_statements.py --dry-run             # only the report
    python bench/fit_statements.py --held-out DIR        # reports on other projects too

Fitted on `bench/data/talk/train`, the short prompts and the exchanges for training and, with less weight, the chats.
The threshold is the lowest at which, on `bench/data/talk/validation`, the share `PRECISION` of the units taken are
labelled. It is for words alone; `bench/fit_reader.py` adds the network that reads prompts, and has to be run after
this. Labels miss about a quarter of what a second reader would take (README of the data), so true precision is higher.
The same data and machine give the same weights, bit for bit (`bench/logistic.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import structs

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.logistic import average_precision, fitted, stored, threshold_at
from bench.talk_format import Project, exchanges, label_of, read, said_by, statements_by

from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.sentences import Unit, units
from filrouge.extraction.statement_model import (
    LABELS,
    QUESTIONS,
    Numbers,
    Regression,
    features_of,
    hash_words,
    odds_of,
    pattern_of,
)
from filrouge.memories.models import Statement

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "extraction" / "statements.npz"
#: Of the units that are taken on validation, the share that is labelled. At a higher one, words would find too little.
PRECISION: Final = 0.75
EPOCHS: Final = 220
#: Weight decay of dense and of hashed weights.
DECAY: Final = (3e-4, 2e-4)
#: What a unit of a chat counts beside one of work with an agent: whether it states, which kind, whose scope. In full,
#: chats cost work a tenth of its recall: a friend notes more than a colleague.
CHATS_COUNT: Final = (0.2, 0.4, 0.1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A unit of a prompt and what its labels say; `kind` is empty where it states nothing."""

    prompt: str
    unit: Unit
    pattern: Statement | None
    language: str
    kind: str
    user: bool
    chat: bool = False


def rows(folder: Path, *, chat: bool = False) -> list[Row]:
    """Every unit of every prompt of the projects in a folder."""
    return [replace(row, chat=chat) for path in sorted(folder.glob("*.json")) for row in _of_project(read(path))]


def short_rows(part: str) -> list[Row]:
    """Every unit of the short prompts of `train` or `validation`."""
    lines = (TALK / "short" / f"{part}.jsonl").read_text("utf-8").splitlines()
    return [row for line in lines for row in _of_prompt(json.loads(line))]


def exchange_rows(part: str) -> list[Row]:
    """Every unit of the prompts of exchanges."""
    given = exchanges(part)
    return [row for one in given for row in _of_prompt(one | {"statements": said_by(one, "user")})]


def _of_prompt(given: Project) -> Iterator[Row]:
    found = statements_of(given["prompt"])
    for unit in units(given["prompt"]):
        label = label_of(unit, given["prompt"], given["statements"])
        yield _row(given["prompt"], unit, pattern_of(unit, found), given["language"], label)


def _row(prompt: str, unit: Unit, pattern: Statement | None, language: str, label: Project | None) -> Row:
    kind, user = (label["kind"], label["scope"] == "user") if label else ("", False)
    return Row(prompt=prompt, unit=unit, pattern=pattern, language=language, kind=kind, user=user)


def _of_project(project: Project) -> Iterator[Row]:
    said = statements_by(project, "user")
    for session in project["sessions"]:
        for number, turn in enumerate(session["turns"], 1):
            found = statements_of(turn["user"])
            for unit in units(turn["user"]):
                label = label_of(unit, turn["user"], said.get((session["id"], number), []))
                yield _row(turn["user"], unit, pattern_of(unit, found), project["language"], label)


def answers(given: Sequence[Row]) -> tuple[Numbers, Numbers]:
    """The answer to each question (rows, columns), and whether it counts: kind and scope only of what is stated."""
    wanted = np.zeros((len(given), len(QUESTIONS)), np.float32)
    counts = np.zeros_like(wanted)
    for at, one in enumerate(given):
        states, kind, scope = CHATS_COUNT if one.chat else (1.0, 1.0, 1.0)
        counts[at, 0] = states
        if one.kind:
            wanted[at, 0] = 1.0
            counts[at, 1:-1], counts[at, -1] = kind, scope
            wanted[at, 1 + LABELS.index(one.kind)] = 1.0
            wanted[at, -1] = one.user
    return wanted, counts / np.maximum(counts.sum(axis=0), 1.0)


def fit(given: Sequence[Row]) -> Regression:
    """The weights for these rows; the threshold is still to be chosen."""
    features = features_of([one.unit for one in given], [one.pattern for one in given])
    return fitted(features, [hash_words(one.unit) for one in given], *answers(given), DECAY, EPOCHS)


def odds_for(given: Sequence[Row], made: Regression) -> Numbers:
    """A row a unit, a column a question."""
    units_of_rows = [one.unit for one in given]
    return odds_of(units_of_rows, features_of(units_of_rows, [one.pattern for one in given]), made)


def report(name: str, given: Sequence[Row], odds: Numbers, threshold: float) -> Iterator[str]:
    """Lines of the table of one set of projects."""
    right = np.array([bool(one.kind) for one in given])
    log_threshold = float(np.log(threshold / (1 - threshold)))
    for language in ("", *sorted({one.language for one in given})):
        here = np.array([language in ("", one.language) for one in given])
        taken = here & (odds[:, 0] >= log_threshold)
        said = here & right
        stated = [at for at, one in enumerate(said) if one]
        kind = [LABELS[int(odds[at, 1:-1].argmax())] == given[at].kind for at in stated]
        scope = [bool(odds[at, -1] > 0) == given[at].user for at in stated]
        yield (
            f"| {name} {language or 'all'} | {here.sum()} | {said.sum()} "
            f"| {average_precision(right[here], odds[here, 0]):.3f} "
            f"| {(taken & right).sum() / max(1, taken.sum()):.3f} "
            f"| {(taken & right).sum() / max(1, said.sum()):.3f} | {np.mean(kind):.2f} | {np.mean(scope):.2f} |"
        )


def main() -> None:
    """Fit, choose, write, report."""
    parser = argparse.ArgumentParser(description="Fit the statement model.")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--held-out", type=Path)
    given = parser.parse_args()
    train = [*rows(TALK / "train"), *rows(TALK / "chats" / "train", chat=True), *short_rows("train")]
    train += exchange_rows("train")
    validation = rows(TALK / "validation")
    chats, short = rows(TALK / "chats" / "validation"), short_rows("validation")
    other = rows(given.held_out) if given.held_out else []
    sets = {"validation": validation, "chats": chats, "short": short, "exchanges": exchange_rows("validation")}
    sets["held out"] = other
    right = np.array([bool(one.kind) for one in validation])
    print("| projects | units | stated | average precision | precision | recall | kind | scope |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    made = fit(train)
    odds = {where: odds_for(rows_of, made) for where, rows_of in sets.items() if rows_of}
    threshold = threshold_at(right, odds["validation"][:, 0], PRECISION)
    for where, found in odds.items():
        print("\n".join(report(where, sets[where], found, threshold)), flush=True)
    print(f"threshold {threshold:.3f}")
    if not given.dry_run:
        np.savez_compressed(TARGET, **stored(structs.replace(made, threshold=threshold)))
        print(f"{TARGET.name}: {TARGET.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
