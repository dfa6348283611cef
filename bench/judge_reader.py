"""Prompts of labelled talk as the product reads them, and what the two models that read them say.

    python bench/judge_reader.py                    # chooses the thresholds of both together, and reports
    python bench/judge_reader.py --held-out DIR     # reports on the projects of this folder, chooses nothing

The product adds the log odds of the words (`bench/fit_statements.py`, `bench/fit_agreement.py`) and of the network
(`bench/fit_reader.py`), which runs here as in the product, in 8 bits. The thresholds are the lowest at which, on
`bench/data/talk/validation`, the shares `PRECISION` and `PRECISION_AGREED` of what is taken are labelled. They are
written into `src/filrouge/extraction/reading.npz`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.fit_statements import TALK, Row, report
from bench.logistic import average_precision, likeliest, threshold_at
from bench.talk_format import Project, exchanges, label_of, read, said_by, statements_by

from filrouge.core.protocols import PartEmbedder
from filrouge.extraction import reader, statement_model
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.statement_model import NETWORK_QUESTIONS, NetworkHead, Numbers, pattern_of
from filrouge.memories.models import Statement
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.embedders import windows

HEAD: Final = Path(__file__).parent.parent / "src" / "filrouge" / "extraction" / "reading.npz"
#: Of the units, and of the sentences agreed to, that are taken on validation, the share that is labelled.
PRECISION, PRECISION_AGREED = 0.85, 0.88
AGREED: Final = NETWORK_QUESTIONS.index("agreed")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A prompt with the message that it answers, and the labels of its units and of the sentences, None without."""

    prompt: reader.Prompt
    units: tuple[Project | None, ...]
    sentences: tuple[Project | None, ...]
    language: str
    chat: bool


def examples(folder: Path, *, chat: bool = False) -> list[Example]:
    """Every prompt of the projects in a folder."""
    return [one for path in sorted(folder.glob("*.json")) for one in _of_project(read(path), chat=chat)]


def short_examples(part: str) -> list[Example]:
    """The short prompts of `train` or `validation`, which answer nothing."""
    lines = (TALK / "short" / f"{part}.jsonl").read_text("utf-8").splitlines()
    given = [json.loads(line) for line in lines]
    return [_example(one["prompt"], one["statements"], "", [], one["language"], chat=False) for one in given]


def exchange_examples(part: str) -> list[Example]:
    """The exchanges of `train`, `validation` or `bare`."""
    return [
        _example(
            one["prompt"], said_by(one, "user"), one["answered"], said_by(one, "assistant"), one["language"], chat=False
        )
        for one in exchanges(part)
    ]


def _of_project(project: Project, *, chat: bool) -> Iterator[Example]:
    said, proposed = (statements_by(project, who) for who in ("user", "assistant"))
    for session in project["sessions"]:
        answered = ""
        for number, turn in enumerate(session["turns"], 1):
            labels, labels_before = said.get((session["id"], number), []), proposed.get((session["id"], number - 1), [])
            yield _example(turn["user"], labels, answered, labels_before, project["language"], chat=chat)
            answered = turn.get("assistant") or ""


def _example(
    text: str, labels: Sequence[Project], answered: str, proposed: Sequence[Project], language: str, *, chat: bool
) -> Example:
    prompt = reader.split_prompt(text, statements_of(text), answered)
    return Example(
        prompt=prompt,
        units=tuple(label_of(unit, text, labels) for unit in prompt.units),
        sentences=tuple(label_of(one.sentence, answered, proposed) for one in prompt.proposals),
        language=language,
        chat=chat,
    )


def patterns_of(prompt: reader.Prompt) -> list[Statement | None]:
    """The statement that patterns found in each unit."""
    return [pattern_of(unit, prompt.patterns) for unit in prompt.units]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The parts of a set with the log odds of both models and of each alone."""

    units: list[Row]
    odds: Mapping[str, Numbers]
    sentences: list[tuple[int, bool]]
    agreed: Mapping[str, Numbers]

    def likeliest(self, odds: Numbers) -> NDArray[np.bool_]:
        """Which sentence is the likeliest of its message, by these log odds."""
        return likeliest([prompt for prompt, _ in self.sentences], odds)


def judged(given: Sequence[Example], model: PartEmbedder, head: NetworkHead) -> Judged:
    """Every unit, and every sentence of a message (with the number of its prompt), as the product reads them."""
    rows, sentences = list[Row](), list[tuple[int, bool]]()
    words, network, words_agreed, network_agreed = (list[Numbers]() for _ in range(4))
    for number, one in enumerate(given):
        vectors = read_prompt(one.prompt, model)
        if vectors is None:
            continue
        patterns = patterns_of(one.prompt)
        if one.prompt.units:
            features = statement_model.features_of(one.prompt.units, patterns)
            words.append(statement_model.odds_of(one.prompt.units, features, statement_model.weights()))
            network.append(statement_model.network_odds(vectors.units, features, head.units, head)[:, :AGREED])
        for unit, pattern, label in zip(one.prompt.units, patterns, one.units, strict=True):
            kind, user = (label["kind"], label["scope"] == "user") if label else ("", False)
            rows.append(
                Row(prompt=one.prompt.text, unit=unit, pattern=pattern, language=one.language, kind=kind, user=user)
            )
        sentences += [(number, label is not None) for label in one.sentences]
        if not one.sentences:
            continue
        features = reader.features_of(one.prompt.proposals)
        words_agreed.append(reader.odds_of(one.prompt.proposals, features, reader.weights())[:, 0])
        unread = len(one.sentences) - len(vectors.proposals)
        found = np.full(len(one.sentences), -np.inf, np.float32)
        if len(vectors.proposals):
            odds = statement_model.network_odds(vectors.proposals, features[unread:], head.sentences, head)
            found[unread:] = odds[:, AGREED]
        network_agreed.append(found)
    by_words, by_network = np.concatenate(words), np.concatenate(network)
    stated = {"words": by_words, "network": by_network, "both": by_words + by_network}
    if not sentences:
        return Judged(units=rows, odds=stated, sentences=[], agreed={})
    by_words, by_network = np.concatenate(words_agreed), np.concatenate(network_agreed)
    agreed = {"words": by_words, "network": by_network, "both": by_words + by_network}
    return Judged(units=rows, odds=stated, sentences=sentences, agreed=agreed)


def read_prompt(prompt: reader.Prompt, model: PartEmbedder) -> reader.PromptVectors | None:
    """The vectors of a prompt's parts; None if it has none."""
    passages = reader.passages(prompt, windows(prompt.text))
    return reader.vectors_of(prompt, model.part_vectors(passages) or [])


def thresholds(found: Judged) -> dict[str, np.float32]:
    """The thresholds of both models together, chosen on these projects."""
    right = np.array([bool(one.kind) for one in found.units])
    best = found.likeliest(found.agreed["both"])
    right_agreed = np.array([agreed for _, agreed in found.sentences])
    return {
        "threshold": np.float32(threshold_at(right, found.odds["both"][:, 0], PRECISION)),
        "threshold_agreed": np.float32(threshold_at(right_agreed[best], found.agreed["both"][best], PRECISION_AGREED)),
    }


def recalls(right: NDArray[np.bool_], taken: NDArray[np.bool_], odds: Numbers, shares: Sequence[float]) -> str:
    """The share of what is labelled that is taken where these shares of what is taken are labelled."""
    found = list[str]()
    for share in shares:
        chance = threshold_at(right[taken], odds[taken], share)
        lowest = np.log(chance / (1 - chance)) - 1e-5
        found.append(f"{(right & taken & (odds >= lowest)).sum() / right.sum():.3f}")
    return " · ".join(found)


def main() -> None:
    """Choose, write, report."""
    options = argparse.ArgumentParser(description="What the models that read prompts say of labelled talk.")
    options.add_argument("--held-out", type=Path, help="report on the projects of this folder, choose nothing")
    held_out: Path | None = options.parse_args().held_out
    sets = {"validation": examples(TALK / "validation"), "chats": examples(TALK / "chats" / "validation")}
    sets |= {"short": short_examples("validation"), "exchanges": exchange_examples("validation")}
    sets["bare"] = exchange_examples("bare")
    if held_out:
        sets = {"held out": examples(held_out)}
    head = statement_model.network_head()
    with tempfile.TemporaryDirectory() as directory:
        model = OnnxE5(str(Path(directory, "model")))
        found = {name: judged(one, model, head) for name, one in sets.items()}
    chosen = {name: np.float32(getattr(head, name)) for name in ("threshold", "threshold_agreed")}
    if not held_out:
        chosen = thresholds(found["validation"])
        with np.load(HEAD) as file:
            kept: dict[str, Any] = {name: file[name] for name in file.files}
        kept |= chosen
        np.savez(HEAD, **kept)
    print(f"thresholds: {chosen['threshold']:.3f}, agreed {chosen['threshold_agreed']:.3f}")
    print("\n".join(line for lines in (by_model(found), agreed_by_model(found)) for line in lines))
    print("\n| projects | units | stated | average precision | precision | recall | kind | scope |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, one in found.items():
        print("\n".join(report(name, one.units, one.odds["both"], float(chosen["threshold"]))))
    print("\n".join(taken_as_agreed(found, float(chosen["threshold_agreed"]))))


def by_model(found: Mapping[str, Judged]) -> Iterator[str]:
    """Lines of the table of what units state."""
    yield "\n| read by, projects | average precision | recall at .77 · .80 · .85 right |\n|---|--:|--:|"
    for name, one in found.items():
        right = np.array([bool(row.kind) for row in one.units])
        for by, odds in one.odds.items():
            shares = recalls(right, np.ones(len(right), np.bool_), odds[:, 0], (0.77, 0.80, 0.85))
            yield f"| {by}, {name} | {average_precision(right, odds[:, 0]):.3f} | {shares} |"


def agreed_by_model(found: Mapping[str, Judged]) -> Iterator[str]:
    """Lines of the table of what is agreed to."""
    yield "\n| agreed, read by, projects | agreed | average precision | recall at .75 · .80 · .88 right |"
    yield "|---|--:|--:|--:|"
    for name, one in found.items():
        right = np.array([agreed for _, agreed in one.sentences])
        for by, odds in one.agreed.items() if right.any() else ():
            shares = recalls(right, one.likeliest(odds), odds, (0.75, 0.80, 0.88))
            yield f"| {by}, {name} | {right.sum()} | {average_precision(right, odds):.3f} | {shares} |"


def taken_as_agreed(found: Mapping[str, Judged], threshold: float) -> Iterator[str]:
    """Lines of the table of sentences that are taken as agreed to."""
    yield "\n| projects | messages | agreed | taken | precision | recall |\n|---|--:|--:|--:|--:|--:|"
    for name, one in found.items():
        right = np.array([agreed for _, agreed in one.sentences])
        if right.any():
            odds = one.agreed["both"]
            taken = one.likeliest(odds) & (odds >= np.log(threshold / (1 - threshold)))
            messages, hits = len({prompt for prompt, _ in one.sentences}), (taken & right).sum()
            precision, recall = hits / max(1, taken.sum()), hits / right.sum()
            yield f"| {name} | {messages} | {right.sum()} | {taken.sum()} | {precision:.3f} | {recall:.3f} |"


if __name__ == "__main__":
    main()
