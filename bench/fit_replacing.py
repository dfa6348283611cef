"""Fit what tells that a statement replaces a memory, on labelled talk, and report on projects that it has not seen.

    python bench/fit_replacing.py               # writes src/filrouge/extraction/replacing_weights.py
    python bench/fit_replacing.py --dry-run

Every labelled statement of `bench/data/talk/train`, `small` and `chats/train` is compared with what was known before
it in its scope, the twenty nearest ones: what it supersedes by its label is right, everything else wrong. So are the
changes of `asked`, of which half replace a statement and half only speak of the same. Each is compared once among its
own project alone and once in larger homes, where statements of other projects stand beside its own and none of them
is replaced. `homes/validation.jsonl` is only reported: fitted on homes as well, the regression would miss true
changes, too (`bench/results/replacing.md`). Kinds are those that the statement model reads, since a label is not
there at run time. Ridge logistic regression by Newton's method over standardised signs.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.fit_statements import TALK
from bench.judge_reader import patterns_of, read_prompt
from bench.logistic import by_newton
from bench.talk_format import Project
from bench.talk_format import read as project_of

from filrouge.core.protocols import Embedder, PartEmbedder, PromptEmbedder, Vectors
from filrouge.extraction import reader, reading
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
from filrouge.extraction.statement_model import predict
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.embedders import CachingEmbedder
from filrouge.search.repository import statement_in_context
from filrouge.search.vector_search import embed_in_batches

TARGET: Final = Path(__file__).parent.parent / "src" / "filrouge" / "extraction" / "replacing_weights.py"
#: Of standardised weights.
DECAY: Final = 3.3
#: How many statements of other projects stand beside those of a project.
HOMES: Final = (0, 30, 100, 300, 1000)
#: The homes that are reported.
REPORTED: Final = (0, 100, 500)


@dataclass(frozen=True, kw_only=True)
class Told:
    """A statement where it was made, with its vectors: of its words alone, and behind the words before it.

    Attributes:
        place: the session, the turn and the character.
        ends: the id of what it supersedes, or empty.
    """

    id: str
    said: ComparedText
    of_user: bool
    place: tuple[int, int, int]
    ends: str
    vector: Vectors
    need: Vectors


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A new statement and what was known: a row of signs each, and which of them it replaces."""

    names: list[str]
    rows: NDArray[np.float64]
    right: NDArray[np.bool_]
    replaces: bool


@dataclass(frozen=True, kw_only=True)
class Person:
    """What a person stated, in order, and what they drop in passing when all is said."""

    id: str
    told: Sequence[Told]
    dropped: Sequence[Told]


def person(project: Project, changes: Sequence[Mapping[str, Any]], model: Embedder) -> Person:
    """The statements of a project, and these changes of them."""
    sessions = {one["id"]: (at, one["turns"]) for at, one in enumerate(project["sessions"])}
    found = list[tuple[Project, ComparedText, tuple[int, int, int], str]]()
    for one in project["statements"]:
        at, turns = sessions[one["session"]]
        by = one.get("by", "user")
        text: str = turns[one["turn"] - 1][by]
        start = text.find(one["quote"])
        unit = _unit(text, start, start + len(one["quote"])) if by == "user" else None
        words = unit.text if unit else one["quote"]
        earlier = turns[one["turn"] - 2].get("assistant", "") if one["turn"] > 1 and by == "user" else ""
        said = _said(words, _kind(text, earlier, unit, model) if unit else KINDS[one["kind"]])
        found.append((one, said, (at, one["turn"], start), _before(text[:start], earlier)))
    found.sort(key=lambda one: one[2])
    vectors = _vectors(model, [(before, said.text) for _, said, _, before in found])
    told = [
        Told(
            id=one["id"], said=said, of_user=one["scope"] == "user", place=place,
            ends=one.get("supersedes") or "", vector=vector, need=need,
        )
        for (one, said, place, _), vector, need in zip(found, *vectors, strict=True)
    ]  # fmt: skip
    return Person(id=project["id"], told=told, dropped=_dropped(told, changes, len(sessions), model))


def _dropped(told: Sequence[Told], changes: Sequence[Mapping[str, Any]], after: int, model: Embedder) -> list[Told]:
    of_user = {one.id: one.of_user for one in told}
    texts = [change["text"] for change in changes]
    said = [_said(text, _kind(text, "", _unit(text, 0, len(text)), model)) for text in texts]
    vectors = _vectors(model, [("", one.text) for one in said])
    return [
        Told(
            id="", said=one, of_user=of_user[change["near"]], place=(after, at, 0),
            ends=change["near"] if change["replaces"] else "", vector=vector, need=need,
        )
        for at, (change, one, vector, need) in enumerate(zip(changes, said, *vectors, strict=True))
    ]  # fmt: skip


def _vectors(model: Embedder, statements: Sequence[tuple[str, str]]) -> tuple[Vectors, Vectors]:
    assert isinstance(model, PromptEmbedder)
    if not statements:
        return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32)
    needs = model.need_vectors(statements)
    assert needs is not None
    return embed_in_batches(model, [text for _, text in statements]), needs


def _before(own: str, answered: str) -> str:
    """The words before a statement, behind which it is read: of its own message, or of the one that it answers."""
    return statement_in_context("", (own, None), (answered, None)).before


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


def _kind(text: str, answered: str, unit: Unit | None, model: Embedder) -> str:
    """The kind that the statement model reads in a unit of a text."""
    assert isinstance(model, PartEmbedder)
    prompt = reader.split_prompt(text, statements_of(text), answered)
    vectors = read_prompt(prompt, model)
    judged, _ = predict(prompt.units, patterns_of(prompt), vectors.units if vectors else None)
    return next((KINDS[one.kind] for one, own in zip(judged, prompt.units, strict=True) if own == unit), KINDS["fact"])


def compared(one: Person, others: Sequence[Told]) -> Iterator[Compared]:
    """Every statement of a person beside what was known before it and what others said."""
    ended = set[str]()
    for at, new in enumerate(one.told):
        known = [old for old in one.told[:at] if old.of_user == new.of_user and old.id not in ended]
        if known or others:
            yield beside(new, [*known, *others])
        ended.add(new.ends)
    live = [old for old in one.told if old.id not in ended]
    for new in one.dropped:
        yield beside(new, [*(old for old in live if old.of_user == new.of_user), *others])


def beside(new: Told, known: Sequence[Told]) -> Compared:
    """A statement beside what was known."""
    cosines = np.array([old.vector for old in known]) @ new.vector
    needs = np.array([old.need for old in known]) @ new.need
    met = [
        ReplaceCandidate(
            compared=old.said,
            similarity=float(cosine),
            need_similarity=float(need),
            same_turn=old.place[:2] == new.place[:2],
            same_session=old.place[0] == new.place[0],
        )
        for old, cosine, need in zip(known, cosines, needs, strict=True)
    ]
    best = nearest_candidates(met)
    rarity = rarities([met[one].compared.text for one, _ in best])
    found = [pair_features(new.said, met[one].compared, how, rarity) for one, how in best]
    return Compared(
        names=list(found[0]),
        rows=np.array([list(one.values()) for one in found]),
        right=np.array([bool(new.ends) and known[one].id == new.ends for one, _ in best]),
        replaces=bool(new.ends),
    )


def home(given: Project, model: Embedder) -> Person:
    """A home of `homes/`: what is known there, each said in a session of its own, and what may be said next."""
    known, said = given["known"], given["said"]
    texts = [(one["text"], one["text"], "") for one in known]
    texts += [(one["quote"], one["prompt"], one["answered"]) for one in said]
    compared_texts, settings = list[ComparedText](), list[tuple[str, str]]()
    for quote, text, answered in texts:
        start = text.find(quote)
        unit = _unit(text, start, start + len(quote))
        compared_texts.append(_said(unit.text if unit else quote, _kind(text, answered, unit, model)))
        settings.append((_before(text[:start], answered), compared_texts[-1].text))
    ids = [one["id"] for one in known] + [""] * len(said)
    ends = [""] * len(known) + [one["ends"] for one in said]
    found = [
        Told(id=id_, said=text, of_user=False, place=(min(at, len(known)), at, 0), ends=end, vector=vector, need=need)
        for at, (id_, text, end, vector, need) in enumerate(
            zip(ids, compared_texts, ends, *_vectors(model, settings), strict=True)
        )
    ]
    return Person(id=given["id"], told=found[: len(known)], dropped=found[len(known) :])


def people(part: str, model: Embedder) -> list[Person]:
    """Everybody of `train` or `validation`, who work with an agent or chat with an assistant."""
    found = list[Person]()
    small = sorted((TALK / "small").glob("*.json")) if part == "train" else []
    for path in [*sorted((TALK / part).glob("*.json")), *small, *sorted((TALK / "chats" / part).glob("*.json"))]:
        asked = TALK / "asked" / path.name
        changes: list[Project] = project_of(asked)["changes"] if part == "train" and asked.exists() else []
        found.append(person(project_of(path), changes, model))
    return found


def pairs(everybody: Sequence[Person], background: int) -> list[Compared]:
    """All comparisons, each beside so many statements of other people."""
    draw = random.Random(background)
    found = list[Compared]()
    for one in everybody:
        pool = [
            replace(said, id="", place=(-1, 0, 0)) for other in everybody if other is not one for said in other.told
        ]
        found += compared(one, draw.sample(pool, min(background, len(pool))))
    return found


def regression(rows: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of each column, then the intercept."""
    columns = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    decay = np.full(columns.shape[1], DECAY)
    decay[-1] = 0.0
    return by_newton(columns, right, decay)


def report(name: str, given: Sequence[Compared], odds: Sequence[NDArray[np.float64]]) -> Iterator[str]:
    """Lines of the table: of the statements that replace another, how many are found, and how many ends are wrong."""
    for least in sorted({0.3, 0.4, 0.5, REPLACE_THRESHOLD, 0.7, 0.8, 0.9}):
        right = wrong = 0
        for one, own in zip(given, odds, strict=True):
            best = int(np.argmax(own))
            if 1 / (1 + np.exp(-own[best])) >= least:
                right, wrong = right + bool(one.right[best]), wrong + (not one.right[best])
        found = right / max(1, sum(one.replaces for one in given))
        yield f"| {name} | {least} | {found:.3f} | {right / max(1, right + wrong):.3f} | {wrong} | {len(given)} |"


def main() -> None:
    """Fit, write, report."""
    parser = argparse.ArgumentParser(description="Fit what replaces what.")
    parser.add_argument("--dry-run", action="store_true")
    dry = parser.parse_args().dry_run
    model = CachingEmbedder(OnnxE5(), max_bytes=10**9)  # makes the vector of a text once
    everybody, unseen = people("train", model), people("validation", model)
    train = [one for background in HOMES for one in pairs(everybody, background)]
    rows = np.concatenate([one.rows for one in train])
    right = np.concatenate([one.right for one in train])
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    weights = regression((rows - centre) / spread, right.astype(np.float64))
    slopes, start = weights[:-1] / spread, float(weights[-1])
    print("| home | from | found | precision | wrong ends | of statements |")
    print("|---|--:|--:|--:|--:|--:|")
    chats = {path.stem for path in (TALK / "chats" / "validation").glob("*.json")}
    lines = (TALK / "homes" / "validation.jsonl").read_text("utf-8").splitlines()
    homes = [home(json.loads(line), model) for line in lines]
    for background in REPORTED:
        for name, those in (
            ("work", [one for one in unseen if one.id not in chats]),
            ("chats", [one for one in unseen if one.id in chats]),
            ("homes", homes),
        ):
            given = pairs(those, background) if those else []
            odds = [(one.rows - centre) @ slopes + start for one in given]
            print("\n".join(report(f"{name}, {background} of others", given, odds)), flush=True)
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
        "#: The mean of each feature over all near pairs.",
        "FEATURE_MEANS: Final = {",
        *(f'    "{name}": {value:.4f},' for name, value in zip(names, centre, strict=True)),
        "}",
        "#: The weight of each feature in log odds, applied to its difference from the mean.",
        "WEIGHTS: Final = {",
        f'    "one": {start:.4f},',
        *(f'    "{name}": {value:.4f},' for name, value in zip(names, slopes, strict=True)),
        "}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
