"""Thirty questions that a developer would ask some days after the recorded sessions, and the one memory that answers.

The questions are in `golden_recall.json`. No question repeats a prompt of `expected.json`, and none is to be changed
for the sake of the score. Half are French; they vary from an identifier alone to a paraphrase that shares no word
with the memory, often in the other language. `first` is matched, whatever the case, against the text of the first
result of explicit recall; `cwd` is the directory asked in, null where every project is asked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .replay import EXPECTED, Replayed

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden_recall.json").read_text(encoding="utf-8"))
LEAST_FIRST = 27


def answers(item: dict[str, Any], memory: dict[str, Any]) -> bool:
    """True if this memory is the one a question is about."""
    return re.search(item["first"], memory["text"], re.IGNORECASE | re.DOTALL) is not None


def miss(item: dict[str, Any], results: list[dict[str, Any]]) -> str | None:
    """What came first instead of the memory that answers, and where that one came; None if it is first."""
    if results and answers(item, results[0]):
        return None
    shown = f"{results[0]['relevance']:.2f} {results[0]['text']!r}" if results else "nothing"
    places = (f"place {n}, {hit['relevance']:.2f}" for n, hit in enumerate(results, start=1) if answers(item, hit))
    return f"{item['id']}: {item['query']!r} brought {shown} first; the answer: {next(places, 'not there')}"


def test_a_question_is_answered_by_the_first_result_of_recall(replayed: Replayed) -> None:
    found = [miss(item, replayed.recall(item["query"], item["cwd"])) for item in GOLDEN]
    misses = [line for line in found if line is not None]
    print(f"{len(GOLDEN) - len(misses)} of {len(GOLDEN)} first", *misses, sep="\n")

    assert len(GOLDEN) - len(misses) >= LEAST_FIRST, "\n".join(misses)


@pytest.mark.parametrize("item", GOLDEN, ids=lambda item: item["id"])
def test_exactly_one_memory_that_is_believed_answers_a_question(replayed: Replayed, item: dict[str, Any]) -> None:
    texts = [memory["text"] for memory in replayed.live() if answers(item, memory)]

    assert len(texts) == 1, texts


def test_no_question_repeats_a_prompt_of_the_recordings_expectations() -> None:
    known = {one["prompt"] for name in ("probes", "silent", "scope") for one in EXPECTED[name]}

    assert [item["id"] for item in GOLDEN if item["query"] in known] == []
