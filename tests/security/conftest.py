"""One daemon that listens on TCP, for all tests that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .wire import Served, served


@pytest.fixture(scope="session")
def open_door() -> Iterator[Served]:
    """A daemon with TCP; nobody stops it, and nobody changes what it holds."""
    with served() as found:
        yield found
