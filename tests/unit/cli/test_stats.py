"""`filrouge stats`, and the figures behind it: what the memory holds, and what recall and models cost."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.providers.models import Usage
from filrouge.providers.usage_repository import LlmUsage
from filrouge.server.routes.providers import FiguresAnswer
from filrouge.testing import idle
from tests.unit.server.conftest import serving
from tests.unit.server.test_routes import event

from .test_changing import Shell

SHOP = "origin:forge.example/ana/shop"
PORT = "We decided that production listens on port 8443."
QUESTION = "Which port does production listen on?"


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path / "home")) as api:
        yield Shell(api=api)


def ask(shell: Shell, prompt: str) -> None:
    body = {"prompt": prompt, "project": [SHOP], "session_id": "s", "channel": "codex"}
    assert shell.api.ask("POST", "/memory/context", body).status == 200


def test_an_empty_memory_has_figures_too(shell: Shell) -> None:
    found = shell.json("stats", "--usage")
    FiguresAnswer.model_validate(found)
    assert (found["memories"], found["recalls"], found["projects"], found["models"]) == ({}, [], [], [])
    assert shell.json("stats") == {"factsCount": 0, "messagesCount": 0, "vectorsCount": 0, "lastIndexedAt": None}
    assert shell("stats").out.splitlines()[:6] == [
        "Memories: 0", "Messages: 0", "Vectors: 0", "Threads: 0 (0 active, 0 suspended), 0 bridges",
        "Last captured: nothing yet", "Recalls in 30 days: 0 (0 delivered, 0 late, 0 empty), 0 tokens added",
    ]  # fmt: skip


def test_what_recall_adds_is_told_by_project_and_apart_from_what_models_cost(shell: Shell) -> None:
    shell.api.remember(PORT, SHOP)
    idle(shell.api.parts)
    ask(shell, QUESTION)
    ask(shell, QUESTION)
    now = shell.api.parts.clock.now()
    priced = Usage(calls=2, input_tokens=900, output_tokens=100, dollars=0.25)
    shell.api.parts.writer.run(lambda tx: LlmUsage(tx).add("extract", {("openai", "small"): priced}, now))
    log = shell.api.get("/api/memory/retrievals")
    tokens = sum(row["total_tokens_added"] for row in log)
    assert tokens > 0
    found = shell.json("stats", "--usage")
    FiguresAnswer.model_validate(found)
    assert found == shell.api.get("/api/memory/usage")
    assert found["memories"] == {"decision": 1}
    [day] = found["recalls"]
    assert (day["project"], day["recalls"], day["tokens"]) == (SHOP, 2, tokens)
    [project] = found["projects"]
    useful = {item["id"] for row in log for item in row["items"] if item["injected"]}
    assert (project["tokens"], project["useful_memories"]) == (tokens, len(useful))
    [model] = found["models"]
    assert (model["operation"], model["calls"], found["dollars"]) == ("extract", 2, 0.25)
    assert [(one["channel"], one["tokens"]) for one in found["recall_tokens"]] == [("codex", tokens)]
    told = shell("stats").out
    assert f"2 recalls, {tokens} tokens" in told
    assert "Models in 30 days: 2 calls, 1000 tokens, $0.25" in told
    assert "  extract: 2 calls, 1000 tokens, $0.25" in told


def test_recalls_that_were_late_or_empty_are_shown_apart_from_those_delivered(shell: Shell) -> None:
    ask(shell, QUESTION)
    shell.api.remember(PORT, SHOP)
    idle(shell.api.parts)
    ask(shell, QUESTION)
    for _ in range(2):  # a hook that waits, and never confirms what it was given
        delivery = {"events": [event(text=QUESTION)], "context": True, "wait_ms": 20_000}
        assert "8443" in shell.api.ask("POST", "/hooks/events", delivery).body["context"]
    idle(shell.api.parts)
    found = shell.json("stats", "--usage")
    FiguresAnswer.model_validate(found)
    assert found == shell.api.get("/api/memory/usage")
    days = found["recalls"]
    assert [sum(day[name] for day in days) for name in ("recalls", "delivered", "late", "empty")] == [4, 1, 2, 1]
    tokens = sum(day["tokens"] for day in days)
    assert f"Recalls in 30 days: 4 (1 delivered, 2 late, 1 empty), {tokens} tokens added" in shell("stats").out


def test_tokens_of_recall_are_marked_and_count_neither_to_the_budget_nor_among_our_calls(shell: Shell) -> None:
    parts = shell.api.parts
    now = parts.clock.now()
    for tokens in (100, 50):
        parts.writer.run(lambda tx, tokens=tokens: LlmUsage(tx).add_recall("codex", tokens, now))
    parts.writer.run(lambda tx: LlmUsage(tx).add_recall("claude-code", 7, now))
    day = parts.readers.here(lambda tx: LlmUsage(tx).by_channel(now))
    assert [(row["channel"], row["recalls"], row["tokens"]) for row in day] == [
        ("claude-code", 1, 7),
        ("codex", 2, 150),
    ]
    spent = parts.readers.here(lambda tx: LlmUsage(tx).spent(now))
    assert (spent.tokens, spent.calls, spent.unpriced) == (0, 0, 0)
    assert parts.readers.here(lambda tx: LlmUsage(tx).by_model(now)) == []
    assert shell.api.get("/daemon/health")["llm"]["calls"] == 0


def test_days_are_counted_back_from_today_and_what_is_no_number_of_days_is_refused(shell: Shell) -> None:
    assert shell.json("stats", "--usage", "--days", "7")["days"] == 7
    for days in ("0", "367"):
        assert shell("stats", "--days", days).code == 2
        assert shell.api.ask("GET", f"/api/memory/usage?days={days}").status == 400
