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
    INSTRUCTIONS,
    LARGEST_LINE,
    ONCE_META,
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


def edition_for(wanted: object) -> str:
    """Return the protocol edition for `initialize`: the requested one if supported, otherwise the newest."""
    return wanted if isinstance(wanted, str) and wanted in HANDSHAKE_EDITIONS else HANDSHAKE_EDITIONS[-1]


def answer(message: Json) -> Json | None:
    """Answer a request. Returns None for a valid tool call, which the daemon answers."""
    id_, method, params = message["id"], message["method"], message.get("params")
    stateless = is_stateless(message)
    if stateless and (refused := _envelope(message)) is not None:
        return refused
    if params is not None and not isinstance(params, dict):
        return failure(id_, INVALID_PARAMS, "params must be an object")
    given = cast("Json", params or {})
    match method:
        case "tools/call":
            return _call(id_, given)
        case "tools/list":
            listed: Json = {"tools": list(TOOLS)}
            return result(id_, {**listed, **_UNCACHED, **_COMPLETE_RESULT} if stateless else listed)
        case "server/discover" if stateless:
            found = {"supportedVersions": list(STATELESS_EDITIONS), "capabilities": _CAPABILITIES}
            return result(id_, {**found, "instructions": INSTRUCTIONS, **_UNCACHED, **_COMPLETE_RESULT})
        case "initialize" if not stateless:
            return _initialize(id_, given)
        case "ping" if not stateless:
            return result(id_, {})
        case _:
            return failure(id_, METHOD_NOT_FOUND, "Method not found", str(method)[:100])


def result(id_: object, value: Json) -> Json:
    """Return a JSON-RPC result message."""
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def failure(id_: object, code: int, said: str, data: object = None) -> Json:
    """Return a JSON-RPC error message. `id_` is None if the request could not be identified."""
    error: Json = {"code": code, "message": said}
    return {"jsonrpc": "2.0", "id": id_, "error": error if data is None else {**error, "data": data}}


def failed(message: Json, said: str) -> Json:
    """Return the result of a tool call that failed. The agent reads in it what to do."""
    told: Json = {"content": [{"type": "text", "text": said}], "isError": True}
    return result(message["id"], {**told, **_COMPLETE_RESULT} if is_stateless(message) else told)


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
_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 2.0
_REPEATABLE: Final = READ_ONLY | {"memory_add"}
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
        self._elsewhere = client.is_remote(environ)

    def warm_up(self) -> None:
        """Start the daemon if needed and make it load its MCP server, so that the first call is fast."""
        ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        with suppress(DaemonUnavailable, OSError):
            if not self._elsewhere:
                self._awake()
            self._post(ping, START_SECONDS, {})

    def call(self, message: Json, edition: str) -> Json:
        """Send a tool call to the daemon and return its answer.

        Args:
            edition: the protocol edition of the handshake; empty if there was no handshake.
        """
        tool = str(message["params"]["name"])
        body, deadline = self._marked(message), time.monotonic() + CALL_SECONDS
        headers = _headers(message, tool, edition)
        for _ in range(_TRIES):
            try:
                reply = self._post(body, max(1.0, deadline - time.monotonic()), headers)
            except DaemonUnavailable as error:
                if not (_never_sent(error) or tool in _REPEATABLE):
                    return failed(message, "The daemon ended during this call. It may have been done: look before you"
                                  " call again.")  # fmt: skip
                if time.monotonic() > deadline or not self._is_back(deadline):
                    return failed(message, f"{error.message} {error.remedy}")
                continue
            if reply.status in _SHUTTING_DOWN_STATUSES and tool in _REPEATABLE and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                continue
            if not self._elsewhere and reply.status == 404 and client.replace_older_daemon(self._directory, reply):
                self._is_back(deadline)  # the older daemon does not have this route
                continue
            return _answered(message, reply)
        return failed(message, "The daemon does not answer. See `filrouge daemon status`.")

    def _post(self, body: Json, seconds: float, headers: Mapping[str, str]) -> client.Reply:
        return client.send(self._directory, self._environ, "POST", PATH, body, seconds, headers=headers)

    def _awake(self, deadline: float | None = None) -> bool:
        """Wait until the daemon answers, and start one whenever none is running or starting."""
        until = deadline or time.monotonic() + START_SECONDS
        while (left := until - time.monotonic()) > 0 or client.is_starting(self._directory):
            if client.is_absent(self._directory):
                client.start(self._directory)
            if client.wait_ready(self._directory, time.monotonic() + min(max(left, _PAUSE_SECONDS), _LOOK_SECONDS)):
                return True
        return False

    def _is_back(self, deadline: float) -> bool:
        """Wait for a daemon, and start one if none runs. Returns False if none becomes ready."""
        if self._elsewhere:
            time.sleep(_PAUSE_SECONDS)
            return True
        with suppress(OSError):
            return self._awake(min(deadline, time.monotonic() + START_SECONDS))
        return False

    def _marked(self, message: Json) -> Json:
        """Return the message with the client's project and the idempotency key of this call."""
        marks = {PROJECT_META: list(self._project), ONCE_META: os.urandom(16).hex()}
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


def _answered(message: Json, reply: client.Reply) -> Json:
    """Turn the daemon's reply into an answer for the client. An HTTP error becomes a failed tool call."""
    body = reply.body
    if body.get("jsonrpc") == "2.0" and ("result" in body or "error" in body):
        return {**body, "id": message["id"]}
    said = cast("list[object]", [body.get("detail"), body.get("remedy")])
    told = " ".join(part for part in said if isinstance(part, str) and part)
    return failed(message, told or f"The daemon refused the call ({reply.status}).")


#: `MAX_PARALLEL_CALLS`: calls sent to the daemon in parallel. `MAX_OPEN_CALLS`: unanswered calls, those in parallel
#: included.
MAX_PARALLEL_CALLS: Final = 8
MAX_OPEN_CALLS: Final = 64
MOST_IN_A_BATCH: Final = 50
#: Seconds to wait for each open call after the pipe is closed.
LAST_ANSWERS_SECONDS: Final = 60.0


def main(argv: Sequence[str]) -> None:
    """Serve the client on stdin and stdout until it closes the pipe; does not return."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    verbose = "--verbose" in argv
    if not verbose:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    here = os.environ.get("CLAUDE_PROJECT_DIR", "").strip() or os.getcwd()
    daemon = Daemon(paths.home(), os.environ, project.find_names(here, os.environ))
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
        self._note = note
        self._edition = ""
        self._writing = threading.Lock()
        self._room = threading.BoundedSemaphore(MAX_PARALLEL_CALLS)
        self._changing = threading.Lock()
        self._calls: dict[str | int, bool] = {}  # request id to whether the call was cancelled
        self._threads: list[threading.Thread] = []

    def serve(self, lines: BinaryIO) -> None:
        """Answer every line until the input ends. The daemon is warmed up after the first line."""
        warming: threading.Thread | None = None
        while line := _next_line(lines):
            self._answer(line)
            if warming is None:
                warming = threading.Thread(target=self._daemon.warm_up, daemon=True)
                warming.start()
        for thread in self._threads:
            thread.join(LAST_ANSWERS_SECONDS)

    def _answer(self, line: bytes) -> None:
        if len(line) > LARGEST_LINE:
            said = f"The message is longer than {LARGEST_LINE} bytes."
            self._say(failure(None, INVALID_REQUEST, said))
            return
        if not line.strip():
            return
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # includes bytes that are not UTF-8
            self._say(failure(None, PARSE_ERROR, "Parse error"))
            return
        if isinstance(value, list):
            self._answer_many(cast("list[object]", value))
        elif (said := self._answer_one(value, self._say)) is not None:
            self._say(said)

    def _answer_many(self, messages: list[object]) -> None:
        """Answer a batch, which one protocol edition allows. One line is written when all answers are available."""
        if self._edition != BATCHING_EDITION or not 0 < len(messages) <= MOST_IN_A_BATCH:
            self._say(failure(None, INVALID_REQUEST, "Send one message a line."))
            return
        batch = _Batch(self._say)
        for message in messages:
            batch.expect()
            if isinstance(message, dict) and cast("Json", message).get("method") == "initialize":
                batch.came(failure(None, INVALID_REQUEST, "initialize comes alone"))
                continue
            said = self._answer_one(cast("object", message), batch.came, batch.left_out)
            if said is not None:
                batch.came(said)
        batch.close()

    def _answer_one(
        self, message: object, later: Callable[[Json], object], never: Callable[[], object] | None = None
    ) -> Json | None:
        """Return the answer to one message, or None if it is not available yet or none is due.

        Args:
            later: receives the answer to a tool call.
            never: called instead if the message gets no answer.
        """
        given = cast("Json", message) if isinstance(message, dict) else {}
        nothing = never or _nothing
        if given.get("jsonrpc") != "2.0" or ("id" in given and not is_id(given["id"])):
            return failure(None, INVALID_REQUEST, "This is no JSON-RPC 2.0 message.")
        if not isinstance(given.get("method"), str):
            if "result" in given or "error" in given:
                nothing()  # a response, although this server sends no requests
                return None
            return failure(given.get("id"), INVALID_REQUEST, "A message needs a method.")
        if "id" not in given:
            self._hear(given)
            nothing()
            return None
        said = answer(given)
        if said is None:
            return self._begin(given, later, nothing)
        if given["method"] == "initialize" and "result" in said:
            self._edition = said["result"]["protocolVersion"]
        return said

    def _hear(self, notification: Json) -> None:
        """Handle a notification. Only cancellations have an effect: the answer to a cancelled call is dropped."""
        if notification["method"] == "notifications/cancelled":
            params = notification.get("params")
            wanted: object = cast("Json", params).get("requestId") if isinstance(params, dict) else None
            with self._changing:
                if is_id(wanted) and wanted in self._calls:
                    self._calls[cast("str | int", wanted)] = True

    def _begin(self, message: Json, later: Callable[[Json], object], nothing: Callable[[], object]) -> Json | None:
        """Start a call on a new thread. Returns an error if the id is in use or too many calls are open."""
        id_ = message["id"]
        with self._changing:
            if id_ in self._calls:
                return failure(id_, INVALID_REQUEST, "This id is of a call that is not answered yet.")
            if len(self._calls) >= MAX_OPEN_CALLS:
                return failed(message, "Too many calls at once. Wait for their answers.")
            self._calls[id_] = False
            self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._call, args=(message, later, nothing), daemon=True)
        self._threads.append(thread)
        thread.start()
        return None

    def _call(self, message: Json, later: Callable[[Json], object], nothing: Callable[[], object]) -> None:
        with self._room:
            try:
                said = self._daemon.call(message, self._edition)
            except Exception as error:
                self._tell(f"{type(error).__name__}: {error}")
                said = failed(message, "The call could not be made. Run `filrouge doctor` to see what is wrong.")
        with self._changing:
            cancelled = self._calls.pop(message["id"])
        if cancelled:
            nothing()
        else:
            later(said)

    def _say(self, said: Json | list[Json]) -> None:
        line = json.dumps(said, separators=(",", ":")).encode("ascii") + b"\n"
        with self._writing:
            self._write(line)

    def _tell(self, said: str) -> None:
        if self._note is not None:
            self._note(said)


class _Batch:
    """Collects the answers of a batch and sends them together."""

    def __init__(self, say: Callable[[list[Json]], object]) -> None:
        self._say = say
        self._answers: list[Json] = []
        self._open = 1
        self._changing = threading.Lock()

    def expect(self) -> None:
        """Expect one more answer."""
        with self._changing:
            self._open += 1

    def came(self, said: Json) -> None:
        """Add an expected answer."""
        with self._changing:
            self._answers.append(said)
        self.close()

    def left_out(self) -> None:
        """Record that an expected answer will not come."""
        self.close()

    def close(self) -> None:
        """Close one expectation; send the answers if none is left open."""
        with self._changing:
            self._open -= 1
            done = self._open == 0
        if done and self._answers:
            self._say(self._answers)


def _nothing() -> None:
    """Do nothing."""


def _next_line(lines: BinaryIO) -> bytes:
    """Read the next line; empty at the end. Of a line over `LARGEST_LINE` bytes only the start is returned.

    The returned start is itself longer than `LARGEST_LINE`, so that the caller rejects it.
    """
    line = lines.readline(LARGEST_LINE + 2)
    rest = line
    while len(line) > LARGEST_LINE and rest and not rest.endswith(b"\n"):
        rest = lines.readline(LARGEST_LINE)
    return line


def _write_stdout(line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]


def _to_stderr(said: str) -> None:
    os.write(2, f"filrouge mcp: {one_line(said)}\n".encode("utf-8", "replace"))


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
