"""Bridges and the graph over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import httpx
import pytest

from filrouge.core.paths import socket_path
from filrouge.projects.repository import Projects
from tests.unit.threads.ties_given import put_thread

from .conftest import Api

SHOP, BLOG = "origin:forge.example/ana/shop", "origin:forge.example/ana/blog"


@pytest.fixture
def threads(api: Api) -> Api:
    """Two threads of a project and one of another."""
    now = datetime.now(UTC)
    for name, project in (("a", SHOP), ("b", SHOP), ("c", BLOG)):
        place = api.parts.writer.run(lambda tx, project=project: Projects(tx).resolve((project,), at=now))
        put_thread(api.home, "", name, project=place, at=now, title=f"<b>{name}</b>")
    return api


def test_a_bridge_is_made_listed_and_removed(threads: Api) -> None:
    made = threads.ask("POST", "/api/memory/bridges", {"source": "a", "target": "b", "type": "refines"})
    assert (made.status, made.body["type"], made.body["strength"]) == (201, "refines", 1.0)
    assert threads.get(f"/api/memory/bridges?project={SHOP}") == [made.body]
    assert threads.get(f"/api/memory/bridges?project={BLOG}") == threads.get("/api/memory/bridges?type=extends") == []
    assert threads.ask("DELETE", f"/api/memory/bridges/{made.body['id']}").status == 200
    assert threads.get("/api/memory/bridges?thread=a") == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"source": "a", "target": "a"}, 400),
        ({"source": "a", "target": "c"}, 400),
        ({"source": "a", "target": "b", "type": "likes"}, 400),
        ({"source": "a", "target": "nobody"}, 404),
        ({"source": "a"}, 400),
    ],
)
def test_what_cannot_be_tied_is_a_problem_with_a_reason(threads: Api, body: dict[str, str], status: int) -> None:
    reply = threads.ask("POST", "/api/memory/bridges", body)
    assert reply.status == status
    assert reply.body["detail"]


def test_what_is_not_there_is_not_found(silent: Api) -> None:
    assert silent.ask("DELETE", "/api/memory/bridges/nothing").status == 404
    assert silent.ask("GET", "/api/memory/bridges?thread=nothing").status == 404
    assert silent.ask("GET", "/api/memory/graph?format=png").status == 400


def test_the_graph_is_answered_in_three_forms_of_its_project_alone(threads: Api) -> None:
    threads.ask("POST", "/api/memory/bridges", {"source": "a", "target": "b"})
    assert {one["id"] for one in threads.get("/api/memory/graph")["threads"]} == {"a", "b", "c"}
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_path(threads.home)), base_url="http://daemon") as client:
        found = {
            form: client.get("/api/memory/graph", params={"format": form, "project": SHOP}) for form in ("dot", "svg")
        }
    assert found["dot"].headers["content-type"].startswith("text/vnd.graphviz")
    assert '"a" -> "b" [label="relates_to"' in found["dot"].text
    assert '"c"' not in found["dot"].text
    assert found["svg"].headers["content-type"].startswith("image/svg+xml")
    assert "default-src 'none'" in found["svg"].headers["content-security-policy"]
    told = [element.text for element in ElementTree.fromstring(found["svg"].text).iter() if element.text]
    assert {"<b>a</b>", "<b>b</b>", "Threads of shop"} <= set(told)
