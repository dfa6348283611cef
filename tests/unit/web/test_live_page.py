"""What is being captured: each event with what became of it."""

from __future__ import annotations

import time
from typing import Any

from filrouge.testing import idle

from .conftest import Site

PORT = "For the record: the shop listens on port 8443."


def say(site: Site, *events: dict[str, Any]) -> None:
    now = time.time()
    common = {"host": "claude-code", "kind": "prompt", "session": "s", "at": now}
    body = {"events": [{**common, "id": f"e-{now}-{n}", **event} for n, event in enumerate(events)]}
    assert site.api.ask("POST", "/hooks/events", body).status == 200
    idle(site.api.parts)


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"data": {"text": said}, **fields}


def test_each_event_says_what_became_of_it_and_leads_to_what_was_remembered(site: Site) -> None:
    assert "Nothing was captured yet" in site.text("/live")
    say(site, text(PORT), text("ok, thanks!"), {"kind": "session_start", "data": {"source": "startup"}})
    (memory,) = site.api.get("/api/memory/memories")
    shown = site.text("/live")
    assert "remembered" in shown
    assert "skipped small talk" in shown
    assert "nothing to read" in shown
    page = site.page("/live")
    assert f'href="/dashboard/memories/{memory["id"]}"' in page
    assert page.count('<li class="event ') == 3
    assert f'href="/dashboard/turns/{memory["evidence"][0]["turn_id"]}"' in page


def test_it_is_refreshed_until_it_is_paused(site: Site) -> None:
    say(site, text(PORT))
    assert 'data-live="events memories threads"' in site.page("/live")
    paused = site.page("/live?paused=1&channel=claude-code")
    assert "data-live=" not in paused
    assert 'href="/dashboard/live?channel=claude-code"' in paused


def test_the_address_filters_by_agent_and_by_outcome(site: Site) -> None:
    say(site, text(PORT), text("Look at the failing test of the checkout again.", host="codex"))
    twin = site.twin("/live.json?channel=codex")
    assert [event["channel"] for event in twin["events"]] == ["codex"]
    assert twin["channels"] == ["claude-code", "codex"]
    assert [event["state"] for event in site.twin("/live.json?state=remembered")["events"]] == ["remembered"]
    assert "Nothing matches these filters" in site.text("/live?state=dead")
    site.page("/live?state=nonsense", status=400)


def test_what_came_late_and_what_is_switched_off_is_said(site: Site) -> None:
    say(site, text(PORT, at=time.time() - 3600))
    assert "on disk since" in site.text("/live")
    assert "Capture is switched off" not in site.text("/live")
    assert site.api.ask("PATCH", "/api/memory/settings", {"auto_capture": False}).status == 200
    assert "Capture is switched off" in site.text("/live")


def test_a_long_list_has_pages_and_a_long_message_an_excerpt(site: Site) -> None:
    began = {"kind": "session_start", "data": {"source": "startup"}}
    say(site, *({**began, "session": f"s{n}"} for n in range(100)), text("<b>word</b> " * 2_000))
    page = site.page("/live")
    assert page.count('<li class="event ') == 100
    assert 'rel="next"' in page
    assert "<b>" not in page
    assert len(page) < 200_000
