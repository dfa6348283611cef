"""One fact by its key: changed, binned, undone, whatever its key is made of."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from .conftest import Api

SHOP, BARN = "name:shop", "name:barn"


def put(api: Api, key: str, value: str, *project: str) -> None:
    body = {"key": key, "value": value, "project": list(project), "scope": "project" if project else "user"}
    assert api.ask("POST", "/api/memory/facts", body).body == {"success": True}


def known(api: Api) -> dict[str, str]:
    return {one["key"]: one["value"] for one in api.get("/api/memory/facts")}


def change(api: Api, key: str, value: str, query: str = "") -> Any:
    return api.ask("PATCH", f"/api/memory/facts/{quote(key, safe='')}{query}", {"value": value})


def delete(api: Api, key: str, query: str = "") -> Any:
    return api.ask("DELETE", f"/api/memory/facts/{quote(key, safe='')}{query}")


@pytest.mark.parametrize("key", ["port", "deploy/host", "clé préférée", "100%", "a%2Fb", "?#&", "日本", "a b/", "/a"])
def test_a_key_may_hold_anything(api: Api, key: str) -> None:
    put(api, key, "old")
    assert change(api, key, "new").body == {"success": True}
    assert known(api) == {key: "new"}
    assert delete(api, key).body == {"success": True}
    assert known(api) == {}


def test_what_it_said_stays_in_its_history_and_comes_back(api: Api) -> None:
    put(api, "port", "8443")
    change(api, "port", "9443")
    assert change(api, "port", "9443").body == {"success": True}
    [fact] = api.get("/api/memory/facts")
    assert (fact["previous_text"], fact["text"]) == ("port: 8443", "port: 9443")
    delete(api, "port")
    assert api.ask("POST", f"/api/memory/memories/{fact['id']}/restore", {}).status == 200
    assert known(api) == {"port": "9443"}


def test_a_memory_without_a_key_is_known_by_its_id(api: Api) -> None:
    [made] = api.remember("For the record: production listens on port 8443.")
    assert change(api, made["id"], "Production listens on port 9443.").status == 200
    [fact] = api.get("/api/memory/facts")
    assert fact["key"] == fact["id"]
    assert delete(api, fact["id"]).status == 200
    assert delete(api, fact["id"]).status == 400


def test_one_key_in_several_places_wants_the_project(api: Api) -> None:
    put(api, "port", "1", SHOP)
    put(api, "port", "2", BARN)
    refused = change(api, "port", "3")
    assert (refused.status, "Several facts" in refused.body["detail"]) == (400, True)
    assert change(api, "port", "3", "?project=shop").status == 200
    assert sorted(one["value"] for one in api.get("/api/memory/facts")) == ["2", "3"]


def test_what_is_not_there_or_is_a_rule_is_not_found(api: Api) -> None:
    [rule] = api.remember("Always run the tests with `make check`.")
    assert [change(api, key, "x").status for key in ("nothing", rule["id"])] == [404, 404]
    assert [delete(api, key).status for key in ("nothing", rule["id"])] == [404, 404]
    put(api, "port", "1")
    assert change(api, "port", "  ").status == 400
