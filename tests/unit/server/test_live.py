"""The live feed on a real socket: who listens is told what was committed, by id and without a word of it."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, unix_connect

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.paths import socket_path
from filrouge.core.protocols import Tx
from filrouge.maintenance.consolidation import MemoryProgress
from filrouge.runtime.feed import QUEUE_CAPACITY
from filrouge.runtime.feed_messages import TOPICS, JobDead, LiveMessage
from filrouge.runtime.jobs import Jobs
from filrouge.server.live import MAX_MESSAGE_CHARS, MAX_SOCKETS
from tests.support.given import event

from .conftest import Api
from .test_routes import PORT, SHOP

SECONDS = 10
PAGE = Path(__file__).parents[3] / "docs/reference/live.md"


@contextmanager
def listening(api: Api, *topics: str) -> Generator[ClientConnection]:
    """A socket that has been greeted, and is told of these topics, or of all."""
    with unix_connect(socket_path(api.home), "ws://filrouge/ws") as live:
        assert heard(live)["type"] == "ws:hello"
        if topics:
            live.send(json.dumps({"subscribe": topics}))
            assert heard(live) == {"type": "ws:subscribed", "topics": [one for one in TOPICS if one in topics]}
        yield live


def heard(live: ClientConnection) -> dict[str, Any]:
    return json.loads(live.recv(SECONDS))


def until(live: ClientConnection, **wanted: Any) -> dict[str, Any]:
    """The next message with these values."""
    while True:
        message = heard(live)
        if wanted.items() <= message.items():
            return message


def progress(api: Api, current: int) -> None:
    api.parts.bus.publish(MemoryProgress(garden_id="g", session_id="s", current=current, total=9, phase="vectorizing"))


def test_the_first_word_says_who_answers_and_that_nothing_of_before_is_told(silent: Api) -> None:
    with unix_connect(socket_path(silent.home), "ws://filrouge/ws") as live:
        first = heard(live)
    assert first == {"type": "ws:hello", "version": first["version"], "topics": list(TOPICS), "replay": False}


def test_an_event_is_followed_from_the_disk_to_the_memory_and_no_word_of_it_is_told(api: Api) -> None:
    said = event(text=f"We decided: {PORT}")
    with listening(api, "events", "memories", "threads") as live:
        store_events(api.parts, [said]).result(SECONDS)
        captured = until(live, type="ws:event_captured")
        assert (captured["id"], captured["kind"], captured["session_id"]) == (said.id, "prompt", "s")
        wanted = {"ws:event_settled", "ws:memory_decided", "ws:thread_placed"}
        told = list[dict[str, Any]]()
        while wanted - {one["type"] for one in told}:
            told.append(heard(live))
    settled = next(one for one in told if one["type"] == "ws:event_settled")
    assert settled == {"type": "ws:event_settled", "id": said.id, "state": "done", "reason": ""}
    [memory] = api.get("/api/memory/facts")
    assert memory["id"] in {one["memory_id"] for one in told if one["type"] == "ws:memory_decided"}
    for word in ("record", "production", "listens", "8443"):
        assert word in said.data["text"]
        assert word not in json.dumps([captured, *told])


def test_an_event_that_says_nothing_is_told_with_the_reason_why_it_was_passed_over(api: Api) -> None:
    with listening(api, "events") as live:
        store_events(api.parts, [event("session_start", source="startup")]).result(SECONDS)
        assert until(live, type="ws:event_settled")["reason"] == "it contains no text"


def test_what_users_and_jobs_do_is_told(api: Api) -> None:
    [first] = api.remember(PORT, SHOP)
    with listening(api, "memories", "settings", "recalls", "jobs", "forgetting", "progress", "backups") as live:
        assert api.ask("PATCH", "/api/memory/settings", {"budget": 300}).status == 200
        assert until(live, type="ws:setting_changed")["key"] == "budget"
        asked = {"prompt": "What port does production listen on?", "project": [SHOP], "session_id": "s"}
        assert api.ask("POST", "/memory/context", asked).status == 200
        recalled = until(live, type="ws:recall_injected")
        [logged] = api.get("/api/memory/retrievals")
        assert {name: recalled[name] for name in ("id", "project", "memories", "tokens")} == {
            "id": logged["id"], "project": SHOP,
            "memories": logged["memories_injected"], "tokens": logged["total_tokens_added"],
        }  # fmt: skip
        api.parts.writer.run(a_job_dies)
        assert until(live, type="ws:job_dead")["kind"] == "nothing"
        progress(api, 4)
        assert until(live, type="ws:memory_progress") == {
            "type": "ws:memory_progress", "garden_id": "g",
            "payload": {"session_id": "s", "current": 4, "total": 9, "phase": "vectorizing", "status": "in_progress"},
        }  # fmt: skip
        assert api.ask("POST", "/api/memory/forget", {"id": first["id"], "at_once": True}).body["ok"]
        told = until(live, type="ws:forgotten")
        assert set(told) == {"type", "receipt_id", "at"}


def a_job_dies(tx: Tx) -> None:
    now = SystemClock().now()
    Jobs(tx).enqueue("nothing", {}, dedupe="nothing", at=now)
    [job] = Jobs(tx).lease("nobody", now)
    assert Jobs(tx).fail(replace(job, attempts=20), "it cannot be done", now)


def test_what_is_not_chosen_is_not_told(api: Api) -> None:
    with listening(api, "jobs") as live:
        progress(api, 1)
        api.parts.bus.publish(JobDead(id="j", kind="brief", attempts=8))
        assert heard(live) == {"type": "ws:job_dead", "id": "j", "kind": "brief", "attempts": 8}


def test_who_comes_later_is_not_told_what_was_before(api: Api) -> None:
    api.remember(PORT, SHOP)
    with listening(api) as live:
        api.parts.feed.publish_new()
        progress(api, 1)
        assert heard(live)["type"] == "ws:memory_progress"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"\x00", 1003),
        ("x" * (MAX_MESSAGE_CHARS + 1), 1009),
        ("no json", 1008),
        ("[" * 4000, 1008),
        ('{"subscribe": ["everything"]}', 1008),
        ('{"subscribe": [["progress"]]}', 1008),
        ('{"subscribe": "progress"}', 1008),
        ('{"subscribe": ["progress"], "and": 1}', 1008),
        ("null", 1008),
    ],
)
def test_what_is_not_understood_ends_the_talk_with_a_reason(silent: Api, said: str | bytes, code: int) -> None:
    with listening(silent) as live:
        live.send(said)
        with pytest.raises(ConnectionClosed) as closed:
            heard(live)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, bool(closed.value.rcvd.reason)) == (code, True)


def test_one_that_stops_reading_loses_the_oldest_is_told_how_many_and_keeps_nobody(api: Api) -> None:
    number = 60_000
    with listening(api, "progress") as quick, listening(api, "progress") as slow:
        for current in range(number):
            progress(api, current)
        api.parts.bus.publish(MemoryProgress(garden_id="last", session_id="", current=1, total=1, phase="vectorizing"))
        seen, lost = 0, 0
        while (message := heard(slow)).get("garden_id") != "last":
            lost += message.get("count", 0)
            seen += message["type"] == "ws:memory_progress"
        assert until(quick, garden_id="last")
    assert (seen + lost, lost > QUEUE_CAPACITY) == (number, True)


def test_no_more_sockets_are_admitted_than_are_bounded_and_one_that_left_makes_room(api: Api) -> None:
    url, place = "ws://filrouge/ws", socket_path(api.home)
    with ExitStack() as admitted:
        for _ in range(MAX_SOCKETS - 1):
            admitted.enter_context(listening(api))
        with listening(api), pytest.raises(InvalidStatus) as refused, unix_connect(place, url):
            pass
        assert refused.value.response.status_code == 503
        assert json.loads(refused.value.response.body)["exit_code"] == 5
        for _ in range(1000):  # the daemon hears of the goodbye a moment later
            with suppress(InvalidStatus), listening(api):
                break
        else:
            pytest.fail("no room was made")


def test_nothing_is_read_for_the_feed_while_nobody_listens(api: Api) -> None:
    with api.parts.bus.subscribed() as nobody:
        api.remember(PORT, SHOP)
        api.parts.feed.publish_new()
        assert nobody.get(0) is None


def test_the_page_lists_every_message_with_its_topic_and_fields() -> None:
    rows = re.findall(r"^\| `(ws:\w+)` \| `(\w+)` \| (.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    written = {type_: (topic, re.findall(r"`(\w+)`", names)) for type_, topic, names in rows}
    promised = {one.type: (one.topic, list(one.__struct_fields__)) for one in get_args(LiveMessage)}
    assert written == promised | {"ws:memory_progress": ("progress", ["garden_id", "payload"])}
    assert {topic for topic, _ in written.values()} == set(TOPICS)
