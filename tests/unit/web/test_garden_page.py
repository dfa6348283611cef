"""The Garden: its button and estimate, the plan before a run, the progress, and what past runs changed."""

from __future__ import annotations

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.protocols import Tx
from filrouge.maintenance.consolidation import RunStep
from filrouge.maintenance.garden_service import GARDEN, ConsolidationRuns
from filrouge.runtime.jobs import Jobs
from filrouge.testing import idle
from tests.support.given import event

from .conftest import Site


def converse(site: Site, *sessions: str) -> None:
    """Sessions that no run has read yet."""
    for session in sessions:
        said = [event("prompt", session=session, text=f"We decided that {session} goes through the payment queue.")]
        store_events(site.api.parts, [*said, event("reply", session=session, text="Done.")]).result(60)
    idle(site.api.parts)


def test_the_button_says_what_it_does_and_how_long_it_takes(site: Site) -> None:
    page = site.page("/garden")
    assert ">Consolidate memory</button>" in page
    assert "Estimated time: 30 s to 2 min." in page.partition('title="Reads the sessions')[2].partition('"')[0]
    assert "It has not run yet." in page


def test_the_plan_shows_what_would_be_done_and_begins_nothing(site: Site) -> None:
    converse(site, "s0", "s1")
    shown = site.text("/garden?plan=1")
    assert "read 2 sessions that were not read or were continued" in shown
    assert "look for what you stated in 2 sessions" in shown
    assert site.api.get("/api/memory/gardens") == []


def test_a_run_is_begun_and_its_result_is_told(site: Site) -> None:
    converse(site, "s0", "s1")
    assert site.send("/garden/begin") == "/dashboard/garden"
    idle(site.api.parts)
    told = site.twin("/garden.json")
    assert told["label"].startswith("✓ Consolidation completed: 2 sessions, ")
    assert (told["running"], told["runs"][0]["totals"]["sessions"]) == (None, 2)
    shown = site.text("/garden")
    assert "2 sessions read" in shown
    assert "by hand" in shown
    assert "30 s to 2 min" not in shown
    assert "There is nothing to consolidate." in site.follow(site.send("/garden/begin"))


def test_an_active_run_shows_its_progress_and_is_not_begun_twice(site: Site) -> None:
    converse(site, "s9")
    now = SystemClock().now()
    steps = [RunStep(position=place, kind="sessions", subject={"session": f"s{place}"}) for place in range(2)]

    def write(tx: Tx) -> None:
        runs = ConsolidationRuns(tx)
        runs.begin("g", "hand", {"counts": {"sessions": 2}, "memories_until": 0}, steps, now)
        runs.mark("g", 0, {"sessions": 1}, now)
        Jobs(tx).enqueue(GARDEN, {"garden": "g"}, dedupe=GARDEN, at=now, delay=3600)

    site.api.parts.writer.run(write)
    page = site.page("/garden")
    assert "Extracting concepts... (1/2 sessions)" in page
    assert '<progress max="2" value="1"' in page
    assert 'data-garden="g"' in page
    assert "Consolidate memory</button>" not in page
    assert "A consolidation is running already." in site.follow(site.send("/garden/begin"))


def test_the_labels_of_the_progress_are_in_the_language_that_is_asked_for(site: Site) -> None:
    converse(site, "s0")
    site.send("/garden/begin")
    idle(site.api.parts)
    run = site.api.get("/api/memory/gardens")[0]["id"]
    told = site.api.get(f"/api/memory/gardens/{run}/progress?language=fr")["messages"]
    assert told[0]["label"] == "Extraction des concepts... (1/1 sessions)"
    assert told[-1]["label"].startswith("✓ Consolidation terminée : 1 session, ")
