"""Eight recorded sessions of two agents, from hook to prompt, against what a memory layer should make of them.

The payloads and transcripts were recorded from the real command lines. They go through the hook's own code to a
real daemon with the bundled model, in the order they happened, transcripts included; then the store, the files
and the injected blocks are held against `expected.json`, which was written by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from filrouge.cli import client

from .replay import EXPECTED, Replayed, play_everything

LEARN: dict[str, dict[str, Any]] = EXPECTED["learn"]
#: Everyday prompts of developers, in English and French, written before any of them was asked.
UNRELATED: list[str] = json.loads((Path(__file__).parent / "unrelated_prompts.json").read_text(encoding="utf-8"))
#: Thirty questions of some days later, half of them French, from an identifier alone to a paraphrase that shares no
#: word with its memory. `first` is matched against the text of the first result of explicit recall; `cwd` is the
#: directory asked in, null where every project is asked. None repeats a prompt of `expected.json`, and none is to be
#: changed for the sake of the score.
GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden_recall.json").read_text(encoding="utf-8"))
LEAST_FIRST = 27
LEAST_LEARNED = 0.85
LEAST_PROBES = 8


def matching(name: str, memories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The memories that say all of an expected item."""
    must: list[str] = LEARN[name]["must"]
    return [m for m in memories if all(re.search(part, str(m["text"]), re.IGNORECASE) for part in must)]


def says(name: str, memories: list[dict[str, Any]]) -> bool:
    """True if one memory, or two of the same scope together, say all of an expected item."""
    pairs = [(a, b) for a in memories for b in memories if (a["scope"], a["project"]) == (b["scope"], b["project"])]
    return any(
        all(re.search(part, f"{a['text']}\n{b['text']}", re.IGNORECASE) for part in LEARN[name]["must"])
        for a, b in pairs
    )


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
    known = [memory for memory in replayed.memories() if answers(item, memory)]
    texts = [memory["text"] for memory in known if memory["state"] == "live"]

    assert len(texts) == 1, [(memory["state"], memory["text"]) for memory in known]


def test_no_question_repeats_a_prompt_of_the_recordings_expectations() -> None:
    known = {one["prompt"] for name in ("probes", "silent", "scope") for one in EXPECTED[name]}

    assert [item["id"] for item in GOLDEN if item["query"] in known] == []


def test_most_of_what_was_said_is_learned(replayed: Replayed) -> None:
    memories = replayed.memories()
    missing = [name for name in LEARN if not says(name, memories)]

    assert len(LEARN) - len(missing) >= LEAST_LEARNED * len(LEARN), f"not learned: {missing}"


def test_every_correction_supersedes_what_it_corrects(replayed: Replayed) -> None:
    memories = replayed.memories()
    for name, item in LEARN.items():
        if "superseded_by" not in item:
            continue
        successor = item["superseded_by"]
        assert says(successor, replayed.live()), f"{successor} is not believed"
        for memory in matching(name, replayed.live()):
            assert memory in matching(successor, memories), f"{name} is still believed: {memory['text']}"
        assert any(memory["state"] == "superseded" for memory in matching(name, memories)), name


def test_nothing_is_learned_twice_though_two_agents_were_told_the_same(replayed: Replayed) -> None:
    for name in LEARN:
        texts = [memory["text"] for memory in matching(name, replayed.live())]
        assert len(texts) <= 1, f"{name}: {texts}"


@pytest.mark.parametrize("item", EXPECTED["never"], ids=lambda item: item["id"])
def test_what_must_never_be_stored_is_no_memory(replayed: Replayed, item: dict[str, str]) -> None:
    texts = [memory["text"] for memory in replayed.memories()]

    assert [text for text in texts if re.search(item["pattern"], text, re.IGNORECASE)] == []


@pytest.mark.parametrize("secret", [b"correct-horse-42", b"AKIAIOSFODNN7EXAMPLE"])
def test_a_secret_that_a_tool_printed_is_in_no_file(replayed: Replayed, secret: bytes) -> None:
    holding = [path.name for path in Path(replayed.home).rglob("*") if path.is_file() and secret in path.read_bytes()]

    assert holding == []


@pytest.mark.parametrize("silent", EXPECTED["silent"], ids=lambda silent: silent["prompt"])
def test_a_prompt_that_needs_no_memory_gets_none(replayed: Replayed, silent: dict[str, str]) -> None:
    assert replayed.block(silent["prompt"], silent["cwd"]) == ""


def test_prompts_that_need_a_memory_mostly_get_it_and_never_the_superseded_one(replayed: Replayed) -> None:
    served: list[str] = []
    for probe in EXPECTED["probes"]:
        lines = [{"text": replayed.block(probe["prompt"], probe["cwd"]), "scope": "", "project": ""}]
        if all(says(name, lines) for name in probe["expect"]):
            served.append(probe["prompt"])
        for name in probe["forbid"]:
            believed = {memory["text"] for memory in replayed.live()}
            stale = {memory["text"] for memory in matching(name, replayed.memories())} - believed
            assert [text for text in stale if text in lines[0]["text"]] == [], probe["prompt"]

    assert len(served) >= LEAST_PROBES, f"served: {served}"


def test_prompts_that_have_nothing_to_do_with_what_is_known_mostly_get_nothing(replayed: Replayed) -> None:
    asked = [(prompt, cwd) for prompt in UNRELATED for cwd in ("/home/ana/shop", "/home/ana/atelier")]
    served = [prompt for prompt, cwd in asked if replayed.block(prompt, cwd)]

    assert len(served) <= 0.1 * len(asked), f"served: {served}"


@pytest.mark.parametrize("case", EXPECTED["scope"], ids=lambda case: case["prompt"])
def test_one_project_is_never_told_what_another_said(replayed: Replayed, case: dict[str, Any]) -> None:
    block = [{"text": replayed.block(case["prompt"], case["cwd"]), "scope": "", "project": ""}]

    assert [name for name in case["forbid"] if says(name, block)] == []


@pytest.mark.slow
def test_playing_all_sessions_again_changes_nothing(replayed: Replayed) -> None:
    def state() -> tuple[int, list[tuple[str, str, int]]]:
        assert client.poll(client.is_idle, 60)
        turns = client.ask("GET", "/daemon/status")["turns"]
        return turns, sorted((m["id"], m["state"], m["mention_count"]) for m in replayed.memories())

    before = state()
    play_everything()

    assert state() == before
