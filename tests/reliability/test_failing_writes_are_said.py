"""A daemon that cannot write says so in `status`, `daemon status` and `health`, with the reason and the way out."""

from __future__ import annotations

import json
import os

from filrouge.daemon import client

from .processes import daemon, eventually, run, tiny_disk


def test_a_full_disk_is_said_until_there_is_space_again(home: str) -> None:
    with tiny_disk(home) as fill, daemon(home):
        assert client.request(home, "GET", "/daemon/health").body["writes"]["works"]
        fill()
        seen = run(home, "health")  # before anything was told
        assert seen.code == 1
        assert "No space left on device" in seen.out
        assert "Free some space" in seen.out
        eventually("a write is refused", lambda: run(home, "remember", "the kiosk listens on port 19032").code == 7)
        for words in (("status",), ("daemon", "status")):
            said = " ".join(run(home, *words).out.split())
            assert "Nothing new is stored" in said
            assert "Free some space" in said
        found = json.loads(run(home, "health", "--json").out)
        assert (found["status"], found["writes"]["works"]) == ("warn", False)
        os.unlink(os.path.join(home, "filler"))
        eventually("it can be told again", lambda: run(home, "remember", "the ferry listens on port 19033").code == 0)
        eventually("all is well", lambda: client.request(home, "GET", "/daemon/health").body["writes"]["works"])
        assert "Nothing new is stored" not in run(home, "status").out
