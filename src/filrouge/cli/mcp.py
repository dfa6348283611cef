"""`filrouge mcp`: the MCP server that an agent starts, a shim between its pipe and the daemon.

It reads one JSON-RPC message per line on stdin and writes one per line on stdout, and nothing else. It answers the
handshake and the list of tools itself, because clients give up on `initialize` after a few seconds and the daemon may
still be starting. Tool calls go to the daemon, each on its own thread, so that a slow call delays neither a ping nor
another call. The process exits cleanly when the client closes the pipe or sends a signal.

It uses the standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, BinaryIO, Final, cast

from filrouge._version import __version__
from filrouge.core import paths
from filrouge.core.errors import DaemonUnavailable
from filrouge.core.text import one_line
from filrouge.daemon import client
from filrouge.hosts import project
from filrouge.mcp.offered import (
    BATCHING_EDITION,
    CAPABILITIES_META,
    HANDSHAKE_EDITIONS,
    IDEMPOTENCY_KEY_META,
    INSTRUCTIONS,
    MAX_LINE_BYTES,
    PROJECT_META,
    SERVER,
    SERVER_META,
    STATELESS_EDITIONS,
    TITLE,
    TOOLS,
    VERSION_META,
)

# Answers that need no daemon: the handshake of every protocol edition, the list of tools, and errors. Pure functions.

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_EDITION: Final = -32022

Json = dict[str, Any]

NAMES: Final = frozenset(tool["name"] for tool in TOOLS)
#: Tools that change nothing, so that a call may be repeated.
READ_ONLY: Final = frozenset(tool["name"] for tool in TOOLS if tool["annotations"]["readOnlyHint"])

_SERVER_INFO: Final = {"name": SERVER, "title": TITLE, "version": __version__}
_CAPABILITIES: Final = {"tools": {"listChanged": False}}
#: Extra fields of results in the stateless editions: the result is complete, and must not be cached for other clients.
_COMPLETE_RESULT: Final = {"resultType": "complete", "_meta": {SERVER_META: _SERVER_INFO}}
_UNCACHED: Final = {"cacheScope": "private", "ttlMs": 0}


def meta_of(message: Json) -> Json:
    """Return the `_meta` object of a message's parameters; empty if there is none."""
    params = message.get("params")
    found: object = cast("Json", params).get("_meta") if isinstance(params, dict) else None
    return cast("Json", found) if isinstance(found, dict) else {}


def is_stateless(message: Json) -> bool:
    """Return True if a request names its protocol edition itself, as the stateless editions require."""
    return VERSION_META in meta_of(message)


def is_id(value: object) -> bool:
    """Return True if this value is a valid request id."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def edition_for(requested: object) -> str:
    """Return the protocol edition for `initialize`: the requested one if supported, otherwise the newest."""
    return requested if isinstance(requested, str) and requested in HANDSHAKE_EDITIONS else HANDSHAKE_EDITIONS[-1]


def answer(message: Json) -> Json | None:
    """Answer a request. Returns None for a valid tool call, which the daemon answers."""
    id_, method, params = message["id"], message["method"], message.get("params")
    stateless = is_stateless(message)
    if stateless and (error := _envelope(message)) is not None:
        return error
    if params is not None and not isinstance(params, dict):
        return failure(id_, INVALID_PARAMS, "params must be an object")
    arguments = cast("Json", params or {})
    match method:
        case "tools/call":
            return _call(id_, arguments)
        case "tools/list":
            tools: Json = {"tools": list(TOOLS)}
            return result(id_, {**tools, **_UNCACHED, **_COMPLETE_RESULT} if stateless else tools)
        case "server/discover" if stateless:
            discovered = {"supportedVersions": list(STATELESS_EDITIONS), "capabilities": _CAPABILITIES}
            return result(id_, {**discovered, "instructions": INSTRUCTIONS, **_UNCACHED, **_COMPLETE_RESULT})
        case "initialize" if not stateless:
            return _initialize(id_, arguments)
        case "ping" if not stateless:
            return result(id_, {})
        case _:
            return failure(id_, METHOD_NOT_FOUND, "Method not found", str(method)[:100])


def result(id_: object, value: Json) -> Json:
    """Return a JSON-RPC result message."""
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def failure(id_: object, code: int, text: str, data: object = None) -> Json:
    """Return a JSON-RPC error message. `id_` is None if the request could not be identified."""
    error: Json = {"code": code, "message": text}
    return {"jsonrpc": "2.0", "id": id_, "error": error if data is None else {**error, "data": data}}


def failed_call(message: Json, text: str) -> Json:
    """Return the result of a tool call that failed. The agent reads in it what to do."""
    value: Json = {"content": [{"type": "text", "text": text}], "isError": True}
    return result(message["id"], {**value, **_COMPLETE_RESULT} if is_stateless(message) else value)


def _call(id_: object, params: Json) -> Json | None:
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return failure(id_, INVALID_PARAMS, "arguments must be an object")
    if params.get("name") not in NAMES:
        return failure(id_, INVALID_PARAMS, "There is no such tool.", sorted(NAMES))
    return None


def _initialize(id_: object, params: Json) -> Json:
    if not isinstance(params.get("protocolVersion"), str):
        return failure(id_, INVALID_PARAMS, "initialize needs a protocolVersion")
    return result(
        id_,
        {
            "protocolVersion": edition_for(params["protocolVersion"]),
            "capabilities": _CAPABILITIES,
            "serverInfo": _SERVER_INFO,
            "instructions": INSTRUCTIONS,
        },
    )


def _envelope(message: Json) -> Json | None:
    """Return an error if a request of a stateless edition cannot be served; otherwise None."""
    meta = meta_of(message)
    edition = meta[VERSION_META]
    if CAPABILITIES_META not in meta:
        return failure(message["id"], INVALID_PARAMS, f"params._meta is missing {CAPABILITIES_META!r}")
    if not isinstance(edition, str):
        return failure(message["id"], INVALID_PARAMS, "the protocol version must be a string")
    if edition not in STATELESS_EDITIONS:
        data = {"supported": list(STATELESS_EDITIONS), "requested": edition[:100]}
        return failure(message["id"], UNSUPPORTED_EDITION, "Unsupported protocol version", data)
    return None


# Calls to the daemon, across restarts. A call is retried if it never reached a daemon, or if it only reads, or if it is
# an addition: that carries an idempotency key, so it is stored once. Other calls may already have been carried out.
# They are not retried; the agent is told to check.

PATH: Final = "/mcp"
START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 60.0
_MAX_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2
_POLL_SECONDS: Final = 2.0
_REPEATABLE: Final = READ_ONLY | {"memory_add", "memory_team"}
#: Status codes of a daemon that is shutting down and whose successor is not ready yet.
_SHUTTING_DOWN_STATUSES: Final = (502, 503)


class Daemon:
    """Client for the daemon of a home, or for the remote daemon named in the environment. Thread-safe.

    Args:
        project: the names of the project that the MCP client works in.
    """

    def __init__(self, directory: str, environ: Mapping[str, str], project: tuple[str, ...]) -> None:
        self._directory = directory
        self._environ = environ
        self._project = project
        self._is_remote = client.is_remote(environ)

    def warm_up(self) -> None:
        """Start the daemon if needed and make it load its MCP server, so that the first call is fast."""
        ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        with suppress(DaemonUnavailable, OSError):
            if not self._is_remote:
                self._wait_until_ready()
            self._post(ping, START_SECONDS, {})

    def call(self, message: Json, edition: str) -> Json:
        """Send a tool call to the daemon and return its answer.

        Args:
            edition: the protocol edition of the handshake; empty if there was no handshake.
        """
        tool = str(message["params"]["name"])
        body, deadline = self._with_metadata(message), time.monotonic() + CALL_SECONDS
        headers = _headers(message, tool, edition)
        for _ in range(_MAX_TRIES):
            try:
                reply = self._post(body, max(1.0, deadline - time.monotonic()), headers)
            except DaemonUnavailable as error:
                if not (_never_sent(error) or tool in _REPEATABLE):
                    return failed_call(
                        message,
                        "The daemon ended during this call. It may have been done: check before you call again.",
                    )
                if time.monotonic() > deadline or not self._is_back(deadline):
                    return failed_call(message, f"{error.message} {error.remedy}")
                continue
            if reply.status in _SHUTTING_DOWN_STATUSES and tool in _REPEATABLE and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                continue
            if not self._is_remote and reply.status == 404 and client.replace_older_daemon(self._directory, reply):
                self._is_back(deadline)  # the older daemon does not have this route
                continue
            return _to_answer(message, reply)
        return failed_call(message, "The daemon does not answer. See `filrouge daemon status`.")

    def _post(self, body: Json, seconds: float, headers: Mapping[str, str]) -> client.Reply:
        return client.send(self._directory, self._environ, "POST", PATH, body, seconds, headers=headers)

    def _wait_until_ready(self, deadline: float | None = None) -> bool:
        """Wait until the daemon answers, and start one whenever none is running or starting."""
        until = deadline or time.monotonic() + START_SECONDS
        while (remaining := until - time.monotonic()) > 0 or client.is_starting(self._directory):
            if client.is_absent(self._directory):
                client.start(self._directory)
            if client.wait_ready(
                self._directory, time.monotonic() + min(max(remaining, _PAUSE_SECONDS), _POLL_SECONDS)
            ):
                return True
        return False

    def _is_back(self, deadline: float) -> bool:
        """Wait for a daemon, and start one if none runs. Returns False if none becomes ready."""
        if self._is_remote:
            time.sleep(_PAUSE_SECONDS)
            return True
        with suppress(OSError):
            return self._wait_until_ready(min(deadline, time.monotonic() + START_SECONDS))
        return False

    def _with_metadata(self, message: Json) -> Json:
        """Return the message with the client's project and the idempotency key of this call."""
        marks = {PROJECT_META: list(self._project), IDEMPOTENCY_KEY_META: os.urandom(16).hex()}
        params = {**message["params"], "_meta": {**meta_of(message), **marks}}
        return {"jsonrpc": "2.0", "id": message["id"], "method": "tools/call", "params": params}


def _headers(message: Json, tool: str, edition: str) -> dict[str, str]:
    if is_stateless(message):
        version = str(meta_of(message)[VERSION_META])
        return {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return {"MCP-Protocol-Version": edition} if edition else {}


def _never_sent(error: DaemonUnavailable) -> bool:
    """Return True if the call cannot have reached a daemon."""
    return isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError)


def _to_answer(message: Json, reply: client.Reply) -> Json:
    """Turn the daemon's reply into an answer for the client. An HTTP error becomes a failed tool call."""
    body = reply.body
    if body.get("jsonrpc") == "2.0" and ("result" in body or "error" in body):
        return {**body, "id": message["id"]}
    parts = cast("list[object]", [body.get("detail"), body.get("remedy")])
    text = " ".join(part for part in parts if isinstance(part, str) and part)
    return failed_call(message, text or f"The daemon refused the call ({reply.status}).")


#: `MAX_PARALLEL_CALLS`: calls sent to the daemon in parallel. `MAX_OPEN_CALLS`: unanswered calls, those in parallel
#: included.
MAX_PARALLEL_CALLS: Final = 8
MAX_OPEN_CALLS: Final = 64
MAX_BATCH_MESSAGES: Final = 50
#: Seconds to wait for each open call after the pipe is closed.
LAST_ANSWERS_SECONDS: Final = 60.0


def main(argv: Sequence[str]) -> None:
    """Serve the client on stdin and stdout until it closes the pipe; does not return."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _exit_now)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    verbose = "--verbose" in argv
    if not verbose:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    directory = os.environ.get("CLAUDE_PROJECT_DIR", "").strip() or os.getcwd()
    daemon = Daemon(paths.home(), os.environ, project.find_names(directory, os.environ))
    Shim(daemon, _write_stdout, _to_stderr if verbose else None).serve(sys.stdin.buffer)
    os._exit(0)


class Shim:
    """The connection to one MCP client.

    Args:
        write: receives one complete line of output.
        note: receives diagnostic messages; None = they are dropped.
    """

    def __init__(
        self, daemon: Daemon, write: Callable[[bytes], object], note: Callable[[str], object] | None = None
    ) -> None:
        self._daemon = daemon
        self._write = write
        self._write_note = note
        self._edition = ""
        self._write_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_PARALLEL_CALLS)
        self._lock = threading.Lock()
        self._calls: dict[str | int, bool] = {}  # request id to whether the call was cancelled
        self._threads: list[threading.Thread] = []

    def serve(self, lines: BinaryIO) -> None:
        """Answer every line until the input ends. The daemon is warmed up after the first line."""
        warming: threading.Thread | None = None
        while line := _read_line(lines):
            self._answer(line)
            if warming is None:
                warming = threading.Thread(target=self._daemon.warm_up, daemon=True)
                warming.start()
        for thread in self._threads:
            thread.join(LAST_ANSWERS_SECONDS)

    def _answer(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            text = f"The message is longer than {MAX_LINE_BYTES} bytes."
            self._send(failure(None, INVALID_REQUEST, text))
            return
        if not line.strip():
            return
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # includes bytes that are not UTF-8
            self._send(failure(None, PARSE_ERROR, "Parse error"))
            return
        if isinstance(value, list):
            self._answer_many(cast("list[object]", value))
        elif (reply := self._answer_one(value, self._send)) is not None:
            self._send(reply)

    def _answer_many(self, messages: list[object]) -> None:
        """Answer a batch, which one protocol edition allows. One line is written when all answers are available."""
        if self._edition != BATCHING_EDITION or not 0 < len(messages) <= MAX_BATCH_MESSAGES:
            self._send(failure(None, INVALID_REQUEST, "Send one message per line."))
            return
        batch = _Batch(self._send)
        for message in messages:
            batch.expect()
            if isinstance(message, dict) and cast("Json", message).get("method") == "initialize":
                batch.add(failure(None, INVALID_REQUEST, "initialize must not be in a batch"))
                continue
            reply = self._answer_one(cast("object", message), batch.add, batch.skip)
            if reply is not None:
                batch.add(reply)
        batch.close()

    def _answer_one(
        self, message: object, deliver: Callable[[Json], object], cancel: Callable[[], object] | None = None
    ) -> Json | None:
        """Return the answer to one message, or None if it is not available yet or none is due.

        Args:
            deliver: receives the answer to a tool call.
            cancel: called instead if the message gets no answer.
        """
        request = cast("Json", message) if isinstance(message, dict) else {}
        skip = cancel or _do_nothing
        if request.get("jsonrpc") != "2.0" or ("id" in request and not is_id(request["id"])):
            return failure(None, INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.")
        if not isinstance(request.get("method"), str):
            if "result" in request or "error" in request:
                skip()  # a response, although this server sends no requests
                return None
            return failure(request.get("id"), INVALID_REQUEST, "A message needs a method.")
        if "id" not in request:
            self._handle_notification(request)
            skip()
            return None
        reply = answer(request)
        if reply is None:
            return self._start_call(request, deliver, skip)
        if request["method"] == "initialize" and "result" in reply:
            self._edition = reply["result"]["protocolVersion"]
        return reply

    def _handle_notification(self, notification: Json) -> None:
        """Handle a notification. Only cancellations have an effect: the answer to a cancelled call is dropped."""
        if notification["method"] == "notifications/cancelled":
            params = notification.get("params")
            request_id: object = cast("Json", params).get("requestId") if isinstance(params, dict) else None
            with self._lock:
                if is_id(request_id) and request_id in self._calls:
                    self._calls[cast("str | int", request_id)] = True

    def _start_call(self, message: Json, deliver: Callable[[Json], object], skip: Callable[[], object]) -> Json | None:
        """Start a call on a new thread. Returns an error if the id is in use or too many calls are open."""
        id_ = message["id"]
        with self._lock:
            if id_ in self._calls:
                return failure(id_, INVALID_REQUEST, "A call with this id is still open.")
            if len(self._calls) >= MAX_OPEN_CALLS:
                return failed_call(message, "Too many calls are open. Wait for their answers.")
            self._calls[id_] = False
            self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._call, args=(message, deliver, skip), daemon=True)
        self._threads.append(thread)
        thread.start()
        return None

    def _call(self, message: Json, deliver: Callable[[Json], object], skip: Callable[[], object]) -> None:
        with self._slots:
            try:
                reply = self._daemon.call(message, self._edition)
            except Exception as error:
                self._report(f"{type(error).__name__}: {error}")
                reply = failed_call(message, "The call could not be made. Run `filrouge doctor` to see what is wrong.")
        with self._lock:
            cancelled = self._calls.pop(message["id"])
        if cancelled:
            skip()
        else:
            deliver(reply)

    def _send(self, reply: Json | list[Json]) -> None:
        line = json.dumps(reply, separators=(",", ":")).encode("ascii") + b"\n"
        with self._write_lock:
            self._write(line)

    def _report(self, text: str) -> None:
        if self._write_note is not None:
            self._write_note(text)


class _Batch:
    """Collects the answers of a batch and sends them together."""

    def __init__(self, send: Callable[[list[Json]], object]) -> None:
        self._send = send
        self._answers: list[Json] = []
        self._open = 1
        self._lock = threading.Lock()

    def expect(self) -> None:
        """Expect one more answer."""
        with self._lock:
            self._open += 1

    def add(self, reply: Json) -> None:
        """Add an expected answer."""
        with self._lock:
            self._answers.append(reply)
        self.close()

    def skip(self) -> None:
        """Record that an expected answer will not come."""
        self.close()

    def close(self) -> None:
        """Close one expectation; send the answers if none is left open."""
        with self._lock:
            self._open -= 1
            done = self._open == 0
        if done and self._answers:
            self._send(self._answers)


def _do_nothing() -> None:
    """Do nothing."""


def _read_line(lines: BinaryIO) -> bytes:
    """Read the next line; empty at the end. Of a line over `MAX_LINE_BYTES` bytes only the start is returned.

    The returned start is itself longer than `MAX_LINE_BYTES`, so that the caller rejects it.
    """
    line = lines.readline(MAX_LINE_BYTES + 2)
    rest = line
    while len(line) > MAX_LINE_BYTES and rest and not rest.endswith(b"\n"):
        rest = lines.readline(MAX_LINE_BYTES)
    return line


def _write_stdout(line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]


def _to_stderr(text: str) -> None:
    os.write(2, f"filrouge mcp: {one_line(text)}\n".encode("utf-8", "replace"))


def _exit_now(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
