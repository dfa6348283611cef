"""One replay of all recorded sessions for every test of this package, each of which only asks, or plays them again.

Beside it, for the module that asks for it, one of each host's sessions alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import pytest

from filrouge.cli import client
from filrouge.daemon import process

from .replay import Replayed, play_everything


@pytest.fixture(scope="package")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Replayed]:
    """The home of all sessions."""
    yield from _replayed(str(tmp_path_factory.mktemp("home") / "filrouge"))


@pytest.fixture(scope="module", params=["claude-code", pytest.param("codex", marks=pytest.mark.proof)])
def replayed_host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Replayed]:
    """A home of all sessions of one host alone."""
    yield from _replayed(str(tmp_path_factory.mktemp("home") / "filrouge"), str(request.param))


def _replayed(home: str, host: str = "") -> Generator[Replayed]:
    """The environment ends with the fixture, as no other test may see it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FILROUGE_HOME", home)
        environment.delenv("FILROUGE_DISABLED", raising=False)
        process.ensure_running(home)
        # The tests judge what is found. On a busy machine the default wait may end before a prompt is embedded.
        client.ask("PATCH", "/api/memory/settings", {"hook_wait_ms": 8000})
        try:
            play_everything(host)
            yield Replayed(home=home, host=host)
        finally:
            subprocess.run([sys.executable, "-m", "filrouge.cli.main", "daemon", "stop"], check=True, timeout=60)
