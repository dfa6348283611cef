"""A whole export loses nothing: what is read into an empty home answers as the home that it came from."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import to_builtins

from filrouge.cli.imports import send_lines
from filrouge.core.paths import socket_path
from filrouge.extraction.models import Analysis
from filrouge.server.routes.transfer import ImportedAnswer
from filrouge.testing import idle
from filrouge.transfer.exports import FULL_TABLES, open_export

from .conftest import Api, serving

SHOP = "name:shop"
SAID = (
    "How do we move the billing database of the shop to Lyon without stopping payments?",
    "The billing database in Lyon needs a replica before the move, let's plan the replica.",
    "Now something else: the login page shows a blank screen in Firefox, why?",
    "The blank login page comes from the content security policy, fix the policy header.",
    "I prefer light strings on my acoustic guitar, fingerstyle hurts less with them.",
    "Back to the billing database: the replica in Lyon lags by nine minutes.",
)
#: What both homes are asked: everything of the API that shows messages, memories, threads and what ties them.
ASKED = (
    "/api/memory/facts", "/api/memory/rules", "/api/memory/threads?status=all", "/api/memory/bridges",
    "/api/memory/topics", "/api/memory/concepts", "/api/memory/graph", "/api/memory/messages?channel=claude-code",
    "/api/memory/timeline", "/api/memory/facts?kind=fact&trust=3",
)  # fmt: skip


@pytest.fixture
def other(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path / "other")) as found:
        yield found


def fetched(api: Api) -> list[bytes]:
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_path(api.home)), base_url="http://filrouge") as http:
        reply = http.get("/api/memory/export?format=jsonl")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-ndjson")
    return reply.content.splitlines(keepends=True)


def rows(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines[1:]]


def read_in(api: Api, lines: list[bytes], *, mine: bool = True) -> dict[str, Any]:
    def send(piece: dict[str, Any]) -> dict[str, Any]:
        reply = api.ask("POST", f"/api/memory/import?trusted={str(mine).lower()}", piece)
        assert reply.status == 200, reply
        return ImportedAnswer.model_validate(reply.body).model_dump()

    found = open_export(lines[0], lines[1:], 1)
    assert found is not None
    done = send_lines(found, send)
    idle(api.parts)
    return done


def added(done: dict[str, Any]) -> dict[str, int]:
    counted = {name: done[name] for name in ("projects", "messages", "memories")} | done["beside"]
    return {name: counts["added"] for name, counts in counted.items()}


def filled(api: Api) -> list[bytes]:
    """A memory with a history, a rule, a core fact, threads, a bridge, where work stood."""
    for text in (
        "For the record: production listens on port 8443.",
        "Correction: production listens on port 9443, not 8443.",
        "Always run the tests with `make check`.",
        "We decided to use PostgreSQL for the billing database.",
    ):
        api.remember(text, SHOP)
    api.ask("POST", "/api/memory/facts", {"key": "editor", "value": "Helix"})
    for session, said in (("s1", SAID[:4]), ("s2", SAID[4:])):
        messages = [
            one
            for text in said
            for one in ({"role": "user", "content": text}, {"role": "assistant", "content": f"{text} It is so."})
        ]
        told = {"channel": "claude-code", "session_id": session, "project": [SHOP], "messages": messages}
        assert api.ask("POST", "/memory/turns", told).status < 300
        idle(api.parts)
    return fetched(api)


def changed_by_hand(api: Api) -> None:
    """Threads named, merged and tied by a person, a bridge that is not wanted, a pin, a rule that is switched off."""
    first, second, third = [one["id"] for one in api.get("/api/memory/threads?status=all")]
    [bridge] = api.get("/api/memory/bridges")
    asked: list[tuple[str, str, dict[str, Any] | None]] = [
        ("PATCH", f"/api/memory/threads/{first}", {"title": "Billing goes to Lyon"}),
        ("DELETE", f"/api/memory/bridges/{bridge['id']}", None),
        ("POST", "/api/memory/bridges", {"source": first, "target": third, "type": "supports"}),
        ("POST", f"/api/memory/threads/{second}/merge", {"into": first}),
        ("PATCH", f"/api/memory/memories/{api.get('/api/memory/facts')[0]['id']}", {"pinned": True}),
        ("PATCH", f"/api/memory/rules/{api.get('/api/memory/rules')[0]['id']}", {"enabled": False}),
    ]
    for method, path, body in asked:
        reply = api.ask(method, path, body)
        assert reply.status < 300, (path, reply)
    idle(api.parts)


def summed_up(lines: list[bytes]) -> list[bytes]:
    """The same export with what the reading of a session leaves behind: an episode, a concept, how far it was read."""
    memories = [row for row in rows(lines) if row.get("table") == "memories"]
    messages = [row for row in rows(lines) if row.get("table") == "messages" and row["session_id"] == "s1"]
    at, until = messages[-1]["at"], messages[-1]["id"]
    plain: dict[str, Any] = memories[0] | {"state": "live", "superseded_by": None, "valid_to": None, "evidence": []}
    episode: dict[str, Any] = plain | {
        "id": "e1",
        "kind": "episode",
        "text": "The move to Lyon was planned.",
        "subject": "s1",
    }
    mention = {"host": "claude-code", "session_id": "s1", "first_at": at, "last_at": at}
    concept = plain | {"id": "c1", "kind": "concept", "text": "replica", "subject": "replica", "mentions": [mention]}
    where: dict[str, Any] = {"host": "claude-code", "session_id": "s1", "until": until}
    analysis: dict[str, Any] = json.loads(json.dumps(to_builtins(Analysis(summary="The move was planned."))))
    more: list[dict[str, Any]] = [
        episode,
        concept,
        {"table": "sessions", **where, "analysis": analysis, "episode_id": "e1", "analysed_at": at},
        {"table": "readings", **where, "at": at},
    ]
    order: dict[str, int] = {name: place for place, name in enumerate(FULL_TABLES)}
    body: list[dict[str, Any]] = sorted([*rows(lines)[:-1], *more], key=lambda row: order[str(row["table"])])
    counts = {name: sum(row["table"] == name for row in body) for name in FULL_TABLES}
    end = {"filrouge_export_end": 1, "counts": counts}
    return [lines[0], *(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in [*body, end])]


def test_a_whole_export_comes_back_row_by_row_and_answers_as_before(api: Api, other: Api) -> None:
    filled(api)
    changed_by_hand(api)
    lines = fetched(api)
    first = read_in(other, lines)
    counts = rows(lines)[-1]["counts"]
    assert (added(first), first["problems"]) == (counts, [])
    assert rows(fetched(other)) == rows(lines)
    threads = [f"/api/memory/threads/{row['id']}" for row in rows(lines) if row.get("table") == "threads"]
    placed = [row["id"] for row in rows(lines) if row.get("table") == "messages" and row["placed"]]
    memories = [row["id"] for row in rows(lines) if row.get("table") == "memories"]
    one_by_one = [
        *threads,
        *(f"/api/memory/turns/{id_}/thread" for id_ in placed),
    ]
    assert len(threads) == 3
    assert placed
    for path in (*ASKED, *one_by_one):
        assert other.get(path) == api.get(path), path
    for id_ in memories:  # each home seals a journal of its own
        here, there = (home.get(f"/api/memory/memories/{id_}") for home in (other, api))
        assert here | {"journal": []} == there | {"journal": []}
    assert other.get("/api/audit/verify")["sound"]
    second = read_in(other, lines)
    assert set(added(second).values()) == {0}
    assert rows(fetched(other)) == rows(lines)


def test_what_was_made_of_sessions_comes_along_for_its_owner_alone(api: Api, other: Api) -> None:
    lines = summed_up(filled(api))
    foreign = read_in(api, lines, mine=False)
    assert (added(foreign)["memories"], foreign["memories"]["bad"], foreign["beside"]["sessions"]["added"]) == (0, 0, 0)
    read_in(other, lines)
    assert rows(fetched(other)) == rows(lines)
    assert [(one["concept"], one["sessions"]) for one in other.get("/api/memory/concepts")] == [("replica", ["s1"])]


def test_a_file_that_was_cut_off_says_in_which_line_and_what_was_whole_is_kept(api: Api, other: Api) -> None:
    lines = filled(api)
    messages = [place for place, row in enumerate(rows(lines), start=2) if row.get("table") == "messages"]
    torn = messages[3]
    done = read_in(other, [*lines[: torn - 1], lines[torn - 1][:40]])
    assert added(done)["messages"] == 3
    assert [one["place"] for one in done["problems"]] == [torn, torn]
    assert "ends within this line" in done["problems"][0]["problem"]
    rest = read_in(other, lines)
    assert (rest["messages"]["present"], rest["problems"]) == (3, [])
    assert {row["id"] for row in rows(fetched(other)) if "id" in row} == {
        row["id"] for row in rows(lines) if "id" in row
    }


def test_a_bad_row_is_named_by_its_line_and_secrets_are_taken_out(api: Api, other: Api) -> None:
    lines = filled(api)
    body = rows(lines)
    thread = next(row for row in body if row.get("table") == "threads")
    thread["title"] = "The key is AKIAIOSFODNN7EXAMPLE."
    bad = next(place for place, row in enumerate(body, start=2) if row.get("table") == "memories")
    body[bad - 2]["trust"] = 9
    done = read_in(other, [lines[0], *(json.dumps(row).encode() + b"\n" for row in body)])
    assert [(one["table"], one["place"]) for one in done["problems"]] == [("memories", bad)]
    assert "AKIAIOSFODNN7EXAMPLE" not in b"".join(fetched(other)).decode()


def test_where_something_was_forgotten_threads_are_made_anew(api: Api) -> None:
    lines = filled(api)
    api.ask("POST", "/api/memory/forget", {"text": "Firefox", "at_once": True})
    idle(api.parts)
    assert b"Firefox" not in b"".join(fetched(api))
    done = read_in(api, lines)
    assert (done["beside"]["threads"]["added"], done["messages"]["added"]) == (0, 0)
    assert b"Firefox" not in b"".join(fetched(api))


def test_one_table_of_a_whole_is_refused(silent: Api) -> None:
    assert silent.ask("GET", "/api/memory/export?format=jsonl&what=threads").status == 400
