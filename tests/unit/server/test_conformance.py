"""The API does what its document says: every operation is asked what the document allows, and what it does not.

schemathesis reads the document and makes the requests: those of its examples, every boundary of every parameter, and
random ones. An answer has to have a described status, type and shape, none may be a server error, and what the
document forbids has to be refused. FILROUGE_EXAMPLES says how many random requests an operation gets: 50 by itself,
2,000 in `make proof`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from threading import Event as Flag
from typing import Any, cast
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks
from starlette.types import Receive, Scope, Send

from filrouge.app import wiring
from filrouge.app.remember import remember
from filrouge.clock import SystemClock
from filrouge.server.api import create_app
from filrouge.server.once import HEADER
from filrouge.testing import idle

EXAMPLES = int(os.environ.get("FILROUGE_EXAMPLES", "50"))
#: What a person could switch by settings is held, so that nobody is asked anything over a network.
ENVIRON = {
    "FILROUGE_EMBEDDING_MODEL": "hashing",
    "FILROUGE_EXTRACT_PROVIDER": "heuristic",
    "FILROUGE_BACKUP_HOURS": "0",
}
_UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
#: Each starts a process that copies and verifies the whole memory.
_LONG = ["backups_make"]
pytestmark = pytest.mark.proof
_NOT_ASKED: list[Any] = [getattr(checks, name) for name in ("ignored_auth", "positive_data_acceptance")]


class _Served:
    """The application under test: the document is read from it before any is running."""

    def __init__(self) -> None:
        self.app = create_app(cast("wiring.Running", None), Flag().set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


_SERVED = _Served()
api: Any = schemathesis.openapi.from_dict(_SERVED.app.openapi())
api.app = _SERVED


@pytest.fixture(scope="module", autouse=True)
def _running(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    home = str(tmp_path_factory.mktemp("described"))
    running = wiring.start(home, environ=ENVIRON, clock=SystemClock())
    try:
        for text in ("Production listens on port 8443.", "We decided to keep the invoices in Postgres."):
            remember(running.parts, text, names=["origin:forge.example/ana/shop"], scope=None, host="api")
        idle(running.parts)
        _SERVED.app = create_app(running, Flag().set)
        yield
    finally:
        running.stop()


def _asked(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=_UNHURRIED, database=None)


def test_the_document_is_openapi() -> None:
    api.validate()


@api.exclude(operation_id=_LONG).parametrize()
@_asked(EXAMPLES)
def test_every_operation_answers_as_described(case: Any) -> None:
    _validate(case)


@api.include(operation_id=_LONG).parametrize()
@_asked(min(EXAMPLES, 3))
def test_a_backup_is_answered_as_described(case: Any) -> None:
    _validate(case)


def _validate(case: Any) -> None:
    """All checks but two: on this door nobody needs a key, and a verb may refuse for reasons that no schema can say
    (two texts that are one, an id that is no rule), which the document answers for with its 4XX."""
    if case.headers and len(str(case.headers.get(HEADER, ""))) == 1:
        case.headers[HEADER] = uuid4().hex  # a key of one sign comes again and again, and always with another request
    case.call_and_validate(excluded_checks=_NOT_ASKED)
