"""Jobs and Costs: what was set aside is seen, repeated or given up; what everything costs is shown and adds up."""

from __future__ import annotations

from filrouge.core.clock import SystemClock
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import Readings
from filrouge.providers.models import Usage
from filrouge.providers.usage_repository import LlmUsage
from filrouge.testing import idle
from tests.support.rows import turn
from tests.unit.server.test_jobs import set_aside

from .conftest import Site


def test_nothing_to_do_is_said_as_such(site: Site) -> None:
    assert "Nothing waits, and nothing failed" in site.text("/jobs")


def test_a_dead_job_is_shown_with_its_error_and_repeated(site: Site) -> None:
    (made,) = site.api.remember("For the record: production listens on port 8443.")
    idle(site.api.parts)
    read = site.api.get(f"/api/memory/memories/{made['id']}")["evidence"][0]["turn_id"]
    set_aside(site.api, read)
    (job,) = site.twin("/jobs.json")["dead"]
    assert (job["name"], job["error"]) == ("look for statements in a prompt", "NotFound")
    assert job["subjects"] == [{"name": "turn", "id": read, "href": f"/dashboard/turns/{read}"}]
    done = site.send(f"/jobs/{job['id']}/retry", back="/dashboard/jobs")
    idle(site.api.parts)
    assert "Queued again." in site.follow(done)
    assert site.twin("/jobs.json")["dead"] == []


def test_a_dead_job_is_discarded_only_after_a_question(site: Site) -> None:
    set_aside(site.api, "first", "second")
    first, second = site.twin("/jobs.json")["dead"]
    assert "/discard" not in site.page("/jobs")
    asked = site.page(f"/jobs?discard={first['id']}")
    assert f"/dashboard/jobs/{first['id']}/discard" in asked
    assert f"/dashboard/jobs/{second['id']}/discard" not in asked
    done = site.send(f"/jobs/{first['id']}/discard", back="/dashboard/jobs")
    assert "Discarded." in site.follow(done)
    assert [job["id"] for job in site.twin("/jobs.json")["dead"]] == [second["id"]]


def test_answers_that_could_not_be_read_are_shown_as_the_model_gave_them(site: Site) -> None:
    def write(tx: Tx) -> None:
        Readings(tx).keep_unreadable(
            [turn("It rains")],
            operation="extract",
            prompt_version="v1",
            reason="It is not JSON.",
            answer="<b>Sure!</b>",
            at=SystemClock().now(),
        )

    site.api.parts.writer.run(write)
    assert "It is not JSON. · extract · v1" in site.text("/jobs")
    assert "&lt;b&gt;Sure!&lt;/b&gt;" in site.page("/jobs")


def test_without_a_model_and_recalls_the_costs_say_so_plainly(site: Site) -> None:
    shown = site.text("/costs")
    assert "No language model is configured, so this costs nothing" in shown
    assert "Nothing was added in the last 30 days" in shown
    assert "database" in shown


def test_the_figures_of_the_costs_are_the_sums_of_the_usage(site: Site) -> None:
    now = SystemClock().now()

    def write(tx: Tx) -> None:
        spent = Usage(calls=2, input_tokens=900, output_tokens=100, estimated=False, dollars=0.25)
        for model in ("small", "large"):
            LlmUsage(tx).add("extract", {("anthropic", model): spent}, now)

    site.api.parts.writer.run(write)
    for days in (7, 90):
        page, usage = site.twin(f"/costs.json?days={days}"), site.api.get(f"/api/memory/usage?days={days}")
        assert page["dollars"] == usage["dollars"] == 0.5
        assert page["recall"]["tokens"] == sum(row["tokens"] for row in usage["recalls"])
        assert [(row["calls"], row["dollars"]) for row in page["models"]] == [(2, 0.25), (2, 0.25)]
        chart = page["dollars_chart"]
        assert len(chart["days"]) == days
        assert [line["values"][-1] for line in chart["series"]] == [0.25, 0.25]
    assert site.twin("/costs.json?days=5000")["days"] == 30
