"""Hooks that hand their input to a real daemon as it came, and what becomes of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge import hosts
from filrouge.capture import inbox
from filrouge.capture.events import DISABLED_VARIABLE, INTERNAL_VARIABLE
from filrouge.capture.service import drain_spool
from filrouge.cli.hook import run
from filrouge.core.paths import HOOK_SETTINGS, SPOOL, inside, socket_path
from filrouge.daemon import client
from filrouge.daemon.handover import (
    ASKING,
    ASKING_HOST,
    LONG_WAY_VARIABLES,
    MAX_BYTES,
    PATH,
    VARIABLES,
    Input,
    decode,
    encode,
)
from filrouge.hosts.hook_input import read_input
from filrouge.testing import idle
from tests.support.waiting import eventually

from ..cli.test_hook import PROMPT, START, STOP, environment, hook, injected
from .conftest import Api

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"
FILES = (
    FIXTURES / "claude-code" / "payloads.jsonl",
    FIXTURES / "codex" / "payloads.jsonl",
    *sorted((FIXTURES / "samples").glob("*.jsonl")),
)
RECORDED = [line for path in FILES for line in path.read_bytes().splitlines()]
#: A busy machine may have no time for a hook, which then goes the long way.
TRIES = range(20)


def stored(api: Api) -> list[dict[str, Any]]:
    """Every event in the database, in the order of arrival."""
    rows = api.parts.readers.here(lambda tx: tx.all("events.sealed", {"after": 0, "limit": 1000}))
    return [json.loads(row["payload"]) for row in rows]


def asked(body: bytes, home: str) -> bytes:
    """The whole answer to such a body."""
    head = f"POST {PATH} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(20)
        wire.connect(socket_path(home))
        wire.sendall(head + body)
        return b"".join(iter(lambda: wire.recv(65536), b""))


def body_of(given: Input, host: str = "") -> bytes:
    return encode(host, given, os.environ).partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("payload", [PROMPT, START])
def test_a_hook_prints_what_the_daemon_has_for_it_and_confirms_it(api: Api, payload: dict[str, Any]) -> None:
    api.remember("The orders service listens on port 8443.", f"path:{Path(api.home).parent / 'shop'}")
    idle(api.parts)
    given = {**payload, "prompt": "Which port does the orders service listen on?"}
    printed = next(
        line for n in TRIES if (line := hook(Path(api.home), {**given, "prompt_id": str(n), "session_id": str(n)}))
    )
    assert "8443" in injected(printed)
    # The hook does not wait until its confirmation is stored.
    eventually("it is confirmed", lambda: api.get("/api/memory/retrievals")[0]["outcome"] == "delivered")


def test_a_hook_that_hands_over_its_input_neither_parses_nor_cleans_it(api: Api) -> None:
    code = (
        "import sys, filrouge.daemon.handover as h, os; print(h.hand_over(['--host', 'claude-code'], os.environ),"
        " 'json' in sys.modules, 're' in sys.modules)"
    )
    printed = b""
    for n in TRIES:
        payload = {**STOP, "cwd": "/", "prompt_id": str(n)}
        done = subprocess.run(
            [sys.executable, "-S", "-c", code], input=json.dumps(payload).encode(), capture_output=True,
            env=environment(Path(api.home)), check=True, timeout=20,
        )  # fmt: skip
        printed = done.stdout
        if printed.startswith(b"None"):
            break
    assert printed.split() == [b"None", b"False", b"False"]
    assert stored(api)[-1]["kind"] == "reply"


def test_both_ways_make_the_same_events_of_what_hosts_send(api: Api) -> None:
    wanted: dict[str, dict[str, Any]] = {}
    for raw in RECORDED:
        given = Input(raw)
        reading = read_input(raw, host="", directory=api.home, environ=os.environ, at=given.at, seed=given.seed)
        for event in reading.events if reading else ():
            wanted.setdefault(event.key or event.id, json.loads(json.dumps(event.to_json())))
        assert asked(body_of(given), api.home).split()[1] == b"200"
    found = {event["id"]: event for event in stored(api)}
    assert len(wanted) > 100
    assert found.keys() == {event["id"] for event in wanted.values()}
    for event in wanted.values():
        for name in ("host", "kind", "session", "at", "project", "cwd"):
            assert found[event["id"]][name] == event[name]


@pytest.mark.parametrize("payload", [PROMPT, STOP, START])
def test_an_event_whose_answer_the_hook_gave_up_on_is_stored_once(api: Api, payload: dict[str, Any]) -> None:
    given = Input(json.dumps({**payload, "cwd": "/"}).encode())
    assert b" 200 " in asked(body_of(given), api.home).partition(b"\r\n")[0]
    given.is_tried = True
    run([], given, lambda line: None, {"FILROUGE_HOME": api.home})
    assert len(inbox.waiting_files(inside(api.home, SPOOL))) == 1
    drain_spool(api.parts)
    assert len(stored(api)) == 1


def test_a_secret_that_is_handed_over_is_written_nowhere(api: Api) -> None:
    secret = "ghp_" + "a1" * 18
    hook(Path(api.home), {**PROMPT, "prompt": f"The token is {secret} and <private>mine alone</private> it works."})
    hook(Path(api.home), {**STOP, "prompt_id": "p2", "last_assistant_message": f"I wrote {secret} into .env."})
    drain_spool(api.parts)
    idle(api.parts)
    assert len(stored(api)) == 2
    for top, _, names in os.walk(api.home):
        for path in (os.path.join(top, name) for name in names if not name.endswith(".sock")):
            content = Path(path).read_bytes()
            assert secret.encode() not in content, path
            assert b"mine alone" not in content, path


@pytest.mark.parametrize("settings", [{"auto_capture": False}, {"disabled_projects": ["shop"]}])
def test_a_hook_that_is_turned_off_hands_over_nothing_that_stays(api: Api, tmp_path: Path, settings: Any) -> None:
    Path(inside(api.home, HOOK_SETTINGS)).write_text(json.dumps(settings))
    (tmp_path / "shop").mkdir()
    assert hook(Path(api.home), {**PROMPT, "cwd": str(tmp_path / "shop")}) == b""
    assert stored(api) == []


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (b"files=", b"files=mnt:[1]"),  # the hook runs in a container
        (b"version=", b"version=9."),
        (b"at=", b"at=soon"),
        (b"seed=", b"seed=x"),
        (b"seed=", b"sown="),
        (b"\0\0", b"\0"),
    ],
)
def test_an_input_that_the_daemon_cannot_read_as_the_hook_would_is_refused(
    api: Api, words: bytes, others: bytes
) -> None:
    body = body_of(Input(json.dumps({**PROMPT, "cwd": "/"}).encode()))
    assert asked(body.replace(words, others, 1), api.home).split()[1] == b"409"
    assert asked(b"", api.home).split()[1] == b"409"
    assert stored(api) == []


def test_a_daemon_that_can_store_nothing_leaves_the_event_to_the_hook(api: Api) -> None:
    api.parts.writer.close()
    assert hook(Path(api.home), {**STOP, "cwd": "/"}) == b""
    assert hook(Path(api.home), {**PROMPT, "cwd": "/"}) == b""
    assert len(inbox.waiting_files(inside(api.home, SPOOL))) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n {\"a\": 1}", b"HTTP/1.0 200 OK\r\n\r\n !\n\n",
        b"HTTP/1.0 200 OK\r\n\r\n {}\n", b"garbage", b"HTTP/1.0 x\r\n\r\n {}\n\n",
    ],
)  # fmt: skip
def test_an_answer_that_is_not_whole_is_not_printed_and_the_event_is_kept(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_path(str(tmp_path)))
        listener.listen(4)

        def serve() -> None:
            with listener.accept()[0] as connection:
                connection.recv(1 << 20)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert hook(tmp_path, {**PROMPT, "cwd": "/"}) == b""
        thread.join(20)
    assert len(inbox.waiting_files(str(tmp_path / "spool"))) == 1


def test_a_large_input_is_cut_by_the_hook_itself(api: Api) -> None:
    hook(Path(api.home), {**STOP, "cwd": "/", "last_assistant_message": "x " * MAX_BYTES})
    drain_spool(api.parts)
    assert [event["kind"] for event in stored(api)] == ["reply"]


@given(st.binary(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_what_is_handed_over_arrives_as_it_was(raw: bytes, host: str) -> None:
    given = Input(raw)
    fields, found = decode(body_of(given, host))
    assert (found, fields["host"], float(fields["at"])) == (raw, host, given.at)
    assert bytes.fromhex(fields["seed"]) == given.seed


class Noting(Mapping[str, str]):
    """An environment that notes what is looked up in it."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_every_variable_that_reading_an_input_looks_at_is_handed_over(tmp_path: Path) -> None:
    environ = Noting()
    for raw in RECORDED:
        for name in ("", *hosts.HOSTS):
            read_input(raw, host=name, directory=str(tmp_path), environ=environ, at=1.0, seed=b"0" * 10)
    assert "CLAUDE_PROJECT_DIR" in environ.names
    assert environ.names <= set(VARIABLES)


def test_the_variables_that_turn_hooks_off_or_name_another_daemon_send_a_hook_the_long_way() -> None:
    assert set(LONG_WAY_VARIABLES) == {client.URL, DISABLED_VARIABLE, INTERNAL_VARIABLE}


def test_a_hook_that_may_print_something_is_known_by_its_input(tmp_path: Path) -> None:
    for raw in RECORDED:
        reading = read_input(raw, host="", directory=str(tmp_path), environ={}, at=1.0, seed=b"0" * 10)
        if reading is not None and reading.wants_context and reading.host.NAME != ASKING_HOST:
            assert any(name in raw for name in ASKING), raw
    for host in hosts.HOSTS.values():
        assert host.NAME == ASKING_HOST or set(map(str.encode, host.INJECTS.values())) <= set(ASKING)
