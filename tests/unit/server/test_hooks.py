"""What hooks call: an answer that begins at once, and a log that knows what reached the agent."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture import inbox
from filrouge.capture.service import drain_spool
from filrouge.cli.hook import run
from filrouge.core.paths import SPOOL, brief_path, inside, socket_path
from filrouge.core.protocols import Vector
from filrouge.daemon.client import encode_request
from filrouge.daemon.handover import Input, confirm
from filrouge.testing import idle
from tests.support.given import SHOP

from ..cli.test_hook import START, hook, injected, locks, place
from .conftest import Api
from .test_routes import PORT, QUESTION, event

__all__ = ["locks", "place"]  # fixtures


def deliver(api: Api, text: str = QUESTION, **more: Any) -> dict[str, Any]:
    delivery = {"events": [event(text=text)], "context": True, "wait_ms": 20_000, **more}
    reply = api.ask("POST", "/hooks/events", delivery)
    assert reply.status == 200
    return reply.body


def logged(api: Api) -> list[dict[str, Any]]:
    api.parts.writer.run(lambda tx: None)
    return api.get("/api/memory/retrievals")


def tokens(api: Api) -> int:
    return sum(day["tokens"] for day in api.get("/api/memory/usage")["recalls"])


@contextmanager
def slow_embedder(api: Api) -> Generator[None]:
    """Questions get their vectors only when the block is left."""
    free, embedder = threading.Event(), api.parts.vectors.embedder
    query = embedder.query

    def late(text: str) -> Vector:
        free.wait(30)
        return query(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedder, "query", late)
        try:
            yield
        finally:
            free.set()


def test_a_recall_is_late_until_the_hook_confirms_it(api: Api) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)
    answer = deliver(api)
    assert "8443" in answer["context"]
    [row] = logged(api)
    assert (row["id"], row["outcome"]) == (answer["recall"], "late")
    assert (row["total_tokens_added"] > 0, tokens(api)) == (True, 0)
    assert api.get("/api/memory/usage")["recall_tokens"] == []
    for _ in range(2):  # a confirmation that is repeated counts once
        assert api.ask("POST", "/hooks/delivered", {"recall": answer["recall"]}).status == 200
    assert [row["outcome"] for row in logged(api)] == ["delivered"]
    assert tokens(api) == row["total_tokens_added"]
    [day] = api.get("/api/memory/usage")["recalls"]
    assert (day["recalls"], day["answered"], day["late"]) == (1, 1, 0)


def test_a_hook_that_hangs_up_after_its_confirmation_is_heard(api: Api) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)
    confirm(api.home, deliver(api)["recall"].encode())
    while [row["outcome"] for row in logged(api)] != ["delivered"]:
        threading.Event().wait(0.01)


def test_a_recall_with_nothing_to_say_is_empty(api: Api) -> None:
    assert deliver(api) == {"accepted": 1, "duplicates": 0, "context": ""}
    [row] = logged(api)
    assert (row["outcome"], row["total_tokens_added"]) == ("empty", 0)


def test_a_program_that_does_not_confirm_has_what_it_waited_for(api: Api) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)
    assert "recall" not in deliver(api, wait_ms=None)
    api.ask("POST", "/memory/context", {"prompt": QUESTION, "project": list(SHOP)})
    assert [row["outcome"] for row in logged(api)] == ["delivered", "delivered"]


def test_a_program_that_hung_up_before_its_answer_gets_nothing(api: Api) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)
    with slow_embedder(api), socket.socket(socket.AF_UNIX) as wire:
        wire.connect(socket_path(api.home))
        wire.sendall(encode_request("POST", "/memory/context", {"prompt": QUESTION, "project": list(SHOP)}))
    while not (rows := logged(api)):
        threading.Event().wait(0.01)
    assert [row["outcome"] for row in rows] == ["late"]
    assert tokens(api) == 0


def test_the_answer_begins_before_the_context_is_made(api: Api) -> None:
    with slow_embedder(api), socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(20)
        wire.connect(socket_path(api.home))
        delivery = {"events": [event(text=QUESTION)], "context": True, "wait_ms": 60_000}
        wire.sendall(encode_request("POST", "/hooks/events", delivery))
        raw = b""
        while not raw.partition(b"\r\n\r\n")[2]:
            raw += wire.recv(65536)
        assert raw.startswith(b"HTTP/1.1 200 ")
        assert b"accepted" not in raw


def test_a_prompt_is_answered_by_words_where_the_model_is_late(api: Api) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)
    with slow_embedder(api):
        answer = deliver(api, wait_ms=400)
        assert "8443" in answer["context"]
    [row] = logged(api)
    assert any("only words" in notice for notice in row["notices"])


def test_the_files_that_claude_code_s_glob_and_grep_named_are_found(api: Api, tmp_path: Path) -> None:
    shared = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "PostToolUse", "transcript_path": ""}
    glob = {"filenames": ["src/quokka.py", "src/zebra.py"], "durationMs": 12, "numFiles": 2, "truncated": False}
    grep = {"mode": "files_with_matches", "filenames": ["docs/walrus.md"], "numFiles": 1}
    for name, pattern, answer in (("Glob", "**/*.py", glob), ("Grep", "port", grep)):
        call = {"tool_name": name, "tool_use_id": name, "tool_input": {"pattern": pattern}, "tool_response": answer}
        raw = json.dumps(shared | call).encode()
        assert run([], Input(raw), lambda line: None, {"FILROUGE_HOME": api.home}) == 0
    drain_spool(api.parts)  # a busy machine lets the hook spool
    idle(api.parts)
    for word in ("quokka", "zebra", "walrus"):
        assert any(word in one["content"] for one in api.get(f"/api/memory/search?q={word}")), word


def test_an_event_that_is_spooled_and_delivered_is_stored_once(api: Api) -> None:
    told = event(text=PORT)
    inbox.append_event(inside(api.home, SPOOL), told)
    assert api.ask("POST", "/hooks/events", {"events": [told]}).body["accepted"] == 1
    assert drain_spool(api.parts) == 0
    inbox.append_event(inside(api.home, SPOOL), told)
    assert drain_spool(api.parts) == 0
    assert sum(api.get("/daemon/status")["ledger"].values()) == 1


def test_events_that_cannot_be_kept_are_in_the_status_and_the_health(api: Api) -> None:
    assert api.get("/daemon/status")["lost"] == 0
    inbox.add_losses(api.home, "cannot be written", 2)
    assert api.get("/daemon/status")["lost"] == 2
    [warning] = [one for one in api.get("/daemon/health")["warnings"] if one["what"] == "Lost events"]
    assert "2 events" in warning["cause"]
    assert "cannot be written" in warning["cause"]


def test_a_failure_to_store_is_told_in_an_answer_that_had_begun(api: Api, tmp_path: Path) -> None:
    api.parts.writer.close()
    delivery = {"events": [event(text=QUESTION)], "context": True, "wait_ms": 20_000}
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(20)
        wire.connect(socket_path(api.home))
        wire.sendall(encode_request("POST", "/hooks/events", delivery))
        raw = b"".join(iter(lambda: wire.recv(65536), b""))
    assert b"accepted" not in raw
    assert b"stopping" in raw
    assert json.dumps(PORT).encode() not in raw


def test_a_resumed_session_gets_the_start_block_once(api: Api) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)

    def starts(source: str, session: str = "s") -> str:
        told = {"events": [{**event("session_start", source=source), "session": session}], "context": True}
        return api.ask("POST", "/hooks/events", told).body["context"]

    assert "8443" in starts("startup")
    logged(api)
    assert starts("resume") == ""
    assert "8443" in starts("compact")
    assert "8443" in starts("resume", session="another")


def test_a_session_whose_start_had_the_brief_gets_no_start_block_when_it_is_resumed(api: Api, place: Path) -> None:
    api.remember(PORT, SHOP[0])
    idle(api.parts)
    brief = Path(brief_path(str(place), f"path:{place.parent / 'shop'}"))
    brief.parent.mkdir()
    brief.write_text("Production listens on port 8443.\n", "utf-8")
    assert "8443" in injected(hook(place, START))  # no daemon runs, and none can
    [path] = inbox.waiting_files(str(place / SPOOL))
    [start] = inbox.read_spool_file(path).events

    def resumed(session: str) -> str:
        again = event("session_start", source="resume") | {"host": start["host"], "session": session}
        return api.ask("POST", "/hooks/events", {"events": [again], "context": True}).body["context"]

    assert api.ask("POST", "/hooks/events", {"events": [start]}).body["accepted"] == 1
    assert resumed(start["session"]) == ""
    assert "8443" in resumed("another")
