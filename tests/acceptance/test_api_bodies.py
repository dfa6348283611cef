"""The bodies that are promised (API-1, API-5): each field by its name and kind, over HTTP."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from filrouge.testing import idle
from tests.unit.server.conftest import Api, serving

PORT = "For the record: production listens on port 8443."
ASKED = "Which port does production listen on?"
TEXT, WHOLE, NUMBER, TRUTH, LIST = str, int, (int, float), bool, list


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with serving(str(tmp_path_factory.mktemp("bodies"))) as found:
        found.remember(PORT)
        found.ask("POST", "/api/memory/facts", {"key": "editor", "value": "Helix"})
        idle(found.parts)
        found.ask("POST", "/memory/context", {"prompt": ASKED, "channel": "web", "session_id": "s"})
        yield found


def holds(row: dict[str, Any], **fields: Any) -> None:
    assert {name: isinstance(row[name], kind) for name, kind in fields.items()} == dict.fromkeys(fields, True), row


def test_facts(api: Api) -> None:
    rows = api.get("/api/memory/facts")
    for row in rows:
        holds(row, key=TEXT, value=TEXT)
    assert ("editor", "Helix") in {(row["key"], row["value"]) for row in rows}
    assert api.ask("POST", "/api/memory/facts", {"key": "shell", "value": "fish"}).body == {"success": True}
    assert api.ask("DELETE", "/api/memory/facts/shell").body == {"success": True}


def test_settings_answer_the_whole_object_and_take_former_names(api: Api) -> None:
    before = api.get("/api/memory/settings")
    changed = api.ask("PATCH", "/api/memory/settings", {"obsidian_context_enabled": False}).body
    assert changed == {**before, "notes_enabled": False}
    changed = api.ask("PATCH", "/api/memory/settings", {"obsidian_context_notes": ["a.md"]}).body
    assert changed["notes_paths"] == ["a.md"]
    fixed = api.ask("PATCH", "/api/memory/settings", {"obsidian_context_tag": "x"})
    assert (fixed.status, "notes_tag" in fixed.body["detail"]) == (400, True)


def test_search(api: Api) -> None:
    rows = api.get("/api/memory/search?q=production+port")
    assert rows
    for row in rows:
        holds(row, id=TEXT, content=TEXT, channel=TEXT, type=TEXT, score=NUMBER, created_at=TEXT)
    found = api.ask("POST", "/search", {"query": ASKED, "k": 3, "hybrid": True, "threshold": 0.0}).body["results"]
    assert found
    for row in found:
        holds(row, id=TEXT, text=TEXT, source=TEXT, similarity=NUMBER)


def test_stats_and_retrievals(api: Api) -> None:
    holds(
        api.get("/api/memory/stats"),
        factsCount=WHOLE, messagesCount=WHOLE, vectorsCount=WHOLE, lastIndexedAt=TEXT,
    )  # fmt: skip
    [row] = api.get("/api/memory/retrievals?limit=20")
    holds(
        row,
        id=TEXT, channel=TEXT, user_message_preview=TEXT, memories_injected=WHOLE, obsidian_notes_injected=WHOLE,
        total_tokens_added=WHOLE, created_at=TEXT, items=LIST,
    )  # fmt: skip


def test_extract_supersede_and_status(api: Api) -> None:
    said = {"messages": [{"role": "user", "content": "For the record: the mirror listens on port 7001."}]}
    done = api.ask("POST", "/memory/extract", {**said, "source": "bot/barn", "context": "stop"}).body
    holds(
        done,
        actions=LIST, extracted_count=WHOLE, stored_count=WHOLE, updated_count=WHOLE, deleted_count=WHOLE,
    )  # fmt: skip
    old = done["actions"][0]["id"]
    put = {"old_id": old, "new_text": "The mirror listens on port 7002.", "source": "bot"}
    replaced = api.ask("POST", "/memory/supersede", put).body
    holds(replaced, success=TRUTH, old_id=TEXT, new_id=TEXT, previous_text=TEXT)
    assert api.ask("POST", "/memory/supersede", {**put, "old_id": "nothing"}).status == 404
    status = api.get("/extract/status")
    holds(status, enabled=TRUTH, provider=TEXT, model=TEXT, status=TEXT)
    assert status["status"] == "healthy"


def test_health_tells_nothing_else(api: Api) -> None:
    assert api.get("/health").keys() == {"status", "version"}


def test_what_is_known_is_not_novel(api: Api) -> None:
    same = api.ask("POST", "/memory/novel", {"text": "production listens on port 8443."}).body
    assert (same["novel"], same["nearest"]["similarity"]) == (False, 1.0)
    holds(same["nearest"], id=TEXT, content=TEXT, similarity=NUMBER)
    assert api.ask("POST", "/memory/novel", {"text": "Cats sleep most of the day."}).body["novel"] is True
    elsewhere = api.ask("POST", "/memory/novel", {"text": PORT, "user_id": "ben"}).body
    assert elsewhere == {"novel": True, "nearest": None}
    assert api.ask("POST", "/memory/novel", {"text": " "}).status == 400


def test_memories_of_every_kind_are_listed(api: Api) -> None:
    rows = api.get("/api/memory/memories?limit=1000")
    assert {row["id"] for row in rows} >= {row["id"] for row in api.get("/api/memory/facts")}
    assert api.get("/api/memory/memories?limit=1") == rows[:1]
