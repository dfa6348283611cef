"""How long a hook waits, what it does on a machine that lets it begin late, and what it counts as lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture import inbox
from filrouge.cli.hook import VERY_SLOW_START_SECONDS, run
from filrouge.core import paths
from filrouge.daemon.handover import Input

from .test_hook import PROMPT, START, STOP, Daemon, answer, daemon, environment, hook, injected, locks, place, spooled

__all__ = ["locks", "place"]  # fixtures


def slowly(seconds: float, context: str, recall: str = "") -> Any:
    """An answer that begins at once and takes its time with the context."""

    def pieces(path: str, body: dict[str, Any]) -> bytes:
        if path != "/hooks/events":
            return answer()
        body = {"accepted": 1, "duplicates": 0, "context": context, "recall": recall}
        head = b"HTTP/1.1 200 OK\r\nX-Filrouge-Version: 0.1.0\r\n\r\n "
        return head + b"\0" + str(seconds).encode() + b"\0" + json.dumps(body).encode()

    return pieces


class SlowDaemon(Daemon):
    """A stand-in that pauses where an answer says so."""

    def send(self, connection: Any, whole: bytes) -> None:
        """Send what is before the mark, wait, and send the rest."""
        head, mark, rest = whole.partition(b"\0")
        connection.sendall(head)
        if mark:
            seconds, _, body = rest.partition(b"\0")
            time.sleep(float(seconds))
            connection.sendall(body)


@pytest.fixture
def settings(place: Path) -> Path:
    (place / paths.HOOK_SETTINGS).write_text('{"wait_ms": 4000}')  # a test machine may be busy
    return place


@pytest.mark.parametrize("payload", [PROMPT, START])
def test_a_context_that_the_daemon_is_working_on_is_waited_for(settings: Path, payload: dict[str, Any]) -> None:
    served = SlowDaemon(settings, slowly(1.0, "after a while", "r1"))
    try:
        assert injected(hook(settings, payload)) == "after a while"
    finally:
        served.close()
    assert served.heard[0][1]["wait_ms"] == 4000
    assert spooled(settings) == []


def test_a_context_that_takes_longer_than_the_setting_is_not_waited_for(place: Path) -> None:
    (place / paths.HOOK_SETTINGS).write_text('{"wait_ms": 300}')
    served = SlowDaemon(place, slowly(3.0, "too late", "r1"))
    try:
        assert hook(place, PROMPT) == b""
    finally:
        served.close()
    assert [path for path, _ in served.heard] == ["/hooks/events"]
    assert len(spooled(place)) == 1


def test_the_hook_confirms_what_it_printed(settings: Path) -> None:
    def reply(path: str, body: dict[str, Any]) -> bytes:
        return slowly(0.0, "a rule", "r1")(path, body)

    served = SlowDaemon(settings, reply)
    try:
        hook(settings, PROMPT)
        deadline = time.monotonic() + 60
        while len(served.heard) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        served.close()
    assert served.heard[1] == ("/hooks/delivered", {"recall": "r1"})


def serve(directory: Path, payload: dict[str, Any], age: float) -> bytes:
    """Serve one event in this process, as one that was started `age` seconds ago."""
    printed: list[bytes] = []
    raw = json.dumps({"cwd": str(directory.parent / "shop"), **payload}).encode()
    assert run([], Input(raw, age=age), printed.append, environment(directory)) == 0
    return b"".join(printed)


def test_a_capture_that_began_very_late_is_spooled_and_nobody_is_asked(place: Path) -> None:
    with daemon(place, lambda path, body: answer()) as served:
        serve(place, STOP, VERY_SLOW_START_SECONDS)
        assert served.heard == []
    assert [event["key"] for event in spooled(place)] == ["reply:p1"]


def test_a_prompt_that_began_late_is_spooled_before_the_daemon_is_asked(place: Path) -> None:
    waiting: list[int] = []

    def reply(path: str, body: dict[str, Any]) -> bytes:
        waiting.append(len(spooled(place)))
        return answer("a rule")

    with daemon(place, reply):
        assert injected(serve(place, PROMPT, VERY_SLOW_START_SECONDS)) == "a rule"
    assert waiting == [1]
    assert spooled(place) == []  # the daemon has it


def started(directory: Path) -> subprocess.Popen[bytes]:
    """A hook that waits for its input."""
    command = [sys.executable, "-m", "filrouge.cli.main", "hook"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(directory)
    )
    deadline, asleep = time.monotonic() + 60, 0
    while asleep < 3:  # it polls its input; before that it works
        assert time.monotonic() < deadline
        asleep = asleep + 1 if b"State:\tS" in Path(f"/proc/{process.pid}/status").read_bytes() else 0
        time.sleep(0.01)
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("payload", [PROMPT, STOP])
def test_a_hook_that_the_machine_stops_for_a_second_loses_no_event(place: Path, payload: dict[str, Any]) -> None:
    process = started(place)
    os.kill(process.pid, signal.SIGSTOP)
    raw = json.dumps({"cwd": str(place.parent / "shop"), **payload}).encode()
    assert process.stdin is not None
    process.stdin.write(raw)
    process.stdin.close()
    process.stdin = None
    time.sleep(1.0)  # the machine has no time for the hook
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, b"", b"")
    assert len(spooled(place)) == 1
    assert inbox.read_losses(str(place)).events == 0


def test_an_input_that_does_not_end_is_counted(place: Path) -> None:
    process = started(place)
    assert process.stdin is not None
    process.stdin.write(b'{"hook_event_name": "Stop", "last_ass')
    process.stdin.flush()
    assert process.wait(20) == 0
    process.communicate()
    assert inbox.read_losses(str(place))[0::2] == (1, "input incomplete")


@pytest.mark.parametrize("payload", [PROMPT, STOP])
def test_an_event_that_cannot_be_written_is_counted(place: Path, payload: dict[str, Any]) -> None:
    (place / "spool").write_text("in the way")
    assert hook(place, payload) == b""
    found = inbox.read_losses(str(place))
    assert (found.events, found.reason) == (1, "cannot be written")
    assert "uv" not in (place / paths.LOST_EVENTS).read_text()


def test_counting_begins_again_after_it_was_cleared(tmp_path: Path) -> None:
    inbox.add_losses(str(tmp_path), "failed", 3)
    assert inbox.read_losses(str(tmp_path)).events == 3
    inbox.clear_losses(str(tmp_path))
    inbox.clear_losses(str(tmp_path))
    assert inbox.read_losses(str(tmp_path)) == (0, "", "", False)
    inbox.add_losses(str(tmp_path), "failed")
    assert "could not keep 1 event, the last at 2" in inbox.read_losses(str(tmp_path)).sentence()


def test_a_count_at_its_end_says_that_there_may_be_more(tmp_path: Path) -> None:
    inbox.add_losses(str(tmp_path), "failed", inbox.MAX_COUNT)
    assert not inbox.read_losses(str(tmp_path)).at_least
    inbox.add_losses(str(tmp_path), "out of time")
    assert "at least 999999 events" in inbox.read_losses(str(tmp_path)).sentence()
    inbox.clear_losses(str(tmp_path))
    assert inbox.read_losses(str(tmp_path)) == (0, "", "", False)


def test_hooks_that_count_at_once_are_all_counted(tmp_path: Path) -> None:
    code = "import sys; from filrouge.capture.inbox import add_losses;"
    code += "[add_losses(sys.argv[1], 'failed') for _ in range(25)]"
    hooks = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [one.wait(60) for one in hooks] == [0] * 4
    found = inbox.read_losses(str(tmp_path))
    assert found.events == 100 or found.at_least
