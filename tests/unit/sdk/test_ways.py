"""The ways to a memory: a daemon that is started or hangs, an address with a key, a home that the program holds."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import filrouge
from filrouge.core.errors import BadInput, Busy, DaemonUnavailable, FilrougeError, NotFound
from filrouge.daemon import client
from filrouge.daemon.process import bind_socket, is_held

from .given import WORDS_ONLY, daemon


def test_a_daemon_is_started_where_it_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FILROUGE_EMBEDDING_MODEL", "hashing")
    home = str(tmp_path / "home")

    async def scenario() -> None:
        async with filrouge.Memory(home) as memory:
            try:
                assert (await memory.status())["home"] == home
            finally:
                client.request(home, "POST", "/daemon/stop", {})

    asyncio.run(scenario())


def test_no_daemon_is_started_where_that_is_not_wanted(tmp_path: Path) -> None:
    with (
        pytest.raises(DaemonUnavailable, match="does not answer") as refused,
        filrouge.BlockingMemory(str(tmp_path), start=False) as memory,
    ):
        memory.status()
    assert "filrouge daemon start" in refused.value.remedy
    assert os.listdir(tmp_path) == []


def test_a_daemon_that_hangs_is_told_from_one_that_is_away(tmp_path: Path) -> None:
    listener = bind_socket(str(tmp_path))
    with listener, filrouge.BlockingMemory(str(tmp_path), timeout=0.2) as memory:
        with pytest.raises(DaemonUnavailable, match="runs but did not answer"):
            memory.status()
        with pytest.raises(DaemonUnavailable, match="within 0 seconds"):
            memory.search("anything", timeout=0.05)


def test_what_is_observed_waits_in_the_home_where_nobody_answers_and_is_known_when_it_comes_again(
    tmp_path: Path,
) -> None:
    said = [{"role": "user", "content": "The ferry leaves at nine; <private>the gate code is 4711</private>."}]
    with filrouge.BlockingMemory(str(tmp_path), start=False) as memory:
        waiting = memory.observe(said, channel="desk", session_id="one")
        assert (waiting.accepted, waiting.duplicates, waiting.spooled) == (1, 0, True)
        with pytest.raises(BadInput, match=r"body\.messages\.0\.role"):
            memory.observe([{"role": "nobody", "content": "x"}], channel="desk", session_id="one")
        with pytest.raises(DaemonUnavailable, match="only the daemon can tell"):
            memory.observe(said, channel="desk", session_id="one", project="ferries")
    assert b"gate code" not in b"".join(path.read_bytes() for path in (tmp_path / "spool").iterdir())
    with filrouge.BlockingMemory.embedded(str(tmp_path), environ=WORDS_ONLY) as memory:
        again = memory.observe(said, channel="desk", session_id="one")
        assert (again.accepted, again.duplicates, again.spooled) == (0, 1, False)


def test_what_is_observed_elsewhere_is_not_kept_here(tmp_path: Path) -> None:
    environ = {"FILROUGE_URL": "http://127.0.0.1:9", "FILROUGE_HOME": str(tmp_path)}
    with filrouge.BlockingMemory(environ=environ) as memory, pytest.raises(DaemonUnavailable):
        memory.observe([{"role": "user", "content": "The ferry leaves at nine."}], channel="desk", session_id="one")
    assert list(tmp_path.iterdir()) == []


def test_a_verb_that_is_cancelled_lets_go_of_its_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        with bind_socket(str(tmp_path)) as listener:
            listener.setblocking(False)
            async with filrouge.Memory(str(tmp_path), start=False) as memory:
                asking = asyncio.create_task(memory.search("anything"))
                wire, _ = await asyncio.get_running_loop().sock_accept(listener)
                with wire:
                    asking.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await asking
                    wire.settimeout(5)
                    assert await asyncio.to_thread(_rest, wire) >= b""  # its end came: nobody holds the connection

    asyncio.run(scenario())


def test_more_tasks_than_connections_take_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filrouge.Memory(str(tmp_path), start=False, connections=2) as memory:
            said = [memory.remember(f"Buoy {n} is moored at pier {n}.") for n in range(12)]
            found = await asyncio.gather(*said, *(memory.search(f"buoy {n}") for n in range(12)))
            assert all(len(one) == 1 for one in found[:12])
            assert all(isinstance(one, list) for one in found[12:])

    with daemon(str(tmp_path)):
        asyncio.run(scenario())


def test_verbs_that_are_cancelled_leave_an_embedded_memory_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filrouge.Memory.embedded(str(tmp_path), environ=WORDS_ONLY) as memory:
            asking = [asyncio.create_task(memory.remember(f"Crate {n} holds {n} lamps.")) for n in range(8)]
            await asyncio.sleep(0)
            for task in asking[::2]:
                task.cancel()
            ended = await asyncio.gather(*asking, return_exceptions=True)
            assert [isinstance(one, asyncio.CancelledError) for one in ended[::2]] == [True] * 4
            assert [isinstance(one, list) for one in ended[1::2]] == [True] * 4
            assert await memory.search("crate 7", collection="turns")
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
    assert not is_held(str(tmp_path))


def test_a_home_whose_opening_is_cancelled_is_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        opening = asyncio.create_task(filrouge.Memory.embedded(str(tmp_path), environ=WORDS_ONLY).__aenter__())
        while not is_held(str(tmp_path)):
            await asyncio.sleep(0.001)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(scenario())
    assert not is_held(str(tmp_path))


def test_a_home_that_a_daemon_has_is_not_held_a_second_time(tmp_path: Path) -> None:
    with (
        daemon(str(tmp_path)),
        pytest.raises(Busy, match="has an owner already"),
        filrouge.BlockingMemory.embedded(str(tmp_path)),
    ):
        pass


def test_a_memory_is_open_in_its_block_alone_and_can_be_opened_again(tmp_path: Path) -> None:
    memory = filrouge.Memory.embedded(str(tmp_path), environ=WORDS_ONLY)

    async def scenario() -> None:
        async with memory:
            await memory.remember("The tide table hangs in the kitchen.")
            with pytest.raises(BadInput, match="already open"):
                await memory.__aenter__()
        with pytest.raises(BadInput, match="not open"):
            await memory.search("tide")

    asyncio.run(scenario())
    asyncio.run(_found(memory))


async def _found(memory: filrouge.Memory) -> None:
    async with memory:
        assert len(await memory.search("tide table")) == 2


def test_a_memory_is_embedded_or_elsewhere() -> None:
    with pytest.raises(BadInput, match="exclude each other"):
        filrouge.Memory(embedded=True, url="https://memory.example")


class Elsewhere:
    """Another machine's daemon as far as the wire goes: what it is asked it notes, what it answers is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.answer: tuple[int, Any] = (200, [])
        self.url = ""


@pytest.fixture
def elsewhere() -> Generator[Elsewhere]:
    with _listening(Elsewhere()) as found:
        yield found


@contextmanager
def _listening(found: Elsewhere) -> Generator[Elsewhere]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or "null")
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.asked.append((self.command, self.path, headers, body))
            content = json.dumps(found.answer[1]).encode()
            self.send_response(found.answer[0])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST  # noqa: N815 (the base class's name)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/memory"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def test_a_daemon_elsewhere_is_asked_with_its_key_below_the_path_of_its_address(elsewhere: Elsewhere) -> None:
    with filrouge.BlockingMemory(url=elsewhere.url, api_key="k3y") as memory:
        assert memory.search("à côté + 50 % & more", kind=["fact", "turn"]) == []
    [(method, path, headers, _)] = elsewhere.asked
    assert (method, headers["authorization"]) == ("GET", "Bearer k3y")
    assert headers["host"] == elsewhere.url.split("/")[2]
    assert path.startswith("/memory/api/memory/search?q=%C3%A0+c%C3%B4t%C3%A9+%2B+50+%25+%26+more&mode=text")
    assert path.endswith("&kind=fact&kind=turn")


def test_the_environment_says_where_the_daemon_is_where_no_home_is_named(elsewhere: Elsewhere, tmp_path: Path) -> None:
    environ = {
        "FILROUGE_URL": elsewhere.url,
        "FILROUGE_API_KEY": "from the environment",
        "FILROUGE_HOME": str(tmp_path),
    }
    with filrouge.BlockingMemory(environ=environ) as memory:
        memory.facts()
    assert elsewhere.asked[0][2]["authorization"] == "Bearer from the environment"
    with (
        filrouge.BlockingMemory(str(tmp_path), start=False, environ=environ) as memory,
        pytest.raises(DaemonUnavailable),
    ):
        memory.facts()
    assert len(elsewhere.asked) == 1


def test_problems_are_errors_by_their_name_and_unknown_ones_the_root(elsewhere: Elsewhere) -> None:
    def problem(name: str) -> dict[str, Any]:
        return {"type": f"urn:filrouge:error:{name}", "status": 404, "detail": "It is not there.", "remedy": "Look."}

    with filrouge.BlockingMemory(url=elsewhere.url) as memory:
        elsewhere.answer = (404, problem("NotFound"))
        with pytest.raises(NotFound, match="It is not there"):
            memory.facts()
        elsewhere.answer = (418, problem("Teapot"))
        with pytest.raises(FilrougeError, match="It is not there") as refused:
            memory.facts()
        assert (type(refused.value), refused.value.remedy) == (FilrougeError, "Look.")
        elsewhere.answer = (200, [{"id": "m"}])
        with pytest.raises(FilrougeError, match="cannot be read as Remembered: 'key'"):
            memory.facts()


def test_a_daemon_elsewhere_that_is_away_is_named_without_its_key() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://user:secret@127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        with filrouge.BlockingMemory(url=url, api_key="k3y") as memory, pytest.raises(DaemonUnavailable) as refused:
            memory.facts()
    assert "127.0.0.1" in refused.value.message
    assert "secret" not in refused.value.message
    assert "k3y" not in refused.value.message


@pytest.mark.parametrize("url", ["http://memory.example", "ftp://127.0.0.1", "memory"])
def test_a_key_never_travels_where_it_can_be_read(url: str) -> None:
    with pytest.raises(DaemonUnavailable, match="not safe for a key"), filrouge.BlockingMemory(url=url, api_key="k"):
        pass


def test_a_key_that_would_be_a_second_header_is_refused(elsewhere: Elsewhere) -> None:
    memory = filrouge.BlockingMemory(url=elsewhere.url, api_key="k\r\nX-Other: 1")
    with pytest.raises(DaemonUnavailable, match="API key"), memory:
        pass
    assert elsewhere.asked == []


def _rest(wire: socket.socket) -> bytes:
    raw = b""
    while piece := wire.recv(65536):
        raw += piece
    return raw
