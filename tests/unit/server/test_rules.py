"""The routes of rules: listed with their source, added, edited, switched and removed."""

from __future__ import annotations

from typing import Any

from .conftest import Api

SHOP = "origin:forge.example/ana/shop"
SAID = "Always run the linter before a commit."


def done(api: Api, method: str, path: str, body: dict[str, Any] | None = None, status: int = 200) -> dict[str, Any]:
    reply = api.ask(method, path, body)
    assert reply.status == status, reply
    return reply.body


def added(api: Api, text: str = SAID) -> dict[str, Any]:
    return done(api, "POST", "/api/memory/rules", {"text": text, "project": [SHOP]}, 201)


def test_a_rule_goes_through_its_life(api: Api) -> None:
    one = added(api)
    assert (one["text"], one["standing"], one["source"], one["scope"]) == (SAID, "standing", [], "project")
    assert api.get("/api/memory/rules") == [one]
    path = f"/api/memory/rules/{one['id']}"
    assert done(api, "PATCH", path, {"enabled": False})["standing"] == "disabled"
    edited = done(api, "PATCH", path, {"text": "Never commit without the linter.", "enabled": True})
    assert (edited["supersedes"], edited["standing"]) == (one["id"], "standing")
    assert edited["id"] != one["id"]
    assert done(api, "DELETE", f"/api/memory/rules/{edited['id']}")["action"] == "delete"
    assert api.get("/api/memory/rules") == []
    assert [rule["standing"] for rule in api.get("/api/memory/rules?history=true")] == ["binned", "superseded"]


def test_a_rule_that_was_said_names_the_words_it_comes_from(api: Api) -> None:
    api.remember(f"Hello there! {SAID}", SHOP)
    [one] = api.get("/api/memory/rules")
    assert [(source["text"], source["by"]) for source in one["source"]] == [(SAID, "you")]


def test_what_cannot_be_done_is_refused_with_the_way_out(api: Api) -> None:
    one = added(api)
    for method, path, body, status, said in (
        ("POST", "/api/memory/rules", {"text": SAID, "project": [SHOP]}, 400, "says that already"),
        ("POST", "/api/memory/rules", {"text": SAID}, 400, "not a project"),
        ("PATCH", f"/api/memory/rules/{one['id']}", {}, 400, "nothing to change"),
        ("PATCH", "/api/memory/rules/nobody", {"enabled": False}, 404, "nobody"),
        ("DELETE", "/api/memory/rules/nobody", None, 404, "nobody"),
        ("GET", "/api/memory/rules?history=true&trust=2", None, 400, "accepts no filter"),
    ):
        refused = done(api, method, path, body, status)
        assert said in refused["detail"]
        assert refused["remedy"]
