"""A hub on a real PostgreSQL: one server for all tests of a process, one database for each module."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support import postgres
from tests.support.postgres import Hub


@pytest.fixture(scope="session")
def superuser() -> Generator[str]:
    postgres.required()
    with postgres.server() as url:
        yield url


@pytest.fixture(scope="module")
def hub(superuser: str) -> Generator[Hub]:
    with postgres.hub(superuser) as found:
        yield found
