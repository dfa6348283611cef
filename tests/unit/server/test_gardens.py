"""The garden over HTTP: the plan, the run, its progress, and what is refused."""

from __future__ import annotations

from typing import Any

from filrouge.capture.service import store_events
from filrouge.core.protocols import Tx
from filrouge.maintenance.garden_service import GARDEN, ConsolidationRuns
from filrouge.runtime.jobs import Jobs
from filrouge.testing import idle
from tests.support.given import event

from .conftest import Api


def converse(api: Api, session: str) -> None:
    """A session of two sentences."""
    said = [event("prompt", session=session, text=f"We decided that {session} goes through the payment queue.")]
    said += [
        event("reply", session=session, text="Done, all tests pass."),
        event(session=session, text="And the docs?"),
    ]
    store_events(api.parts, said).result(60)
    idle(api.parts)


def over(api: Api, garden_id: str) -> dict[str, Any]:
    """A run once it is over."""
    idle(api.parts)
    return api.get(f"/api/memory/gardens/{garden_id}")


def test_a_dry_run_shows_the_plan_and_begins_nothing(api: Api) -> None:
    converse(api, "s0")
    reply = api.ask("POST", "/api/memory/gardens", {"dry_run": True})
    assert (reply.status, reply.body["garden"]) == (200, None)
    plan = reply.body["plan"]
    assert plan["counts"] == {"sessions": 1, "preferences": 1}
    assert plan["estimate"] == {"seconds": [30.0, 120.0], "from_past_runs": False}
    assert plan["steps"][0] == {"kind": "sessions", "subject": {"host": "claude-code", "session": "s0"}, "told": ""}
    assert "read one unread or continued session" in plan["text"]
    assert api.get("/api/memory/gardens") == []


def test_a_run_is_begun_followed_and_listed(api: Api) -> None:
    for session in ("s0", "s1"):
        converse(api, session)
    reply = api.ask("POST", "/api/memory/gardens")
    assert (reply.status, reply.body["plan"]["counts"]) == (202, {"sessions": 2, "preferences": 2})
    begun = reply.body["garden"]
    assert (begun["occasion"], begun["state"], begun["steps"]["total"]) == ("hand", "running", 4)
    done = over(api, begun["id"])
    assert (done["state"], done["steps"], done["totals"]["sessions"]) == ("completed", {"done": 4, "total": 4}, 2)
    assert api.get("/api/memory/gardens") == [done]
    path = f"/api/memory/gardens/{begun['id']}/progress"
    told = api.get(path)
    assert (told["garden"], told["next"], len(told["messages"])) == (done, 5, 5)
    assert told["messages"][0]["label"] == "Extracting concepts... (1/2 sessions)"
    assert api.get(f"{path}?after=4")["messages"] == told["messages"][4:]
    last = told["messages"][-1]["payload"]
    assert (last["phase"], last["consolidated_sessions"], last["new_items"]) == (
        "completed", 2, done["totals"]["new_items"],
    )  # fmt: skip


def test_where_there_is_nothing_to_do_no_run_is_begun(api: Api) -> None:
    reply = api.ask("POST", "/api/memory/gardens", {})
    assert (reply.status, reply.body["garden"], reply.body["plan"]["steps"]) == (200, None, [])


def test_a_second_run_is_refused_while_one_is_at_work(api: Api) -> None:
    converse(api, "s0")
    now = api.parts.clock.now()

    def another(tx: Tx) -> None:
        ConsolidationRuns(tx).begin("another", "idle", {"counts": {}, "memories_until": 0}, [], now)
        Jobs(tx).enqueue("waits", {}, dedupe=GARDEN, at=now, delay=600.0)

    api.parts.writer.run(another)
    reply = api.ask("POST", "/api/memory/gardens")
    assert (reply.status, reply.body["exit_code"]) == (409, 5)
    assert "running already" in reply.body["detail"]


def test_an_unknown_run_is_not_found(silent: Api) -> None:
    for path in ("/api/memory/gardens/nobody", "/api/memory/gardens/nobody/progress"):
        assert silent.ask("GET", path).status == 404


def test_a_plan_is_told_in_the_language_of_the_settings(api: Api) -> None:
    assert api.ask("PATCH", "/api/memory/settings", {"language": "fr"}).status == 200
    assert (
        api.ask("POST", "/api/memory/gardens", {"dry_run": True}).body["plan"]["text"] == "Il n'y a rien à consolider."
    )
