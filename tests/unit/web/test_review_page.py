"""The review: what waits stands beside what is known, and each verdict can be taken back."""

from __future__ import annotations

from typing import Any

import pytest

from filrouge.core.protocols import Tx
from filrouge.web.review import differences
from tests.support.rows import origin, statement

from .conftest import Site

_KNOWN = "Production listens on port 8443."
_SAID = "Production listens on port 9443, not 8443."


def contradict(site: Site) -> str:
    """A pinned memory and a statement that contradicts it; the id of what waits."""
    (known,) = site.api.remember(f"For the record: {_KNOWN}")
    site.api.ask("PATCH", f"/api/memory/memories/{known['id']}", {"pinned": True})
    (action,) = site.api.remember(_SAID)
    return action["review"]


def doubt(site: Site, *texts: str) -> list[str]:
    """Statements that nothing proves, the newest first."""

    def write(tx: Tx) -> list[str]:
        memories = site.api.parts.memories(tx)
        held = [
            memories.quarantine(statement(text), origin(seconds=at), "its words do not say it")
            for at, text in enumerate(texts)
        ]
        return [action.review for action in reversed(held)]

    return site.api.parts.writer.run(write)


def states(site: Site, *ids: str) -> list[str]:
    return [site.api.get(f"/api/memory/memories/{id_}")["state"] for id_ in ids]


def waiting(site: Site) -> list[str]:
    return [item["id"] for item in site.twin("/review.json")["items"]]


def undo(site: Site, shown: str) -> None:
    """Send the form of the message that a page shows."""
    form = shown.partition('id="done"')[2].partition("</form>")[0]
    entry = form.partition('name="entry" value="')[2].partition('"')[0]
    path = form.partition('action="/dashboard')[2].partition('"')[0]
    site.send(path, entry=entry, back="/dashboard/review")


def test_a_contradiction_stands_beside_what_is_known_with_its_reason_in_plain_words(site: Site) -> None:
    contradict(site)
    shown = site.text("/review")
    assert "What is known" in shown
    assert "What was said" in shown
    assert _SAID.partition(" 9443")[0] in shown
    assert "9443, not" in shown
    assert "What is known is pinned, so it is never replaced on its own." in shown
    assert "Before you accept it, it counts as no memory" in shown
    page = site.page("/review")
    assert all(f'data-key="{key}"' in page for key in "abxe")


@pytest.mark.parametrize(
    ("verdict", "known_state", "said_state"),
    [("old", "live", "binned"), ("new", "superseded", "live"), ("both", "live", "live")],
)
def test_each_verdict_on_a_conflict_is_carried_out_and_can_be_undone(
    site: Site, verdict: str, known_state: str, said_state: str
) -> None:
    id_ = contradict(site)
    known = site.twin("/review.json")["items"][0]["known"]["id"]
    done = site.send(f"/review/{id_}/settle", settle=verdict, next="", back="/dashboard/review")
    assert states(site, known, id_) == [known_state, said_state]
    shown = site.page(done.removeprefix("/dashboard"))
    assert "Nothing waits for you" in shown
    undo(site, shown)
    assert (states(site, known, id_), waiting(site)) == (["live", "quarantined"], [id_])


def test_the_next_item_has_the_focus_after_one_is_refused(site: Site) -> None:
    first, second, third = doubt(site, "It rains", "It snows", "It hails")
    item = site.twin("/review.json")["items"][1]
    assert (item["id"], item["next"]) == (second, third)
    done = site.send(f"/review/{second}/settle", settle="dismiss", next=third, back="/dashboard/review?at=" + second)
    assert f'id="r-{third}" data-item tabindex="-1" autofocus' in site.page(done.removeprefix("/dashboard"))
    assert (waiting(site), states(site, second)) == ([first, third], ["binned"])


def test_what_is_edited_is_accepted_in_the_new_words_and_one_undo_takes_both_back(site: Site) -> None:
    (id_,) = doubt(site, "The gateway tries twelve times")
    assert "Accept in these words" in site.text(f"/review?edit={id_}")
    done = site.send(
        f"/review/{id_}/edit",
        text="The gateway tries five times",
        kind="quarantine",
        said="The gateway tries twelve times",
        back="/dashboard/review",
    )
    current: list[dict[str, Any]] = site.twin("/memory.json")["memories"]
    assert ([row["text"] for row in current], states(site, id_)) == (["The gateway tries five times"], ["superseded"])
    undo(site, site.page(done.removeprefix("/dashboard")))
    assert (waiting(site), states(site, id_), site.twin("/memory.json")["memories"]) == ([id_], ["quarantined"], [])


@pytest.mark.parametrize("words", ["  ", "x" * 50_000])
def test_words_that_are_refused_leave_the_item_waiting(site: Site, words: str) -> None:
    (id_,) = doubt(site, "The gateway tries twelve times")
    site.send(
        f"/review/{id_}/edit",
        text=words,
        kind="quarantine",
        said="The gateway tries twelve times",
        back="/dashboard/review",
        status=422 if words.isspace() else 400,
    )
    assert (waiting(site), states(site, id_)) == ([id_], ["quarantined"])


def test_a_near_duplicate_of_an_unproven_statement_stands_beside_it(site: Site) -> None:
    (known,) = site.api.remember("For the record: the staging database listens on port 5544.")
    doubt(site, site.api.get(f"/api/memory/memories/{known['id']}")["text"], "Nobody likes mondays")
    by_text = {item["text"]: item["known"] for item in site.twin("/review.json")["items"]}
    assert [match and match["id"] for match in by_text.values()] == [None, known["id"]]


def test_settled_items_are_listed_apart(site: Site) -> None:
    assert "Nothing was settled yet" in site.text("/review?settled=1")
    first, second = doubt(site, "It rains", "It snows")
    site.send(f"/review/{first}/settle", settle="dismiss", next="", back="/dashboard/review")
    settled = site.text("/review?settled=1")
    assert "It snows" in settled
    assert "refused" in settled
    assert "It rains" not in settled
    assert waiting(site) == [second]


def test_hostile_words_are_shown_and_never_run(site: Site) -> None:
    doubt(site, "<script>alert(1)</script> \"' onload=x")
    assert "<script>alert(1)" not in site.page("/review")
    assert "<script>alert(1)</script>" in site.text("/review")


def test_differences_are_marked_only_between_similar_texts() -> None:
    before, after = differences("we use uv for builds", "We use pip for builds")
    assert before == [("we use", False), ("uv", True), ("for builds", False)]
    assert after == [("We use", False), ("pip", True), ("for builds", False)]
    assert differences("it rains", "nothing in common here") == ([], [])
