"""A command in trouble says in one line what is wrong and what to do, and its exit code says it to a script.

0 ok · 1 found a problem · 2 usage · 3 daemon unreachable · 5 busy · 6 damaged store or newer schema · 7 cannot
write. With `--json` the line is one JSON object. A daemon that cannot start leaves its reason in the home, and
the command that waited for it tells that reason instead of "did not start".
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core import paths as places
from tests.support.schemas import ADVICE, TOO_OLD, kept_home, made_older

from .processes import (
    Done,
    assert_sound,
    daemon,
    environment,
    eventually,
    is_up,
    left,
    lock_holder,
    quiet,
    run,
    tiny_disk,
)

pytestmark = pytest.mark.slow

SAID = "the almanac service listens on port 19031"


def assert_told(ended: Done, code: int, *words: str) -> None:
    """One line on stderr with these words, nothing on stdout, that exit code."""
    assert (ended.code, ended.out) == (code, ""), ended
    assert ended.err.count("\n") == 1, ended.err
    assert [word for word in words if word not in ended.err] == [], ended.err


def assert_told_as_json(ended: Done, code: int, error: str) -> None:
    assert (ended.code, ended.out) == (code, ""), ended
    document = json.loads(ended.err)
    assert set(document) == {"error", "detail", "remedy"}
    assert document["error"] == error
    assert document["remedy"]


@pytest.mark.parametrize("words", [("status",), ("daemon", "status")])
def test_a_status_without_a_daemon_is_3_and_starts_none(home: str, words: tuple[str, ...]) -> None:
    ended = run(home, *words)
    assert (ended.code, ended.err) == (3, "")
    assert "Stopped" in ended.out
    asked = run(home, *words, "--json")
    told = json.loads(asked.out)
    assert told.pop("starting", False) is False
    assert told.pop("lost", 0) == 0
    assert (asked.code, told) == (3, {"running": False, "home": home})
    assert lock_holder(home) == 0


def test_a_home_that_cannot_be_written_is_7(home: str) -> None:
    blocked = os.path.join(os.path.dirname(home), "file")
    with open(blocked, "wb"):
        pass
    place = os.path.join(blocked, "home")
    assert_told(run(home, "recall", "anything", FILROUGE_HOME=place), 7, "cannot be written", "writable")
    assert_told_as_json(run(home, "recall", "anything", "--json", FILROUGE_HOME=place), 7, "CannotWrite")
    assert run(home, "daemon", "start", FILROUGE_HOME=place).code == 7


def test_a_second_daemon_is_5_at_once_and_the_first_goes_on(home: str) -> None:
    with daemon(home) as first:
        done = subprocess.run(
            [sys.executable, "-m", "filrouge.server"],
            env=environment(home),
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stderr.count(b"\n")) == (5, 1)
        assert b"already running" in done.stderr
        assert is_up(home)
        assert first.poll() is None
        assert run(home, "remember", SAID).code == 0
        assert not os.path.exists(places.inside(home, places.FAILURE))


@pytest.mark.parametrize("words", [("daemon", "start"), ("recall", "anything"), ("remember", SAID)])
def test_a_damaged_database_is_6_and_is_left_as_it_is(home: str, words: tuple[str, ...]) -> None:
    places.make_private(home)
    path = places.inside(home, places.DATABASE)
    garbage = b"\xa5" * 8192
    with open(path, "wb") as file:
        file.write(garbage)
    assert_told(run(home, *words), 6, "damaged", "filrouge repair")
    with open(path, "rb") as file:
        assert file.read() == garbage
    assert lock_holder(home) == 0


def test_a_damaged_database_is_told_as_json_and_forgotten_once_it_is_mended(home: str) -> None:
    places.make_private(home)
    path = places.inside(home, places.DATABASE)
    with open(path, "wb") as file:
        file.write(b"\xa5" * 8192)
    assert_told_as_json(run(home, "facts", "--json"), 6, "Corrupt")
    with open(places.inside(home, places.FAILURE), encoding="utf-8") as file:
        word = json.load(file)
    assert set(word) == {"error", "message", "remedy", "exit_code"}
    assert (word["error"], word["exit_code"]) == ("Corrupt", 6)
    os.unlink(path)
    assert run(home, "facts").code == 0
    assert not os.path.exists(places.inside(home, places.FAILURE))


def test_a_schema_of_a_newer_filrouge_is_6_and_nothing_is_changed(home: str) -> None:
    with daemon(home):
        assert run(home, "remember", SAID).code == 0
        eventually("it is understood", lambda: quiet(home))
    path = places.inside(home, places.DATABASE)
    connection: Any = apsw.Connection(path)
    connection.execute("insert into schema_migrations values (9999, 'later', '2030-01-01T00:00:00.000000Z')")
    connection.close()
    assert_told(run(home, "recall", "almanac"), 6, "newer Filrouge", "9999", "pip install --upgrade")
    assert [row["text"] for row in left(home).memories] == [SAID]


def test_a_schema_from_before_the_baseline_is_6_with_the_way_out_and_nothing_is_changed(home: str) -> None:
    places.make_private(home)
    path = places.inside(home, places.DATABASE)
    os.replace(kept_home(Path(home) / "kept"), path)
    content = made_older(path)
    assert_told(run(home, "recall", "shop"), 6, path, "older Filrouge", f"schema {TOO_OLD}", *ADVICE)
    assert Path(path).read_bytes() == content


def test_what_does_not_exist_is_named(home: str) -> None:
    with daemon(home):
        assert_told(run(home, "settings", "auto_captur", "false"), 2, "auto_captur", "auto_capture")
        assert_told_as_json(run(home, "settings", "nothing", "1", "--json"), 2, "BadConfig")
        assert_told(run(home, "settings", "budget", "many"), 2, "budget")
        assert_told(run(home, "why", "nobody"), 1, "nobody", "filrouge facts")
        assert_told_as_json(run(home, "why", "nobody", "--json"), 1, "NotFound")
        assert run(home, "recall").code == 2
        assert run(home, "--nothing").code == 2


def test_a_daemon_that_hangs_is_3_in_time_and_is_not_called_stopped(home: str) -> None:
    with daemon(home) as one:
        one.send_signal(signal.SIGSTOP)
        asked = ("status",), ("daemon", "status"), ("daemon", "stop"), ("daemon", "start")
        with ThreadPoolExecutor(len(asked)) as at_once:
            for ended in [one.result() for one in [at_once.submit(run, home, *words) for words in asked]]:
                assert_told(ended, 3, "did not answer", "daemon.json")
                assert ended.seconds < 12
        one.send_signal(signal.SIGCONT)
        eventually("it leaves, as it was told to meanwhile", lambda: one.poll() == 0)
        assert run(home, "status").code == 3


def test_a_full_disk_is_7_for_what_would_be_stored_and_loses_nothing(home: str) -> None:
    with tiny_disk(home) as fill:
        with daemon(home):
            assert run(home, "remember", SAID).code == 0
            fill()
            refused = [run(home, "remember", f"the kiosk-{n} service listens on port {9000 + n}") for n in range(8)]
            told = [ended for ended in refused if ended.code]
            assert told
            assert_told(told[-1], 7, "Free some space")
            os.unlink(os.path.join(home, "filler"))
            assert run(home, "remember", "the ferry service listens on port 19033").code == 0
            eventually("it is understood", lambda: quiet(home))
        kept = [row["text"] for row in left(home).memories]
        assert len(kept) == 2 + len(refused) - len(told)
        assert {SAID, "the ferry service listens on port 19033"} <= set(kept)
        assert_sound(home)


def test_no_daemon_can_start_on_a_full_disk_and_the_command_says_7(home: str) -> None:
    with tiny_disk(home) as fill:
        fill()
        assert_told(run(home, "daemon", "start"), 7, "Free some space")
        assert [name for name in os.listdir(home) if name.startswith(".probe")] == []


def test_a_command_that_works_is_0(home: str) -> None:
    with daemon(home):
        told = run(home, "remember", SAID, "--json")
        (action,) = json.loads(told.out)["actions"]
        asked = (("status",), ("facts",), ("rules",), ("recall", "almanac"), ("search", "almanac"), ("settings",))
        for words in (*asked, ("why", action["id"]), ("daemon", "status"), ("daemon", "start")):
            ended = run(home, *words)
            assert (ended.code, ended.err) == (0, ""), words
            assert json.loads(run(home, *words, "--json").out) is not None
        assert run(home, "daemon", "stop").code == 0
    assert run(home, "daemon", "stop").code == 0
