"""What is known leaves as a file and comes back: once, whole, and trusted no more than it may be."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from filrouge.core.paths import socket_path
from filrouge.server.routes.transfer import ImportedAnswer
from filrouge.testing import idle

from .conftest import Api, serving

SHOP = "name:shop"
NOTHING = {"added": 0, "present": 0, "forgotten": 0, "bad": 0}


@pytest.fixture
def other(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path / "other")) as found:
        yield found


def exported(api: Api, query: str = "") -> str:
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_path(api.home)), base_url="http://filrouge") as http:
        reply = http.get(f"/api/memory/export{query}")
    assert reply.status_code == 200, reply.text
    return reply.text


def imported(api: Api, document: Any, query: str = "") -> dict[str, Any]:
    reply = api.ask("POST", f"/api/memory/import{query}", document)
    assert reply.status == 200, reply
    idle(api.parts)
    return ImportedAnswer.model_validate(reply.body).model_dump()


def filled(api: Api) -> dict[str, Any]:
    """A memory with a history, a rule, a core fact, and a conversation."""
    api.remember("For the record: production listens on port 8443.", SHOP)
    api.remember("Correction: production listens on port 9443, not 8443.", SHOP)
    api.remember("Always run the tests with `make check`.", SHOP)
    api.ask("POST", "/api/memory/facts", {"key": "editor", "value": "Helix"})
    told = {"role": "user", "content": "The staging server moved to Lyon."}
    api.ask("POST", "/memory/turns", {"channel": "web", "session_id": "s", "messages": [told]})
    idle(api.parts)
    return json.loads(exported(api))


def rows(api: Api, table: str) -> list[dict[str, Any]]:
    return sorted(json.loads(exported(api))[table], key=lambda row: row["id"])


def test_an_export_of_ones_own_comes_back_whole_and_once(api: Api, other: Api) -> None:
    document = filled(api)
    first = imported(other, document, "?trusted=true")
    assert {name: first[name]["added"] for name in ("projects", "messages", "memories")} == {
        "projects": len(document["projects"]),
        "messages": len(document["messages"]),
        "memories": len(document["memories"]),
    }
    assert rows(other, "messages") == rows(api, "messages")
    assert rows(other, "memories") == rows(api, "memories")
    second = imported(other, document, "?trusted=true")
    assert [second[name]["added"] for name in ("projects", "messages", "memories")] == [0, 0, 0]
    assert rows(other, "memories") == rows(api, "memories")
    assert other.get("/api/audit/verify")["sound"]


def test_what_came_back_is_found_listed_and_can_be_undone(api: Api, other: Api) -> None:
    imported(other, filled(api), "?trusted=true")
    assert "9443" in other.get("/api/memory/search?q=production+port&collection=memories")[0]["content"]
    assert [rule["standing"] for rule in other.get("/api/memory/rules")] == ["standing"]
    assert {one["key"]: one["value"] for one in other.get("/api/memory/facts")}["editor"] == "Helix"
    [fact] = other.get("/api/memory/facts?project=shop&kind=fact&since=2020-01-01&trust=3")[:1]
    assert other.ask("POST", "/api/memory/undo", {"memory_id": fact["id"]}).status == 200


def test_a_file_that_nobody_vouches_for_holds_observations_only(api: Api, other: Api) -> None:
    imported(other, filled(api))
    assert other.get("/api/memory/rules") == []
    assert {(one["trust"], one["key"] == one["id"]) for one in other.get("/api/memory/facts")} == {(0, True)}
    block = other.ask("POST", "/memory/context", {"prompt": "Which editor does the user like?", "channel": "web"})
    assert "Helix" not in block.body["context"] or "unverified" in block.body["context"]


def test_rows_in_two_pieces_are_linked_as_in_one(api: Api, other: Api) -> None:
    document = filled(api)
    memories = document["memories"]
    for piece in (memories[:1], memories[1:], memories):
        imported(other, {**document, "memories": piece}, "?trusted=true")
    assert rows(other, "memories") == rows(api, "memories")


def test_what_was_forgotten_here_does_not_come_back(api: Api) -> None:
    document = filled(api)
    api.ask("POST", "/api/memory/forget", {"text": "staging server moved to Lyon", "at_once": True})
    done = imported(api, document, "?trusted=true")
    assert (done["messages"]["forgotten"], done["messages"]["added"]) == (1, 0)
    assert "Lyon" not in exported(api)


def test_a_row_that_cannot_be_read_is_named_and_the_others_go_on(api: Api, other: Api) -> None:
    document = filled(api)
    document["memories"][0]["trust"] = 9
    document["messages"].insert(0, "nonsense")
    done = imported(other, document)
    assert (done["memories"]["bad"], done["memories"]["added"]) == (1, len(document["memories"]) - 1)
    assert [(one["table"], one["place"]) for one in done["problems"]] == [("messages", 0), ("memories", 0)]
    assert "trust" in done["problems"][1]["problem"]


def test_secrets_are_taken_out_of_what_is_read_in(api: Api, other: Api) -> None:
    document = filled(api)
    document["memories"][0]["text"] = document["messages"][0]["text"] = "The key is AKIAIOSFODNN7EXAMPLE."
    imported(other, document, "?trusted=true")
    assert "AKIAIOSFODNN7EXAMPLE" not in exported(other)


@pytest.mark.parametrize("body", [{}, {"filrouge_export": 2}, {"filrouge_export": 1, "messages": {}}])
def test_what_is_no_export_is_refused(silent: Api, body: dict[str, Any]) -> None:
    assert silent.ask("POST", "/api/memory/import", body).status == 400


def test_an_empty_export_changes_nothing(api: Api) -> None:
    done = imported(api, {"filrouge_export": 1})
    assert (done["memories"], done["problems"]) == (NOTHING, [])


@pytest.mark.parametrize("said", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1+1"])
def test_no_cell_of_a_table_is_a_formula(api: Api, said: str) -> None:
    api.ask("POST", "/api/memory/facts", {"key": "x", "value": "y", "items": [{"text": said}]})
    [row] = csv.DictReader(io.StringIO(exported(api, "?format=csv")))
    assert row["text"] == f"'{said}"


def test_a_table_holds_commas_quotes_and_lines(api: Api) -> None:
    said = 'one, "two"\nthree'
    told = [{"role": "user", "content": said}]
    api.ask("POST", "/memory/turns", {"channel": "web", "session_id": "s", "messages": told})
    idle(api.parts)
    [row] = csv.DictReader(io.StringIO(exported(api, "?format=csv&what=messages"), newline=""))
    assert (row["text"], row["channel"]) == (said, "web")
    assert api.ask("GET", "/api/memory/export?format=csv&what=all").status == 400
    assert json.loads(exported(api, "?what=threads")).keys() >= {"projects", "threads"}
