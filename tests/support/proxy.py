"""A TCP forwarder that keeps all bytes that pass, and does what networks do: cut, wait, swallow, refuse."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Weather = Literal["fair", "slow", "half-open", "reset", "cut"]
"""`slow`: answers come after `seconds`; `half-open`: requests are taken and never answered; `reset`: connections end
at once; `cut`: requests arrive, and answers end after `answered` bytes."""
_PIECE: Final = 1 << 16
_NOW: Final = struct.pack("ii", 1, 0)


@dataclass(kw_only=True)
class Proxy:
    """Stands between a client and a server on this machine.

    Attributes:
        sent: every byte from clients; `answers`: every byte from the server.
        requests: connections so far.
    """

    target: int
    weather: Weather = "fair"
    seconds: float = 5.0
    answered: int = 40
    requests: int = 0
    sent: bytearray = field(default_factory=bytearray)
    answers: bytearray = field(default_factory=bytearray)
    _listening: socket.socket = field(init=False)
    _open: set[socket.socket] = field(default_factory=set[socket.socket], init=False)

    def __enter__(self) -> Proxy:
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.drop()

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def drop(self) -> None:
        """End all connections that are open."""
        for wire in list(self._open):
            _end(wire, at_once=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.requests += 1
            if self.weather == "reset":
                _end(client, at_once=True)
                continue
            self._open.add(client)
            threading.Thread(target=self._serve, args=(client, self.weather), daemon=True).start()

    def _serve(self, client: socket.socket, weather: Weather) -> None:
        try:
            if weather == "half-open":
                while piece := client.recv(_PIECE):
                    self.sent += piece
                return
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                self._answer(client, server, weather)
        except OSError:
            pass
        finally:
            self._open.discard(client)
            _end(client, at_once=weather == "cut")

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while piece := client.recv(_PIECE):
                self.sent += piece
                server.sendall(piece)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, client: socket.socket, server: socket.socket, weather: Weather) -> None:
        left = self.answered
        while piece := server.recv(_PIECE):
            if weather == "slow":
                time.sleep(self.seconds)
                weather = "fair"
            self.answers += piece
            if weather == "cut":
                client.sendall(piece[:left])
                left -= len(piece)
                if left <= 0:
                    return
            else:
                client.sendall(piece)


def _end(wire: socket.socket, *, at_once: bool) -> None:
    """End a connection, whatever is under way or after it is sent; also for a thread that waits for its bytes."""
    with suppress(OSError):
        if at_once:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
        wire.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        wire.close()


def cut_somewhere(proxy: Proxy, chance: Any) -> None:
    """Let answers end after the status, within the head, or within the body."""
    proxy.weather, proxy.answered = "cut", chance.choice((0, 1, 15, 60, 140, 200, 300, 1000))
