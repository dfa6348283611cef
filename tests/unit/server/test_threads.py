"""Threads over HTTP answer in their shapes, and refuse with the way out."""

from __future__ import annotations

from typing import Any

from tests.support.given import SHOP
from tests.support.spoken import COUPON, POSTGRES, tell, turn_of

from .conftest import Api

THREADS = "/api/memory/threads"
DECIDED = "We decided that the coupon on the checkout page is validated in the coupon service."


def begun(api: Api) -> tuple[str, str]:
    """A thread about coupons and one about Postgres."""
    tell(api.parts, "a", COUPON[0], COUPON[1])
    tell(api.parts, "b", POSTGRES[0])
    postgres, coupon = (one["id"] for one in api.get(THREADS))
    return coupon, postgres


def done(api: Api, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = api.ask(method, f"{THREADS}/{path}", body)
    assert reply.status == 200, reply
    return reply.body


def refused(api: Api, method: str, path: str, body: dict[str, Any]) -> tuple[int, str, str]:
    reply = api.ask(method, f"{THREADS}/{path}", body)
    return reply.status, reply.body["detail"], reply.body["remedy"]


def test_threads_are_listed_by_status_and_project(api: Api) -> None:
    coupon, _ = begun(api)
    done(api, "PATCH", coupon, {"status": "archived"})
    assert [one["id"] for one in api.get(f"{THREADS}?status=archived")] == [coupon]
    assert len(api.get(f"{THREADS}?status=active&project={SHOP[0]}&limit=5")) == 1
    assert set(api.get(THREADS)[0]) == {
        "id", "title", "title_by", "summary", "status", "weight", "topics", "messages", "conversations", "project",
        "project_name", "agent", "channel", "origin", "opened_at", "last_active", "suspended_at", "parent",
        "merged_into",
    }  # fmt: skip


def test_a_thread_is_looked_into_by_the_beginning_of_its_id(api: Api) -> None:
    coupon, _ = begun(api)
    found = api.get(f"{THREADS}/{coupon[:14]}")
    assert [one["text"] for one in found["turns_shown"]] == [COUPON[0], COUPON[1]]
    assert (found["id"], found["drift"], found["children"]) == (coupon, [], [])


def test_a_thread_says_where_its_work_stood_and_what_it_is_tied_to(api: Api) -> None:
    coupon, postgres = begun(api)
    assert api.get(f"{THREADS}/{coupon}")["bridges"] == []
    tell(api.parts, "a", DECIDED)
    tell(api.parts, "a", "", kind="session_end")
    tied = api.ask("POST", "/api/memory/bridges", {"source": coupon, "target": postgres, "type": "depends_on"})
    assert tied.status == 201
    found, other = api.get(f"{THREADS}/{coupon}"), api.get(f"{THREADS}/{postgres}")
    said = {"text": DECIDED, "turn_id": turn_of(api.parts, DECIDED)}
    assert found["state"]["decisions"] == [said]
    assert (found["state"]["made_by"], found["state"]["files"], found["state"]["error"]) == ("rules", [], None)
    [bridge] = found["bridges"]
    assert bridge == {
        "type": "depends_on", "strength": bridge["strength"], "thread_id": postgres, "title": other["title"],
        "outgoing": True,
    }  # fmt: skip
    assert bridge["strength"] > 0.5
    assert [(one["thread_id"], one["outgoing"]) for one in other["bridges"]] == [(coupon, False)]
    assert other["state"] is None


def test_why_a_turn_is_where_it_is_can_be_asked(api: Api) -> None:
    coupon, _ = begun(api)
    found = api.get(f"/api/memory/turns/{turn_of(api.parts, COUPON[1])}/thread")
    assert (found["thread_id"], found["follows"], found["text"]) == (coupon, False, COUPON[1])
    [decision] = found["decisions"]
    assert decision["action"] == "continue"
    assert decision["weighed"][0]["title"] == found["title"]


def test_threads_are_renamed_merged_and_split_and_turns_moved(api: Api) -> None:
    coupon, postgres = begun(api)
    assert done(api, "PATCH", coupon, {"title": "Coupons"})["title"] == "Coupons"
    made = done(api, "POST", f"{coupon}/split", {"turns": [turn_of(api.parts, COUPON[1])], "title": "Validation"})
    assert (made["title"], made["parent_title"]) == ("Validation", "Coupons")
    assert done(api, "POST", f"{made['id']}/merge", {"into": coupon})["messages"] == 2
    moved = done(api, "POST", f"{postgres}/move", {"turns": [turn_of(api.parts, COUPON[0])]})
    assert (moved["id"], moved["messages"]) == (postgres, 2)


def test_illegal_moves_are_refused_with_the_way_out(api: Api) -> None:
    coupon, postgres = begun(api)
    status, detail, remedy = refused(api, "PATCH", coupon, {"status": "active"})
    assert (status, detail) == (400, f"Thread {coupon} is active, and 'reopen' is not possible from there.")
    assert "archive" in remedy
    assert refused(api, "PATCH", coupon, {})[0] == 400
    assert refused(api, "PATCH", coupon, {"title": "A", "status": "archived"})[0] == 400
    done(api, "POST", f"{coupon}/merge", {"into": postgres})
    assert refused(api, "PATCH", coupon, {"status": "active"}) == (
        400, f"Thread {coupon} was merged.", f"Its turns are in thread {postgres}.",
    )  # fmt: skip
    assert refused(api, "PATCH", "nothing", {"title": "A"})[0] == 404


def test_a_search_of_threads_answers_them_with_their_scores_and_why(api: Api) -> None:
    coupon, postgres = begun(api)
    done(api, "PATCH", coupon, {"status": "archived"})
    search = "/api/memory/search?collection=threads&q=checkout+coupon+page"
    [hit] = api.get(search)
    assert (hit["id"], hit["type"], hit["status"], hit["score"]) == (coupon, "thread", "archived", 1.0)
    assert hit["why"] == "3 of 3 words: checkout, coupon, page"
    assert set(hit) >= {
        "title", "content", "last_active", "bm25_score", "vector_score", "similarity", "words", "project_name",
    }  # fmt: skip
    active = api.get(f"{search}+Postgres&mode=hybrid&status=active&project={SHOP[0]}")
    assert [one["id"] for one in active] == [postgres]
    refused = api.ask("GET", f"{search}&role=user")
    assert (refused.status, refused.body["detail"]) == (400, "Threads have no role.")
    assert api.ask("GET", "/api/memory/search?q=coupon&status=active").status == 400


def test_a_search_of_turns_or_of_memories_leaves_the_other_out(api: Api) -> None:
    tell(api.parts, "a", "For the record: the coupon service listens on port 8443.")
    types = {
        name: {hit["type"] for hit in api.get(f"/api/memory/search?q=coupon+port&collection={name}")}
        for name in ("turns", "memories", "all")
    }
    assert types == {"turns": {"turn"}, "memories": {"fact"}, "all": {"turn", "fact"}}
