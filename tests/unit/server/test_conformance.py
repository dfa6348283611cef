"""The API does what its document says: every operation is asked what the document allows, and what it does not.

schemathesis reads the document and makes the requests: those of its examples, every boundary of every parameter, and
random ones. An answer has to have a described status, type and shape, none may be a server error, and what the
document forbids has to be refused. It is asked through both doors: on the unix socket, where nobody needs a token, and
as over TCP with one. FILROUGE_EXAMPLES says how many random requests an operation gets on the socket: 10 in `.ci/run`,
2,000 in `make proof`; over TCP it is a third of that. In `make test` what the other tests are answered is held against
the document (`tests.support.contract`).
"""

from __future__ import annotations

from collections.abc import Generator
from threading import Event as Flag
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from filrouge.core.clock import SystemClock
from filrouge.memories.changes import remember
from filrouge.runtime import repository, wiring
from filrouge.server.api import create_app
from filrouge.server.middleware import HEADER
from filrouge.testing import idle
from tests.support import tiers

from .doors import Inside, Outside, nobody

EXAMPLES = tiers.EXAMPLES if tiers.is_proof() else 10
#: What a person could switch by settings is held, so that nobody is asked anything over a network.
ENVIRON = {
    "FILROUGE_EMBEDDING_MODEL": "hashing",
    "FILROUGE_EXTRACT_PROVIDER": "heuristic",
    "FILROUGE_BACKUP_HOURS": "0",
    "FILROUGE_LIMIT_REQUESTS": "100000",
    "FILROUGE_LIMIT_BODY_MB": "1024",
}
_UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
#: Each starts a process that copies and verifies the whole memory.
_LONG = ["backups_make"]
#: What could take away the token that the questions are asked with.
_OF_TOKENS = ["tokens_revoke"]
pytestmark = [pytest.mark.law, pytest.mark.slow]
_NOT_ASKED: list[Any] = [getattr(checks, name) for name in ("ignored_auth", "positive_data_acceptance")]


def _read(app: Inside | Outside) -> Any:
    schema: Any = schemathesis.openapi.from_dict(app.app.openapi())
    schema.app = app
    return schema


_EMPTY = nobody()
_INSIDE, _OUTSIDE = Inside(_EMPTY), Outside(_EMPTY)
inside, outside = _read(_INSIDE), _read(_OUTSIDE)


@pytest.fixture(scope="module", autouse=True)
def _running(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    home = str(tmp_path_factory.mktemp("described"))
    running = wiring.start(home, environ=ENVIRON, clock=SystemClock())
    try:
        for text in ("Production listens on port 8443.", "We decided to keep the invoices in Postgres."):
            remember(running.parts, text, names=["origin:forge.example/ana/shop"], scope=None, host="api")
        idle(running.parts)
        made = running.parts.writer.run(
            lambda tx: repository.create_token(running.parts.clock, tx, "conformance", "admin")
        )
        _INSIDE.app = _OUTSIDE.app = create_app(running, Flag().set)
        _OUTSIDE.token = made["token"]
        yield
    finally:
        running.stop()


def _asked(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=_UNHURRIED, database=None)


@inside.exclude(operation_id=_LONG).parametrize()
@_asked(EXAMPLES)
def test_every_operation_answers_as_described_on_the_socket(case: Any) -> None:
    _validate(case)


@outside.exclude(operation_id=[*_LONG, *_OF_TOKENS]).parametrize()
@_asked(max(EXAMPLES // 3, 1))
def test_every_operation_answers_as_described_over_tcp(case: Any) -> None:
    _validate(case)


@inside.include(operation_id=_LONG).parametrize()
@_asked(min(EXAMPLES, 3))
def test_a_backup_is_answered_as_described(case: Any) -> None:
    _validate(case)


def _validate(case: Any) -> None:
    """All checks but two: what has no key is asked for above, and a verb may refuse for reasons that no schema can say
    (two texts that are one, an id that is no rule), which the document answers for with its 4XX."""
    if case.headers and len(str(case.headers.get(HEADER, ""))) == 1:
        case.headers[HEADER] = uuid4().hex  # a key of one sign comes again and again, and always with another request
    case.call_and_validate(excluded_checks=_NOT_ASKED)
