"""`filrouge logs`, as a person types it, with no daemon near."""

from __future__ import annotations

import json
import os
from pathlib import Path

from filrouge.core.paths import LOG
from tests.support.shell import Typed, typed


def logs(home: Path, *words: str) -> Typed:
    return typed("logs", *words, environ={**os.environ, "FILROUGE_HOME": str(home)})


def test_the_newest_lines_are_shown_without_a_daemon_and_as_records_for_programs(tmp_path: Path) -> None:
    lines = [f"2026-05-02T10:00:0{n}.000Z INFO filrouge.daemon: line {n}" for n in range(3)]
    (tmp_path / LOG).write_text("".join(f"{line}\n" for line in lines))
    assert logs(tmp_path, "-n", "2").out.splitlines() == lines[1:]
    assert json.loads(logs(tmp_path, "--json", "-n", "1").out) == [
        {"time": "2026-05-02T10:00:02.000Z", "level": "INFO", "logger": "filrouge.daemon", "message": "line 2"}
    ]


def test_what_cannot_be_shown_says_why_and_what_next(tmp_path: Path) -> None:
    missing = logs(tmp_path)
    assert (missing.code, "filrouge daemon start" in missing.err) == (1, True)
    assert logs(tmp_path, "--json", "--follow").code == 2
