"""`filrouge demo`, the first command of the README: it plays to its end, and what it promises is to be seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_shows_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "tmp").mkdir()
    without = {name: value for name, value in os.environ.items() if not name.startswith("FILROUGE_HOME")}
    places = {"HOME": str(tmp_path / "user"), "TMPDIR": str(tmp_path / "tmp"), "FILROUGE_EMBEDDING_MODEL": "hashing"}
    done = subprocess.run(
        [sys.executable, "-m", "filrouge.cli.main", "demo"],
        env=without | places, cwd=tmp_path / "user", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "✗" not in done.stdout
    for shown in ("What was learned", "↳ replaces: ", "At the session's start the agent is given:", "<filrouge-memory"):
        assert shown in done.stdout
    assert "0 dead jobs" in done.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
