"""The routes of forgetting: a preview, the deed under its token, 409 where something changed, receipts."""

from __future__ import annotations

from filrouge.testing import idle

from .conftest import Api

SHOP = "origin:forge.example/ana/shop"
PORT = "For the record: production listens on port 8443."
ROUTE = "/api/memory/forget"


def test_a_preview_is_carried_out_under_its_token(api: Api) -> None:
    api.remember(PORT, SHOP)
    idle(api.parts)  # what work adds and ends in between is forgotten too, and counted
    shown = api.ask("POST", ROUTE, {"text": "8443", "dry_run": True}).body
    assert shown["counts"]["memories"] == {"erased": 1}
    assert {row["how"] for row in shown["rows"]} == {"exact", "tied"}
    assert api.get("/api/memory/search?q=production%20port")
    done = api.ask("POST", ROUTE, {"text": "8443", "token": shown["token"]}).body
    assert (done["ok"], done["counts"]) == (True, shown["counts"])
    [listed] = api.get("/api/memory/receipts")
    assert (listed["receipt"], listed["signature_holds"]) == (done["receipt"], True)
    assert api.get(f"/api/memory/receipts/{done['receipt']}") == listed


def test_a_token_of_before_is_refused_with_409_and_nothing_is_taken(api: Api) -> None:
    api.remember(PORT, SHOP)
    shown = api.ask("POST", ROUTE, {"text": "8443", "dry_run": True}).body
    api.remember("For the record: the kiosk is reached through port 8443, too.", SHOP)
    reply = api.ask("POST", ROUTE, {"text": "8443", "token": shown["token"]})
    assert (reply.status, reply.body["type"]) == (409, "urn:filrouge:error:Stale")
    assert api.ask("POST", ROUTE, {"text": "8443", "dry_run": True}).body["counts"]["memories"] == {"erased": 2}


def test_what_an_id_names_goes_at_once_where_that_is_asked(api: Api) -> None:
    [action] = api.remember(PORT, SHOP)
    done = api.ask("POST", ROUTE, {"id": action["id"], "at_once": True}).body
    assert (done["ok"], done["counts"]["memories"]) == (True, {"erased": 1})
    assert api.ask("GET", f"/api/memory/memories/{action['id']}").status == 404


def test_what_says_nothing_is_refused_with_the_way_out(api: Api) -> None:
    for body, status in (
        ({}, 400),
        ({"text": "8443"}, 400),
        ({"text": "8443", "id": "x", "dry_run": True}, 400),
        ({"id": "unknown", "dry_run": True}, 404),
    ):
        reply = api.ask("POST", ROUTE, body)
        assert (reply.status, bool(reply.body["remedy"])) == (status, True)
    assert api.ask("GET", "/api/memory/receipts/unknown").status == 404
