"""Events are stored once, under their project, and the ledger accounts for every one of them."""

from __future__ import annotations

from typing import Any

from filrouge.capture.events import Event
from filrouge.capture.repository import Events, event_key
from filrouge.projects.repository import Projects
from filrouge.testing import memory_database
from tests.support.rows import NOON

SHOP = ("origin:forge.example/shop", "path:/src/shop")


def event(id_: str, *, key: str = "", project: tuple[str, ...] = SHOP, **data: Any) -> Event:
    return Event(id_, "codex", "prompt", "s", NOON.timestamp(), key, "/src/shop", project, "", "", data)


def test_an_event_is_stored_once_however_often_it_is_sent() -> None:
    events = Events(memory_database().tx)
    one = event("e1", text="hi")
    assert events.add(one, received_at=NOON) == SHOP[0]
    assert events.add(one, received_at=NOON) is None
    assert events.get("e1") == (one, SHOP[0])
    assert sum(events.ledger().values()) == 1


def test_the_hosts_own_key_makes_two_deliveries_one() -> None:
    events = Events(memory_database().tx)
    assert events.add(event("e1", key="prompt:7", text="hi"), received_at=NOON) is not None
    assert events.add(event("e2", key="prompt:7", text="hi"), received_at=NOON) is None
    assert events.add(event("e3", key="prompt:8", text="hi"), received_at=NOON) is not None


def test_without_a_key_each_event_has_one_of_its_own_that_never_changes() -> None:
    one = event("e1", text="hi")
    assert event_key(one) == event_key(event("e1", text="hi"))
    assert len({event_key(one), event_key(event("e2", text="hi")), event_key(event("e1", text="ho"))}) == 3
    assert event_key(event("e1", key="prompt:7")) == "prompt:7"


def test_an_event_outside_every_project_has_none() -> None:
    events = Events(memory_database().tx)
    assert events.add(event("e1", project=()), received_at=NOON) == ""
    assert events.get("e1") == (event("e1", project=()), "")
    assert events.get("unknown") is None


def test_the_ledger_accounts_for_every_event() -> None:
    events = Events(memory_database().tx)
    for number, state in enumerate(["queued", "done", "skipped", "dead", "done"]):
        events.add(event(f"e{number}"), received_at=NOON)
        events.settle(f"e{number}", state, "why")
    assert events.ledger() == {"queued": 1, "done": 2, "skipped": 1, "dead": 1, "forgotten": 0}


def test_a_project_is_found_by_any_of_its_names_and_finding_writes_nothing() -> None:
    projects = Projects(memory_database().tx)
    assert projects.find(SHOP) is None
    assert projects.all() == []
    assert projects.resolve(SHOP, at=NOON) == SHOP[0]
    assert projects.resolve(("origin:new.example/shop", SHOP[0]), at=NOON) == SHOP[0]
    assert [projects.find((name,)) for name in (*SHOP, "origin:new.example/shop")] == [SHOP[0]] * 3
    assert projects.aliases(SHOP[0]) == sorted([*SHOP, "origin:new.example/shop"])
    assert [project["name"] for project in projects.all()] == ["shop"]
    assert projects.find(("origin:elsewhere",)) is None
    assert len(projects.all()) == 1


def test_a_path_that_another_repository_took_changes_hands() -> None:
    projects = Projects(memory_database().tx)
    projects.resolve(SHOP, at=NOON)
    blog = ("origin:forge.example/blog", "path:/src/shop")
    assert projects.resolve(blog, at=NOON) == blog[0]
    assert projects.find(("path:/src/shop",)) == blog[0]
