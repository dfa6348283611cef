"""What becomes of bridges when threads change, in a real store: made, confirmed, faded, merged, within a project."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.core.errors import BadInput, NotFound
from filrouge.core.scope import Scope
from filrouge.maintenance.health import health, thread_status
from filrouge.memories.models import Span, Statement, Update
from filrouge.memories.repository import Origin
from filrouge.runtime.jobs import Jobs
from filrouge.threads import bridge_service
from filrouge.threads.bridge_service import (
    BRIDGE,
    count_unsure_bridges,
    follow_merge,
    get_graph,
    linked_threads,
    queue_bridges,
)
from tests.support.given import BLOG, SHOP
from tests.unit.threads.ties_given import Workshop, workshop, write


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Workshop]:
    with workshop(tmp_path) as found:
        yield found


def listed(shop: Workshop, **how: Any) -> list[dict[str, Any]]:
    return shop.parts.readers.here(lambda tx: bridge_service.list_bridges(shop.parts, tx, **how))


def ends(shop: Workshop, **how: Any) -> set[tuple[str, str, str]]:
    return {(one["source"], one["target"], one["type"]) for one in listed(shop, **how)}


def tied(shop: Workshop, source: str, target: str, kind: str = "relates_to") -> dict[str, Any]:
    return bridge_service.add_bridge(shop.parts, source=source, target=target, kind=kind)


def test_threads_that_are_alike_are_tied_when_one_changes(shop: Workshop) -> None:
    shop.thread("a", at=0)
    shop.thread("b", at=20)
    shop.thread("c", at=85)
    shop.change("a")
    [one] = listed(shop)
    assert (one["source_title"], one["target_title"], one["type"]) == ("Title of a", "Title of b", "relates_to")
    assert one["confidence"] == one["strength"] >= 0.9
    shop.change("a", "b", "a")
    assert listed(shop) == [one]


def test_nothing_is_tied_across_projects_or_to_what_was_merged(shop: Workshop) -> None:
    shop.thread("a", at=0)
    shop.thread("b", BLOG, at=0)
    shop.thread("c", at=0)
    write(shop.parts.home, "UPDATE threads SET merged_into = 'a', state = 'archived' WHERE id = 'c'", {})
    shop.change("a", "b", "c")
    assert listed(shop) == []


def test_agents_that_are_isolated_are_not_tied(tmp_path: Path) -> None:
    with workshop(tmp_path, FILROUGE_ISOLATION="true") as shop:
        shop.thread("a", at=0, agent="one")
        shop.thread("b", at=0, agent="two")
        shop.thread("c", at=0, agent="one")
        shop.change("a", "b", "c")
        assert ends(shop) == {("a", "c", "relates_to")}


def test_what_was_tied_before_agents_were_isolated_is_neither_listed_nor_passed_on(tmp_path: Path) -> None:
    with workshop(tmp_path) as shop:
        for name, at, agent in (("a", 0, "one"), ("b", 40, "two"), ("c", 50, "one")):
            shop.thread(name, at=at, agent=agent)
        tied(shop, "a", "b")
        tied(shop, "b", "c")
        assert len(listed(shop)) == 2
    with workshop(tmp_path, FILROUGE_ISOLATION="true") as shop:
        shop.change("a")
        assert listed(shop) == []
        with pytest.raises(BadInput, match="different agents cannot be linked"):
            tied(shop, "a", "b")
    with workshop(tmp_path) as shop:
        shop.change("a")
        assert [one["made_by"] for one in listed(shop) if {one["source"], one["target"]} == {"a", "c"}] == ["gossip"]


def test_a_bridge_fades_with_the_days_of_work_and_is_gone_unless_confirmed(shop: Workshop) -> None:
    shop.thread("a", at=0)
    shop.thread("b", at=20)
    shop.thread("far", at=85)
    shop.say("a", "The gateway answers again.")
    shop.change("a")
    [fresh] = listed(shop)
    shop.clock.move(days=9)
    assert listed(shop)[0]["strength"] == fresh["strength"]  # nobody worked on it
    shop.say("far", "Something else.")
    assert listed(shop)[0]["strength"] == pytest.approx(fresh["strength"] / 2, abs=1e-4)
    shop.say("a", "And again.")
    shop.change("a")
    assert listed(shop)[0]["strength"] == fresh["strength"]
    for _ in range(5):
        shop.clock.move(days=1)
        shop.say("far", "Something else.")
    assert listed(shop) == []
    stored = shop.parts.readers.here(lambda tx: thread_status(shop.parts, tx)["bridges"])
    shop.change("far")
    assert (stored, shop.parts.readers.here(lambda tx: thread_status(shop.parts, tx)["bridges"])) == (1, 0)


def test_what_a_prompt_names_and_why_makes_the_kind(shop: Workshop) -> None:
    shop.thread("a", title="Release of the storefront")
    shop.thread("b", title="Renewal of certificates")
    shop.say("a", "The release needs the renewal of certificates.")
    shop.change("a")
    [one] = listed(shop, thread_id="b")
    assert (one["source"], one["target"], one["type"]) == ("a", "b", "depends_on")


def test_a_memory_that_replaces_one_of_another_thread_ties_the_two(shop: Workshop) -> None:
    shop.thread("a")
    shop.thread("b")
    first = shop.say("a", "Production listens on port 8443.")
    second = shop.say("b", "Production listens on port 9443 now.")

    place = shop.project(SHOP)

    def learn(tx: Any) -> None:
        def origin(turn: str) -> Origin:
            scope = Scope(project=place, channel="codex")
            return Origin(scope=scope, trust=2, at=shop.clock.now(), turn_id=turn)

        def said(text: str) -> Statement:
            return Statement(kind="fact", text=text, span=Span(start=0, end=10), scope="project")

        memories = shop.parts.memories(tx)
        old = memories.add(said("Production listens on port 8443"), origin(first), "told")
        update = Update(statement=said("Production listens on port 9443"), old_ids=(old.memory_id,), reason="newer")
        memories.apply(update, origin(second))

    shop.parts.writer.run(learn)
    shop.change("b")
    assert ends(shop) == {("b", "a", "contradicts")}


def test_neighbours_of_neighbours_hear_of_each_other(shop: Workshop) -> None:
    for name, at in (("a", 0), ("b", 40), ("c", 50)):
        shop.thread(name, at=at)
    tied(shop, "a", "b")
    tied(shop, "b", "c")
    shop.change("a")
    [heard] = [one for one in listed(shop) if one["made_by"] == "gossip"]
    assert ({heard["source"], heard["target"]}, heard["depth"]) == ({"a", "c"}, 1)


def test_what_the_user_ties_is_certain_and_does_not_fade(shop: Workshop) -> None:
    shop.thread("a")
    shop.thread("b")
    made = bridge_service.add_bridge(shop.parts, source="a", target="b", kind="supports", reason="seen in the review")
    assert (made["confidence"], made["made_by"], made["reason"]) == (1.0, "user", "seen in the review")
    for _ in range(9):
        shop.clock.move(days=1)
        shop.say("a", "Work.")
    shop.change("a")
    assert [one["strength"] for one in listed(shop, kind="supports")] == [1.0]


def test_what_the_user_removes_is_not_made_again_but_by_the_user(shop: Workshop) -> None:
    shop.thread("a", at=0)
    shop.thread("b", at=10)
    shop.change("a")
    [one] = listed(shop)
    assert bridge_service.remove_bridge(shop.parts.clock, shop.parts.writer, one["id"])["id"] == one["id"]
    shop.change("a", "b")
    assert listed(shop) == []
    with pytest.raises(NotFound, match=one["id"]):
        bridge_service.remove_bridge(shop.parts.clock, shop.parts.writer, one["id"])
    tied(shop, "b", "a")
    assert ends(shop) == {("b", "a", "relates_to")}


def test_what_cannot_be_tied_is_refused_with_the_reason(shop: Workshop) -> None:
    shop.thread("a")
    shop.thread("b", BLOG)
    with pytest.raises(BadInput, match="itself"):
        tied(shop, "a", "a")
    with pytest.raises(BadInput, match="different projects"):
        tied(shop, "a", "b")
    with pytest.raises(BadInput, match=r"The type of a bridge is .*, not 'likes'"):
        tied(shop, "a", "b", "likes")
    with pytest.raises(NotFound, match="'nobody'"):
        tied(shop, "a", "nobody")
    for number in range(10):
        tied(shop, "a", shop.thread(f"c{number}"))
    with pytest.raises(BadInput, match="10 bridges that you made"):
        tied(shop, "a", shop.thread("one-more"))


def test_bridges_follow_when_threads_merge(shop: Workshop) -> None:
    for name in "abcd":
        shop.thread(name)
    tied(shop, "a", "b")
    tied(shop, "b", "c")
    tied(shop, "a", "c")
    tied(shop, "d", "b", "extends")
    gone = tied(shop, "b", "d")
    bridge_service.remove_bridge(shop.parts.clock, shop.parts.writer, gone["id"])
    shop.parts.writer.run(lambda tx: follow_merge(shop.parts.clock, tx, merged="b", into="a"))
    assert ends(shop) == {("a", "c", "relates_to"), ("d", "a", "extends")}
    write(shop.parts.home, "UPDATE threads SET merged_into = 'a' WHERE id = 'b'", {})
    assert {one.thread_id for one in neighbours(shop, "a")} == {"c", "d"}


def neighbours(shop: Workshop, thread_id: str, **how: Any) -> list[Any]:
    return shop.parts.readers.here(lambda tx: linked_threads(shop.parts.clock, tx, thread_id, shop.clock.now(), **how))


def test_linked_threads_are_told_with_a_line_of_what_they_are_about(shop: Workshop) -> None:
    shop.thread("a", at=0, agent="one")
    shop.thread("b", at=40, title="Renewal of certificates", topics=("nginx", "tls"), agent="one")
    shop.thread("c", at=10, state="suspended", agent="two")
    shop.change("a")
    assert [(one.thread_id, one.text, one.state) for one in neighbours(shop, "a")] == [
        ("c", "Title of c", "suspended"),
        ("b", "Renewal of certificates — nginx, tls", "active"),
    ]
    assert [one.thread_id for one in neighbours(shop, "a", agent="one")] == ["b"]
    assert neighbours(shop, "nobody") == []


def test_several_changes_of_a_moment_are_one_job(shop: Workshop) -> None:
    shop.thread("a")
    for _ in range(3):
        shop.parts.writer.run(lambda tx: queue_bridges(shop.parts, tx, "a"))
    assert shop.parts.readers.here(lambda tx: Jobs(tx).count()).waiting == 1
    assert shop.parts.readers.here(lambda tx: Jobs(tx).get_by_key(f"{BRIDGE}:a")) is not None


def test_the_graph_holds_the_threads_that_were_active_last_and_what_is_between_them(shop: Workshop) -> None:
    for name in "abc":
        shop.thread(name)
        shop.clock.move(hours=1)
    shop.thread("d", BLOG)
    tied(shop, "a", "b")
    tied(shop, "c", "b")
    project = shop.project(SHOP)

    def drawn(limit: int) -> dict[str, Any]:
        return shop.parts.readers.here(
            lambda tx: get_graph(shop.parts, tx, project=project, everywhere=False, limit=limit)
        )

    assert [one["id"] for one in drawn(9)["threads"]] == ["c", "b", "a"]
    assert len(drawn(9)["bridges"]) == 2
    assert [(one["source"], one["target"]) for one in drawn(2)["bridges"]] == [("c", "b")]


def test_no_stored_bridge_is_unsure_because_the_table_refuses_it(shop: Workshop) -> None:
    shop.thread("a")
    shop.thread("b")
    made = tied(shop, "a", "b")
    with pytest.raises(Exception, match="CHECK"):
        write(shop.parts.home, "UPDATE bridges SET confidence = 0.49 WHERE id = :id", made)
    assert shop.parts.readers.here(count_unsure_bridges) == 0


def test_health_counts_what_went_on_and_warns_where_hardly_anything_does(shop: Workshop) -> None:
    for number in range(22):
        shop.say(shop.thread(f"t{number:02}"), "Work.", session=f"s{number}")
        shop.clock.move(hours=1)
    shop.say("t00", "More work.", session="later")
    write(shop.parts.home, "UPDATE threads SET state = 'suspended' WHERE id IN ('t05', 't06')", {})
    found = shop.parts.readers.here(lambda tx: health(shop.parts, tx))
    assert found["threads"] == {"active": 20, "suspended": 2, "archived": 0}
    assert found["continuation"] == {"continued": 1, "could": 22, "rate": 0.0455}
    assert found["reactivation"] == {"woken": 0, "put_down": 2, "rate": 0.0}
    assert {one["what"] for one in found["warnings"]} == {"Continuation rate", "Embedding coverage"}
    assert all(one["next"].startswith("filrouge ") for one in found["warnings"])


def test_an_empty_store_is_healthy(shop: Workshop) -> None:
    found = shop.parts.readers.here(lambda tx: health(shop.parts, tx))
    assert (found["status"], found["warnings"], found["continuation"]["rate"]) == ("ok", [], None)
    assert shop.parts.readers.here(lambda tx: thread_status(shop.parts, tx))["current_thread"] is None
