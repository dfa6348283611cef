"""Two homes with a Filrouge of their own, and a hub that both reach."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support import postgres, served_hub
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


@pytest.fixture(scope="module")
def url(hub: Hub) -> Generator[str]:
    with served_hub.served(hub) as address:
        yield address
