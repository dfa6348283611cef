"""Fit what tells that a statement replaces a memory, on labelled talk, and report on projects that it has not seen.

    python bench/fit_replacing.py               # writes src/filrouge/extraction/replacing_weights.py
    python bench/fit_replacing.py --dry-run

Every labelled statement of `bench/data/talk/train` is compared with what was known before it in its scope, the twenty
nearest ones: what it supersedes by its label is right, everything else wrong. So are the changes of
`bench/data/talk/asked`, of which half replace a statement and half only speak of the same. Kinds are those that the
statement model reads, since a label is not there at run time. Ridge logistic regression by Newton's method over
standardised signs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.fit_statements import TALK, embedder
from bench.logistic import by_newton
from bench.talk_format import Project
from bench.talk_format import read as project_of

from filrouge.core.protocols import Embedder
from filrouge.extraction import reading
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.reader import KINDS
from filrouge.extraction.reading import read_clause
from filrouge.extraction.replacing import (
    REPLACE_THRESHOLD,
    ComparedText,
    ReplaceCandidate,
    nearest_candidates,
    pair_features,
    rarities,
)
from filrouge.extraction.sentences import Unit, units
from filrouge.extraction.statement_model import pattern_of, predict
from filrouge.search.vector_search import embed_in_batches

TARGET: Final = Path(__file__).parent.parent / "src" / "filrouge" / "extraction" / "replacing_weights.py"
#: Of standardised weights.
DECAY: Final = 3.3


@dataclass(frozen=True, kw_only=True)
class Told:
    """A statement where it was made."""

    id: str
    said: ComparedText
    of_user: bool
    place: tuple[int, int, int]
    ends: str


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A new statement and what was known: a row of signs each, and which of them it replaces."""

    names: list[str]
    rows: NDArray[np.float64]
    right: NDArray[np.bool_]
    replaces: bool


def told(project: Project, model: Embedder) -> list[Told]:
    """The statements of a project, in order."""
    sessions = {one["id"]: (at, one["turns"]) for at, one in enumerate(project["sessions"])}
    found = list[Told]()
    for one in project["statements"]:
        at, turns = sessions[one["session"]]
        by = one.get("by", "user")
        text: str = turns[one["turn"] - 1][by]
        start = text.find(one["quote"])
        unit = _unit(text, start, start + len(one["quote"])) if by == "user" else None
        words = unit.text if unit else one["quote"]
        found.append(
            Told(
                id=one["id"],
                said=_said(words, _kind(text, unit, model) if unit else KINDS[one["kind"]]),
                of_user=one["scope"] == "user",
                place=(at, one["turn"], start),
                ends=one.get("supersedes") or "",
            )
        )
    return sorted(found, key=lambda one: one.place)


def _said(words: str, kind: str) -> ComparedText:
    clause = read_clause(words, 0)
    change = reading.find_correction(clause)
    return ComparedText(
        text=clause.text,
        kind=kind,
        corrects=change.corrects if change else (),
        is_correction=change is not None,
    )


def _unit(text: str, start: int, end: int) -> Unit | None:
    mine = [unit for unit in units(text) if unit.shared(start, end)]
    return max(mine, key=lambda unit: unit.shared(start, end)) if mine else None


def _kind(text: str, unit: Unit | None, model: Embedder) -> str:
    if unit is None:
        return KINDS["fact"]
    vectors = embed_in_batches(model, [unit.text]), embed_in_batches(model, [unit.with_context])
    return KINDS[predict([unit], [pattern_of(unit, statements_of(text))], vectors)[0][0].kind]


def compared(project: Project, model: Embedder) -> Iterator[Compared]:
    """Every statement of a project beside what was known before it."""
    every = told(project, model)
    vectors = embed_in_batches(model, [one.said.text for one in every])
    ended = set[str]()
    for at, new in enumerate(every):
        known = [old for old in range(at) if every[old].of_user == new.of_user and every[old].id not in ended]
        if known:
            yield beside(new, [every[old] for old in known], vectors[known] @ vectors[at])
        ended.add(new.ends)


def beside(new: Told, known: Sequence[Told], cosines: NDArray[np.float32]) -> Compared:
    """A statement beside what was known."""
    met = [
        ReplaceCandidate(
            compared=old.said,
            similarity=float(cosine),
            same_turn=old.place[:2] == new.place[:2],
            same_session=old.place[0] == new.place[0],
        )
        for old, cosine in zip(known, cosines, strict=True)
    ]
    best = nearest_candidates(met)
    rarity = rarities([met[one].compared.text for one, _ in best])
    found = [pair_features(new.said, met[one].compared, how, rarity) for one, how in best]
    return Compared(
        names=list(found[0]),
        rows=np.array([list(one.values()) for one in found]),
        right=np.array([known[one].id == new.ends for one, _ in best]),
        replaces=bool(new.ends),
    )


def dropped(project: Project, model: Embedder) -> Iterator[Compared]:
    """What is dropped in passing after the last session of a project, beside everything that holds then."""
    every = told(project, model)
    ended = {one.ends for one in every}
    live = [one for one in every if one.id not in ended]
    vectors = embed_in_batches(model, [one.said.text for one in live])
    after = len(project["sessions"])
    for change in project_of(TALK / "asked" / f"{project['id']}.json")["changes"]:
        near = next(one for one in live if one.id == change["near"])
        new = Told(
            id="",
            said=_said(change["text"], _kind(change["text"], _unit(change["text"], 0, len(change["text"])), model)),
            of_user=near.of_user,
            place=(after, 1, 0),
            ends=near.id if change["replaces"] else "",
        )
        known = [at for at, one in enumerate(live) if one.of_user == near.of_user]
        [vector] = embed_in_batches(model, [new.said.text])
        yield beside(new, [live[at] for at in known], vectors[known] @ vector)


def pairs(part: str, model: Embedder) -> list[Compared]:
    """All comparisons of `train` or `validation`."""
    paths = sorted((TALK / part).glob("*.json"))
    return [one for path in paths for one in compared(project_of(path), model)]


def regression(rows: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of each column, then the intercept."""
    columns = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    decay = np.full(columns.shape[1], DECAY)
    decay[-1] = 0.0
    return by_newton(columns, right, decay)


def report(given: Sequence[Compared], odds: Sequence[NDArray[np.float64]]) -> Iterator[str]:
    """Lines of the table: of the statements that replace another, how many are found, and how many ends are wrong."""
    yield "| from | found | precision | wrong ends | of statements |"
    yield "|--:|--:|--:|--:|--:|"
    for least in (0.4, 0.5, REPLACE_THRESHOLD, 0.7, 0.8, 0.9):
        right = wrong = 0
        for one, own in zip(given, odds, strict=True):
            best = int(np.argmax(own))
            if 1 / (1 + np.exp(-own[best])) >= least:
                right, wrong = right + bool(one.right[best]), wrong + (not one.right[best])
        found = right / max(1, sum(one.replaces for one in given))
        yield f"| {least} | {found:.3f} | {right / max(1, right + wrong):.3f} | {wrong} | {len(given)} |"


def main() -> None:
    """Fit, write, report."""
    parser = argparse.ArgumentParser(description="Fit what replaces what.")
    parser.add_argument("--dry-run", action="store_true")
    dry = parser.parse_args().dry_run
    model = embedder()
    train, validation = pairs("train", model), pairs("validation", model)
    train += [one for path in sorted((TALK / "train").glob("*.json")) for one in dropped(project_of(path), model)]
    rows = np.concatenate([one.rows for one in train])
    right = np.concatenate([one.right for one in train])
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    weights = regression((rows - centre) / spread, right.astype(np.float64))
    slopes, start = weights[:-1] / spread, float(weights[-1])
    odds = [(one.rows - centre) @ slopes + start for one in validation]
    print("\n".join(report(validation, odds)))
    if not dry:
        names = train[0].names
        TARGET.write_text(_module(names, centre, slopes, start), "utf-8")


def _module(names: Sequence[str], centre: NDArray[Any], slopes: NDArray[Any], start: float) -> str:
    lines = [
        '"""The weights of what replaces what. `bench/fit_replacing.py` writes this file."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "#: The mean of each sign over all near pairs.",
        "FEATURE_MEANS: Final = {",
        *(f'    "{name}": {value:.4f},' for name, value in zip(names, centre, strict=True)),
        "}",
        "#: What each sign adds to the log odds, beyond its mean.",
        "WEIGHTS: Final = {",
        f'    "one": {start:.4f},',
        *(f'    "{name}": {value:.4f},' for name, value in zip(names, slopes, strict=True)),
        "}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
