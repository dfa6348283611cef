"""When the real agents run, and the throw-away desk that each module works at.

Off by default, with the reason, because the first run downloads much. Once asked for, nothing is skipped:
a machine without npm or without an installed `filrouge` fails, so that a green run means it was run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from .command_lines import Desk, Host, cache_directory, install
from .product import EXECUTABLE
from .scripted_model import ScriptedModel

HERE = os.path.dirname(os.path.abspath(__file__))
OFF = "real agent command lines are off: set FILROUGE_HOST_TESTS=1 (downloads about 2 GB from npm once)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them unless they were asked for."""
    wanted = os.environ.get("FILROUGE_HOST_TESTS", "").strip() == "1"
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.hosts)
            if not wanted:
                item.add_marker(pytest.mark.skip(reason=OFF))


@pytest.fixture(scope="session")
def programs() -> dict[Host, str]:
    """Both agents, installed."""
    for needed in ("npm", "git"):
        if shutil.which(needed) is None:
            pytest.fail(f"FILROUGE_HOST_TESTS=1 asks for the real agents, but {needed} is not on the PATH")
    if not os.access(EXECUTABLE, os.X_OK):
        pytest.fail("filrouge is not installed beside this Python: pip install -e .")
    return {"claude-code": install("claude-code"), "codex": install("codex")}


@pytest.fixture(scope="module")
def desk(programs: dict[Host, str]) -> Iterator[Desk]:
    """A new user with nothing remembered; the daemon is stopped and all files go when the module is done."""
    desks = os.path.join(cache_directory(), "desks")
    os.makedirs(desks, exist_ok=True)
    root = tempfile.mkdtemp(prefix="", dir=desks)
    with ScriptedModel() as model:
        here = Desk(root, model, programs)
        try:
            yield here
            assert model.failures == []
        finally:
            here.product.stop()
            shutil.rmtree(root, ignore_errors=True)
