"""A text that the embedder's native code dies of takes the process with it, and is set aside before long.

Each process here is a whole Filrouge whose embedder ends it with SIGSEGV on one word. It is started again and again, as
a daemon is by the next hook, each time some minutes later by its clock. What shared the deadly job's batch is done.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import pytest

from filrouge.runtime.jobs import MAX_DEATHS, TOO_MANY_DEATHS

from .processes import environment, left, workplace

pytestmark = pytest.mark.slow

_DIES: Final = """
import os, signal, sys
from datetime import datetime, timedelta
from filrouge.runtime import wiring
from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.capture.events import Event
from filrouge.testing import StableHash, idle

home, minutes, texts = sys.argv[1], float(sys.argv[2]), sys.argv[3:]

class Later(SystemClock):
    def now(self) -> datetime:
        return super().now() + timedelta(minutes=minutes)

class Deadly(StableHash):
    def passages(self, texts):
        if any("deadly" in text for text in texts):
            signal.raise_signal(signal.SIGSEGV)
        return super().passages(texts)

running = wiring.start(home, clock=Later(), embedder_factories={"hashing": Deadly}, environ=dict(os.environ))
at = running.parts.clock.now().timestamp()
events = [Event(f"e{n}", "codex", "reply", "s", at, f"k{n}", "", (), "", "", {"text": t}) for n, t in enumerate(texts)]
store_events(running.parts, events).result(60)
idle(running.parts, 20)
running.stop()
"""


def test_what_kills_every_process_that_touches_it_is_set_aside_and_the_rest_is_done(home: str) -> None:
    texts = ["one", "two deadly words", "three", "four"]
    codes: list[int] = []
    while 0 not in codes and len(codes) < 2 * MAX_DEATHS:
        asked = [sys.executable, "-c", _DIES, home, str(5 * len(codes)), *(texts if not codes else [])]
        codes.append(subprocess.run(asked, env=environment(home), cwd=workplace(home), check=False).returncode)
    assert codes == [-signal.SIGSEGV] * MAX_DEATHS + [0]
    found = left(home)
    assert [(job["kind"], job["state"], job["error"]) for job in found.jobs] == [
        ("index_turn", "dead", TOO_MANY_DEATHS)
    ]
    assert {event["state"] for event in found.events} == {"done"}
