"""ONNX Runtime reports nothing where it is loaded through Filrouge.

Loading it is enough to make it write a device id and an event database into the user's cache, which it sends to its
vendor. `test_no_telemetry` audits whole daemons with strace, in `make proof`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def left_behind(user: Path, code: str, **environ: str) -> list[str]:
    """The files that a program leaves in the folders of its user."""
    user.mkdir()
    kept = {"PATH": os.environ["PATH"], "HOME": str(user), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], env=kept | environ, cwd=user, check=True, timeout=120)
    return [str(path.relative_to(user)) for path in user.rglob("*") if path.is_file()]


def test_the_runtime_of_the_embedder_leaves_no_trace_of_telemetry(tmp_path: Path) -> None:
    if not left_behind(tmp_path / "bare", "import onnxruntime"):
        pytest.skip("this build of ONNX Runtime reports nothing by itself")
    through_us = "from filrouge.providers import embedders; import onnxruntime"
    for place, environ in enumerate(({}, {"ORT_DISABLE_TELEMETRY": "0"})):
        assert left_behind(tmp_path / str(place), through_us, **environ) == []
