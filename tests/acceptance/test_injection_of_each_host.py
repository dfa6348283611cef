"""What each host is given before a prompt after its own sessions alone, against `EXPECTED.md`.

The state is that of the list there: all sessions of the host ingested, in order. Two sets of thirty unrelated prompts
were each written before any of their prompts was asked, the second after passages of conversations were shown.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from filrouge.context.block import parse

from .replay import EXPECTED, Replayed

LEARN: dict[str, dict[str, Any]] = EXPECTED["learn"]
PROBES: list[dict[str, Any]] = EXPECTED["probes"]
#: With Claude Code the tests and the cents were never spoken of.
ASKED = {"claude-code": 10, "codex": 12}
LEAST = {"claude-code": 9, "codex": 11}
PLACES = ("/home/ana/shop", "/home/ana/atelier")
UNRELATED = {
    name: json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("unrelated_prompts", "more_unrelated_prompts")
}
LEAST_SILENT = {"unrelated_prompts": 28, "more_unrelated_prompts": 26}


def says(name: str, text: str) -> bool:
    """True if a text says all of an expected item."""
    return all(re.search(part, text, re.IGNORECASE) for part in LEARN[name]["must"])


@pytest.fixture(scope="module")
def blocks(replayed_host: Replayed) -> list[tuple[dict[str, Any], str]]:
    """Each probe of the host with its block."""
    return [(one, replayed_host.block(one["prompt"], one["cwd"])) for one in PROBES[: ASKED[replayed_host.host]]]


def test_nearly_every_prompt_that_needs_a_memory_gets_it(
    replayed_host: Replayed, blocks: list[tuple[dict[str, Any], str]]
) -> None:
    served = [probe["prompt"] for probe, block in blocks if all(says(name, block[:2000]) for name in probe["expect"])]
    missed = [probe["prompt"] for probe, _ in blocks if probe["prompt"] not in served]

    assert len(served) >= LEAST[replayed_host.host], f"missed: {missed}"


def test_nothing_that_a_later_word_replaced_is_given_without_it(blocks: list[tuple[dict[str, Any], str]]) -> None:
    stale = [
        (probe["prompt"], line)
        for probe, block in blocks
        for name in probe["forbid"]
        for line in parse(block)
        if says(name, line) and not says(LEARN[name]["superseded_by"], line)
    ]

    assert stale == []


def test_no_block_holds_what_must_never_be_told(blocks: list[tuple[dict[str, Any], str]]) -> None:
    told = [
        (probe["prompt"], rule["id"])
        for probe, block in blocks
        for rule in EXPECTED["never"]
        if re.search(rule["pattern"], block, re.IGNORECASE)
    ]

    assert told == []


def test_every_block_fits(blocks: list[tuple[dict[str, Any], str]]) -> None:
    assert [probe["prompt"] for probe, block in blocks if len(block) > 2000] == []


def test_prompts_that_need_no_memory_get_none(replayed_host: Replayed) -> None:
    served = [one["prompt"] for one in EXPECTED["silent"] if replayed_host.block(one["prompt"], one["cwd"])]

    assert served == []


@pytest.mark.parametrize("prompts", UNRELATED)
def test_hardly_any_unrelated_prompt_gets_anything_in_either_project(replayed_host: Replayed, prompts: str) -> None:
    asked: list[str] = UNRELATED[prompts]
    served = [one for one in asked if any(replayed_host.block(one, place) for place in PLACES)]

    assert len(asked) - len(served) >= LEAST_SILENT[prompts], f"served: {served}"


@pytest.mark.parametrize("case", EXPECTED["scope"], ids=lambda case: case["prompt"])
def test_one_project_is_never_told_what_another_said(replayed_host: Replayed, case: dict[str, Any]) -> None:
    block = replayed_host.block(case["prompt"], case["cwd"])

    assert [name for name in case["forbid"] if says(name, block)] == []
