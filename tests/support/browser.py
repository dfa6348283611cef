"""A real Chromium for the tests that want one: the machine's own, without a window, driven by Playwright.

Where there is none a test is skipped with the reason, unless `FILROUGE_BROWSER_TESTS=1` says that there must be one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium_path() -> str:
    """Where Chromium is; skips the test, or fails it where it must not be missing."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is not None:
        return found
    reason = "there is no Chromium on this machine (Debian: `apt-get install chromium`)"
    if os.environ.get("FILROUGE_BROWSER_TESTS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser, without the sandbox where root runs it."""
    path = chromium_path()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
