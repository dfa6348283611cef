"""The first page: what today brought, what needs the reader, and the year at a glance."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

from filrouge.core.protocols import Tx
from filrouge.runtime.jobs import MAX_ATTEMPTS, Job, Jobs
from filrouge.testing import idle

from .conftest import Site

PORT = "For the record: the shop listens on port 8443."


def say(site: Site, text: str, at: float | None = None, **fields: Any) -> None:
    event = {"id": f"e-{time.time()}", "host": "claude-code", "kind": "prompt", "session": "s", **fields}
    event |= {"at": at or time.time(), "data": {"text": text}}
    assert site.api.ask("POST", "/hooks/events", {"events": [event]}).status == 200
    idle(site.api.parts)


def test_an_empty_memory_says_how_the_first_fact_gets_here_and_waits_for_it(site: Site) -> None:
    page = site.page("")
    assert "filrouge init" in page
    assert 'data-live="memories events recalls"' in page
    site.send("/memories", text="The shop listens on port 8443.", kind="fact", back="/dashboard")
    after = site.text("")
    assert "filrouge init" not in after
    assert "Learned today" in after
    assert "The shop listens on port 8443." in after


def test_what_was_learned_and_corrected_today_stands_there_and_yesterday_does_not(site: Site) -> None:
    say(site, "For the record: the crane listens on port 7000.", at=time.time() - 2 * 86_400)
    site.api.remember(PORT)
    (memory,) = [row for row in site.api.get("/api/memory/memories") if "8443" in row["text"]]
    say(site, "ok, thanks!")
    shown = site.twin("/today.json")
    assert [row["id"] for row in shown["learned"]] == [memory["id"]]
    assert (shown["corrected"], shown["passed_over"]) == ([], [["small talk", 1]])
    body = {"old_id": memory["id"], "new_text": "The shop listens on port 9443."}
    assert site.api.ask("POST", "/memory/supersede", body).status == 200
    page = site.page("")
    assert re.search(r"<del[^>]*>.*8443.*</del>.*9443", page)
    assert site.twin("/today.json")["learned"] == []


def test_the_numbers_are_those_of_the_api(site: Site) -> None:
    site.api.remember(PORT)
    say(site, "Which port does the shop listen on, please?")
    site.api.ask("POST", "/memory/context", {"prompt": "Which port does the shop listen on?", "channel": "bot"})
    site.api.parts.writer.run(lambda tx: None)
    [today] = site.api.get("/api/memory/activity?days=1")
    shown = site.twin("/today.json")
    assert shown["counts"] == today
    assert today["recalls"] == 1
    assert sum(cell["memories"] for cell in shown["year"]["cells"]) == shown["year"]["total"] == today["memories"]


def test_the_map_of_the_year_leads_to_each_day_and_is_a_list_too(site: Site) -> None:
    site.api.remember(PORT)
    day = str(datetime.now(UTC).astimezone().date())
    page = site.page("")
    link = f"/dashboard/memory?since={day}&amp;until={day}"
    assert page.count(f'href="{link}"') == 2
    assert 364 < page.count("<rect") - 5 <= 366
    assert PORT.removeprefix("For the record: ") in site.text(f"/memory?since={day}&until={day}")
    assert site.twin("/today.json?by=prompts")["counted"] == "prompts"
    assert site.twin("/today.json?by=<script>")["counted"] == "memories"


def test_what_waits_for_the_reader_is_a_link_to_it(site: Site) -> None:
    [stated] = site.api.remember(PORT)
    assert "Needs you" not in site.text("")
    assert site.api.ask("PATCH", f"/api/memory/memories/{stated['id']}", {"pinned": True}).status == 200
    site.api.remember("Correction: the shop listens on port 9443, not 8443.")
    page = site.text("")
    assert "Needs you 1 contradiction: which one holds?" in page


def fail_a_job_for_good(tx: Tx) -> None:
    now = datetime.now(UTC)
    Jobs(tx).enqueue("analyse", {"turn": "none"}, dedupe="none", at=now, delay=3600)
    [row] = Jobs(tx).list_page(state="queued")
    tx.run("jobs.lease", {"worker": "w", "now": "2026", "lease_until": "2099", "seqs": f"[{row['seq']}]"})
    Jobs(tx).fail(Job(id=row["id"], kind="analyse", payload={}, attempts=MAX_ATTEMPTS, worker="w"), "NotFound", now)


def test_a_warning_says_what_to_do_and_the_day_does_not_wait_for_it(site: Site) -> None:
    assert "Is all well?" in site.text("")
    assert "All is well" in site.text("/settings/health")
    site.api.remember(PORT)
    idle(site.api.parts)
    site.api.parts.writer.run(fail_a_job_for_good)
    health = site.text("/settings/health")
    assert "Needs attention Queue" in health
    assert "What to do: filrouge doctor" in health
    assert "0 waiting, 1 set aside" in health
    assert "1 job failed and was set aside" in site.text("")


def test_words_of_a_memory_are_never_markup(site: Site) -> None:
    site.api.remember('For the record: the <img src=x onerror=alert(1)> "shop" listens on port 8443.')
    page = site.page("")
    assert "<img" not in page
    assert "&lt;img src=x" in page


def test_a_page_whose_content_takes_longer_begins_with_its_frame(site: Site) -> None:
    with site.http.stream("GET", "/dashboard") as answer:
        pieces = answer.iter_text()
        first = next(pieces)
        whole = first + "".join(pieces)
    assert answer.status_code == 200
    assert first.rstrip().endswith('<main id="main" tabindex="-1">')
    assert "content-length" not in answer.headers
    assert whole.rstrip().endswith("</html>")
