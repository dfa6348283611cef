"""Filters, topics and timeline over HTTP, with the bodies that the command line shows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from filrouge.testing import idle

from .conftest import Api

SHOP = "origin:forge.example/ana/shop"


def said(api: Api, text: str, *, host: str = "codex", days: float = 0.0, session: str = "s") -> None:
    at = time.time() - days * 86400
    event = {
        "id": f"e{at}{text}", "host": host, "kind": "prompt", "session": session, "at": at, "key": f"k{at}",
        "project": [SHOP], "data": {"text": text},
    }  # fmt: skip
    assert api.ask("POST", "/hooks/events", {"events": [event]}).body["accepted"] == 1
    idle(api.parts)


@pytest.fixture
def told(api: Api) -> Api:
    """A port that was changed three days after it was said, through another agent."""
    said(api, "For the record: production listens on port 8443.", host="codex", days=9)
    said(api, "Correction: production listens on port 9443, not 8443.", host="claude-code", days=6)
    return api


def ports(hits: list[dict[str, Any]]) -> list[str]:
    return sorted({port for hit in hits for port in ("8443", "9443") if f"port {port}" in hit["content"]})


def test_search_is_narrowed_by_what_the_query_says(told: Api) -> None:
    path = "/api/memory/search?q=production+port&mode=hybrid"
    assert ports(told.get(path)) == ["8443", "9443"]
    assert ports(told.get(f"{path}&channel=codex")) == ["8443"]
    assert {hit["type"] for hit in told.get(f"{path}&kind=turn")} == {"turn"}
    assert {hit["type"] for hit in told.get(f"{path}&kind=fact&kind=decision")} == {"fact"}
    assert told.get(f"{path}&role=assistant") == told.get(f"{path}&agent=nobody") == told.get(f"{path}&trust=3") == []
    week = time.strftime("%Y-%m-%d", time.localtime(time.time() - 7 * 86400))
    assert ports(told.get(f"{path}&since={week}&kind=turn")) == ["9443"]
    assert ports(told.get(f"{path}&until={week}")) == ["8443"]


def test_recall_and_facts_answer_for_a_day_in_the_past(told: Api) -> None:
    then = time.strftime("%Y-%m-%d", time.localtime(time.time() - 8 * 86400))
    body = {"query": "production port", "k": 5, "as_of": then}
    answer = told.ask("POST", "/search", body).body
    assert (ports(answer["results"]), answer["nothing_known"]) == (["8443"], False)
    assert [fact["state"] for fact in told.get(f"/api/memory/facts?as_of={then}")] == ["superseded"]
    assert [fact["state"] for fact in told.get("/api/memory/facts")] == ["live"]
    assert told.get("/api/memory/rules?as_of=2001-01-01") == []


def test_an_agent_that_knows_nothing_is_told_so(told: Api) -> None:
    answer = told.ask("POST", "/search", {"query": "production port", "agent": "gemini"}).body
    assert answer == {
        "results": [],
        "notices": [],
        "known": 0.0,
        "nothing_known": True,
        "message": "Nothing is known about that.",
    }


def test_topics_and_timeline_have_their_fields(told: Api) -> None:
    said(told, "Please choose a new glaze and a colour for the teapots of the showroom.", days=8, session="teapots")
    found = told.get("/api/memory/topics?timeframe=all")
    assert found["topics"][0]["thread_ids"] == [found["topics"][0]["id"]]
    assert (found.keys(), found["nothing_known"]) == ({"timeframe", "topics", "nothing_known"}, False)
    assert found["topics"][0].keys() == {
        "id", "title", "summary", "first_date", "last_date", "conversations", "thread_ids", "vitality", "channel",
        "project",
    }  # fmt: skip
    timeline = told.get("/api/memory/timeline?language=es")
    assert [len(timeline[name]) for name in ("this_week", "last_week", "this_month", "older")] == [1, 1, 0, 0]
    assert timeline["text"].startswith("### Historial de temas tratados")


def test_where_nothing_was_said_nothing_is_known(silent: Api) -> None:
    assert silent.get("/api/memory/topics") == {"timeframe": "week", "topics": [], "nothing_known": True}
    assert silent.get("/api/memory/timeline")["nothing_known"] is True


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api/memory/topics?timeframe=century", "timeframe"),
        ("/api/memory/timeline?language=tlh", "language"),
        ("/api/memory/search?q=a&since=someday", "since is not a date or time: 'someday'"),
        ("/api/memory/search?q=a&trust=9", "trust"),
        ("/api/memory/search?q=a&role=ghost", "role"),
        ("/api/memory/facts?history=true&as_of=2026-01-01", "as_of"),
    ],
)
def test_what_is_no_filter_is_a_problem(silent: Api, path: str, told: str) -> None:
    reply = silent.ask("GET", path)
    assert reply.status == 400
    assert told in reply.body["detail"] + reply.body["remedy"]


def test_concepts_are_listed_with_their_sessions(api: Api) -> None:
    assert api.get("/api/memory/concepts") == []
    said(api, "Please look at the invoice worker, the invoice worker hangs.")
    said(api, "We decided to restart the invoice worker every night.")
    end: dict[str, Any] = {
        "id": "end", "host": "codex", "kind": "session_end", "session": "s", "at": time.time(), "key": "end",
        "project": [SHOP], "data": {},
    }  # fmt: skip
    api.ask("POST", "/hooks/events", {"events": [end]})
    idle(api.parts)
    [one] = [row for row in api.get(f"/api/memory/concepts?project={SHOP}") if row["concept"] == "invoice worker"]
    assert (one["mention_count"], one["sessions"], one["project"]) == (1, ["s"], SHOP)
    assert api.get("/api/memory/facts?kind=episode")[0]["text"].startswith("Asked: ")
    assert "episode" not in {row["kind"] for row in api.get("/api/memory/facts")}
