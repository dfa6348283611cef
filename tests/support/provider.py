"""A provider of language models on this machine that does what a test wrote, and remembers what it was asked.

It speaks Anthropic's Messages, OpenAI's Chat Completions and Ollama's chat over HTTP on one port, with their lists of
models, so that the real SDKs talk to it:

    with Provider(Reply('{"facts": []}'), Status(429, retry_after=3), Hang()) as provider:
        options = ModelOptions(provider="ollama", url=provider.url("ollama"))

Each question takes the next step; the last one stands for all that follow. In the place of steps there may be one
function that chooses a step by what was asked. `provider.asked` holds every question, with how many tokens it had;
keys are not kept, only whether there was one.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Final, cast

from tests.support import wires
from tests.support.wires import Api, Json

_KEYS: Final = frozenset({"authorization", "x-api-key", "cookie"})
_CHARACTERS_A_TOKEN: Final = 4
QUESTIONS: Final = frozenset({"messages", "chat", "ollama"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request. `key` tells whether it carried one; `tokens` is how many its texts have, as this server counts."""

    api: Api
    path: str
    headers: Mapping[str, str]
    key: bool
    body: Json = field(repr=False)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def instructions(self) -> str:
        return wires.instructions(self.api, self.body)

    @property
    def text(self) -> str:
        return wires.said(self.body)

    @property
    def schema(self) -> Json | None:
        return wires.schema(self.api, self.body)

    @property
    def form(self) -> str | None:
        """How Chat Completions is asked for JSON: json_schema, json_object, or not."""
        wanted: Json = self.body.get("response_format") or {}
        return wanted.get("type")

    @property
    def most_tokens(self) -> int | None:
        return wires.most_tokens(self.api, self.body)

    @property
    def tokens(self) -> int:
        return tokens(self.instructions + self.text)


def tokens(text: str) -> int:
    """As many as this server says that a text has."""
    return max(1, math.ceil(len(text) / _CHARACTERS_A_TOKEN))


# ---------------------------------------------------------------------------------------- what it may do


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the model. Not counted: the server says nothing of tokens."""

    text: str
    counted: bool = True
    stop: str = "end_turn"


@dataclass(frozen=True, slots=True)
class Echo:
    """The model repeats all that it was told."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model will not answer."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Some step after some seconds; not at all if the server ends before."""

    seconds: float
    then: Step


@dataclass(frozen=True, slots=True)
class Hang:
    """The connection stays open and silent; `begun` sends the head of a reply first."""

    begun: bool = False


@dataclass(frozen=True, slots=True)
class Trickle:
    """A whole answer, a byte at a time."""

    text: str
    seconds_a_byte: float = 1.0


@dataclass(frozen=True, slots=True)
class Status:
    """An error, in the provider's own form. `echo`: its message repeats the prompt and the key."""

    code: int
    retry_after: float | str | None = None
    kind: str = "error"
    message: str = "not now"
    echo: bool = False


@dataclass(frozen=True, slots=True)
class Truncated:
    """A reply whose JSON ends in its middle, though the connection ends well."""

    text: str = '{"facts": []}'


@dataclass(frozen=True, slots=True)
class Raw:
    """Any bytes at all."""

    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    status: int = 200


@dataclass(frozen=True, slots=True)
class Big:
    """An answer of so many megabytes; `provider.sent` counts how many bytes anybody read of it."""

    megabytes: int = 10


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is torn down; `after` bytes of the reply."""

    after: int = 0


Step = Reply | Echo | Refusal | Slow | Hang | Trickle | Status | Truncated | Raw | Big | Reset
Choosing = Callable[[Asked], "Step | str"]


def fenced(value: object) -> Reply:
    """JSON as many models write it: with a sentence before, and in a fence."""
    return Reply(f"Here is the JSON you asked for:\n\n```json\n{json.dumps(value, indent=2)}\n```\n")


def as_json(value: object) -> Reply:
    """An answer that is this value; NaN and infinities are written as Python writes them."""
    return Reply(json.dumps(value))


def nested(depth: int) -> Reply:
    """An answer of lists in lists."""
    return Reply("[" * depth + "]" * depth)


# ---------------------------------------------------------------------------------------- the server


class Provider:
    """The server, as a context manager.

    Attributes:
        asked: every question to a model, in the order in which they came.
        looked: every other request: lists of models.
        models: the names that it lists.
        sent: bytes that were written, heads not counted.
    """

    def __init__(self, *steps: Step, choosing: Choosing | None = None, models: Iterable[str] = ()) -> None:
        self.asked: list[Asked] = []
        self.looked: list[Asked] = []
        self.models = list(models)
        self.sent = 0
        self.stopping = Event()
        self._steps = list(steps)
        self._choosing = choosing
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), _bound_to(self))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def tokens(self) -> int:
        """How many tokens all questions had."""
        return sum(one.tokens for one in self.asked)

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def url(self, provider: str) -> str:
        """The address as the setting of this provider wants it."""
        return f"{self.address}/v1" if provider == "openai" else self.address

    def teach(self, *steps: Step) -> None:
        """From now on, do this."""
        with self._lock:
            self._steps = list(steps)

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def step(self, asked: Asked) -> Step:
        """Keep the question, and choose what to do about it."""
        with self._lock:
            self.asked.append(asked)
            if self._choosing is None:
                return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        chosen = self._choosing(asked)
        return Reply(chosen) if isinstance(chosen, str) else chosen

    def count(self, sent: int) -> None:
        """So many bytes were written."""
        with self._lock:
            self.sent += sent


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has enough hangs up; that is not an error of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a reply in two writes waits 40 ms for the other side
    owner: Provider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name is inherited)
        """Say nothing: the requests are kept, and the terminal belongs to pytest."""

    def do_GET(self) -> None:
        asked = self._read()
        if asked is None:
            return
        self.owner.looked.append(asked)
        entries = [{"id": name, "name": name, "object": "model", "type": "model"} for name in self.owner.models]
        key = "models" if asked.api == "tags" else "data"
        self._send_json({"object": "list", key: entries, "has_more": False, "first_id": None, "last_id": None})

    def do_POST(self) -> None:
        asked = self._read()
        if asked is None:
            return
        if asked.api not in QUESTIONS:
            self._send_json(_error(asked.api, "not_found_error", "no such route"), 404)
            return
        step = self.owner.step(asked)
        while isinstance(step, Slow):
            if self.owner.stopping.wait(step.seconds):
                self._tear_down()
                return
            step = step.then
        self._do(asked, step)

    def _read(self) -> Asked | None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path not in wires.PATHS:
            self._send_json({"error": {"type": "not_found_error", "message": f"no route {path}"}}, 404)
            return None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._secret = " ".join(headers.get(name, "") for name in sorted(_KEYS)).strip()
        return Asked(
            api=wires.PATHS[path],
            path=path,
            headers={name: value for name, value in headers.items() if name not in _KEYS},
            key=bool(self._secret),
            body=cast("Json", json.loads(raw or b"{}")),
        )

    def _do(self, asked: Asked, step: Step) -> None:  # noqa: C901 (a branch a step)
        match step:
            case Reply(text, counted, stop):
                self._answer(asked, text, counted=counted, stop=stop)
            case Echo():
                self._answer(asked, f"{asked.instructions}\n{asked.text}")
            case Refusal():
                self._answer(asked, None)
            case Hang(begun):
                if begun:
                    self._head(200, "application/json", 1_000_000)
                self.owner.stopping.wait()
                self._tear_down()
            case Trickle(text, pause):
                self._trickle(self._whole(asked, text), pause)
            case Status():
                self._fail(asked, step)
            case Truncated(text):
                whole = self._whole(asked, text)
                self._send(whole[: len(whole) * 2 // 3], "application/json")
            case Raw(body, content_type, headers, status):
                self._send(body, content_type, status, headers)
            case Big(megabytes):
                self._flood(asked, megabytes)
            case Reset(after):
                if after:
                    whole = self._whole(asked, "never read to its end")
                    self._head(200, "application/json", len(whole))
                    self.wfile.write(whole[:after])
                    self.wfile.flush()
                self._tear_down()
            case Slow():
                raise AssertionError("slow was waited for")

    def _json(self, asked: Asked, text: str | None, *, counted: bool = True, stop: str = "end_turn") -> Json:
        read, wrote = (asked.tokens, tokens(text or "")) if counted else (None, None)
        return wires.answer(asked.api, asked.body, text, stop=stop, read=read, wrote=wrote)

    def _whole(self, asked: Asked, text: str | None) -> bytes:
        return json.dumps(self._json(asked, text)).encode()

    def _answer(self, asked: Asked, text: str | None, *, counted: bool = True, stop: str = "end_turn") -> None:
        whole = self._json(asked, text, counted=counted, stop=stop)
        if asked.body.get("stream", asked.api == "ollama"):
            content_type, pieces = wires.streamed(asked.api, whole)
            self._stream(pieces, content_type)
        else:
            self._send_json(whole)

    def _fail(self, asked: Asked, step: Status) -> None:
        message = f"{asked.instructions} {asked.text} {self._secret}" if step.echo else step.message
        headers = {} if step.retry_after is None else {"Retry-After": str(step.retry_after)}
        self._send_json(_error(asked.api, step.kind, message), step.code, headers)

    def _flood(self, asked: Asked, megabytes: int) -> None:
        before, _, after = self._whole(asked, "@@@").partition(b"@@@")
        self._head(200, "application/json", len(before) + len(after) + megabytes * 1_000_000)
        pieces = (b"a" * 1_000_000 for _ in range(megabytes))
        for piece in (before, *pieces, after):
            self.wfile.write(piece)
            self.owner.count(len(piece))

    def _trickle(self, whole: bytes, pause: float) -> None:
        self._head(200, "application/json", len(whole))
        for byte in whole:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            if self.owner.stopping.wait(pause):
                break
        self.close_connection = True

    def _stream(self, pieces: Iterator[bytes], content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            self.owner.count(len(piece))
        self.close_connection = True

    def _head(self, status: int, content_type: str, length: int, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def _send(
        self, data: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._head(status, content_type, len(data), headers)
        self.wfile.write(data)
        self.owner.count(len(data))

    def _send_json(self, value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), "application/json", status, headers)

    def _tear_down(self) -> None:
        """End with a reset, not with the polite end that a client could take for the end of a reply."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _error(api: Api, kind: str, message: str) -> Json:
    match api:
        case "messages":
            return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
        case "chat":
            return {"error": {"message": message, "type": kind, "code": kind, "param": None}}
        case _:
            return {"error": message}


def _bound_to(provider: Provider) -> type[_Handler]:
    class Bound(_Handler):
        owner = provider

    return Bound
