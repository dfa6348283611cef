"""Ids may be shortened wherever a memory, a turn, a thread or anything else is named by one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from filrouge.capture.service import store_events
from filrouge.server import middleware, routes
from filrouge.server.deferred import routers_of, routes_of
from filrouge.testing import idle
from tests.support.given import SHOP, event
from tests.support.spoken import COUPON, POSTGRES
from tests.unit.server.conftest import Api

PORT = "For the record: production listens on port 8443."


def shortest(id_: str, others: list[str]) -> str:
    """The beginning of an id that no other has."""
    return next(id_[:n] for n in range(6, 27) if not any(one.startswith(id_[:n]) for one in others if one != id_))


def test_the_beginning_of_an_id_names_what_alone_begins_so(api: Api) -> None:
    [first] = api.remember(PORT, *SHOP)
    [second] = api.remember("For the record: the staging host is called heron.", *SHOP)
    whole = [first["id"], second["id"]]
    one = shortest(whole[0], whole)
    assert api.get(f"/api/memory/memories/{one}")["id"] == whole[0]
    assert api.get(f"/api/memory/memories/{one.upper()}/history")["versions"][0]["id"] == whole[0]
    assert api.ask("PATCH", f"/api/memory/memories/{one}", {"pinned": True}).value["id"] == whole[0]
    changed = api.ask("POST", "/memory/supersede", {"old_id": one, "new_text": "It is 9443."}).value
    assert changed["old_id"] == whole[0]
    other = whole[1][:18]  # beyond the time, which what was made meanwhile may share
    assert api.ask("POST", f"/api/memory/memories/{other}/bin", {}).value["id"] == whole[1]
    assert api.ask("POST", "/api/memory/undo", {"memory_id": other}).status == 200
    preview = api.ask("POST", "/api/memory/forget", {"id": other, "dry_run": True}).value
    assert whole[1] in {row["id"] for row in preview["rows"]}


def test_a_beginning_of_several_lists_them(api: Api) -> None:
    texts = [f"For the record: host number {number} is called crane{number}." for number in range(3)]
    ids = [api.remember(text, *SHOP)[0]["id"] for text in texts]
    common = next(ids[0][:n] for n in range(26, 3, -1) if all(one.startswith(ids[0][:n]) for one in ids))
    refused = api.ask("GET", f"/api/memory/memories/{common}")
    assert refused.status == 400
    assert all(one in refused.body["detail"] for one in ids)
    assert "crane1" in refused.body["detail"]
    assert api.ask("GET", "/api/memory/memories/0zzzzzzz").status == 404


def test_threads_turns_and_bridges_in_path_query_and_body(api: Api) -> None:
    for number, text in enumerate((*COUPON[:2], *POSTGRES)):
        store_events(api.parts, [event("prompt", session=f"s{number // 2}", text=text)]).result(30)
        idle(api.parts)
    threads = [one["id"] for one in api.get("/api/memory/threads")]
    one, other = (shortest(id_, threads) for id_ in threads[:2])
    bridge = api.ask("POST", "/api/memory/bridges", {"source": one, "target": other, "type": "supports"}).value
    assert {bridge["source"], bridge["target"]} == set(threads[:2])
    assert bridge in api.get(f"/api/memory/bridges?thread={one}&type=supports")
    short = shortest(threads[0], threads)
    in_thread = [api.get(f"/api/memory/facts?thread={id_}") for id_ in (short, threads[0])]
    assert in_thread[0] == in_thread[1] != []
    turns = [turn["id"] for turn in api.get(f"/api/memory/threads/{one}")["turns_shown"]]
    turn = turns[0]
    assert api.get(f"/api/memory/turns/{turn[:20]}/thread")["thread_id"] == threads[0]
    moved = api.ask("POST", f"/api/memory/threads/{other}/move", {"turns": [turn[:22]]})
    assert turn in {shown["id"] for shown in moved.value["turns_shown"]}
    assert api.ask("DELETE", f"/api/memory/bridges/{bridge['id'][:20]}").value["id"] == bridge["id"]


def ids_in_paths() -> Iterator[tuple[str, str, str]]:
    for module in pkgutil.iter_modules(routes.__path__):
        routers = routers_of(importlib.import_module(f"{routes.__name__}.{module.name}"))
        for route in routes_of(route for router in routers for route in router.routes):
            for name, hint in route.endpoint.__annotations__.items():
                if f"{{{name}}}" in route.path and name.endswith("_id"):
                    yield route.path, name, str(hint)


def test_every_id_in_a_path_is_marked() -> None:
    marks = {name for name in vars(middleware) if name.endswith("Id")}
    found = list(ids_in_paths())
    assert len(found) > 20
    assert [one for one in found if one[2] not in marks] == []
