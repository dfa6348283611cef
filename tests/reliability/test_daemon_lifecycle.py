"""A daemon comes to life once, serves one home, and leaves nothing behind but its memory.

Whoever misses it starts it, many at once: the lock elects one. However it is asked to end, it finishes what it
began, empties the write-ahead log and takes its socket with it. Versions meet, settings and switches are obeyed at
once, and nothing it writes is for anybody else's eyes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import apsw
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import unix_connect

from filrouge._version import __version__
from filrouge.core import paths as places
from filrouge.daemon import client
from filrouge.daemon.process import log_to_file
from filrouge.daemon.starting import STARTING
from tests.support.tiers import is_proof

from .processes import (
    PATIENCE,
    Done,
    Stub,
    assert_sound,
    environment,
    eventually,
    hook,
    is_up,
    kill,
    left,
    lock_holder,
    prompt,
    quiet,
    run,
    servers,
    session_start,
    spooled,
    status,
    throw_away_home,
)
from .processes import (
    started_daemon as daemon,
)

pytestmark = pytest.mark.slow

SAID = "the almanac service listens on port 19031"
STARTS = 20 if is_proof() else 6


@pytest.mark.law
def test_many_starts_at_once_make_one_daemon(home: str) -> None:
    places.make_private(home)
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "filrouge.server"],
            env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for _ in range(STARTS)
    ]  # fmt: skip
    try:
        eventually("all but one have left", lambda: sum(one.poll() is None for one in racers) == 1, 60)
        eventually("the one answers", lambda: is_up(home))
        (winner,) = (one for one in racers if one.poll() is None)
        assert sorted(one.returncode for one in racers if one is not winner) == [5] * (STARTS - 1)
        assert winner.pid == lock_holder(home) == status(home)["pid"]
    finally:
        for one in racers:
            one.kill()
            one.wait()


def test_twenty_hooks_that_miss_the_daemon_get_one_and_lose_nothing(home: str) -> None:
    def miss(number: int) -> Done:
        return hook(home, prompt(home, f"s{number}", f"p{number}", f"{SAID}{number}"))

    with ThreadPoolExecutor(20) as pool:
        ends = list(pool.map(miss, range(20)))
    assert {(end.code, end.err) for end in ends} == {(0, "")}
    promised = sum(end.seconds < 0.85 for end in ends)
    eventually("one daemon has taken everything in", lambda: quiet(home))
    assert status(home)["pid"] == lock_holder(home)
    assert status(home)["events"] >= promised


@pytest.mark.parametrize("way", ["SIGTERM", "SIGINT", "SIGHUP", "daemon stop"])
def test_it_ends_in_order_however_it_is_asked(home: str, way: str) -> None:
    with daemon(home) as one:
        hook(home, prompt(home, "s", "p1", SAID))
        if way == "daemon stop":
            ended = run(home, "daemon", "stop")
            assert (ended.code, ended.err) == (0, "")
        else:
            one.send_signal(signal.Signals[way])
        assert one.wait(PATIENCE) == 0
    names = set(os.listdir(home))
    assert names & {places.SOCKET, places.RUNTIME, places.FAILURE, STARTING} == set()
    wal = places.inside(home, places.DATABASE + "-wal")
    assert not os.path.exists(wal) or os.path.getsize(wal) == 0
    assert [job for job in left(home).jobs if job["state"] == "running"] == []
    assert len(left(home).events) + len(spooled(home)) == 1


def test_a_lease_that_a_killed_daemon_held_is_taken_over_at_once(home: str) -> None:
    with daemon(home):
        hook(home, prompt(home, "s", "p1", SAID))
        eventually("it is understood", lambda: quiet(home))
    connection: Any = apsw.Connection(places.inside(home, places.DATABASE))
    turn = left(home).turns[0]["id"]
    connection.execute(
        "insert into jobs (id, kind, dedupe_key, payload, state, attempts, created_at, run_at, lease_until, worker)"
        " values ('j', 'index_turn', 'd', ?, 'running', 1, '2026', '2026', '2999-01-01T00:00:00.000000Z', 'worker-1')",
        (json.dumps({"turn": turn}),),
    )
    connection.close()
    with daemon(home):
        eventually("the job is done", lambda: quiet(home), 10)


def test_everything_is_for_this_user_alone_whatever_the_umask(home: str) -> None:
    before = os.umask(0)
    try:
        with daemon(home):
            hook(home, prompt(home, "s", "p1", SAID))
            hook(home, session_start(home, "s"))
            eventually("it is understood", lambda: quiet(home))
            assert hook(home, prompt(home, "s", "p2", SAID), FILROUGE_URL="http://127.0.0.1:9").code == 0
            found = {path: stat.S_IMODE(os.lstat(path).st_mode) for path in everything(home)}
    finally:
        os.umask(before)
    open_to_others = {path: oct(mode) for path, mode in found.items() if mode & 0o077}
    assert open_to_others == {}
    assert found[home] == 0o700
    assert found[places.socket_path(home)] == 0o600
    assert {places.inside(home, n) for n in (places.DATABASE, places.LOG, places.HOOK_SETTINGS)} <= set(found)


def test_a_log_that_is_rotated_stays_private(home: str) -> None:
    places.make_private(home)
    with open(places.inside(home, places.LOG), "wb") as file:
        file.truncate(2_000_000 - 10)
    before = os.umask(0)
    try:
        with daemon(home):
            eventually("the log was rotated", lambda: os.path.exists(places.inside(home, places.LOG + ".1")))
            assert stat.S_IMODE(os.stat(places.inside(home, places.LOG)).st_mode) == 0o600
    finally:
        os.umask(before)


def test_the_log_keeps_three_old_files_of_two_megabytes(home: str) -> None:
    places.make_private(home)
    kept = logging.root.handlers[:], logging.root.level
    try:
        log_to_file(home)
        (handler,) = logging.root.handlers
        assert isinstance(handler, RotatingFileHandler)
        assert (handler.maxBytes, handler.backupCount) == (2_000_000, 3)
        handler.close()
    finally:
        logging.root.handlers[:], level = kept
        logging.root.setLevel(level)


def test_a_home_too_deep_for_a_socket_works_like_any_other() -> None:
    with throw_away_home() as root:
        deep = os.path.join(root, *["a" * 40] * 4)
        try:
            with daemon(deep):
                assert len(places.socket_path(deep)) < places.MAX_SOCKET_PATH < len(deep)
                assert run(deep, "remember", SAID).code == 0
                assert "19031" in run(deep, "facts").out
            assert not os.path.exists(places.socket_path(deep))
        finally:
            kill(lock_holder(deep))


def test_a_newer_hook_sends_an_older_daemon_away_and_starts_its_own(home: str) -> None:
    older = Stub(home, "0.0.1")
    try:
        ended = hook(home, prompt(home, "s", "p1", SAID))
        assert (ended.code, ended.err) == (0, "")
        eventually("it was asked to make room", lambda: "/daemon/drain" in older.heard)
        eventually("our own daemon runs", lambda: status(home).get("version") == __version__)
    finally:
        older.close()
    assert status(home)["pid"] == lock_holder(home)


def test_a_successor_waits_for_the_daemon_that_makes_room(home: str) -> None:
    with daemon(home) as older:
        runtime = places.inside(home, places.RUNTIME)
        facts = json.loads(Path(runtime).read_text(encoding="utf-8"))
        Path(runtime).write_text(json.dumps({**facts, "version": "0.0.1"}), encoding="utf-8")
        client.start(home, client.SUCCESSOR)
        eventually("the successor has been started", lambda: len(servers(home)) == 2)
        assert lock_holder(home) == older.pid
        older.terminate()
        assert older.wait(PATIENCE) == 0
        eventually("the successor serves", lambda: lock_holder(home) not in (0, older.pid) and is_up(home))


def test_an_older_hook_is_served_by_a_newer_daemon(home: str) -> None:
    newer = Stub(home, "999.0.0")
    try:
        ended = hook(home, prompt(home, "s", "p1", SAID))
        assert (ended.code, ended.err) == (0, "")
        assert newer.heard == ["/hooks/input", "/hooks/events"]
        assert spooled(home) == []
        assert lock_holder(home) == 0
    finally:
        newer.close()


@pytest.mark.parametrize("switch", ["FILROUGE_DISABLED", "FILROUGE_INTERNAL"])
def test_a_switched_off_hook_writes_nothing_and_starts_nobody(home: str, switch: str) -> None:
    for payload in (session_start(home, "s"), prompt(home, "s", "p1", SAID)):
        ended = hook(home, payload, **{switch: "1"})
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert not os.path.exists(home)


def test_capture_that_is_switched_off_ends_at_once_even_without_a_daemon(home: str) -> None:
    with daemon(home):
        assert run(home, "settings", "auto_capture", "false").code == 0
        before = status(home)["events"]
        silent = hook(home, prompt(home, "s", "p1", SAID))
        assert (silent.code, silent.out, status(home)["events"]) == (0, "", before)
    files = everything(home)
    hook(home, prompt(home, "s", "p2", SAID))
    assert everything(home) == files


@pytest.mark.parametrize("name", ["short name", "id"])
def test_a_project_that_is_switched_off_is_not_captured_and_others_are(home: str, name: str) -> None:
    other = os.path.join(os.path.dirname(home), "atelier")
    os.makedirs(other)
    with daemon(home):
        hook(home, prompt(home, "s", "p1", SAID))
        eventually("the project is known", lambda: len(status(home)["projects"]) == 1)
        (project,) = status(home)["projects"]
        said = project["name"] if name == "short name" else project["id"]
        assert project["name"] == "shop"
        assert run(home, "settings", "disabled_projects", said).code == 0
        hook(home, prompt(home, "s", "p2", "the kiosk service listens on port 19032"))
        hook(home, prompt(home, "t", "p3", "the ferry service listens on port 19033") | {"cwd": other})
        eventually("it is understood", lambda: quiet(home))
    assert [row["key"] for row in left(home).events] == ["prompt:p1", "prompt:p3"]


def log_of_recalls(home: str) -> int:
    return len(client.request(home, "GET", "/api/memory/retrievals").value)


def test_retrieval_that_is_switched_off_injects_and_logs_nothing(home: str) -> None:
    question = "which port does the almanac service listen on, please?"
    with daemon(home):
        hook(home, prompt(home, "s", "p1", SAID))
        eventually("it is understood", lambda: quiet(home))
        assert "19031" in hook(home, prompt(home, "t", "p2", question)).out
        # The log is written behind the answer, so that nobody waits for it.
        eventually("the recall is logged", lambda: log_of_recalls(home) > 0)
        logged = log_of_recalls(home)
        assert run(home, "settings", "auto_retrieve_enabled", "false").code == 0
        assert hook(home, prompt(home, "t", "p3", question)).out == ""
        assert hook(home, session_start(home, "t")).out == ""
        eventually("it is understood", lambda: quiet(home))
        assert status(home)["events"] == 4
    assert len(left(home).recalls) == logged


def test_an_address_where_nobody_is_means_the_spool_and_no_daemon_here(home: str) -> None:
    ended = hook(home, prompt(home, "s", "p1", SAID), FILROUGE_URL="http://127.0.0.1:9")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert [event["key"] for event in spooled(home)] == ["prompt:p1"]
    assert lock_holder(home) == 0
    assert servers(home) == []


def test_a_daemon_killed_a_moment_ago_is_started_again_by_the_next_command(home: str) -> None:
    assert run(home, "daemon", "start").code == 0
    first = lock_holder(home)
    assert kill(first)
    began = time.monotonic()
    assert run(home, "recall", "anything").code == 0
    assert lock_holder(home) not in (0, first)
    assert time.monotonic() - began < 60
    assert run(home, "daemon", "stop").code == 0
    eventually("it has tidied up and left", lambda: lock_holder(home) == 0)
    assert_sound(home)


def test_a_daemon_that_was_sent_for_and_comes_too_late_leaves_again(home: str) -> None:
    places.make_private(home)
    late = [sys.executable, "-m", "filrouge.server", client.STARTED_BY_CLIENT]
    assert subprocess.run(late, env=environment(home), timeout=60, check=False).returncode == 0
    assert (lock_holder(home), servers(home)) == (0, [])


def everything(home: str) -> set[str]:
    return {home, *(str(path) for path in Path(home).rglob("*"))}


def test_a_daemon_that_leaves_says_goodbye_to_its_sockets_and_waits_for_none_that_reads_nothing(home: str) -> None:
    with (
        daemon(home) as served,
        unix_connect(places.socket_path(home), "ws://filrouge/ws") as stuck,
        unix_connect(places.socket_path(home), "ws://filrouge/ws") as live,
    ):
        assert json.loads(live.recv(PATIENCE))["type"] == "ws:hello"
        sent = list[int]()

        def ask_and_never_read() -> None:
            with suppress(ConnectionClosed):
                while True:
                    stuck.send('{"subscribe": []}')
                    sent.append(1)

        asking = threading.Thread(target=ask_and_never_read)
        asking.start()
        eventually("the daemon takes no more of it", lambda: _rests(sent))
        assert client.request(home, "POST", "/daemon/stop", None, PATIENCE).status == 200
        with pytest.raises(ConnectionClosed) as closed:
            live.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert served.wait(PATIENCE) == 0
        asking.join()


def _rests(sent: list[int]) -> bool:
    before = len(sent)
    time.sleep(0.5)
    return 0 < before == len(sent)
