"""What the API says of itself, and what it asks of everybody who comes over TCP."""

from __future__ import annotations

from collections.abc import Generator
from threading import Event as Flag

import pytest
import schemathesis
from starlette.testclient import TestClient

from filrouge.core.clock import SystemClock
from filrouge.runtime import repository, wiring
from filrouge.server.api import create_app

from .conftest import ENVIRON
from .doors import Outside, operations


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Generator[Outside]:
    """An application over TCP, for somebody with a token."""
    running = wiring.start(str(tmp_path_factory.mktemp("described")), environ=ENVIRON, clock=SystemClock())
    try:
        made = running.parts.writer.run(lambda tx: repository.create_token(running.parts.clock, tx, "reader", "admin"))
        yield Outside(create_app(running, Flag().set), made["token"])
    finally:
        running.stop()


def test_the_document_is_openapi(owner: Outside) -> None:
    schemathesis.openapi.from_dict(owner.app.openapi()).validate()


def test_every_operation_has_a_name_of_its_own(owner: Outside) -> None:
    names = [operation["operationId"] for _, _, operation in operations(owner.app)]
    assert sorted(names) == sorted(set(names))


def test_over_tcp_every_operation_refuses_whoever_has_no_token(owner: Outside) -> None:
    client = TestClient(Outside(owner.app))
    for path, method, operation in operations(owner.app):
        if operation["security"] and not path.startswith("/login/"):
            assert client.request(method, path).status_code == 401, f"{method} {path} let a stranger in"


@pytest.mark.parametrize(("length", "status"), [("", 400), ("two", 400), ("-1", 400), ("9" * 5000, 413)])
def test_a_length_that_is_no_number_is_no_request(owner: Outside, length: str, status: int) -> None:
    reply = TestClient(owner).request("DELETE", "/api/memory/rules/x", headers={"Content-Length": length})
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json")
