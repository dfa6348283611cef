"""An import whose daemon is killed again and again comes to what an undisturbed one comes to: each message once."""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.histories import long_history

from .processes import EXECUTABLE, assert_sound, environment, eventually, is_up, kill, lock_holder, run, servers, status

SESSIONS, MESSAGES, KILLS = 12, 300, 4


@pytest.mark.slow
def test_an_import_whose_daemon_is_killed_is_taken_up_again_and_doubles_nothing(home: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("FILROUGE_SEED") or secrets.randbelow(1 << 32))
    print(f"seed {seed}")
    chance, total = random.Random(seed), long_history(tmp_path, SESSIONS, MESSAGES)
    words = ("import", "claude-code", "--from", str(tmp_path), "--json")
    kills, ended = 0, -1
    while ended != 0:
        with subprocess.Popen(
            [EXECUTABLE, *words], env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None and kills < KILLS:
                time.sleep(chance.uniform(0.1, 0.6))
                kills += kill(lock_holder(home))
            ended = process.wait(120)
    print(f"{kills} kills")
    again = run(home, *words, timeout=120)
    assert again.code == 0, again.err
    assert json.loads(again.out)["turns"]["added"] == 0
    eventually("the daemon answers", lambda: is_up(home))
    assert kills >= 1  # a fast machine may be done before the last
    assert status(home)["turns"] == total
    for pid in servers(home):
        kill(pid)
    assert_sound(home)
