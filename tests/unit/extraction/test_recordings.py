"""The recorded agent sessions, replayed: what they should teach is learned once, what is corrected is superseded."""

from __future__ import annotations

import itertools
import json
import os
import re
from typing import Any

import pytest

from filrouge.memories.models import Memory

from .replay import Mind

HOSTS = os.path.join(os.path.dirname(__file__), "..", "..", "fixtures", "hosts")


def _load(*parts: str) -> Any:
    with open(os.path.join(HOSTS, *parts), encoding="utf-8") as file:
        return json.load(file)


EXPECTED: dict[str, Any] = _load("expected.json")
SESSIONS: dict[str, Any] = {
    session["label"]: session for host in ("claude-code", "codex") for session in _load(host, "sessions.json")
}


def _replay(*labels: str) -> Mind:
    mind = Mind()
    for label in labels:
        for turn in SESSIONS[label]["turns"]:
            mind.hear(turn["prompt"], project=SESSIONS[label]["cwd"].rsplit("/", 1)[1])
    return mind


def _holding(item: dict[str, Any], memories: list[Memory]) -> list[tuple[Memory, ...]]:
    """The memories, or else the pairs of memories of one scope, that match every pattern of the item."""
    scope = "user" if item["scope"] == "user" else "project"
    pool = [m for m in memories if m.scope_name == scope and scope in (item["scope"], "project") and _in(item, m)]
    for size in (1, 2):
        found = [
            group
            for group in itertools.combinations(pool, size)
            if all(re.search(pattern, " ".join(m.text for m in group), re.IGNORECASE) for pattern in item["must"])
        ]
        if found:
            return found
    return []


def _in(item: dict[str, Any], memory: Memory) -> bool:
    return item["scope"] == "user" or memory.scope.project == item["scope"]


ALL = tuple(EXPECTED["order"])
BOTH = pytest.mark.parametrize(
    "labels", [("c1", "c2", "c3", "c4"), ("x1", "x2", "x3", "x4"), ALL], ids=["claude-code", "codex", "all"]
)


@BOTH
@pytest.mark.parametrize("name", EXPECTED["learn"])
def test_an_expected_item_is_learned_and_is_live_once_unless_it_was_superseded(
    name: str, labels: tuple[str, ...]
) -> None:
    item = EXPECTED["learn"][name]
    if not set(item["sessions"]) & set(labels):
        pytest.skip("not said in these sessions")
    mind = _replay(*labels)
    assert _holding(item, mind.memories), [m.text for m in mind.memories]
    live = _holding(item, mind.live())
    if "superseded_by" in item:
        successor = _holding(EXPECTED["learn"][item["superseded_by"]], mind.live())
        assert [group for group in live if group not in successor] == []
    else:
        assert len(live) == 1, [m.text for m in mind.live()]


@BOTH
def test_nothing_that_must_not_be_stored_is_stored(labels: tuple[str, ...]) -> None:
    texts = [m.text for m in _replay(*labels).memories]
    assert [(rule["id"], t) for rule in EXPECTED["never"] for t in texts if re.search(rule["pattern"], t, re.I)] == []


def test_hearing_both_hosts_leaves_the_items_and_no_duplicates() -> None:
    mind = _replay(*ALL)
    texts = sorted(m.text for m in mind.live())
    assert len(texts) == len(set(texts))
    assert len(mind.live(scope="project")) == 9, texts
    assert len(mind.live(scope="user")) == 2, texts


def test_hearing_a_whole_session_again_adds_nothing_live() -> None:
    once = sorted(m.text for m in _replay("c1", "c2").live())
    twice = sorted(m.text for m in _replay("c1", "c2", "c1", "c2").live())
    assert once == twice
