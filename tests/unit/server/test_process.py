"""The daemon as a process: it comes up on its home, admits no second one, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from filrouge._version import __version__
from filrouge.core.paths import DATABASE, RUNTIME, SOCKET
from filrouge.daemon import client


def daemon(home: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "FILROUGE_HOME": str(home), "FILROUGE_EMBEDDING_MODEL": "hashing"}
    return subprocess.Popen(
        [sys.executable, "-m", "filrouge.server"], env=environ, text=True, stderr=subprocess.PIPE, cwd="/"
    )


def test_a_home_has_one_daemon_which_leaves_without_a_trace(tmp_path: Path) -> None:
    with daemon(tmp_path) as first:
        try:
            assert client.wait_ready(str(tmp_path), time.monotonic() + 60)
            told = json.loads((tmp_path / RUNTIME).read_text())
            said = client.request(str(tmp_path), "GET", "/daemon/status").body
            places = ("pid", "version", "socket", "url")
            assert [told[name] for name in places] == [said[name] for name in places]
            assert (told["pid"], told["version"]) == (first.pid, __version__)
            assert str(told["url"]).startswith("http://127.0.0.1:")
            with daemon(tmp_path) as second:
                assert second.wait(15) == 5
                assert second.stderr is not None
                assert "already running" in second.stderr.read()
            assert client.request(str(tmp_path), "POST", "/daemon/stop", {}).status == 200
            assert first.wait(15) == 0
        finally:
            first.kill()
    left = {path.name for path in tmp_path.iterdir()}
    assert not {SOCKET, RUNTIME, f"{DATABASE}-wal"} & left
    assert DATABASE in left
