"""The changes of one session, their undo at once, and one turn among its neighbours."""

from __future__ import annotations

from typing import Any

import pytest

from filrouge.testing import idle

from .conftest import Api

PORT = "For the record: the shop listens on port 8443."
MOVED = "Correction: the shop listens on port 9443, not 8443."
MOVED_AGAIN = "Correction: the shop listens on port 9555, not 9443."
FONT = "For the record: the kiosk uses the font Inter."


def tell(api: Api, session: str, *texts: str) -> None:
    messages = [{"role": "user", "content": text, "id": f"{session}: {text}"} for text in texts]
    body = {"channel": "telegram", "session_id": session, "project": "name:shop", "messages": messages}
    assert api.ask("POST", "/memory/turns", body).status == 202
    idle(api.parts)


def current(api: Api) -> list[str]:
    return sorted(row["text"] for row in api.get("/api/memory/memories"))


def revert(api: Api, session: str, *, dry_run: bool = False) -> dict[str, Any]:
    reply = api.ask("POST", f"/api/memory/sessions/{session}/revert", {"dry_run": dry_run})
    assert reply.status == 200, reply
    return reply.body


def test_a_session_is_reverted_with_what_depends_on_it_and_one_undo_brings_all_of_it_back(api: Api) -> None:
    tell(api, "first", PORT)
    before = current(api)
    tell(api, "second", MOVED, FONT)
    tell(api, "third", MOVED_AGAIN)
    after = current(api)
    changes = api.get("/api/memory/sessions/second/changes")
    assert [change["action"] for change in changes] == ["add", "update"]
    assert all(change["quotes"][0]["text"] in MOVED + FONT for change in changes)
    planned = revert(api, "second", dry_run=True)
    assert (len(planned["decisions"]), planned["undone_by"]) == (3, None)
    assert current(api) == after
    done = revert(api, "second")
    assert done["decisions"] == planned["decisions"]
    assert current(api) == before
    assert all(change["undone"] for change in api.get("/api/memory/sessions/second/changes"))
    assert api.get("/api/audit/verify")["sound"]
    assert api.ask("POST", "/api/memory/undo", {"entry": done["undone_by"]}).status == 200
    assert current(api) == after


def test_what_a_session_ended_by_its_words_is_one_of_its_changes(api: Api) -> None:
    tell(api, "first", "For the record: the kiosk uses the font Inter.")
    tell(api, "second", "Forget that the kiosk uses the font Inter.")
    if current(api):
        pytest.skip("the words are not understood as a wish to forget")
    (change,) = api.get("/api/memory/sessions/second/changes")
    assert (change["action"], change["state"]) == ("delete", "binned")
    revert(api, "second")
    assert current(api) == ["the kiosk uses the font Inter."]


def test_a_session_without_changes_has_nothing_to_revert(api: Api) -> None:
    assert api.get("/api/memory/sessions/unknown/changes") == []
    reply = api.ask("POST", "/api/memory/sessions/unknown/revert", {})
    assert reply.status == 400
    assert "left to undo" in reply.body["detail"]


def test_a_turn_is_told_with_its_neighbours_and_what_was_learned_from_it(api: Api) -> None:
    tell(api, "talk", "Good morning to all of you in the shop.", PORT, "Please look at the checkout page next.")
    tell(api, "other", FONT)
    (memory,) = [row for row in api.get("/api/memory/memories") if "8443" in row["text"]]
    turn_id = memory["evidence"][0]["turn_id"]
    alone = api.get(f"/api/memory/turns/{turn_id}")
    assert [turn["id"] for turn in alone["turns"]] == [turn_id]
    assert [row["id"] for row in alone["memories"]] == [memory["id"]]
    around = api.get(f"/api/memory/turns/{turn_id}?around=5")
    assert [turn["text"][:4] for turn in around["turns"]] == ["Good", "For ", "Plea"]
    assert {turn["session_id"] for turn in around["turns"]} == {"talk"}
    assert api.ask("GET", "/api/memory/turns/01k0000000000000000000000a").status == 404
