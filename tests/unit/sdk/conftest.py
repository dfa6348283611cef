"""The six ways to a memory, each with a home of its own for the scenarios of a module."""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

import pytest

from .given import WAYS, Asked, Way, asked


@pytest.fixture(scope="module", params=WAYS)
def everywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Asked]:
    """A memory, each way in its turn; scenarios of one module share it and keep to subjects of their own."""
    with asked(cast("Way", request.param), tmp_path_factory.mktemp("home")) as found:
        yield found
