"""Nothing that happens to Filrouge reaches the agent: every hook ends with 0, soon, and says nothing but JSON.

A matrix of real hook processes: both hosts, the three moments that an agent waits for, and everything that can be
wrong with the daemon, its socket, the home, the disk and the input. After each trouble what was acknowledged before
is still there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest

from filrouge.capture.events import MAX_TEXT_CHARACTERS
from filrouge.core import paths as places
from tests.support.tiers import is_proof

from .processes import (
    Done,
    Row,
    Stub,
    assert_sound,
    daemon,
    eventually,
    hook,
    kill,
    left,
    lock_holder,
    prompt,
    quiet,
    reply,
    session_start,
    spooled,
    tiny_disk,
)

pytestmark = pytest.mark.slow

#: The promise is one second; the machine that tests may have other work.
#: The alarm ends a hook at 0.9 s; the rest is room for a machine that tests other things at the same time.
LONGEST_SECONDS = 5.0
BEFORE = "the almanac service listens on port 19031"
MOMENTS = ("SessionStart", "UserPromptSubmit", "Stop")
Trouble = Callable[[str], AbstractContextManager[object]]


def moment(home: str, name: str) -> Row:
    if name == "SessionStart":
        return session_start(home, "s")
    if name == "Stop":
        return reply(home, "s", "p2", "The kiosk prints every ticket now.")
    return prompt(home, "s", "p2", "the kiosk service listens on port 19032")


def assert_unheard(ended: Done) -> None:
    assert (ended.code, ended.err) == (0, "")
    assert ended.seconds < LONGEST_SECONDS
    if ended.out:
        assert ended.out.endswith("\n")
        assert isinstance(json.loads(ended.out), dict)
        assert ended.out.count("\n") == 1


def acknowledge(home: str) -> None:
    """Have one statement stored and understood, and the daemon leave."""
    with daemon(home):
        assert hook(home, prompt(home, "before", "p0", BEFORE)).code == 0
        eventually("it is understood", lambda: quiet(home))


def assert_still_there(home: str) -> None:
    """What was acknowledged before the trouble, and whatever was spooled in it, is in the store afterwards."""
    waiting = {(event["session"], event["id"]) for event in spooled(home)}
    kill(lock_holder(home))
    with suppress(FileNotFoundError):
        os.unlink(places.socket_path(home))
    with daemon(home):
        eventually("everything is taken in", lambda: quiet(home))
    found = left(home)
    assert [row["text"] for row in found.memories if row["text"] == BEFORE] == [BEFORE]
    assert waiting - {(row["session_id"], row["id"]) for row in found.events} == set()
    assert_sound(home)


@contextmanager
def down(home: str) -> Generator[None]:
    yield


@contextmanager
def stopped(home: str) -> Generator[None]:
    with daemon(home) as one:
        one.send_signal(signal.SIGSTOP)
        yield
        one.send_signal(signal.SIGCONT)
        eventually("it has caught up", lambda: quiet(home))


@contextmanager
def older(home: str) -> Generator[None]:
    stub = Stub(home, "0.0.1")
    try:
        yield
    finally:
        stub.close()


@contextmanager
def newer(home: str) -> Generator[None]:
    stub = Stub(home, "999.0")
    try:
        yield
    finally:
        stub.close()


@contextmanager
def stale(home: str) -> Generator[None]:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.bind(places.socket_path(home))
    yield


@contextmanager
def nobody_accepts(home: str) -> Generator[None]:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.bind(places.socket_path(home))
        wire.listen(0)
        yield


@contextmanager
def a_full_queue(home: str) -> Generator[None]:
    with socket.socket(socket.AF_UNIX) as wire, socket.socket(socket.AF_UNIX) as first:
        wire.bind(places.socket_path(home))
        wire.listen(0)
        first.connect(places.socket_path(home))
        yield


TROUBLES: dict[str, Trouble] = {
    "daemon down": down,
    "daemon SIGSTOPped": stopped,
    "older daemon": older,
    "newer daemon": newer,
    "stale socket": stale,
    "nobody accepts": nobody_accepts,
    "nobody accepts and the queue is full": a_full_queue,
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_with_the_daemon_is_not_the_agents(home: str, trouble: str) -> None:
    acknowledge(home)
    with TROUBLES[trouble](home):
        for host in ("claude-code", "codex"):
            for name in MOMENTS:
                assert_unheard(hook(home, moment(home, name), host))
    assert_still_there(home)


def test_a_home_under_a_plain_file_is_not_the_agents_trouble(home: str) -> None:
    with open(os.path.dirname(home) + "/file", "wb"):
        for name in MOMENTS:
            assert_unheard(hook(home, moment(home, name), FILROUGE_HOME=os.path.dirname(home) + "/file/home"))


def test_a_home_that_is_read_only_is_not_the_agents_trouble(home: str) -> None:
    acknowledge(home)
    with read_only(home):
        for host in ("claude-code", "codex"):
            for name in MOMENTS:
                assert_unheard(hook(home, moment(home, name), host))
    assert_still_there(home)


def test_a_full_disk_is_not_the_agents_trouble(home: str) -> None:
    with tiny_disk(home) as fill:
        acknowledge(home)
        fill()
        for host in ("claude-code", "codex"):
            for name in MOMENTS:
                assert_unheard(hook(home, moment(home, name), host))
        os.unlink(os.path.join(home, "filler"))
        assert_still_there(home)


#: Each prompt has a number of its own: the same one told again is the same event, and only the first is kept.
INPUTS: dict[str, Callable[[str], bytes]] = {
    "empty": lambda home: b"",
    "white space": lambda home: b" \n\t ",
    "invalid JSON": lambda home: b'{"hook_event_name": "UserPromptSubmit", "prompt": "use',
    "no object": lambda home: b"[1, 2, 3]",
    "invalid UTF-8": lambda home: (
        b'{"hook_event_name": "Stop", "session_id": "s", "last_assistant_message": "\xff\xfe"}'
    ),
    "lone surrogate": lambda home: json.dumps(prompt(home, "s", "p1", "port 4\ud800")).encode(),
    "deep nesting": lambda home: b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "ten megabytes of prompt": lambda home: json.dumps(prompt(home, "s", "p2", "word " * 2_000_000)).encode(),
    "ten megabytes without a space": lambda home: json.dumps(prompt(home, "s", "p3", "x" * 10_000_000)).encode(),
    "unknown event": lambda home: json.dumps({"hook_event_name": "Later", "session_id": "s"}).encode(),
    "missing transcript": lambda home: json.dumps(
        prompt(home, "s", "p4", "port 4 is used", transcript_path="/nowhere/projects/at-all.jsonl")
    ).encode(),
    "fields of the wrong kind": lambda home: (
        b'{"hook_event_name": ["Stop"], "session_id": 7, "cwd": {}, "prompt": null}'
    ),
}


@pytest.mark.law
@pytest.mark.parametrize("there", [True, False], ids=["with a daemon", "without a daemon"])
def test_input_of_any_kind_ends_well(home: str, there: bool) -> None:
    acknowledge(home)
    with daemon(home) if there else down(home):
        for number, make in enumerate(INPUTS.values()):
            for host in ("claude-code", "codex") if is_proof() else ("claude-code", "codex")[number % 2 :][:1]:
                assert_unheard(hook(home, make(home), host))
        if there:
            eventually("the daemon is well and done", lambda: quiet(home))
    assert_still_there(home)


def test_a_transcript_that_is_still_being_written_ends_well(home: str) -> None:
    path = os.path.join(os.path.dirname(home), "torn.jsonl")
    with open(path, "wb") as file:
        file.write(b'{"type": "user", "uuid": "u1"}\n{"type": "assista')
    acknowledge(home)
    with daemon(home):
        assert_unheard(hook(home, reply(home, "s", "p1", "Done.", transcript_path=path)))
        eventually("the daemon is well and done", lambda: quiet(home))
    assert_still_there(home)


def test_the_largest_prompt_is_kept_as_far_as_it_is_worth_it(home: str) -> None:
    with daemon(home):
        ended = hook(home, prompt(home, "s", "p1", "the quay " * 1_200_000))
        assert_unheard(ended)
        eventually("it is taken in", lambda: quiet(home))
    (kept,) = left(home).turns
    assert 0.9 * MAX_TEXT_CHARACTERS < len(kept["text"]) < 1.1 * MAX_TEXT_CHARACTERS


@contextmanager
def read_only(home: str) -> Generator[None]:
    """Root ignores modes, so the home is mounted read-only over itself, or made immutable, or the test is skipped."""
    if os.geteuid() != 0:
        os.chmod(home, 0o500)
        try:
            yield
        finally:
            os.chmod(home, 0o700)
        return
    done = subprocess.run(["mount", "--bind", home, home], capture_output=True, check=False)
    if done.returncode != 0 or shutil.which("mount") is None:
        pytest.skip("root ignores modes, and this machine allows no bind mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", home], check=True)
        yield
    finally:
        subprocess.run(["umount", home], check=True)
