"""Canaries through every path, summarised and backed up, then forgotten: no byte, no hit, and none comes back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from filrouge.core.clock import SystemClock
from filrouge.maintenance.restore import restore
from filrouge.testing import idle
from tests.support.canaries import PATHS, Home, backed_up, canary, enter, left, recalled, served

pytestmark = pytest.mark.slow


def forgotten(home: Home, words: dict[str, str]) -> dict[str, str]:
    """Forget each by itself; those of which the receipt is not good, with their path."""
    wrong: dict[str, str] = {}
    for word, path in words.items():
        receipt = home.ask("POST", "/api/memory/forget", {"text": word, "at_once": True})
        if not receipt["ok"]:
            wrong[word] = f"{path}: {receipt['searched']} {receipt['backups']}"
    return wrong


def test_a_canary_of_every_path_is_gone_from_every_byte_and_stays_away(tmp_path: Path) -> None:
    chance = random.Random(20261122)
    words = [canary(chance, number) for number in range(len(PATHS))]
    place, elsewhere = tmp_path / "home", tmp_path / "elsewhere.db"
    with served(place) as home:
        paths = enter(home, words)
        assert set(left(home.home, words)) == set(words), "not every canary came in"
        backed_up(home, elsewhere)
        assert forgotten(home, paths) == {}
        idle(home.parts, 60)
        assert {paths[word]: files for word, files in left(home.home, words).items()} == {}
        assert [paths[word] for word in recalled(home.parts, words)] == []
    restore(str(place), str(elsewhere), SystemClock())
    with served(place) as home:
        assert [paths[word] for word in recalled(home.parts, words)] == []
        assert {paths[word]: files for word, files in left(home.home, words).items()} == {}
