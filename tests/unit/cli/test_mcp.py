"""The MCP shim as agents run it: a real process on a pipe, a real daemon behind it, and all that can go wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from filrouge.cli.mcp import Daemon
from filrouge.cli.mcp import Shim as Conversation
from filrouge.core import paths
from filrouge.daemon import client
from filrouge.mcp.offered import HANDSHAKE_EDITIONS, MAX_LINE_BYTES, TOOLS
from tests.reliability import processes
from tests.support.mcp import Json, Shim, call, initialize, request, shim
from tests.unit.server.conftest import serving

from .test_hook_imports import HEAVY, loaded

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "mcp.md"
OWN = {
    "filrouge", "filrouge._version", "filrouge.cli", "filrouge.cli.main", "filrouge.cli.mcp",
    "filrouge.core.text", "filrouge.daemon",
    "filrouge.daemon.client", "filrouge.daemon.handover",
    "filrouge.daemon.reply", "filrouge.daemon.starting", "filrouge.core.errors", "filrouge.core.paths",
    "filrouge.hosts", "filrouge.hosts.claude_code",
    "filrouge.hosts.codex", "filrouge.hosts.command_hooks", "filrouge.hosts.copilot_cli", "filrouge.hosts.cursor",
    "filrouge.hosts.gemini", "filrouge.hosts.openclaw", "filrouge.hosts.opencode", "filrouge.hosts.project",
    "filrouge.hosts.vscode",
    "filrouge.capture", "filrouge.capture.events", "filrouge.core", "filrouge.mcp", "filrouge.mcp.offered",
}  # fmt: skip


@contextmanager
def stand_in(directory: Path, answer: Callable[[str, Json], bytes | None]) -> Generator[list[Json]]:
    """Whoever listens at the daemon's socket: answers each message by `answer(path, body)`, or hangs up on None."""
    heard: list[Json] = []
    leaving = threading.Event()
    wire = socket.socket(socket.AF_UNIX)
    wire.bind(paths.socket_path(str(directory)))
    wire.listen(8)

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            raw = b""
            while b"\r\n\r\n" not in raw:
                piece = connection.recv(1 << 20)
                if not piece:
                    return  # somebody only looked whether anybody listens
                raw += piece
            head, _, content = raw.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            while len(content) < length and (piece := connection.recv(1 << 20)):
                content += piece
            body: Json = json.loads(content) if content else {}
            if body.get("method") == "tools/call":
                heard.append(body)
            said = answer(head.split()[1].decode(), body)
            if said is not None:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)

    def accept() -> None:
        while not leaving.is_set():
            try:
                connection, _ = wire.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        leaving.set()
        wire.shutdown(socket.SHUT_RDWR)
        wire.close()
        thread.join(5)
        os.unlink(paths.socket_path(str(directory)))


def echo(path: str, body: Json) -> bytes:
    """A daemon whose tools answer their own arguments."""
    if path != "/mcp":
        return b"{}"
    told = {"content": [{"type": "text", "text": json.dumps(body.get("params"))}], "isError": False}
    return json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": told}).encode()


def text_of(answer: Json) -> str:
    return answer["result"]["content"][0]["text"]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path) -> Generator[None]:
    """A shim that finds nobody any more sends for a daemon: none is left behind."""
    yield
    for pid in processes.servers(str(tmp_path)):
        processes.kill(pid)


@pytest.fixture
def hung(tmp_path: Path) -> Generator[tuple[Shim, threading.Event]]:
    """A shim whose daemon takes calls and answers them once the event is set."""
    answering = threading.Event()

    def answer(path: str, body: Json) -> bytes:
        answering.wait(30)
        return echo(path, body)

    with stand_in(tmp_path, answer), shim(str(tmp_path), str(tmp_path)) as found:
        try:
            yield found, answering
        finally:
            answering.set()


# ------------------------------------------------------------------------------------------------ light and early


def test_the_shim_loads_its_own_modules_and_light_ones_of_the_standard_library() -> None:
    modules = loaded(by="filrouge.cli.mcp, filrouge.cli.main")
    ours = {name for name in modules if name.split(".")[0] == "filrouge"}
    assert ours <= OWN
    assert {name.split(".")[0] for name in modules - ours} - set(sys.stdlib_module_names) == set()
    assert modules & HEAVY == set()


@pytest.mark.parametrize("edition", HANDSHAKE_EDITIONS)
def test_the_handshake_and_the_list_of_tools_wait_for_no_daemon(
    hung: tuple[Shim, threading.Event], edition: str
) -> None:
    client_of, _ = hung
    assert client_of.ask(initialize(edition))["result"]["protocolVersion"] == edition
    client_of.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert client_of.ask(request("tools/list", id_=2))["result"]["tools"] == list(TOOLS)
    assert client_of.ask(request("ping", id_="three"))["id"] == "three"


def test_a_ping_and_another_call_are_answered_while_one_is_with_the_daemon(hung: tuple[Shim, threading.Event]) -> None:
    one, answering = hung
    one.say(call("memory_search", {"query": "first"}, id_="slow"))
    assert one.ask(request("ping", id_="quick"))["id"] == "quick"
    answering.set()
    assert one.hear()["id"] == "slow"


def test_a_cancelled_call_is_not_answered_and_its_id_is_free_again(hung: tuple[Shim, threading.Event]) -> None:
    one, answering = hung
    one.say(call("memory_search", {"query": "first"}, id_=7))
    assert one.ask(call("memory_search", {"query": "twice"}, id_=7))["error"]["code"] == -32600
    one.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    assert one.ask(request("ping", id_=8))["id"] == 8
    answering.set()
    code, out, _ = one.close()
    assert (code, out) == (0, b"")


# -------------------------------------------------------------------------------------------------- the daemon


def test_calls_go_to_the_daemon_with_the_project_and_come_back(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / ".git" / "config").write_text('[remote "origin"]\n\turl = git@forge.example:ana/shop.git\n')
    with serving(str(tmp_path / "home")) as api, shim(api.home, str(project)) as one:
        one.ask(initialize())
        added = one.ask(call("memory_add", {"text": "The staging API listens on port 17300."}, id_=2))
        id_ = added["result"]["structuredContent"]["actions"][0]["id"]
        found = one.ask(call("memory_get", {"id": id_}, id_=3))["result"]["structuredContent"]
        assert found["item"]["project"] == "shop"
        assert one.ask(call("memory_get", {"id": "nope"}, id_=4))["result"]["isError"]


def test_claude_codes_project_counts_and_not_where_it_started_the_shim(tmp_path: Path) -> None:
    project = tmp_path / "atlas"
    project.mkdir()
    (project / ".filrouge.toml").write_text('project = "atlas"\n')
    environ = {"CLAUDE_PROJECT_DIR": str(project)}
    with stand_in(tmp_path, echo), shim(str(tmp_path), str(tmp_path), environ=environ) as one:
        params = json.loads(text_of(one.ask(call("memory_search", {"query": "x"}))))
    assert params["_meta"]["filrouge/project"][0] == "name:atlas"


def test_a_daemon_that_was_restarted_between_two_calls_is_found_again(tmp_path: Path) -> None:
    directory = str(tmp_path)
    with shim(directory, directory) as one:
        for text in ("The tide gauge stands at the old pier.", "Invoices are numbered by year."):
            with serving(directory):
                [action] = one.ask(call("memory_add", {"text": text}))["result"]["structuredContent"]["actions"]
                assert action["action"] == "add"


def test_a_missing_daemon_is_started_and_the_first_call_waits_for_it(tmp_path: Path) -> None:
    directory = str(tmp_path)
    environ = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
    try:
        with shim(directory, directory, environ=environ) as one:
            assert one.ask(call("memory_search", {"query": "tide"}))["result"]["structuredContent"]["results"] == []
            assert one.close() == (0, b"", b"")
    finally:
        client.request(directory, "POST", "/daemon/stop", {})


@pytest.mark.parametrize(
    ("tool", "arguments", "times"),
    [
        ("memory_search", {"query": "tide"}, 3),
        ("memory_add", {"text": "The tide turns at six."}, 3),
        ("memory_update", {"id": "a", "text": "The tide turns at seven."}, 1),
        ("memory_forget", {"id": "a", "token": "b"}, 1),
        ("memory_team", {"propose": ["a"]}, 3),
    ],
)
def test_a_call_whose_answer_is_lost_is_repeated_only_where_that_does_no_harm(
    tmp_path: Path, tool: str, arguments: Json, times: int
) -> None:
    def hang_up(path: str, body: Json) -> bytes | None:
        return None if body.get("method") == "tools/call" else b"{}"

    with stand_in(tmp_path, hang_up) as heard, shim(str(tmp_path), str(tmp_path)) as one:
        result = one.ask(call(tool, arguments))["result"]
    assert result["isError"]
    assert len(heard) == times
    assert len({body["params"]["_meta"]["filrouge/once"] for body in heard}) == 1
    if times == 1:
        assert "It may have been done" in result["content"][0]["text"]


def test_a_refusal_by_the_daemon_elsewhere_is_told_to_the_agent_with_its_remedy(tmp_path: Path) -> None:
    keys: list[str | None] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"detail": "This key is unknown.", "remedy": "Make another."}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class calls it so)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    environ = {"FILROUGE_URL": f"http://127.0.0.1:{server.server_port}", "FILROUGE_API_KEY": "a-key"}
    try:
        with shim(str(tmp_path), str(tmp_path), environ=environ) as one:
            said = one.ask(call("memory_search", {"query": "tide"}))
            one.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
    assert (said["result"]["isError"], text_of(said)) == (True, "This key is unknown. Make another.")
    assert set(keys) == {"Bearer a-key"}
    assert not (tmp_path / paths.SOCKET).exists()  # nothing was started here


# ------------------------------------------------------------------------------------------------- the protocol


def conversation(tmp_path: Path, *lines: bytes) -> list[Any]:
    """What the shim says to these lines, in the order in which it says it, with a daemon that echoes."""
    said: list[bytes] = []
    with stand_in(tmp_path, echo):
        before = set(threading.enumerate())
        Conversation(Daemon(str(tmp_path), {}, ()), said.append).serve(BytesIO(b"\n".join(lines) + b"\n"))
        for thread in set(threading.enumerate()) - before:
            if thread.is_alive():
                thread.join(10)  # whoever still looks for the daemon would find none, and start a real one
    return [json.loads(line) for line in said]


def dumped(message: object) -> bytes:
    return json.dumps(message).encode()


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b'{"a": ' * 40_000, b"nope", b"[1,"])
def test_what_is_no_json_is_a_parse_error_and_the_next_line_is_answered(tmp_path: Path, line: bytes) -> None:
    first, second = conversation(tmp_path, line, dumped(request("ping", id_=2)))
    assert (first["error"]["code"], first["id"], second["id"]) == (-32700, None, 2)


@pytest.mark.parametrize(
    "message",
    [
        1, None, "ping", {}, [], {"jsonrpc": "1.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": None, "method": "ping"}, {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"}, [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
    ],
)  # fmt: skip
def test_what_is_no_request_is_an_invalid_one(tmp_path: Path, message: object) -> None:
    [said] = conversation(tmp_path, dumped(message))
    assert said["error"]["code"] == -32600


def test_a_line_of_any_length_is_refused_and_the_next_one_is_answered(tmp_path: Path) -> None:
    for length in (MAX_LINE_BYTES + 1, MAX_LINE_BYTES + 2, 3 * MAX_LINE_BYTES, 3_000_000):
        first, second = conversation(tmp_path, b"x" * length, dumped(request("ping", id_=2)))
        assert (first["error"]["code"], second["id"]) == (-32600, 2)


def test_params_tools_and_methods_that_are_none_are_refused_without_asking_anybody(tmp_path: Path) -> None:
    lines = [
        request("no/such"), call("no_such", {}), {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]},
        request("tools/call", {"name": "memory_get", "arguments": 1}), request("initialize", {"protocolVersion": 1}),
        request("server/discover"),
    ]  # fmt: skip
    codes = [said["error"]["code"] for said in conversation(tmp_path, *map(dumped, lines))]
    assert codes == [-32601, -32602, -32602, -32602, -32602, -32601]


def test_a_request_of_a_stateless_edition_says_its_version_and_what_it_can(tmp_path: Path) -> None:
    meta: Json = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    bare = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    [said] = conversation(tmp_path, dumped(bare))
    assert said["error"]["code"] == -32602
    meta["io.modelcontextprotocol/clientCapabilities"] = {}
    [said] = conversation(tmp_path, dumped(bare))
    assert said["error"] == {
        "code": -32022,
        "message": "Unsupported protocol version",
        "data": {"supported": ["2026-07-28"], "requested": "2099-01-01"},
    }


def test_notifications_and_answers_nobody_asked_for_are_not_answered(tmp_path: Path) -> None:
    lines: list[Json] = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 4, "result": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "memory_add"}},
    ]  # fmt: skip
    assert conversation(tmp_path, *map(dumped, lines), b"", b"   ") == []


def test_several_messages_in_one_are_answered_as_one_where_the_edition_has_that(tmp_path: Path) -> None:
    batch = [
        request("ping", id_=2), call("memory_search", {"query": "x"}, id_=3), initialize(id_=4),
        {"jsonrpc": "2.0", "method": "notifications/initialized"}, 5,
    ]  # fmt: skip
    _, said = conversation(tmp_path, dumped(initialize("2025-03-26")), dumped(batch))
    assert {one["id"] for one in said} == {2, 3, None}
    assert [one["error"]["code"] for one in said if one["id"] is None] == [-32600, -32600]
    _, refused = conversation(tmp_path, dumped(initialize("2025-06-18")), dumped(batch))
    assert refused["error"]["code"] == -32600


def test_calls_that_are_with_the_daemon_when_the_pipe_closes_are_still_answered(tmp_path: Path) -> None:
    said = conversation(tmp_path, *(dumped(call("memory_search", {"query": "x"}, id_=n)) for n in range(20)))
    assert {one["id"] for one in said} == set(range(20))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_it_is_asked_to_and_says_nothing_but_the_protocol(
    hung: tuple[Shim, threading.Event], number: int
) -> None:
    one, _ = hung
    one.ask(initialize())
    one.say(call("memory_search", {"query": "first"}, id_=7))
    one.process.send_signal(number)
    assert one.close() == (0, b"", b"")


def test_it_ends_with_its_pipe(hung: tuple[Shim, threading.Event]) -> None:
    one, _ = hung
    one.ask(initialize())
    assert one.close() == (0, b"", b"")


def test_the_help_names_it_and_starts_nothing(tmp_path: Path) -> None:
    environ = {**os.environ, "FILROUGE_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "filrouge.cli.main", "mcp", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environ)
    assert "claude mcp add" in " ".join(done.stdout.split())
    assert list(tmp_path.iterdir()) == []


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_guides_example_can_be_typed(tmp_path: Path) -> None:
    [example] = [block for block in blocks("sh") if "printf" in block]
    here = os.path.dirname(sys.executable)
    with serving(str(tmp_path)) as api:
        environ = {"FILROUGE_HOME": api.home, "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)])}
        done = subprocess.run(["bash", "-c", example], capture_output=True, text=True, check=True, env=environ)
        answers = {said["id"]: said["result"] for said in map(json.loads, done.stdout.splitlines())}
        assert [answers[1]["isError"], answers[2]["tools"]] == [False, list(TOOLS)]
        assert [fact["text"] for fact in api.get("/api/memory/facts")] == ["Staging listens on port 9443."]


def test_the_guides_configurations_name_the_command_and_its_table_every_tool() -> None:
    [codex] = blocks("toml")
    [client_of] = blocks("json")
    server = {"command": "/path/to/filrouge", "args": ["mcp"]}
    assert tomllib.loads(codex) == {"mcp_servers": {"filrouge": server}}
    assert json.loads(client_of) == {"mcpServers": {"filrouge": server}}
    rows = re.findall(r"^\| `(memory_\w+)` \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [tool["name"] for tool in TOOLS]
