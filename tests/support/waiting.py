"""Waiting in a test for what other threads or processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(what: str, true: Callable[[], Any], seconds: float = 60.0) -> None:
    """Look again and again, and fail with what was waited for."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not true: {what}"
        time.sleep(0.02)
