"""The routes for changing one's mind answer in their shapes, and refuse with the way out."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Api

SHOP = "origin:forge.example/ana/shop"
PORT = "For the record: production listens on port 8443."
CHANGE = "Correction: production listens on port 9443, not 8443."


def told(api: Api) -> str:
    [action] = api.remember(PORT, SHOP)
    return action["id"]


def state(api: Api, memory_id: str) -> str:
    return api.get(f"/api/memory/memories/{memory_id}")["state"]


def done(api: Api, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    reply = api.ask(method, path, body)
    assert reply.status == 200, reply
    return reply.body


def test_a_memory_is_superseded_by_hand(api: Api) -> None:
    old = told(api)
    body = {"old_id": old, "new_text": "Production listens on port 7000", "source": "bot/shop"}
    found = done(api, "POST", "/memory/supersede", body)
    assert found == {
        "success": True,
        "old_id": old,
        "new_id": found["new_id"],
        "previous_text": "production listens on port 8443.",
    }
    assert (state(api, old), state(api, found["new_id"])) == ("superseded", "live")


def test_a_memory_is_pinned_binned_and_restored(api: Api) -> None:
    one = told(api)
    path = f"/api/memory/memories/{one}"
    assert done(api, "PATCH", path, {"pinned": True}) == {
        "action": "pin", "id": one, "superseded": [], "reason": "by hand", "review": "",
    }  # fmt: skip
    assert api.get(path)["pinned"]
    assert done(api, "PATCH", path, {"pinned": False})["action"] == "unpin"
    assert done(api, "POST", f"{path}/bin", {})["action"] == "delete"
    assert state(api, one) == "binned"
    assert done(api, "POST", f"{path}/restore", {})["action"] == "restore"
    assert state(api, one) == "live"


def test_what_waits_is_listed_shown_and_settled(api: Api) -> None:
    old = told(api)
    done(api, "PATCH", f"/api/memory/memories/{old}", {"pinned": True})
    [action] = api.remember(CHANGE, SHOP)
    assert (action["action"], action["id"]) == ("conflict", old)
    [waiting] = api.get("/api/memory/review")
    assert waiting.keys() == {
        "id", "kind", "outcome", "reason", "at", "settled_at", "text", "statement", "quotes", "against",
    }  # fmt: skip
    assert (waiting["id"], waiting["outcome"], waiting["against"]["id"]) == (action["review"], "open", old)
    assert api.get(f"/api/memory/review/{waiting['id']}") == waiting
    settled = done(api, "POST", f"/api/memory/review/{waiting['id']}", {"settle": "both"})
    assert (settled["outcome"], settled["statement"]["state"]) == ("both", "live")
    assert api.get("/api/memory/review") == []
    assert api.get("/api/memory/review?settled=true") == [settled]
    assert api.get("/daemon/status")["to_review"] == 0


def test_history_shows_every_version_and_the_numbers_that_undo_takes(api: Api) -> None:
    old = told(api)
    [change] = api.remember(CHANGE, SHOP)
    found = api.get(f"/api/memory/memories/{old}/history")
    assert [(one["id"], one["state"]) for one in found["versions"]] == [(old, "superseded"), (change["id"], "live")]
    assert [(one["action"], one["memory_id"], one["undone"]) for one in found["journal"]] == [
        ("add", old, False), ("update", change["id"], False),
    ]  # fmt: skip
    entry = found["journal"][-1]["entry"]
    would = done(api, "POST", "/api/memory/undo", {"entry": entry, "dry_run": True})
    assert (would["dry_run"], would["entry"], state(api, old)) == (True, entry, "superseded")
    did = done(api, "POST", "/api/memory/undo", {"memory_id": old})
    assert did == would | {"dry_run": False}
    assert {one["id"]: one["after"] for one in did["changes"]} == {old: "live", change["id"]: "binned"}
    assert state(api, old) == "live"


def test_the_journal_is_verified(api: Api) -> None:
    told(api)
    assert api.get("/api/audit/verify") == {
        "sound": True, "entries": 1, "redacted": 0, "broken_at": None, "reason": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("POST", "/memory/supersede", {"old_id": "01nothing", "new_text": "x"}, 404, "01nothing"),
        ("POST", "/memory/supersede", {"old_id": "01nothing", "new_text": " "}, 400, "empty"),
        ("POST", "/memory/supersede", {"new_text": "x"}, 400, "old_id"),
        ("PATCH", "/api/memory/memories/01nothing", {"pinned": True}, 404, "01nothing"),
        ("PATCH", "/api/memory/memories/01nothing", {}, 400, "pinned"),
        ("POST", "/api/memory/memories/01nothing/bin", {}, 404, "01nothing"),
        ("POST", "/api/memory/memories/01nothing/restore", {}, 404, "01nothing"),
        ("GET", "/api/memory/memories/01nothing/history", None, 404, "01nothing"),
        ("GET", "/api/memory/review/01nothing", None, 404, "01nothing"),
        ("POST", "/api/memory/review/01nothing", {"settle": "old"}, 404, "01nothing"),
        ("POST", "/api/memory/undo", {}, 400, "an entry"),
        ("POST", "/api/memory/undo", {"entry": 99}, 404, "99"),
        ("POST", "/api/memory/undo", {"memory_id": "01nothing"}, 404, "01nothing"),
    ],
)
def test_what_cannot_be_is_a_problem_with_a_remedy(
    silent: Api, method: str, path: str, body: dict[str, Any] | None, status: int, told: str
) -> None:
    reply = silent.ask(method, path, body)
    assert (reply.status, told in reply.body["detail"], bool(reply.body["remedy"])) == (status, True, True), reply
