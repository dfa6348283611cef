"""One replay of all recorded sessions for every test of this package, each of which only asks, or plays them again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import pytest

from filrouge.cli import talk

from .replay import Replayed, play_everything


@pytest.fixture(scope="package")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Replayed]:
    """The home of all sessions; its environment ends with this package, as no other test may see it."""
    home = str(tmp_path_factory.mktemp("home") / "filrouge")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FILROUGE_HOME", home)
        environment.delenv("FILROUGE_DISABLED", raising=False)
        talk.wake(home)
        try:
            play_everything()
            yield Replayed(home=home)
        finally:
            subprocess.run([sys.executable, "-m", "filrouge.cli.main", "daemon", "stop"], check=True, timeout=60)
