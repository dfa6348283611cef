"""A real Chromium without a window, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser; the test is skipped where none is installed."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium is installed here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
