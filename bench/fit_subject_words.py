"""Fit which words can be a subject, and report the topics and titles that come of it on threads that it has not seen.

    python bench/fit_subject_words.py                # writes src/filrouge/extraction/subject_words.npz
    python bench/fit_subject_words.py --dry-run      # only the report
    python bench/fit_subject_words.py --held-out DIR # reports on other projects too

In two steps. What people called the threads of `bench/data/talk/train` says of few words that they are subjects, so a
ridge-regularised logistic regression over the bundled embedder's vector of a word, and the number of prompts that have
it, tells the words of a thread that stand in its name from the others. What it says of every word of the data is then
learned from the letters of the word alone, by least squares with conjugate gradients (Hestenes and Stiefel, 1952), so
that it needs no embedder and no time.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.logistic import by_newton
from bench.talk_format import read

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core.scope import Scope
from filrouge.extraction.statement_model import BUCKETS, hash_letters
from filrouge.extraction.vocabulary import STOP, fold
from filrouge.providers.e5 import e5
from filrouge.threads.models import Thread
from filrouge.threads.upkeep import RENAME_SIZES, ThreadName, name_by_rules

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "extraction" / "subject_words.npz"
#: Weight decay of the vectors' weights and of the letters'.
DECAY: Final = (20.0, 0.3)
#: Letters by which a word of a name and a word of a prompt are the same.
ROOT_LETTERS: Final = 5
LEAST_PROMPTS: Final = 3
_VECTOR_SCALE: Final = 4.0
_WORD: Final = re.compile(r"[^\W_](?:[\w.+#/&@:'’-]*[\w+#])?")
_ELISION: Final = re.compile(r"^(?:[ldjmtnsc]|qu|jusqu|lorsqu|puisqu)['’](?=\w)", re.IGNORECASE)
Table = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A thread of labelled talk: what it was called, and its prompts."""

    called: str
    language: str
    prompts: tuple[str, ...]

    def has(self, text: str) -> bool:
        """Whether a text holds a word of the name."""
        return any(root in fold(text) for root in roots(self.called))


def threads(folder: Path) -> Iterator[Labelled]:
    """The threads of the projects in a folder that have some prompts."""
    for path in sorted(folder.glob("*.json")):
        project = read(path)
        prompts = defaultdict[str, list[str]](list)
        for session in project["sessions"]:
            for turn in session["turns"]:
                prompts[turn["thread"]].append(turn["user"])
        for called, own in prompts.items():
            if called != "-" and len(own) >= LEAST_PROMPTS:
                yield Labelled(called=called, language=project["language"], prompts=tuple(own))


def roots(called: str) -> set[str]:
    """The beginnings of the words of a name."""
    return {part[:ROOT_LETTERS] for part in fold(called).split("-") if len(part) > 1}


def words(prompt: str) -> set[str]:
    """The words of a prompt that are no small words."""
    found = {_ELISION.sub("", word).lower() for word in _WORD.findall(prompt)}
    return {word for word in found if len(word) > 1 and fold(word) not in STOP}


def taught(given: Sequence[Labelled], vectors: dict[str, NDArray[np.float32]]) -> dict[str, float]:
    """What the names of threads and the vectors say of every word, in standard deviations."""
    rows, wanted = list[Any](), list[bool]()
    for thread in given:
        counts = Counter(word for prompt in thread.prompts for word in words(prompt))
        named = [word for word in counts if fold(word)[:ROOT_LETTERS] in roots(thread.called)]
        if named:
            rows += [np.concatenate([vectors[word] * _VECTOR_SCALE, [np.log1p(n), 1.0]]) for word, n in counts.items()]
            wanted += [word in named for word in counts]
    table, right = np.array(rows, np.float64), np.array(wanted, np.float64)
    decay = np.full(table.shape[1], DECAY[0])
    decay[-2:] = 0.1
    weights = by_newton(table, right, decay, steps=12)
    said = {word: float(vector @ weights[:-2]) for word, vector in vectors.items()}
    mean, spread = float(np.mean(list(said.values()))), float(np.std(list(said.values())))
    return {word: (odds - mean) / spread for word, odds in said.items()}


def by_letters(said: dict[str, float]) -> Table:
    """The weights of letters that come nearest to what is said of the words."""
    places = [hash_letters(word) for word in said]
    column = np.concatenate([np.array(own) for own in places])
    row = np.repeat(np.arange(len(places)), [len(own) for own in places])
    value = np.array([1.0 / np.sqrt(len(own)) for own in places])[row]

    def normal(weights: Table) -> Table:
        told = np.bincount(row, weights[column] * value, len(places))
        return np.bincount(column, told[row] * value, BUCKETS) + DECAY[1] * weights

    rest: Table = np.bincount(column, np.array(list(said.values()))[row] * value, BUCKETS).astype(np.float64)
    weights: Table = np.zeros(BUCKETS)
    step: Table = rest.copy()
    size = float(rest @ rest)
    for _ in range(60):
        ahead = normal(step)
        length = size / float(step @ ahead)
        weights, rest = weights + length * step, rest - length * ahead
        size, before = float(rest @ rest), size
        step = rest + size / before * step
    return weights


def vectors_of(given: Sequence[Labelled]) -> dict[str, NDArray[np.float32]]:
    """The vectors of all words of these threads, without what all of them have in common, of length 1."""
    distinct = {word for thread in given for prompt in thread.prompts for word in words(prompt)}
    every = sorted(distinct, key=lambda word: (len(word), word))
    embedder = e5()
    found = np.concatenate([embedder.passages(every[at : at + 64]) for at in range(0, len(every), 64)])
    found = found - found.mean(axis=0)
    return dict(zip(every, found / np.linalg.norm(found, axis=1, keepdims=True), strict=True))


def named(thread: Labelled) -> ThreadName:
    """The name that the product gives a thread whose prompts came one by one."""
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    turns = [
        Turn(
            id=str(place), key=str(place), scope=Scope(), host="talk", role="user", source="prompt", text=text,
            at=begun + timedelta(minutes=place), trust=TRUST_PROMPT,
        )
        for place, text in enumerate(thread.prompts)
    ]  # fmt: skip
    found = name_by_rules(turns[:1], ())
    known = Thread(id="t", user="local", project=None, title="", opened_at=begun, last_active=begun)
    for count in RENAME_SIZES:
        if count <= len(turns):
            known = replace(known, title=found.title, topics=found.topics)
            found = name_by_rules(turns[:count], (), known)
    return found


def report(title: str, given: Sequence[Labelled], *, shown: int = 0) -> None:
    """The share of threads whose title, or first topics, hold a word of what people called them."""
    names = [named(thread) for thread in given]
    for thread, found in list(zip(given, names, strict=True))[:: max(1, len(given) // shown)] if shown else []:
        print(f"  {thread.language[:2]} {thread.called:20} {found.title} | {', '.join(found.topics)}")

    def share(said: Sequence[str]) -> str:
        return f"{np.mean([thread.has(text) for thread, text in zip(given, said, strict=True)]):.3f}"

    topics = [share([" | ".join(found.topics[:count]) for found in names]) for count in (1, 2, 3, 5)]
    short = np.mean([3 <= len(found.title.split()) <= 7 for found in names])
    print(
        f"| {title} | {len(given)} | {share([found.title for found in names])} | {short:.2f} | {' | '.join(topics)} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--show", type=int, default=0, help="names to print")
    asked = parser.parse_args()
    if not asked.dry_run:
        given = list(threads(TALK / "train"))
        weights = by_letters(taught(given, vectors_of(given)))
        np.savez(TARGET, weights=weights.astype(np.float16))
        print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
    print("| threads | number | title | 3 to 7 words | topic 1 | 2 | 3 | 5 |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    report("train", list(threads(TALK / "train")))
    report("validation", list(threads(TALK / "validation")), shown=asked.show)
    if asked.held_out:
        report(asked.held_out.name, list(threads(asked.held_out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
