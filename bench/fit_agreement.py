"""Fit what tells that a user agrees to what the agent proposed, and report it on projects that it has not seen.

    python bench/fit_agreement.py                       # writes src/filrouge/extraction/agreement.npz
    python bench/fit_agreement.py --dry-run             # only the report
    python bench/fit_agreement.py --held-out DIR        # reports on other projects too

A row is a sentence of an agent's message with the prompt after it; it is right where it holds half of a quote that is
labelled `by: assistant`, or is mostly inside one. Fitted on `bench/data/talk/train`. Of a message only the likeliest
sentence is ever taken; the threshold is the lowest at which, on `bench/data/talk/validation`, the share of `PRECISION`
of those is labelled.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.logistic import average_precision, fitted, likeliest, stored, threshold_at
from bench.talk_format import Project, exchanges, label_of, read, said_by, statements_by

from filrouge.extraction.reader import QUESTIONS, Proposal, features_of, hash_words, odds_of, proposals
from filrouge.extraction.statement_model import Numbers, Regression

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "extraction" / "agreement.npz"
PRECISION: Final = 0.88
EPOCHS: Final = 500
#: Weight decay of signs and of hashed words.
DECAY: Final = (3e-4, 3e-4)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A sentence, its label (empty where nobody agreed to it), and the message that it is of."""

    proposal: Proposal
    language: str
    kind: str
    message: tuple[str, Any, int]


def rows(folder: Path) -> list[Row]:
    """Every sentence that a prompt follows, of the projects in a folder."""
    return [row for path in sorted(folder.glob("*.json")) for row in _of_project(read(path))]


def exchange_rows(part: str) -> list[Row]:
    """Every sentence of the messages of exchanges."""
    found = list[Row]()
    for number, given in enumerate(exchanges(part)):
        labelled = said_by(given, "assistant")
        for one in proposals(given["answered"], given["prompt"]):
            label = label_of(one.sentence, given["answered"], labelled)
            kind = label["kind"] if label else ""
            row = Row(proposal=one, language=given["language"], kind=kind, message=("exchange", 0, number))
            found.append(row)
    return found


def _of_project(project: Project) -> Iterator[Row]:
    said = statements_by(project, "assistant")
    for session in project["sessions"]:
        turns = session["turns"]
        for number, (turn, following) in enumerate(itertools.pairwise(turns), 1):
            labelled = said.get((session["id"], number), [])
            for one in proposals(turn.get("assistant", ""), following["user"]):
                label = label_of(one.sentence, turn["assistant"], labelled)
                yield Row(
                    proposal=one,
                    language=project["language"],
                    kind=label["kind"] if label else "",
                    message=(project["id"], session["id"], number),
                )


def fit(given: Sequence[Row]) -> Regression:
    """The weights for these rows; the threshold is still to be chosen."""
    wanted = np.zeros((len(given), len(QUESTIONS)), np.float32)
    counts = np.zeros_like(wanted)
    counts[:, 0] = 1.0
    for at, one in enumerate(given):
        if one.kind:
            wanted[at] = 1.0, one.kind == "decision"
            counts[at, 1] = 1.0
    features = features_of([one.proposal for one in given])
    places = [hash_words(one.proposal) for one in given]
    return fitted(features, places, wanted, counts / np.maximum(counts.sum(axis=0), 1.0), DECAY, EPOCHS)


def odds_for(given: Sequence[Row], made: Regression) -> Numbers:
    """A row a sentence, a column a question."""
    sentences = [one.proposal for one in given]
    return odds_of(sentences, features_of(sentences), made)


def report(name: str, given: Sequence[Row], odds: Numbers, threshold: float) -> Iterator[str]:
    """Lines of the table of one set of projects."""
    right, best = np.array([bool(one.kind) for one in given]), likeliest([one.message for one in given], odds[:, 0])
    for language in ("", *sorted({one.language for one in given})):
        here = np.array([language in ("", one.language) for one in given])
        taken = here & best & (odds[:, 0] >= np.log(threshold / (1 - threshold)))
        said = here & right
        kinds = [(odds[at, 1] > 0) == (given[at].kind == "decision") for at, one in enumerate(said) if one]
        yield (
            f"| {name} {language or 'all'} | {len({one.message for one, of in zip(given, here, strict=True) if of})} "
            f"| {said.sum()} | {average_precision(right[here], odds[here, 0]):.3f} "
            f"| {(taken & right).sum() / max(1, taken.sum()):.3f} "
            f"| {(taken & right).sum() / max(1, said.sum()):.3f} | {np.mean(kinds) if kinds else 0:.2f} |"
        )


def main() -> None:
    """Fit, choose, write, report."""
    parser = argparse.ArgumentParser(description="Fit the model of agreement.")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--held-out", type=Path)
    given = parser.parse_args()
    train, validation = [*rows(TALK / "train"), *exchange_rows("train")], rows(TALK / "validation")
    made = fit(train)
    odds = odds_for(validation, made)
    right, best = (
        np.array([bool(one.kind) for one in validation]),
        likeliest([one.message for one in validation], odds[:, 0]),
    )
    threshold = threshold_at(right[best], odds[best, 0], PRECISION)
    print("| projects | messages | agreed | average precision | precision | recall | kind |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    print("\n".join(report("validation", validation, odds, threshold)))
    if given.held_out:
        other = rows(given.held_out)
        print("\n".join(report("held out", other, odds_for(other, made), threshold)))
    print(f"threshold {threshold:.3f}")
    if not given.dry_run:
        np.savez_compressed(TARGET, **stored(replace(made, threshold=threshold)))
        print(f"{TARGET.name}: {TARGET.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
