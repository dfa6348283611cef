"""A request that is sent again under its key is answered again and done once."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from filrouge.core.paths import socket_path
from tests.unit.server.conftest import Api, serving

TOLD = {"text": "Production listens on port 8443.", "project": ["origin:forge.example/ana/shop"]}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class _Wire(http.client.HTTPConnection):
    """HTTP over the unix socket of a home."""

    def __init__(self, home: str) -> None:
        super().__init__("filrouge", timeout=20)
        self._home = home

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(socket_path(self._home))


def post(home: str, path: str, body: Any, key: str) -> Answer:
    wire = _Wire(home)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    wire.request("POST", path, json.dumps(body), headers)
    reply = wire.getresponse()
    raw = reply.read()
    wire.close()
    return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, json.loads(raw))


def get(home: str, path: str) -> Answer:
    wire = _Wire(home)
    wire.request("GET", path)
    reply = wire.getresponse()
    raw = reply.read()
    wire.close()
    return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, json.loads(raw))


def memories(api: Api) -> int:
    return len(api.get("/api/memory/facts"))


def test_a_repetition_gets_the_first_answer_and_does_nothing(api: Api) -> None:
    first, second = (post(api.home, "/api/memory/memories", TOLD, "a") for _ in range(2))
    assert (first.status, second.status) == (201, 201)
    assert second.body == first.body
    assert second.body["actions"][0]["action"] == "add"
    assert ("idempotency-replayed" in first.headers, second.headers["idempotency-replayed"]) == (False, "true")
    assert post(api.home, "/api/memory/memories", TOLD, "b").body["actions"][0]["action"] == "noop"
    assert memories(api) == 1


def test_a_restart_does_not_forget_what_was_answered(tmp_path: Path) -> None:
    with serving(str(tmp_path)) as api:
        first = post(api.home, "/api/memory/memories", TOLD, "a")
    with serving(str(tmp_path)) as api:
        assert post(api.home, "/api/memory/memories", TOLD, "a").body == first.body
        assert memories(api) == 1


@pytest.mark.parametrize(
    ("path", "body"), [("/api/memory/memories", {**TOLD, "text": "other"}), ("/api/memory/rules", TOLD)]
)
def test_a_key_is_for_one_request(api: Api, path: str, body: Any) -> None:
    post(api.home, "/api/memory/memories", TOLD, "a")
    refused = post(api.home, path, body, "a")
    assert refused.status == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert "Idempotency-Key" in refused.body["detail"]
    assert memories(api) == 1


def test_a_refusal_that_may_change_is_tried_again(api: Api) -> None:
    waiting = {"old_id": "nothing", "new_text": "something"}
    assert [post(api.home, "/memory/supersede", waiting, "a").status for _ in range(2)] == [404, 404]
    assert "idempotency-replayed" not in post(api.home, "/memory/supersede", waiting, "a").headers


def test_many_at_once_are_one(api: Api) -> None:
    found = list[Answer]()
    threads = [Thread(target=lambda: found.append(post(api.home, "/api/memory/memories", TOLD, "a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.status for one in found} <= {201, 409}
    assert all(one.headers["retry-after"] == "1" for one in found if one.status == 409)
    done = [one.body for one in found if one.status == 201]
    assert done
    assert all(one == done[0] for one in done)
    assert memories(api) == 1


def test_no_answer_outlives_what_is_forgotten(api: Api) -> None:
    told = {"text": "Production listens on the port quokka."}
    shown = {"prompt": "Which port does production listen on, quokka?"}
    post(api.home, "/api/memory/memories", told, "a")
    assert "quokka" in str(post(api.home, "/api/memory/context/preview", shown, "b").body)
    receipt = post(api.home, "/api/memory/forget", {"text": "quokka", "at_once": True}, "c")
    assert receipt.body["searched"]["left"] == {}
    for path, body, key in (("/api/memory/memories", told, "a"), ("/api/memory/context/preview", shown, "b")):
        again = post(api.home, path, body, key)
        assert again.status == 409
        assert "quokka" not in str(again.body)
    assert memories(api) == 0


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_cannot_be_kept_is_refused(api: Api, key: str) -> None:
    assert post(api.home, "/api/memory/memories", TOLD, key).status == 400
    assert memories(api) == 0
