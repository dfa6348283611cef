"""Every route answers in the shape that the specification promises, and every error is a problem with a remedy."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from filrouge._version import __version__
from filrouge.core.paths import socket_path
from filrouge.core.settings import Settings
from filrouge.testing import idle

from .conftest import Api

SHOP = "origin:forge.example/ana/shop"
PORT = "For the record: production listens on port 8443."
QUESTION = "What port does production listen on?"


def event(kind: str = "prompt", **data: Any) -> dict[str, Any]:
    at = time.time()
    return {
        "id": f"e{at}", "host": "codex", "kind": kind, "session": "s", "at": at, "key": f"k{at}", "project": [SHOP],
        "data": data,
    }  # fmt: skip


def test_health_says_alive_and_which_version_and_no_more(api: Api) -> None:
    reply = api.ask("GET", "/health")
    assert reply == (200, {"status": "healthy", "version": __version__}, __version__, reply.value)


def test_events_are_stored_once_and_bring_what_belongs_before_the_prompt(api: Api) -> None:
    api.remember(PORT, SHOP)
    delivery = {"events": [event(text=QUESTION)], "context": True}
    first, second = (api.ask("POST", "/hooks/events", delivery).body for _ in range(2))
    assert (first["accepted"], first["duplicates"]) == (1, 0)
    assert (second["accepted"], second["duplicates"]) == (0, 1)
    assert "8443" in first["context"]
    quiet = api.ask("POST", "/hooks/events", {"events": [event("reply", text="done")], "context": True}).body
    assert quiet == {"accepted": 1, "duplicates": 0, "context": ""}


def test_facts_have_a_key_and_a_value_each_newest_first(api: Api) -> None:
    assert api.get("/api/memory/facts") == []
    assert api.ask("POST", "/api/memory/facts", {"key": "user_name", "value": "Ana"}).body == {"success": True}
    [action] = api.remember(PORT, SHOP)
    newest, oldest = api.get("/api/memory/facts")
    assert (oldest["key"], oldest["value"]) == ("user_name", "Ana")
    assert (newest["key"], newest["id"], "8443" in newest["value"]) == (action["id"], action["id"], True)
    assert all(isinstance(fact["id"], str) for fact in (newest, oldest))
    assert [fact["key"] for fact in api.get("/api/memory/facts?project=nobodys:project")] == ["user_name"]


def test_a_fact_set_again_supersedes_and_history_shows_both(api: Api) -> None:
    for value in ("Ana", "Ana Beltran"):
        assert api.ask("POST", "/api/memory/facts", {"key": "user_name", "value": value}).status == 200
    assert [fact["value"] for fact in api.get("/api/memory/facts")] == ["Ana Beltran"]
    states = [(fact["value"], fact["state"]) for fact in api.get("/api/memory/facts?history=true")]
    assert states == [("Ana Beltran", "live"), ("Ana", "superseded")]


def test_many_facts_are_added_at_once(api: Api) -> None:
    items = [{"text": "one thing"}, {"value": "another thing"}]
    assert api.ask("POST", "/api/memory/facts", {"items": items}).body == {"success": True}
    assert {fact["value"] for fact in api.get("/api/memory/facts")} == {"one thing", "another thing"}
    assert api.ask("POST", "/api/memory/facts", {"items": [{"text": " "}]}).status == 400


def test_rules_stand_apart_from_facts(api: Api) -> None:
    api.remember("From now on, always use uv and never pip in this repository.", SHOP)
    [rule] = api.get("/api/memory/rules")
    assert (rule["kind"], rule["state"], rule["project"]) == ("rule", "live", SHOP)
    assert api.get("/api/memory/facts") == []
    assert api.get("/api/memory/rules?project=shop") == [rule]


def test_remembering_answers_what_each_statement_came_to(api: Api) -> None:
    [first] = api.remember(PORT, SHOP)
    [again] = api.remember(PORT, SHOP)
    assert first == {"action": "add", "id": first["id"], "superseded": [], "reason": first["reason"], "review": ""}
    assert (again["action"], again["id"]) == ("noop", first["id"])
    [change] = api.remember("Correction: production listens on port 9443, not 8443.", SHOP)
    assert (change["action"], change["superseded"]) == ("update", [first["id"]])


def test_one_memory_shows_its_words_and_its_decisions(api: Api) -> None:
    [action] = api.remember(PORT, SHOP)
    memory = api.get(f"/api/memory/memories/{action['id']}")
    assert memory["quotes"][0]["text"] in PORT
    assert [(entry["action"], entry["actor"]) for entry in memory["journal"]] == [("add", "understand")]
    assert memory["evidence"][0].keys() == {"turn_id", "start", "end"}


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
def test_search_results_have_their_fields_in_every_mode(api: Api, mode: str) -> None:
    api.remember(PORT, SHOP)
    idle(api.parts)
    found = api.get(f"/api/memory/search?q=production+port&mode={mode}&limit=5")
    assert {"id", "content", "channel", "type", "score", "created_at"} <= found[0].keys()
    assert {hit["type"] for hit in found} == {"turn", "fact"}
    assert found[0]["type"] == ("turn" if mode == "text" else "fact")
    assert len(api.get(f"/api/memory/search?q=production+port&mode={mode}&limit=1")) == 1


def test_a_search_without_a_match_is_an_empty_list(api: Api) -> None:
    api.remember(PORT, SHOP)
    assert api.get("/api/memory/search?q=zanzibar") == []
    assert api.get("/api/memory/search?q=%22%27%28") == []


def test_a_search_sees_every_project_labelled_unless_one_is_named(api: Api) -> None:
    api.remember(PORT, SHOP)
    api.remember("Production of the blog listens on port 7000.", "origin:forge.example/ana/blog")
    found = api.get("/api/memory/search?q=production+port&mode=hybrid")
    assert {hit["project_name"] for hit in found} == {"shop", "blog"}
    assert {hit["project_name"] for hit in api.get("/api/memory/search?q=production+port&project=shop")} == {"shop"}


def test_recall_answers_texts_with_their_similarity_which_is_relevance(api: Api) -> None:
    api.remember(PORT, SHOP)
    answer = api.ask("POST", "/search", {"query": QUESTION, "k": 3}).body
    [result] = answer["results"]
    assert {"id", "text", "source", "similarity"} <= result.keys()
    assert result["similarity"] == result["relevance"] >= 0.5
    assert answer["notices"] == []
    assert api.ask("POST", "/search", {"query": "écris un haïku", "threshold": 0.9}).body["results"] == []


def test_the_context_of_a_prompt_is_the_block_and_is_logged(api: Api) -> None:
    api.remember(PORT, SHOP)
    body = {"prompt": QUESTION, "project": [SHOP], "channel": "bot"}
    block = api.ask("POST", "/memory/context", body).body["context"]
    api.parts.writer.run(lambda _: None)  # the log is written after the answer
    assert "8443" in block
    [row] = api.get("/api/memory/retrievals?limit=5")
    assert (row["channel"], row["memories_injected"], row["obsidian_notes_injected"]) == ("bot", 1, 0)
    assert (row["total_tokens_added"], row["user_message_preview"]) == (-(-len(block) // 4), QUESTION)
    assert {"id", "created_at", "items"} <= row.keys()
    assert [item["injected"] for item in row["items"]] == [True, False]  # the memory, and where it was said
    [worded] = api.get("/api/memory/retrievals?outcome=delivered&texts=true")
    assert all("8443" in item["text"] for item in worded["items"])
    assert api.get(f"/api/memory/recalls/{row['id']}?texts=true")["items"] == worded["items"]
    assert api.get("/api/memory/retrievals?outcome=late") == []


def test_a_context_is_previewed_with_every_candidate_and_without_a_trace(api: Api) -> None:
    api.remember(PORT, SHOP)
    body = {"prompt": QUESTION, "project": [SHOP], "channel": "bot"}
    seen = api.ask("POST", "/api/memory/context/preview", body).body
    assert [(one["injected"], one["section"], one["reason"]) for one in seen["candidates"]] == [
        (True, "memories", "injected"),
        (False, "memories", "covered by a memory"),
    ]
    start = api.ask("POST", "/api/memory/context/preview", {"occasion": "start", "project": [SHOP]}).body
    assert "8443" in start["context"]
    assert api.ask("POST", "/api/memory/context/preview", {"occasion": "never"}).status == 400
    stricter = api.ask("POST", "/api/memory/context/preview", body | {"max_results": 1, "min_score": 1}).body
    assert {one["reason"] for one in stricter["candidates"]} == {"nothing relevant is known"}
    assert api.ask("POST", "/api/memory/context/preview", body | {"max_results": 11}).status == 400
    api.parts.writer.run(lambda _: None)
    assert api.get("/api/memory/retrievals") == []


def test_settings_are_answered_whole_with_their_origins(api: Api) -> None:
    whole = api.get("/api/memory/settings")
    assert whole == {**Settings().model_dump(mode="json"), "notes_tag": "mine", "embedding_model": "hashing"}
    changed = api.ask("PATCH", "/api/memory/settings", {"budget": 900, "notes_paths": ["a.md"]})
    assert (changed.status, changed.body) == (200, {**whole, "budget": 900, "notes_paths": ["a.md"]})
    assert api.get("/api/memory/settings") == changed.body
    origins = api.get("/api/memory/settings/origins")
    assert (origins["budget"], origins["notes_tag"], origins.keys()) == ("stored", "environment", whole.keys())


def test_a_setting_takes_effect_at_once(api: Api) -> None:
    api.remember(PORT, SHOP)
    assert api.ask("PATCH", "/api/memory/settings", {"auto_retrieve_enabled": False}).status == 200
    body = {"prompt": QUESTION, "project": [SHOP]}
    nothing: dict[str, Any] = {"context": "", "memories": [], "notes": [], "notices": []}
    assert api.ask("POST", "/memory/context", body).body == nothing
    api.parts.writer.run(lambda _: None)
    assert api.get("/api/memory/retrievals") == []


def test_stats_have_four_counts(api: Api) -> None:
    assert api.get("/api/memory/stats") == {
        "factsCount": 0, "messagesCount": 0, "vectorsCount": 0, "lastIndexedAt": None,
    }  # fmt: skip
    api.remember(PORT, SHOP)
    idle(api.parts)
    found = api.get("/api/memory/stats")
    assert (found["factsCount"], found["messagesCount"]) == (1, 1)
    assert found["vectorsCount"] >= 1
    assert found["lastIndexedAt"].endswith("Z")


def test_status_says_where_it_listens_and_accounts_for_every_event(api: Api) -> None:
    api.ask("POST", "/hooks/events", {"events": [event(text=PORT), event("session_end")]})
    idle(api.parts)
    found = api.get("/daemon/status")
    assert (found["socket"], found["url"], found["version"]) == (socket_path(api.home), None, __version__)
    assert sum(found["ledger"].values()) == found["events"] == 2
    assert found["queue"] == {"waiting": 0, "running": 0, "dead": 0}
    assert [project["name"] for project in found["projects"]] == ["shop"]


@pytest.mark.parametrize("path", ["/daemon/stop", "/daemon/drain"])
def test_the_daemon_is_asked_to_leave(api: Api, path: str) -> None:
    assert api.ask("POST", path, {}).body == {"status": "stopping", "version": __version__}
    assert api.asked_to_leave.wait(5)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/api/memory/memories/01nothing", None, 404, "01nothing"),
        ("GET", "/api/memory/facts?project=nowhere", None, 404, "nowhere"),
        ("GET", "/api/memory/gossip", None, 404, "/api/memory/gossip"),
        ("DELETE", "/health", None, 405, "DELETE /health"),
        ("PATCH", "/api/memory/settings", {"budgett": 1}, 400, "Did you mean 'budget'?"),
        ("PATCH", "/api/memory/settings", {"budget": 1}, 400, "'budget'"),
        ("PATCH", "/api/memory/settings", {"notes_tag": "x"}, 400, "fixed by the environment"),
        ("POST", "/api/memory/facts", {"key": "", "value": "x"}, 400, "key and a value"),
        ("POST", "/api/memory/memories", {"text": "  "}, 400, "empty"),
        ("POST", "/api/memory/memories", {}, 400, "text"),
        ("GET", "/api/memory/search", None, 400, "q"),
        ("GET", "/api/memory/search?q=a&limit=0", None, 400, "limit"),
        ("GET", "/api/memory/search?q=a&mode=magic", None, 400, "mode"),
        ("POST", "/search", {"query": "a", "threshold": 2}, 400, "threshold"),
        ("POST", "/hooks/events", {"events": []}, 400, "events"),
        ("POST", "/hooks/events", {"events": [{"kind": "gossip"}]}, 400, "gossip"),
    ],
)
def test_an_error_is_a_problem_with_a_remedy(
    silent: Api, method: str, path: str, body: dict[str, Any] | None, status: int, told: str
) -> None:
    reply = silent.ask(method, path, body)
    assert (reply.status, reply.body["status"], reply.version) == (status, status, __version__)
    assert reply.body.keys() == {"type", "title", "status", "detail", "remedy", "exit_code"}
    assert told in reply.body["detail"]
    assert reply.body["remedy"]
    assert reply.body["type"].startswith("urn:filrouge:error:")


def test_a_problem_names_its_media_type_and_a_broken_body_is_one(api: Api) -> None:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(socket_path(api.home))
        head = "POST /search HTTP/1.1\r\nHost: f\r\nConnection: close\r\nContent-Type: application/json\r\n"
        wire.sendall(f"{head}Content-Length: 5\r\n\r\n{{nope".encode())
        raw = b"".join(iter(lambda: wire.recv(65536), b"")).lower()
    assert raw.startswith(b"http/1.1 400 ")
    assert b"content-type: application/problem+json" in raw


def test_text_that_no_encoding_holds_breaks_no_answer(api: Api) -> None:
    body = {"events": [event(text="production \ud83d listens on port 8443, for the record")]}
    assert api.ask("POST", "/hooks/events", body).status == 200
    idle(api.parts)
    assert api.get("/daemon/status")["queue"]["dead"] == 0
    assert len(api.get("/api/memory/search?q=production")) >= 1


def test_a_boolean_is_no_number(api: Api) -> None:
    refused = api.ask("POST", "/memory/novel", {"text": PORT, "threshold": False})
    assert refused.status == 400
    assert "threshold" in str(refused.value)
