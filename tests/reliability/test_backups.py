"""Backups with real processes: made while agents write, restored into empty homes, killed at every step.

A backup under load is one moment of its source: what was acknowledged before it began is in it, and what it holds is
proven by its own hash. The longer form, with fifty backups and its figures, is `bench/backups.py`.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import apsw
import pytest

from filrouge.capture.events import Event
from filrouge.core import paths as places
from filrouge.core.clock import SystemClock
from filrouge.daemon import client
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_service import back_up
from filrouge.runtime.wiring import bring_up_to_date
from tests.support.tiers import is_proof

from .processes import (
    assert_sound,
    daemon,
    environment,
    eventually,
    is_up,
    kill,
    lock_holder,
    quiet,
    run,
    status,
    throw_away_home,
    tiny_disk,
)
from .test_full_disk import deliver

pytestmark = pytest.mark.slow

BACKUPS: Final = 4 if is_proof() else 2
ROOMS: Final = 12

#: Restores or backs up in a process that ends itself, as `kill -9` would, at its N-th step on the disk.
_SUICIDE: Final = """
import os, signal, sys
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.restore import restore
from filrouge.core.clock import SystemClock
STEPS = ("open", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "apsw.Connection", "os.truncate")
print("ready", flush=True)
for line in sys.stdin:
    what, home, word, number = line.split("\\t")
    if os.fork() == 0:
        left = [int(number)]
        def step(event, _):
            if event in STEPS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(step)
        restore(home, word, SystemClock()) if what == "restore" else back_up(home, "hand", SystemClock().now())
        os._exit(0)
    print(os.wait()[1], flush=True)
"""


def ask(home: str, question: str) -> list[tuple[str, str]]:
    """The ids and words of what a search finds."""
    reply = client.request(home, "POST", "/search", {"query": question, "k": 3}, 10.0)
    assert reply.status == 200, reply
    return [(one["id"], one["content"]) for one in reply.body["results"]]


def tell(home: str) -> None:
    items = [{"text": f"Server number{n} stands in room {n}"} for n in range(ROOMS)]
    assert client.request(home, "POST", "/api/memory/facts", {"items": items, "scope": "user"}, 10.0).status < 300


@contextmanager
def writers(home: str, count: int = 3) -> Generator[list[int]]:
    """Clients that hand short replies over without a pause; the numbers of those that were acknowledged."""
    done, ending = list[int](), threading.Event()

    def write(which: int) -> None:
        for number in range(which, 1 << 30, count):
            if ending.is_set():
                return
            said = Event(
                f"event-{number}", "claude-code", "reply", f"s{which}", time.time(), f"prompt:{number}", "", (), "", "",
                {"text": f"Step {number} of the long migration is done and checked."},
            )  # fmt: skip
            if client.request(home, "POST", "/hooks/events", {"events": [said.to_json()]}, 10.0).status == 200:
                done.append(number)

    threads = [threading.Thread(target=write, args=(which,)) for which in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ending.set()
        for thread in threads:
            thread.join()


def keys(path: str) -> set[int]:
    """The numbers of the events that a database holds."""
    connection: Any = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {int(key.removeprefix("prompt:")) for (key,) in connection.execute("select key from events")}
    finally:
        connection.close()


@pytest.mark.law
def test_backups_under_load_restore_into_empty_homes_and_answer_the_same(home: str) -> None:
    with daemon(home):
        tell(home)
        eventually("the facts have their vectors", lambda: quiet(home))
        asked = [f"in which room is server number{n}?" for n in range(ROOMS)]
        answers = [ask(home, question)[0] for question in asked]
        made = list[tuple[dict[str, Any], set[int]]]()
        with writers(home) as acknowledged:
            for _ in range(BACKUPS):
                before = set(acknowledged)
                done = run(home, "backup", "--json")
                assert (done.code, done.err) == (0, "")
                made.append((json.loads(done.out), before))
        assert len({one["hash"] for one, _ in made}) == BACKUPS
        for about, before in made:
            path = backup_files.path_of(home, about["name"])
            assert before - keys(path) == set()
            with throw_away_home() as empty:
                done = run(empty, "restore", path, "--yes", "--json")
                assert (done.code, json.loads(done.out)["verified"]) == (0, about["verified"]), done
                assert copies.content(os.path.join(empty, places.DATABASE)).hash == about["hash"]
                with daemon(empty):
                    eventually("it has its indexes", lambda where=empty: bool(status(where).get("index_ready")))
                    assert [ask(empty, question)[0] for question in asked] == answers


def test_a_quiet_memory_answers_to_the_letter_what_it_did(home: str) -> None:
    with daemon(home):
        tell(home)
        eventually("the facts have their vectors", lambda: quiet(home))
        body = {"query": "in which room is server number7?", "k": 10}
        before = client.request(home, "POST", "/search", body, 10.0).body["results"]
        assert run(home, "backup").code == 0
        assert run(home, "remember", "Server number7 stands in room 70 now").code == 0
        replaced = run(home, "restore", "latest", "--yes")
        assert (replaced.code, replaced.err) == (0, "")
        assert "What was there is kept" in replaced.out
        eventually("the next daemon answers", lambda: is_up(home) and quiet(home))
        assert client.request(home, "POST", "/search", body, 10.0).body["results"] == before
    kill(lock_holder(home))


@pytest.fixture
def two(home: str) -> tuple[str, str, set[str]]:
    """A home whose memory differs from its backup: the home, the backup's name, the hashes of both."""
    with daemon(home):
        tell(home)
        eventually("the facts have their vectors", lambda: quiet(home))
        made = json.loads(run(home, "backup", "--json").out)
        assert run(home, "remember", "the kiosk service listens on port 19032").code == 0
        eventually("it is understood", lambda: quiet(home))
    eventually("the daemon is gone", lambda: lock_holder(home) == 0)
    now = copies.content(os.path.join(home, places.DATABASE)).hash
    return home, made["name"], {made["hash"], now}


@contextmanager
def suicides(home: str) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _SUICIDE],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.communicate()


def ended(process: subprocess.Popen[str], *words: object) -> int:
    """How one attempt ended: 0, or the signal."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\t".join(map(str, words)) + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_a_restore_killed_at_any_step_leaves_the_old_memory_or_the_new_whole(
    two: tuple[str, str, set[str]],
) -> None:
    home, name, either = two
    path = os.path.join(home, places.DATABASE)
    original = f"{home}-original.db"
    copies.copy(path, original)
    os.makedirs(os.path.join(home, places.WORD_INDEXES), exist_ok=True)
    found, number = list[str](), 0
    with suicides(home) as process:
        while True:
            number += 1
            code = ended(process, "restore", home, name, number)
            bring_up_to_date(home, SystemClock())
            found.append(copies.content(path).hash)
            assert not [file for file in os.listdir(home) if file.startswith(".new-") or file.endswith(".next")]
            if code == 0:
                break
            assert code == signal.SIGKILL
            if found[-1] != copies.content(original).hash:
                for suffix in ("", "-wal", "-shm"):
                    if os.path.exists(path + suffix):
                        os.unlink(path + suffix)
                copies.copy(original, path)
    print(f"{number - 1} kills, {len(set(found))} outcomes")
    assert number > 15
    assert set(found) == either
    assert_sound(home)


def test_a_backup_killed_at_any_step_or_moment_is_no_backup_and_the_next_one_is(
    two: tuple[str, str, set[str]],
) -> None:
    home, first, _ = two
    number = 0
    with suicides(home) as process:
        while True:
            number += 1
            code = ended(process, "backup", home, "", number)
            if code == 0:
                break
            assert code == signal.SIGKILL
    seed = int(os.environ.get("FILROUGE_SEED") or secrets.randbelow(1 << 32))
    print(f"{number - 1} kills at steps; seed {seed}")
    chance = random.Random(seed)
    for _ in range(5):
        words = [sys.executable, "-m", "filrouge.maintenance.backup_service", home, "hand", "2026-01-01T00:00:00Z"]
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 0.8))
        child.kill()
        child.wait()
    assert number > 8
    for one in backup_files.list_backups(home):
        assert copies.content(backup_files.path_of(home, one.name)).hash == one.hash
    assert back_up(home, "hand", SystemClock().now()).hash == backup_files.list_backups(home)[0].hash
    names = {one.name for one in backup_files.list_backups(home)}
    assert first in names
    assert {
        file.rpartition(".")[0] for file in os.listdir(backup_files.backup_directory(home)) if file != ".lock"
    } == names


def test_a_backup_without_room_is_refused_said_and_keeps_nobody_from_capturing(home: str) -> None:
    with tiny_disk(home), daemon(home):
        assert deliver(home, 1) == 1
        told = run(home, "backup")
        assert (told.code, told.out) == (7, "")
        assert "are reserved for capture" in told.err
        assert deliver(home, 2) == 2
        assert "are reserved for capture" in status(home)["backups"]["failed"]["error"]
        checked = run(home, "doctor", "--json")
        found = {one["check"]: one for one in json.loads(checked.out)}
        assert (checked.code, found["Backups"]["state"]) == (1, "fail")
        assert os.listdir(backup_files.backup_directory(home)) == [".lock"]


def test_restoring_says_what_it_would_do_and_needs_a_word(home: str) -> None:
    with daemon(home):
        tell(home)
        eventually("the facts have their vectors", lambda: quiet(home))
        assert run(home, "backup").code == 0
        refused = run(home, "restore", "latest")
        assert (refused.code, refused.out) == (2, "")
        assert "--yes" in refused.err
        tried = run(home, "restore", "latest", "--dry-run")
        assert (tried.code, tried.err) == (0, "")
        assert tried.out.endswith("Nothing was changed.\n")
        missing = run(home, "restore", "20200101T000000Z-hand", "--yes")
        assert (missing.code, missing.out) == (1, "")
        listed = run(home, "backup", "--list").out.splitlines()
        assert len(listed) == 1
        assert "equal, sound, seals, journal" in listed[0]
        assert is_up(home)


def test_a_daemon_that_is_asked_to_leave_gives_its_backup_up(home: str) -> None:
    with daemon(home):
        tell(home)
        asked = subprocess.Popen(
            [sys.executable, "-m", "filrouge.cli.main", "backup"],
            env=environment(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually("it is begun", lambda: os.path.isdir(backup_files.backup_directory(home)))
        assert run(home, "daemon", "stop").code == 0
        asked.wait(30)
    for one in backup_files.list_backups(home):
        assert copies.content(backup_files.path_of(home, one.name)).hash == one.hash


def test_a_damaged_memory_is_told_repaired_and_served_again(home: str) -> None:
    with daemon(home):
        tell(home)
        eventually("the facts have their vectors", lambda: quiet(home))
    path = os.path.join(home, places.DATABASE)
    connection: Any = apsw.Connection(path)
    (page,) = connection.execute("select pageno from dbstat where name = 'turns_by_session'").fetchone()
    connection.close()
    with open(path, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))
    found = {one["check"]: one for one in json.loads(run(home, "doctor", "--json").out)}
    assert found["Database"]["state"] == "fail"
    assert "filrouge repair" in found["Database"]["remedy"]
    refused = run(home, "repair")
    assert (refused.code, refused.out) == (2, "")
    done = run(home, "repair", "--yes", "--json")
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    assert said["tables"]["memories"] == {"saved": ROOMS, "unreadable": 0, "refused": 0, "orphaned": 0, "remade": 0}
    assert os.path.exists(backup_files.path_of(home, said["kept"]))
    assert run(home, "repair", "--yes").out == "Nothing is wrong.\n"
    with daemon(home):
        eventually("it has its indexes", lambda: bool(status(home).get("index_ready")))
        assert ask(home, "in which room is server number7?")[0][1] == "Server number7 stands in room 7"
    assert_sound(home)
