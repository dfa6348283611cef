"""A real HTTP server on this machine that answers as a test tells it, and remembers what it was asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Asked:
    """One request that came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Told:
    """What to answer. `chunks` are sent as they come, so that a test can be slow or break off."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    chunks: Iterable[bytes] | None = None


Answering = Callable[[Asked], Told]


@dataclass
class Server:
    address: str
    asked: list[Asked]
    stopping: Event


@contextmanager
def serving(answer: Answering) -> Generator[Server]:
    asked: list[Asked] = []
    stopping = Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a reply in two writes waits 40 ms for the other side

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            one = Asked(self.command, self.path, dict(self.headers.items()), body)
            asked.append(one)
            told = answer(one)
            try:
                self.send_response(told.status)
                for name, value in {"Content-Length": str(len(told.body)), **told.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for chunk in [told.body] if told.chunks is None else told.chunks:
                    self.wfile.write(chunk)
                    self.wfile.flush()
            except OSError:  # the client has gone
                self.close_connection = True
            if told.chunks is not None:
                self.close_connection = True

        do_GET = do_POST = handle_any  # noqa: N815 (the names that http.server looks for)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}", asked, stopping)
    finally:
        stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def vector(text: str, length: int) -> list[float]:
    """Some numbers that depend on the text alone; not of length 1."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return [round(float(number), 6) for number in np.random.default_rng(seed).normal(size=length)]


def unit(text: str, length: int) -> list[float]:
    found = np.array(vector(text, length))
    return (found / np.linalg.norm(found)).tolist()


def as_json(value: object, status: int = 200, **headers: str) -> Told:
    return Told(status, json.dumps(value).encode(), {name.replace("_", "-"): text for name, text in headers.items()})


def openai(length: int, tokens: int | None = None) -> Answering:
    """Answers as OpenAI and Voyage do, in the order in which it likes."""

    def answer(asked: Asked) -> Told:
        texts: Sequence[str] = asked.json["input"]
        size = asked.json.get("dimensions") or asked.json.get("output_dimension") or length
        data = [{"index": place, "embedding": vector(text, size)} for place, text in enumerate(texts)]
        usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
        return as_json({"data": data[::-1], **usage})

    return answer


def ollama(length: int, tokens: int | None = None) -> Answering:
    def answer(asked: Asked) -> Told:
        found: dict[str, Any] = {"embeddings": [vector(text, length) for text in asked.json["input"]]}
        return as_json(found if tokens is None else {**found, "prompt_eval_count": tokens})

    return answer


def trickle(server_stops: Callable[[], bool]) -> Generator[bytes]:
    """A byte now and then, for ever."""
    while not server_stops():
        yield b" "
        time.sleep(0.02)
