"""The timeline: what was learned and replaced by day, and the changes of one session with their undo."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from filrouge.core.clock import SystemClock
from filrouge.testing import idle

from .conftest import Site

PORT = "For the record: the shop listens on port 8443."
MOVED = "Correction: the shop listens on port 9443, not 8443."
FONT = "For the record: the kiosk uses the font Inter."


def tell(site: Site, text: str, *, days_ago: float = 0, session: str = "chat-7", key: str = "") -> None:
    """Say a message in a session, some days ago."""
    at = (SystemClock().now() - timedelta(days=days_ago)).isoformat()
    message = {"role": "user", "content": text, "at": at, "id": key or text}
    body = {"channel": "telegram", "session_id": session, "project": "name:shop", "messages": [message]}
    assert site.api.ask("POST", "/memory/turns", body).status == 202
    idle(site.api.parts)


def texts(site: Site) -> list[str]:
    return sorted(row["text"] for row in site.twin("/memory.json")["memories"])


def days(site: Site, query: str = "") -> list[dict[str, Any]]:
    return site.twin(f"/timeline.json{query}")["days"]


def test_every_day_has_what_was_learned_and_the_old_version_beside_the_new_one(site: Site) -> None:
    assert "The thread begins" in site.text("/timeline")
    tell(site, PORT, days_ago=9)
    tell(site, MOVED, days_ago=4)
    tell(site, FONT, days_ago=2)
    found = days(site)
    assert [day["day"] for day in found] == sorted((day["day"] for day in found), reverse=True)
    assert [len(day["memories"]) for day in found if day["memories"]] == [1, 1]
    html = site.page("/timeline")
    assert f'id="{found[0]["day"]}"' in html
    assert "<del>the shop listens on port 8443.</del>" in html
    assert found[1]["memories"][0]["text"] in html


def test_the_past_is_shown_as_it_was_and_a_day_is_where_the_list_begins(site: Site) -> None:
    tell(site, PORT, days_ago=9)
    tell(site, MOVED, days_ago=4)
    tell(site, FONT, days_ago=2)
    week_ago, three_days_ago = ((SystemClock().now() - timedelta(days=n)).astimezone().date() for n in (7, 3))
    (then,) = days(site, f"?as_of={week_ago}")
    assert [row["text"] for row in then["memories"]] == ["the shop listens on port 8443."]
    assert "This is what was current" in site.text(f"/timeline?as_of={week_ago}")
    from_day, *_ = days(site, f"?day={three_days_ago}")
    assert "9443" in from_day["memories"][0]["text"]
    assert "Nothing was known here yet" in site.text("/timeline?as_of=2001-01-01")
    assert days(site, "?as_of=nonsense") == days(site)


def test_a_session_shows_its_changes_with_the_words_they_are_from_and_is_reverted_and_brought_back(site: Site) -> None:
    tell(site, PORT, days_ago=3, session="first")
    before = texts(site)
    tell(site, MOVED, session="second/one")
    tell(site, FONT, session="second/one")
    after = texts(site)
    at = "/timeline/session?id=second/one"
    shown = site.text(at)
    assert "the shop listens on port 8443." in shown
    assert "the kiosk uses the font Inter." in shown
    assert "in its conversation" in shown
    preview = site.text(f"{at}&revert=1")
    assert "Undo 2 decisions?" in preview
    assert "current again the shop listens on port 8443." in preview
    assert texts(site) == after  # looking changes nothing
    done = site.send("/timeline/session/revert", session="second/one", back=f"/dashboard{at}")
    assert "Everything from this session is undone. Undo" in site.follow(done)
    assert texts(site) == before
    page = site.twin("/timeline/session.json?id=second/one")
    assert all(change["undone"] for change in page["changes"])
    undo = max(
        entry["entry"]
        for memory in page["changes"]
        for entry in site.api.get(f"/api/memory/memories/{memory['memory_id']}/history")["journal"]
    )
    site.send("/memories/undo", entry=str(undo))
    assert texts(site) == after


def test_an_unknown_session_changed_nothing(site: Site) -> None:
    assert "This session changed nothing" in site.text("/timeline/session?id=unknown")
    assert "This session changed nothing" in site.text("/timeline/session")
    site.send("/timeline/session/revert", session="unknown", status=400)
