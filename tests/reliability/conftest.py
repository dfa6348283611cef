"""A throw-away home for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .processes import throw_away_home


@pytest.fixture
def home() -> Iterator[str]:
    """A home that does not exist yet, on a path short enough for a socket."""
    with throw_away_home() as path:
        yield path
