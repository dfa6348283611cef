"""`filrouge mcp`: the MCP server that an agent starts: a shim on the standard library between its pipe and the daemon.

It reads one JSON-RPC message a line on stdin and writes one a line on stdout, and nothing else. The handshake is
answered at once (`mcp_answers`), while the daemon is being woken; calls of tools go to the daemon (`mcp_daemon`), each
on a thread of its own, so that a slow one holds up neither a ping nor another. Whoever closes the pipe or asks it to
end gets a clean exit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, BinaryIO, Final, cast

from filrouge.cli.mcp_answers import INVALID_REQUEST, PARSE_ERROR, answer, failed, failure, is_id
from filrouge.cli.mcp_daemon import Daemon
from filrouge.core import paths
from filrouge.core.text import one_line
from filrouge.hosts import project
from filrouge.mcp.offered import BATCHING_EDITION, LARGEST_LINE

Json = dict[str, Any]

#: Calls that are with the daemon at once, and those that may wait for them.
AT_ONCE: Final = 8
MOST_WAITING: Final = 64
MOST_IN_A_BATCH: Final = 50
#: Seconds that answers may still take once the pipe is closed.
LAST_ANSWERS_SECONDS: Final = 60.0


def main(argv: Sequence[str]) -> None:
    """Serve the client on stdin and stdout until it leaves; does not return."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    verbose = "--verbose" in argv
    if not verbose:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    here = os.environ.get("CLAUDE_PROJECT_DIR", "").strip() or os.getcwd()
    daemon = Daemon(paths.home(), os.environ, project.names(here, os.environ))
    Shim(daemon, _write_stdout, _to_stderr if verbose else None).serve(sys.stdin.buffer)
    os._exit(0)


class Shim:
    """One client's conversation.

    Args:
        write: takes one line of output, whole.
        note: takes what is worth knowing for who looks for a fault; None = nobody.
    """

    def __init__(
        self, daemon: Daemon, write: Callable[[bytes], object], note: Callable[[str], object] | None = None
    ) -> None:
        self._daemon = daemon
        self._write = write
        self._note = note
        self._edition = ""
        self._writing = threading.Lock()
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._changing = threading.Lock()
        self._calls: dict[str | int, bool] = {}  # by id: whether it was cancelled
        self._threads: list[threading.Thread] = []

    def serve(self, lines: BinaryIO) -> None:
        """Answer every line until there are no more."""
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
        except (ValueError, RecursionError):  # also bytes that are no UTF-8
            self._say(failure(None, PARSE_ERROR, "Parse error"))
            return
        if isinstance(value, list):
            self._answer_many(cast("list[object]", value))
        elif (said := self._answer_one(value, self._say)) is not None:
            self._say(said)

    def _answer_many(self, messages: list[object]) -> None:
        """Several messages at once, as one edition allows: one answer, once all are there."""
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
        """The answer to one message, if it is there at once; a call's is given to `later`, or `never` where none is
        due."""
        given = cast("Json", message) if isinstance(message, dict) else {}
        nothing = never or _nothing
        if given.get("jsonrpc") != "2.0" or ("id" in given and not is_id(given["id"])):
            return failure(None, INVALID_REQUEST, "This is no JSON-RPC 2.0 message.")
        if not isinstance(given.get("method"), str):
            if "result" in given or "error" in given:
                nothing()  # an answer, and nothing was asked
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
        """A notification; only a cancelled call changes anything, and its answer is not given any more."""
        if notification["method"] == "notifications/cancelled":
            params = notification.get("params")
            wanted: object = cast("Json", params).get("requestId") if isinstance(params, dict) else None
            with self._changing:
                if is_id(wanted) and wanted in self._calls:
                    self._calls[cast("str | int", wanted)] = True

    def _begin(self, message: Json, later: Callable[[Json], object], nothing: Callable[[], object]) -> Json | None:
        """Hand a call over on a thread of its own."""
        id_ = message["id"]
        with self._changing:
            if id_ in self._calls:
                return failure(id_, INVALID_REQUEST, "This id is of a call that is not answered yet.")
            if len(self._calls) >= MOST_WAITING:
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
    """Answers that go out together."""

    def __init__(self, say: Callable[[list[Json]], object]) -> None:
        self._say = say
        self._answers: list[Json] = []
        self._open = 1
        self._changing = threading.Lock()

    def expect(self) -> None:
        """One more is to come."""
        with self._changing:
            self._open += 1

    def came(self, said: Json) -> None:
        """One that was expected."""
        with self._changing:
            self._answers.append(said)
        self.close()

    def left_out(self) -> None:
        """One that was expected and does not come."""
        self.close()

    def close(self) -> None:
        """Give them out if this was the last."""
        with self._changing:
            self._open -= 1
            done = self._open == 0
        if done and self._answers:
            self._say(self._answers)


def _nothing() -> None:
    """Nobody waits."""


def _next_line(lines: BinaryIO) -> bytes:
    """The next line, empty at the end; of one that is too long only the beginning, which is longer than any may be."""
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
