"""axe-core, which looks for what keeps people out of a page: fetched from npm once, run inside a page of Playwright.

It is not part of the repository (MPL-2.0): the one file that is needed lies in the virtual environment once it was
fetched. A test that cannot have it is skipped with the reason, or fails where `FILROUGE_BROWSER_TESTS=1` says that
nothing may be missing.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page

PACKAGE: Final = "axe-core@4.14.1"
_SHA256: Final = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
_FILE: Final = Path(sys.prefix) / "share" / f"{PACKAGE}.min.js"
_FETCH_SECONDS: Final = 120
#: WCAG 2.0 to 2.2, levels A and AA.
_RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_RUN: Final = "axe.run(document, {resultTypes: ['violations'], runOnly: {type: 'tag', values: %s}})"


def violations(page: Page) -> list[str]:
    """What is wrong with the page as it is shown now, one line for each element."""
    network = page.context.new_cdp_session(page)  # the page's content security policy does not bind it
    try:
        _evaluate(network, script())
        found = _evaluate(network, _RUN % list(_RULES))
    finally:
        network.detach()
    return [
        f"{rule['id']} ({rule['impact']}): {node['target'][0]}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@cache
def script() -> str:
    """The text of axe-core."""
    if not _FILE.exists():
        _fetch()
    text = _FILE.read_bytes()
    assert hashlib.sha256(text).hexdigest() == _SHA256, f"{_FILE} is not the file of {PACKAGE}"
    return text.decode()


def _fetch() -> None:
    if shutil.which("npm") is None:
        _missing("npm, which fetches axe-core, is not on this machine")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE],
            cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            _missing(f"npm could not fetch {PACKAGE}: {done.stderr.strip()}")
        with tarfile.open(fileobj=io.BytesIO((Path(folder) / done.stdout.strip()).read_bytes())) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            _FILE.parent.mkdir(exist_ok=True)
            fresh = _FILE.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(member.read())
            fresh.replace(_FILE)


def _missing(reason: str) -> None:
    if os.environ.get("FILROUGE_BROWSER_TESTS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _evaluate(network: Any, expression: str) -> Any:
    asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    answer = network.send("Runtime.evaluate", asked)
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")
