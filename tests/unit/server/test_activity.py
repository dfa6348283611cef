"""What happened on each day, and what became of every captured event."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import pytest

from filrouge.core.paths import socket_path
from filrouge.core.protocols import Tx
from filrouge.runtime.sqlite import queries
from filrouge.testing import idle

from .conftest import Api

PORT = "For the record: the shop listens on port 8443."
DAY = 86_400


def deliver(api: Api, *events: dict[str, Any]) -> None:
    now = time.time()
    common = {"host": "claude-code", "kind": "prompt", "session": "s", "at": now}
    body = {"events": [{**common, "id": f"event-{now}-{n}", **event} for n, event in enumerate(events)]}
    assert api.ask("POST", "/hooks/events", body).status == 200
    idle(api.parts)


def prompt(text: str, **fields: Any) -> dict[str, Any]:
    return {"data": {"text": text}, **fields}


def test_every_day_counts_what_was_captured_learned_and_recalled(api: Api) -> None:
    deliver(api, prompt(PORT, at=time.time() - 2 * DAY), prompt("Where does the shop listen, and why there?"))
    api.ask("POST", "/memory/context", {"prompt": "Which port does the shop listen on?", "channel": "bot"})
    api.parts.writer.run(lambda tx: None)
    before, between, today = api.get("/api/memory/activity?days=3")
    assert (before["prompts"], before["memories"], before["recalls"]) == (1, 1, 0)
    assert set(between.values()) == {between["day"], 0}
    assert (today["prompts"], today["memories"], today["recalls"]) == (1, 0, 1)
    assert today["delivered"] + today["late"] <= 1
    local_day = datetime.now(UTC).astimezone().date()
    assert [before["day"], today["day"]] == [str(local_day - timedelta(days=2)), str(local_day)]
    assert api.get("/api/memory/activity?days=1") == [today]
    assert len(api.get("/api/memory/activity")) == 366
    assert api.ask("GET", "/api/memory/activity?days=367").status == 400


def test_a_day_in_the_time_zone_of_the_machine_is_one_day(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        night = datetime.now().astimezone().replace(hour=0, minute=30) - timedelta(days=1)
        deliver(api, prompt(PORT, at=night.timestamp()))
        days = {row["day"]: row for row in api.get("/api/memory/activity?days=3")}
        assert (days[str(night.date())]["prompts"], days[str(night.date())]["memories"]) == (1, 1)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("table", ["memories", "prompts", "recalls"])
def test_the_counts_of_a_year_are_read_from_an_index_alone(silent: Api, table: str) -> None:
    def plan(tx: Tx) -> str:
        sql = queries("sqlite")[f"activity.{table}"]
        connection = cast("Any", tx)._connection
        return " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", {"days": "[]"}))

    assert "SEARCH" in (found := silent.parts.readers.here(plan)), found
    assert "COVERING INDEX" in found, found


def test_the_ledger_says_of_each_event_what_became_of_it(api: Api) -> None:
    deliver(
        api,
        prompt(PORT, id="stated", at=time.time() - DAY),
        prompt("ok, thanks!", id="courteous"),
        prompt("Please look at the failing test of the checkout again.", id="asked", host="codex"),
        {"id": "began", "kind": "session_start", "data": {"source": "startup"}},
    )
    events = {event["id"]: event for event in api.get("/api/memory/events")}
    assert list(events) == ["began", "asked", "courteous", "stated"]
    assert {id_: event["state"] for id_, event in events.items()} == {
        "began": "skipped", "asked": "read", "courteous": "skipped", "stated": "remembered",
    }  # fmt: skip
    assert (events["courteous"]["reason"], events["began"]["reason"]) == ("small talk", "it contains no text")
    assert (events["began"]["turn_id"], events["began"]["excerpt"]) == (None, None)
    [memory] = events["stated"]["memories"]
    assert memory["id"] == api.get("/api/memory/facts")[0]["id"]
    for state in ("remembered", "read", "skipped", "queued", "dead", "forgotten"):
        expected = [id_ for id_, event in events.items() if event["state"] == state]
        assert [event["id"] for event in api.get(f"/api/memory/events?state={state}")] == expected
    assert [event["id"] for event in api.get("/api/memory/events?channel=codex")] == ["asked"]
    since = events["courteous"]["at"]
    late = [event for event in events.values() if event["at"] >= since]
    for state in ("", "&state=skipped", "&state=read"):
        expected = [event["id"] for event in late if not state or state.endswith(event["state"])]
        assert [event["id"] for event in api.get(f"/api/memory/events?since={since}{state}")] == expected
    assert api.get("/api/memory/events?since=2999-01-01") == []


def test_health_counts_again_when_something_was_added_ended_or_forgotten(api: Api) -> None:
    def coverage() -> int:
        idle(api.parts)
        found = api.get("/daemon/health")["embedding_coverage"]
        assert found["rate"] in (1.0, None)
        return int(found["total"])

    before = coverage()
    added = api.ask("POST", "/api/memory/memories", {"text": "The ledger closes on Friday.", "project": []}).body
    id_ = added["actions"][0]["id"]
    assert coverage() == before + 2  # with the message
    api.ask("POST", f"/api/memory/memories/{id_}/bin", {})
    assert coverage() == before + 1
    api.ask("POST", f"/api/memory/memories/{id_}/restore", {})
    assert coverage() == before + 2
    api.ask("POST", "/api/memory/forget", {"id": id_, "at_once": True})
    assert coverage() == before


def test_a_page_of_events_continues_behind_its_last_even_if_more_came(api: Api) -> None:
    deliver(api, *(prompt(f"Look at test number {n} of the checkout again.", id=f"e{n}") for n in range(5)))
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_path(api.home)), base_url="http://filrouge") as http:
        first = http.get("/api/memory/events?limit=2")
        deliver(api, prompt("Look at one more test of the checkout.", id="later"))
        second = http.get(first.links["next"]["url"])
        last = http.get(second.links["next"]["url"])
    ids = [[event["id"] for event in page.json()] for page in (first, second, last)]
    assert ids == [["e4", "e3"], ["e2", "e1"], ["e0"]]
    assert "next" not in last.links


def test_an_excerpt_is_short_however_long_the_message_is(api: Api) -> None:
    deliver(api, prompt("word " * 20_000, id="long"))
    [event] = api.get("/api/memory/events")
    assert len(event["excerpt"]) == 200


def test_of_a_forgotten_event_only_the_row_is_left(api: Api) -> None:
    deliver(api, prompt("For the record: the zebra stable listens on port 8443.", id="gone"))
    token = api.ask("POST", "/api/memory/forget", {"text": "zebra", "dry_run": True}).body["token"]
    assert api.ask("POST", "/api/memory/forget", {"text": "zebra", "token": token}).status == 200
    [event] = api.get("/api/memory/events")
    assert (event["state"], event["excerpt"], event["memories"]) == ("forgotten", None, [])
