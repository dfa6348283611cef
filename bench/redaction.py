"""How many secrets stay, and how many harmless lines are altered: of each kind, by the hook's pass and the daemon's.

    python bench/redaction.py --rounds 20 --benign docs --out bench/results/redaction.md

The lines come from a seeded generator (`tests/support/secret_lines.py`): templates of configuration, commands, code and
sentences in English, French and Spanish, filled with values. The development part was looked at while the rules were
written, the held-out part (other templates, other values) was not. `--benign` adds real text: of each file below these
folders, the lines that hold one of the words by which redaction finds a secret, and a sample of the others. The
`user`, `assistant` and tool texts of JSON conversations are read as text.

Exit 1 where a gate is missed: structured ≥ 98 %, spoken ≥ 90 % in each language, benign ≤ 0.5 %.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support import secret_lines
from tests.support.secret_lines import Line, Part

from filrouge.capture.intake import redact_completely
from filrouge.capture.redact import redact

PASSES: Final[dict[str, Callable[[str], str]]] = {"hook": redact, "daemon": redact_completely}
PARTS: Final[tuple[Part, ...]] = ("dev", "held-out", "unseen")
SEED: Final = 20261123
OTHER_HAND: Final = Path(__file__).parent.parent / "tests" / "fixtures" / "redaction"
TEXT_FILES: Final = frozenset(
    {".py", ".md", ".rst", ".txt", ".toml", ".yaml", ".yml", ".js", ".ts", ".html", ".css", ".pyi"}
)


@dataclass(kw_only=True, slots=True)
class Count:
    """Of one kind: how many secrets, and how many of them are gone."""

    total: int = 0
    gone: int = 0

    @property
    def share(self) -> float:
        """In [0, 1]; 1 where there is none."""
        return self.gone / self.total if self.total else 1.0


def counted(lines: Iterable[Line], cut: Callable[[str], str], shown: list[str]) -> dict[str, Count]:
    """The counts by language and kind; what stayed is added to `shown`."""
    counts: dict[str, Count] = defaultdict(Count)
    for line in lines:
        after = cut(line.text)
        one = counts[f"{line.language} {line.kind}".strip()]
        for secret in line.secrets:
            one.total += 1
            one.gone += secret not in after
            if secret in after:
                shown.append(f"{line.language} {line.kind}: {line.text!r} -> {after!r}")
    return counts


def altered(texts: Iterable[str], cut: Callable[[str], str], shown: list[str]) -> Count:
    """How many texts stay as they are."""
    count = Count()
    for text in texts:
        after = cut(text)
        count.total += 1
        count.gone += after != text
        if after != text:
            shown.append(f"{text!r} -> {after!r}"[:400])
    return count


def real_lines(folders: Iterable[Path], limit: int) -> Iterator[tuple[str, list[str]]]:
    """Of each folder its name, and at most `limit` lines of its text files, drawn by a fixed seed."""
    for folder in folders:
        lines: dict[str, None] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in TEXT_FILES and path.stat().st_size < 2_000_000:
                lines.update(dict.fromkeys(path.read_text("utf-8", "replace").splitlines()))
            elif path.is_file() and path.suffix == ".json":
                lines.update(dict.fromkeys(_conversation(path)))
        kept = [line[:2000] for line in lines if line.strip()]
        yield folder.name, random.Random(SEED).sample(kept, min(limit, len(kept)))


def _conversation(path: Path) -> Iterator[str]:
    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield from value.splitlines()
        elif isinstance(value, list):
            for item in cast("list[Any]", value):
                yield from texts(item)
        elif isinstance(value, dict):
            for item in cast("dict[str, Any]", value).values():
                yield from texts(item)

    try:
        yield from texts(json.loads(path.read_text("utf-8", "replace")))
    except ValueError:
        return


def other_hand(most: int) -> list[str]:
    """A table of what somebody wrote who knew no rule of redaction; every fourth sentence was never looked at."""
    said = json.loads((OTHER_HAND / "spoken.json").read_text("utf-8"))
    harmless = json.loads((OTHER_HAND / "benign.json").read_text("utf-8"))
    rows = ["| another hand | looked at | not looked at |", "|---|--:|--:|"]
    cells: dict[str, list[str]] = defaultdict(list)
    for unseen in (False, True):
        shown: list[str] = []
        lines = [
            Line(kind="spoken", text=one["text"], language=one["language"], secrets=tuple(one["secrets"]))
            for number, one in enumerate(said)
            if (number % 4 == 3) is unseen
        ]
        for language, one in counted(lines, redact, shown).items():
            cells[language].append(f"{one.gone}/{one.total} {one.share:.1%}")
        still = altered((text for number, text in enumerate(harmless) if (number % 4 == 3) is unseen), redact, shown)
        cells["benign, altered"].append(f"{still.gone}/{still.total} {still.share:.2%}")
        if not unseen:
            _show("another hand", shown, most)
    return [*rows, *(f"| {name} | {' | '.join(two)} |" for name, two in cells.items())]


def _summed(counts: Iterable[Count]) -> Count:
    total = Count()
    for one in counts:
        total.total += one.total
        total.gone += one.gone
    return total


def main() -> int:
    """Measure, print the tables, and compare with the gates."""
    parser = argparse.ArgumentParser(description="Secrets that stay, and harmless lines that are altered.")
    parser.add_argument("--rounds", type=int, default=20, help="how often each template is filled")
    parser.add_argument("--benign", type=Path, action="append", default=[], help="a folder of real text")
    parser.add_argument("--lines", type=int, default=200_000, help="most lines that are read of each folder")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part of the generator")
    parser.add_argument("--show", type=int, default=0, help="print so many lines that went wrong, of each table")
    parser.add_argument("--out", type=Path, help="write the tables to this file")
    args = parser.parse_args()
    rows: list[str] = [
        "| what | " + " | ".join(f"{part}, {one}" for part in args.part or PARTS for one in PASSES) + " |"
    ]
    rows.append("|---|" + "--:|" * (rows[0].count("|") - 2))
    cells: dict[str, list[str]] = defaultdict(list)
    missed: list[str] = []
    for part in args.part or PARTS:
        for name, cut in PASSES.items():
            shown: list[str] = []
            plain = counted(secret_lines.structured(SEED, part, args.rounds), cut, shown)
            _show(f"{part}, {name}: structured", shown, args.show)
            shown = []
            said = counted(secret_lines.spoken(SEED, part, args.rounds), cut, shown)
            _show(f"{part}, {name}: spoken", shown, args.show)
            shown = []
            harmless = altered((one.text for one in secret_lines.benign(SEED, part, args.rounds)), cut, shown)
            _show(f"{part}, {name}: benign", shown, args.show)
            total = _summed(plain.values())
            groups = {"structured": total}
            for language in ("en", "fr", "es"):
                groups[f"spoken, {language}"] = _summed(one for kind, one in said.items() if kind.startswith(language))
            groups |= plain | said
            for kind, one in groups.items():
                cells[kind].append(f"{one.gone}/{one.total} {one.share:.1%}")
            cells["benign, altered"].append(f"{harmless.gone}/{harmless.total} {harmless.share:.2%}")
            gates = [("structured", total.share >= 0.98), ("benign", harmless.share <= 0.005)]
            gates += [(language, groups[f"spoken, {language}"].share >= 0.90) for language in ("en", "fr", "es")]
            missed += [f"{part}, {name}: {gate}" for gate, held in gates if not held]
    first = ["structured", "spoken, en", "spoken, fr", "spoken, es", "benign, altered"]
    for kind in [*first, *(kind for kind in cells if kind not in first)]:
        # A kind that one part lacks has fewer cells; its columns are the parts in their order.
        rows.append(f"| {kind} | " + " | ".join(cells[kind]) + " |")
    rows += ["", *other_hand(args.show)]
    rows += ["", "| real text | lines | altered by the hook | by the daemon |", "|---|--:|--:|--:|"]
    for folder, lines in real_lines(args.benign, args.lines):
        results: list[Count] = []
        for name, cut in PASSES.items():
            shown = []
            results.append(altered(lines, cut, shown))
            _show(f"{folder}, {name}", shown, args.show)
        rows.append(
            f"| {folder} | {len(lines)} | " + " | ".join(f"{one.gone} ({one.share:.2%})" for one in results) + " |"
        )
    print("\n".join(rows))
    if args.out:
        args.out.write_text("\n".join(rows) + "\n", "utf-8")
    print("\nmissed: " + (", ".join(missed) or "nothing"))
    return 1 if missed else 0


def _show(title: str, shown: list[str], most: int) -> None:
    if most and shown:
        random.Random(SEED).shuffle(shown)
        print(f"--- {title}: {len(shown)}", *shown[:most], sep="\n")


if __name__ == "__main__":
    sys.exit(main())
