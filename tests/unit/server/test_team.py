"""The team over HTTP, with a hub that keeps nothing."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support import small_hub
from tests.support.given import SHOP
from tests.unit.server.conftest import Api

PORT = "For the record: production listens on port 8443."


@pytest.fixture
def hub() -> Generator[str]:
    with small_hub.served() as url:
        yield url


def join(api: Api, hub: str) -> None:
    assert api.ask("POST", "/api/team/join", {"url": hub, "token": small_hub.TOKEN, "device": "laptop"}).status == 200


def test_the_ids_to_share_may_be_short(api: Api, hub: str) -> None:
    [whole] = [one["id"] for one in api.remember(PORT, *SHOP)]
    join(api, hub)
    [shared] = api.ask("POST", "/api/team/share", {"ids": [whole[:20]]}).value
    assert (shared["id"], shared["state"]) == (whole, "queued")
    [declined] = api.ask("POST", "/api/team/unshare", {"ids": [whole[:20].upper()]}).value
    assert declined["id"] == whole


def test_without_a_team_nothing_is_shared_and_the_answer_says_how_to_join(api: Api) -> None:
    [memory] = api.remember(PORT, *SHOP)
    for path, body in (("share", {"ids": [memory["id"]]}), ("unshare", {"ids": [memory["id"]]}), ("leave", None)):
        refused = api.ask("POST", f"/api/team/{path}", body)
        assert (refused.status, "filrouge team join" in refused.body["remedy"]) == (404, True)
    assert api.get("/api/team") == {"joined": False}


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do(api: Api, hub: str) -> None:
    api.remember(PORT, *SHOP)
    join(api, hub)
    refused = api.ask("PUT", "/api/team/policy", {"project": list(SHOP), "policy": "everything"})
    assert refused.status == 400
    assert "all-memories" in refused.body["remedy"]


def test_a_token_that_the_hub_refuses_joins_nothing(api: Api, hub: str) -> None:
    assert api.ask("POST", "/api/team/join", {"url": hub, "token": "frh_another"}).status == 401
    assert api.get("/api/team") == {"joined": False}
