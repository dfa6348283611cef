"""An event that a hook cannot write because the disk is full is counted, and the user is told."""

from __future__ import annotations

import json
import os

from filrouge.core.paths import LOST_EVENTS, inside

from .processes import daemon, eventually, hook, prompt, run, tiny_disk


def test_events_lost_to_a_full_disk_are_counted_and_said_with_and_without_a_daemon(home: str) -> None:
    with tiny_disk(home) as fill:
        with daemon(home):
            eventually("there is a record", lambda: os.path.exists(inside(home, LOST_EVENTS)))
            assert "Lost events" not in run(home, "status").out
        fill()
        for number in ("p1", "p2"):
            ended = hook(home, prompt(home, "s", number, "The kiosk listens on port 19032."))
            assert (ended.code, ended.out, ended.err) == (0, "", "")
        said = "could not keep 2 events"
        for command in ("status", "health"):
            assert said in " ".join(run(home, command).out.split())
        assert json.loads(run(home, "status", "--json").out)["lost"] == 2
        os.unlink(inside(home, "filler"))
        with daemon(home):
            for command in ("status", "health"):
                assert said in " ".join(run(home, command).out.split())
