"""The queue over HTTP: what was set aside is seen, done again, or given up."""

from __future__ import annotations

from typing import Any

import httpx
from pydantic import TypeAdapter

from filrouge.core.clock import SystemClock
from filrouge.core.paths import socket_path
from filrouge.core.protocols import Tx
from filrouge.runtime.jobs import MAX_ATTEMPTS, Job, Jobs
from filrouge.server.routes.maintenance import JobAnswer, QueueAnswer, RecallAnswer
from filrouge.testing import idle

from .conftest import Api

_LETTERS = TypeAdapter(list[JobAnswer])


def set_aside(api: Api, *turns: str) -> None:
    """Jobs of a kind that fails, which have failed for the last time."""
    now = SystemClock().now()

    def write(tx: Tx) -> None:
        for turn in turns:
            Jobs(tx).enqueue("analyse", {"turn": turn}, dedupe=f"analyse:{turn}", at=now, delay=3600)
        for row in Jobs(tx).list_page(state="queued"):
            tx.run("jobs.lease", {"worker": "w", "now": "2026", "lease_until": "2099", "seqs": f"[{row['seq']}]"})
            job = Job(id=row["id"], kind="analyse", payload={}, attempts=MAX_ATTEMPTS, worker="w")
            Jobs(tx).fail(job, "NotFound", now)

    api.parts.writer.run(write)


def letters(api: Api) -> list[JobAnswer]:
    return _LETTERS.validate_python(api.get("/api/memory/dead-letters"))


def test_what_was_set_aside_is_listed_done_again_and_given_up(api: Api) -> None:
    [made] = api.remember("For the record: production listens on port 8443.")
    idle(api.parts)
    known = api.get(f"/api/memory/memories/{made['id']}")["evidence"][0]["turn_id"]
    set_aside(api, known, "nothing")
    queue = QueueAnswer.model_validate(api.get("/api/memory/jobs"))
    assert (queue.waiting, queue.running, queue.dead, len(queue.jobs)) == (0, 0, 2, 2)
    first, second = letters(api)
    assert (first.about, first.error, first.next_try, first.attempts) == ({"turn": known}, "NotFound", None, 1)
    assert api.ask("POST", f"/api/memory/dead-letters/{first.id}/retry", {}).body == {"success": True}
    idle(api.parts)
    assert [one.id for one in letters(api)] == [second.id]
    assert api.ask("DELETE", f"/api/memory/dead-letters/{second.id}").body == {"success": True}
    assert letters(api) == []
    assert api.ask("POST", f"/api/memory/dead-letters/{second.id}/retry", {}).status == 404
    assert api.ask("DELETE", "/api/memory/dead-letters/nothing").status == 404


def test_a_long_queue_is_read_page_by_page(api: Api) -> None:
    set_aside(api, *(f"turn-{number}" for number in range(5)))
    found: list[str] = []
    path: str | None = "/api/memory/dead-letters?limit=2"
    pages = 0
    while path:
        page, path = followed(api, path)
        found += [one["about"]["turn"] for one in page]
        pages += 1
    assert (found, pages) == ([f"turn-{number}" for number in range(5)], 3)
    assert api.ask("GET", "/api/memory/jobs?cursor=nonsense!").status == 400


def followed(api: Api, path: str) -> tuple[list[dict[str, Any]], str | None]:
    """A page, and the address of the next: read off the wire, because the client of hooks drops headers."""

    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_path(api.home)), base_url="http://filrouge") as http:
        reply = http.get(path)
    return reply.json(), reply.links.get("next", {}).get("url")


def test_one_recall_is_told_in_full(api: Api) -> None:
    api.remember("For the record: production listens on port 8443.")
    idle(api.parts)
    api.ask("POST", "/memory/context", {"prompt": "Which port does production listen on?", "channel": "web"})
    api.parts.writer.run(lambda tx: None)  # the log is written behind the answer
    [row] = api.get("/api/memory/retrievals")
    one = RecallAnswer.model_validate(api.get(f"/api/memory/recalls/{row['id']}"))
    assert row.items() <= one.model_dump().items()
    assert api.ask("GET", "/api/memory/recalls/nothing").status == 404
