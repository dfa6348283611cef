"""The hook as agents run it: a real process, a real socket, and everything that can go wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture import inbox
from filrouge.cli.hook import run
from filrouge.core import paths
from filrouge.core.clock import from_epoch, new_id
from filrouge.daemon import handover
from filrouge.daemon.process import home_lock, start_lock
from filrouge.daemon.starting import STARTING

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "hosts"
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt_id": "p1", "prompt": "use uv, never pip"}
START = {"hook_event_name": "SessionStart", "session_id": "s", "source": "startup"}
STOP = {"hook_event_name": "Stop", "session_id": "s", "prompt_id": "p1", "last_assistant_message": "Noted."}


class Daemon:
    """A stand-in at the daemon's socket: hears requests, answers each by `answer(path, body)`.

    It takes no input as it came, so hooks go the long way.
    """

    def __init__(self, directory: Path, answer: Callable[[str, dict[str, Any]], bytes]) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer
        self._wire = socket.socket(socket.AF_UNIX)
        self._wire.bind(paths.socket_path(str(directory)))
        self._wire.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._wire.shutdown(socket.SHUT_RDWR)  # closing alone would let one more connection in
        self._wire.close()
        self._thread.join(5)

    def send(self, connection: socket.socket, whole: bytes) -> None:
        connection.sendall(whole)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._wire.accept()
            except OSError:
                return
            with connection:
                raw = b""
                while b"\r\n\r\n" not in raw and (piece := connection.recv(1 << 20)):
                    raw += piece
                if not raw:
                    continue
                head, _, body = raw.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                while len(body) < length:
                    body += connection.recv(1 << 20)
                path = head.split()[1].decode()
                if path == handover.PATH:
                    with suppress(OSError):  # a busy hook may be gone
                        connection.sendall(b"HTTP/1.1 404 X\r\n\r\n")
                    continue
                request = json.loads(body or b"{}")
                self.heard.append((path, request))
                try:
                    self.send(connection, self._answer(path, request))
                except OSError:
                    continue


def answer(context: str = "", version: str = "0.1.0", status: int = 200) -> bytes:
    body = json.dumps({"accepted": 1, "duplicates": 0, "context": context}).encode()
    head = f"HTTP/1.1 {status} X\r\nX-Filrouge-Version: {version}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextmanager
def daemon(directory: Path, reply: Callable[[str, dict[str, Any]], bytes]) -> Generator[Daemon]:
    served = Daemon(directory, reply)
    try:
        yield served
    finally:
        served.close()


@pytest.fixture(scope="session")
def locks() -> Generator[ExitStack]:
    """Locks that are held to the end: a daemon that a test started gets to its lock after the test is over."""
    with ExitStack() as held:
        yield held


@pytest.fixture
def place(tmp_path: Path, locks: ExitStack) -> Path:
    """A home in which no daemon can live: one seems to be coming up, and the lock is taken."""
    directory = tmp_path / "home"
    directory.mkdir()
    (tmp_path / "shop").mkdir()
    (directory / paths.HOOK_SETTINGS).write_text('{"wait_ms": 500}')  # a test machine may be busy
    locks.enter_context(start_lock(str(directory)))
    locks.enter_context(home_lock(str(directory)))
    return directory


def environment(directory: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPYCACHEPREFIX") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "FILROUGE_HOME": str(directory), **more}


def hook(directory: Path, stdin: bytes | dict[str, Any], *words: str, **environ: str) -> bytes:
    """Run the hook; what it printed. It must end with 0, silently, with nothing or one line of JSON."""
    payload = {"cwd": str(directory.parent / "shop"), **stdin} if isinstance(stdin, dict) else stdin
    raw = json.dumps(payload).encode() if isinstance(payload, dict) else payload
    done = subprocess.run(
        [sys.executable, "-m", "filrouge.cli.main", "hook", *words],
        input=raw, capture_output=True, env=environment(directory, **environ), timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == b""
    assert not done.stdout or (done.stdout.endswith(b"\n") and isinstance(json.loads(done.stdout), dict))
    return done.stdout


def spooled(directory: Path) -> list[dict[str, Any]]:
    return [
        event for path in inbox.waiting_files(str(directory / "spool")) for event in inbox.read_spool_file(path).events
    ]


def injected(printed: bytes) -> str:
    return json.loads(printed)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize(("payload", "name"), [(PROMPT, "UserPromptSubmit"), (START, "SessionStart")])
def test_a_context_is_printed_in_the_hosts_form(place: Path, payload: dict[str, Any], name: str) -> None:
    with daemon(place, lambda path, body: answer("Règle : uv")) as served:
        printed = hook(place, payload)
    assert json.loads(printed) == {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": "Règle : uv"},
        "suppressOutput": True,
    }
    [(path, body)] = served.heard
    assert path == "/hooks/events"
    assert body["context"] is True
    assert body["events"][0]["project"] == [f"path:{place.parent / 'shop'}"]
    assert spooled(place) == []


def test_a_reply_is_captured_and_nothing_printed(place: Path) -> None:
    with daemon(place, lambda path, body: answer("not asked for")) as served:
        assert hook(place, STOP) == b""
    assert served.heard[0][1]["context"] is False
    assert served.heard[0][1]["events"][0]["key"] == "reply:p1"


def test_an_event_id_is_a_ulid_like_the_daemons(place: Path) -> None:
    hook(place, STOP)
    [event] = spooled(place)
    assert len(event["id"]) == len(new_id(from_epoch(event["at"]))) == 26
    assert event["id"][:10] == new_id(from_epoch(event["at"]))[:10]


@pytest.mark.parametrize("filler", ["x", "é", "🙂", '"\\'])
def test_a_context_stays_below_what_hosts_cut(place: Path, filler: str) -> None:
    with daemon(place, lambda path, body: answer(filler * 20_000)):
        text = injected(hook(place, PROMPT))
    assert 9_000 < len(text.encode()) < 9_500


def test_secrets_and_our_own_words_never_leave_the_process(place: Path) -> None:
    block = '<filrouge-memory nonce="ab12">canary</filrouge-memory ab12>'
    tool = {
        "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t1",
        "tool_input": {"command": "cat .env"},
        "tool_response": {"stdout": f"DB_PASSWORD=correct-horse-42\nAKIAIOSFODNN7EXAMPLE\n{block}"},
    }  # fmt: skip
    with daemon(place, lambda path, body: answer()) as served:
        hook(place, tool)
        hook(place, {**PROMPT, "prompt": f"{block} <private>mine</private> deploy"})
        hook(place, {**PROMPT, "prompt": block})
    hook(place, tool)
    told = json.dumps(served.heard) + "".join(p.read_text("latin-1") for p in (place / "spool").iterdir())
    assert len(served.heard) == 2
    assert len(spooled(place)) == 1
    for word in ("correct-horse-42", "AKIAIOSFODNN7EXAMPLE", "canary", "mine"):
        assert word not in told


def test_large_tool_output_is_cut_and_says_so(place: Path) -> None:
    secret = "ghp_" + "a1" * 18
    big = "x " * 99_990 + secret + " y" * 3_000_000
    hook(place, {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t", "tool_response": big})
    [event] = spooled(place)
    output = event["data"]["calls"][0]["output"]
    assert output.endswith(f"[filrouge: {len(big) - 200_000} characters cut]")
    assert len(output) < 200_100
    assert "ghp_" not in output


def nothing(directory: Path) -> None:
    """No daemon."""


def stale(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.bind(str(directory / paths.SOCKET))


def no_socket(directory: Path) -> None:
    (directory / paths.SOCKET).write_text("plain file")


TEN_MEGABYTES = json.dumps({**PROMPT, "cwd": "/", "prompt": "use uv, never pip. " * 550_000}).encode()
INPUTS: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 0),
    "blank": (b" \n\t", 0),
    "invalid json": (b'{"prompt": ', 0),
    "not an object": (b"[1, 2]", 0),
    "deeply nested": (b"[" * 100_000, 0),
    "invalid utf-8": (b'\xff{"hook_event_name":', 0),
    "invalid utf-8 in a text": (
        json.dumps({**PROMPT, "cwd": "/", "prompt": "caf\u00e9 d\ud83d"}).encode().replace(b"caf", b"caf\xff"), 1,
    ),
    "utf-8 with a mark": (b"\xef\xbb\xbf" + json.dumps({**PROMPT, "cwd": "/"}).encode(), 1),
    "ten megabytes": (TEN_MEGABYTES, 1),
    "unknown event": (b'{"hook_event_name": "Whatever", "prompt": "hello"}', 0),
    "null fields": (b'{"hook_event_name": "UserPromptSubmit", "prompt": null, "cwd": null}', 0),
    "missing transcript": (
        json.dumps({**STOP, "cwd": "/nowhere", "transcript_path": "/no/such/file.jsonl"}).encode(), 1,
    ),
    "null transcript": (json.dumps({**STOP, "cwd": "", "transcript_path": None}).encode(), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_any_input_ends_well(place: Path, name: str) -> None:
    raw, kept = INPUTS[name]
    assert hook(place, raw) == b""
    assert len(spooled(place)) == kept
    assert all(json.dumps(event, ensure_ascii=False).encode("utf-8") for event in spooled(place))


@pytest.mark.parametrize("trouble", [nothing, stale, no_socket])
@pytest.mark.parametrize("payload", [PROMPT, START, STOP])
def test_without_a_daemon_the_event_is_spooled(
    place: Path, trouble: Callable[[Path], None], payload: dict[str, Any]
) -> None:
    trouble(place)
    assert hook(place, payload) == b""
    assert [event["session"] for event in spooled(place)] == ["s"]


@pytest.mark.parametrize(
    "reply",
    [
        b"", b"\x00garbage", b"HTTP/1.1 200 OK\r\n\r\nnope", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        answer("x", status=500), answer("x", status=404), b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
    ],
)  # fmt: skip
def test_a_daemon_that_answers_nonsense_costs_no_event(place: Path, reply: bytes) -> None:
    with daemon(place, lambda path, body: reply):
        assert hook(place, PROMPT) == b""
    assert len(spooled(place)) == 1


def test_a_daemon_that_hangs_costs_neither_the_event_nor_the_users_time(place: Path) -> None:
    over = threading.Event()

    def hang(path: str, body: dict[str, Any]) -> bytes:
        over.wait(120)
        return b""

    with daemon(place, hang):
        try:
            began = time.monotonic()
            assert hook(place, PROMPT) == b""
            assert hook(place, STOP) == b""
            assert time.monotonic() - began < 30
        finally:
            over.set()
    assert len(spooled(place)) == 2


def test_an_older_daemon_keeps_the_event_and_is_asked_to_leave(place: Path) -> None:
    with daemon(place, lambda path, body: answer("old but true", version="0.0.1")) as served:
        assert injected(hook(place, PROMPT)) == "old but true"
    assert [path for path, _ in served.heard] == ["/hooks/events", "/daemon/drain"]
    assert spooled(place) == []


@pytest.mark.parametrize("payload", [PROMPT, START, STOP])
def test_a_home_that_cannot_be_written_costs_only_the_event(tmp_path: Path, payload: dict[str, Any]) -> None:
    (tmp_path / "file").write_text("")
    assert hook(tmp_path / "file" / "home", payload) == b""


def test_a_start_without_a_daemon_prints_the_brief_of_the_project(place: Path) -> None:
    brief = Path(paths.brief_path(str(place), f"path:{place.parent / 'shop'}"))
    brief.parent.mkdir()
    brief.write_text("Use uv.\n", "utf-8")
    assert injected(hook(place, START)) == "Use uv."
    assert hook(place, PROMPT) == b""
    assert len(spooled(place)) == 2


def test_a_start_waits_for_the_daemon_that_is_coming_up(place: Path) -> None:
    served: list[Daemon] = []
    rises = threading.Timer(0.1, lambda: served.append(Daemon(place, lambda path, body: answer("up"))))
    rises.start()
    try:
        assert injected(hook(place, START)) == "up"
    finally:
        rises.join(5)
        served[0].close()
    assert [path for path, _ in served[0].heard if path == "/hooks/events"] == ["/hooks/events"]
    assert spooled(place) == []


@pytest.mark.parametrize(
    ("settings", "kept", "asked"),
    [
        ({"auto_capture": False}, 0, None),
        ({"disabled_projects": ["PROJECT"]}, 0, None),
        ({"disabled_projects": ["shop"]}, 0, None),
        ({"disabled_projects": ["sho", "other"]}, 1, True),
        ({"auto_retrieve": False}, 1, False),
        ({"auto_capture": None, "wait_ms": "soon", "disabled_projects": 3}, 1, True),
        ([], 1, True),
    ],
)
def test_settings_of_the_home_are_obeyed(place: Path, settings: Any, kept: int, asked: bool | None) -> None:
    text = json.dumps(settings).replace("PROJECT", f"path:{place.parent / 'shop'}")
    (place / paths.HOOK_SETTINGS).write_text(text)
    with daemon(place, lambda path, body: answer("context")) as served:
        printed = hook(place, PROMPT)
    assert [body["context"] for _, body in served.heard] == ([] if asked is None else [asked])
    assert bool(printed) is bool(asked)
    hook(place, STOP)
    assert len(spooled(place)) == kept


@pytest.mark.parametrize("name", ["FILROUGE_INTERNAL", "FILROUGE_DISABLED"])
def test_a_hook_that_is_turned_off_does_nothing(place: Path, name: str) -> None:
    with daemon(place, lambda path, body: answer("context")) as served:
        assert hook(place, PROMPT, **{name: "1"}) == b""
    assert served.heard == []
    assert not (place / "spool").exists()


def test_capture_can_be_refused_by_the_environment_and_by_the_project(place: Path) -> None:
    with daemon(place, lambda path, body: answer("context")) as served:
        assert hook(place, PROMPT, FILROUGE_AUTO_CAPTURE="off") == b""
        (place.parent / ".filrouge.toml").write_text("auto_capture = false\n")
        assert hook(place, PROMPT) == b""
    assert served.heard == []
    assert not (place / "spool").exists()


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize(
    "output",
    [
        ["token = 9f8e7d6c5b and more"] * 300_000,
        [{"k": n} for n in range(300_000)],
        {f"k{n}": "v" for n in range(300_000)},
    ],
    ids=["texts", "objects", "fields"],
)
def test_an_output_of_many_small_things_is_cut_and_the_event_arrives(place: Path, output: Any, up: bool) -> None:
    calls = {"hook_event_name": "PostToolUse", "tool_name": "T", "tool_use_id": "t", "tool_response": output}
    raw = json.dumps({**calls, "cwd": str(place.parent / "shop")}).encode()
    with ExitStack() as stack:
        served = stack.enter_context(daemon(place, lambda path, body: answer())) if up else None
        began = time.monotonic()
        hook(place, raw)
        assert time.monotonic() - began < 30  # the alarm ends it at 0.9; the rest is a busy test machine
    [event, *_] = [e for _, body in (served.heard if served else []) for e in body["events"]] + spooled(place)
    text = json.dumps(event)
    assert "cut]" in text
    assert "9f8e7d6c5b" not in text
    assert event["data"]["calls"][0]["name"] == "T"
    assert event["data"]["calls"][0]["failed"] is False


def test_an_output_that_is_very_deep_costs_no_event(place: Path) -> None:
    deep = b"[" * 600 + b"]" * 600
    hook(place, b'{"hook_event_name": "PostToolUse", "tool_name": "T", "cwd": "/", "tool_response": ' + deep + b"}")
    assert "too deep" in json.dumps(spooled(place))


class Remote(BaseHTTPRequestHandler):
    """A daemon elsewhere that refuses events it does not like."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids = [event["id"] for event in body["events"]]
        status = 422 if "poison" in ids else 200
        reply = json.dumps({"accepted": 1, "context": "there"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as in the base class)
        """Nothing."""


def test_a_spool_file_that_a_daemon_elsewhere_refuses_is_set_aside(tmp_path: Path) -> None:
    directory = tmp_path / "home"
    spool = directory / "spool"
    inbox.append_event(str(spool), {"id": "poison"})
    (spool / "1-2.log").write_bytes(b"garbage")
    (spool / "1-3.log").write_bytes(b"")
    inbox.append_event(str(spool), {"id": "good"})
    with ThreadingHTTPServer(("127.0.0.1", 0), Remote) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        printed = hook(directory, {**PROMPT, "cwd": "/"}, FILROUGE_URL=url, FILROUGE_API_KEY="k")
        server.shutdown()
    assert injected(printed) == "there"
    assert inbox.waiting_files(str(spool)) == []
    assert len(list(spool.glob("*.aside"))) == 3


def test_the_context_is_printed_before_the_spool_is_sent(tmp_path: Path) -> None:
    spool = str(tmp_path / "home" / "spool")
    inbox.append_event(spool, {"id": "good"})
    left: list[int] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Remote) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = {"FILROUGE_HOME": str(tmp_path / "home"), "FILROUGE_URL": f"http://127.0.0.1:{server.server_port}"}
        raw = json.dumps({**PROMPT, "cwd": "/"}).encode()
        run([], handover.Input(raw), lambda _: left.append(len(inbox.waiting_files(spool))), environ)
        server.shutdown()
    assert left == [1]
    assert inbox.waiting_files(spool) == []


def test_the_host_can_be_forced(place: Path) -> None:
    hook(place, {"hook_event_name": "SessionEnd", "session_id": "s"}, "--host", "codex")
    hook(place, {"hook_event_name": "SessionEnd", "session_id": "s"}, "--host=claude-code")
    assert [event["host"] for event in spooled(place)] == ["codex", "claude-code"]


def test_a_daemon_elsewhere_that_is_away_leaves_the_event_in_the_spool(tmp_path: Path) -> None:
    directory = tmp_path / "home"
    assert hook(directory, {**START, "cwd": "/"}, FILROUGE_URL="http://127.0.0.1:9", FILROUGE_API_KEY="k") == b""
    assert len(spooled(directory)) == 1
    assert not (directory / STARTING).exists()


def test_an_input_that_never_ends_stops_at_the_alarm(place: Path) -> None:
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "filrouge.cli.main", "hook"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(place),
    ) as process:  # fmt: skip
        assert process.wait(10) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == process.stderr.read() == b""
    assert 0.8 < time.monotonic() - began < 30


def test_a_reader_that_is_gone_is_no_failure(place: Path) -> None:
    with daemon(place, lambda path, body: answer("context")), subprocess.Popen(
        [sys.executable, "-m", "filrouge.cli.main", "hook"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(place),
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(json.dumps({**PROMPT, "cwd": "/"}).encode())
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_the_recorded_session_passes_through_the_process(place: Path, host: str) -> None:
    lines = (FIXTURES / host / "payloads.jsonl").read_bytes().splitlines()[:10]
    for line in lines:
        assert hook(place, line) == b""
    assert {event["host"] for event in spooled(place)} == {host}
    assert "<task-notification>" not in json.dumps(spooled(place))
