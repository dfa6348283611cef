"""What a program with a loop of its own hands over, and what it is told back (API-9)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from filrouge.server.routes.turns import MessageAnswer, ToldAnswer
from filrouge.testing import idle

from .conftest import Api

PORT = "For the record: the staging server listens on port 9443 now."
ASKED = "Which port does the staging server listen on?"


def told(api: Api, *messages: dict[str, Any], channel: str = "telegram", **where: Any) -> tuple[int, int]:
    reply = api.ask("POST", "/memory/turns", {"channel": channel, "session_id": "one", "messages": messages, **where})
    assert reply.status == 202, reply
    answer = ToldAnswer.model_validate(reply.body)
    return answer.accepted, answer.duplicates


def said(api: Api, query: str) -> list[dict[str, Any]]:
    idle(api.parts)
    rows = api.get(f"/api/memory/messages?{query}")
    TypeAdapter(list[MessageAnswer]).validate_python(rows)
    return [{"role": row["role"], "content": row["content"]} for row in rows]


def context(api: Api, prompt: str, **where: Any) -> str:
    idle(api.parts)
    reply = api.ask("POST", "/memory/context", {"prompt": prompt, "channel": "web", "session_id": "two", **where})
    assert reply.status == 200, reply
    return reply.body["context"]


def test_messages_are_read_back_in_their_order_and_from_their_channel_alone(api: Api) -> None:
    spoken = [
        {"role": "user", "content": PORT},
        {"role": "assistant", "content": "Noted, I use port 9443 from here on."},
        {"role": "user", "content": "yes"},
    ]
    assert told(api, *spoken) == (3, 0)
    assert told(api, {"role": "user", "content": "Elsewhere, something else is said."}, channel="web") == (1, 0)
    assert said(api, "channel=telegram") == spoken
    assert said(api, "channel=telegram&session_id=one&limit=2") == spoken[1:]
    assert said(api, "channel=telegram&session_id=two") == []


def test_what_comes_again_is_a_duplicate_and_what_is_said_twice_is_not(api: Api) -> None:
    yes = {"role": "user", "content": "yes"}
    assert told(api, yes, yes) == (2, 0)
    assert told(api, yes, yes, yes) == (1, 2)
    assert told(api, {**yes, "at": "2026-05-01T12:00:00Z"}) == (1, 0)
    assert told(api, {**yes, "at": "2026-05-01T12:00:00Z"}) == (0, 1)
    assert told(api, {**yes, "id": "m-1"}, {**yes, "id": "m-2"}) == (2, 0)
    assert told(api, {**yes, "id": "m-2", "content": "yes!"}) == (0, 1)


def test_what_is_told_on_one_channel_is_in_front_of_a_prompt_on_another(api: Api) -> None:
    told(api, {"role": "user", "content": PORT})
    assert "9443" in context(api, ASKED)


def test_one_users_memory_is_not_in_front_of_anothers_prompt(api: Api) -> None:
    told(api, {"role": "user", "content": PORT}, user_id="ana")
    told(api, {"role": "user", "content": PORT.replace("9443", "7001")}, user_id="ben", session_id="three")
    told(api, {"role": "user", "content": "My name is Ana Beltran, and I prefer short answers."}, user_id="ana")
    mine, bens, ours = (context(api, ASKED, user_id=user) for user in ("ana", "ben", None))
    assert ("9443" in mine, "7001" in mine) == (True, False)
    assert ("9443" in bens, "7001" in bens) == (False, True)
    assert ("9443" in ours, "7001" in ours) == (False, False)
    assert "Ana" not in bens + ours
    assert [row["content"] for row in said(api, "channel=telegram&user_id=ben")] == [PORT.replace("9443", "7001")]


def test_two_users_say_the_same_words_at_the_same_time(api: Api) -> None:
    told(api, {"role": "user", "content": PORT}, user_id="ana", channel="telegram")
    told(api, {"role": "user", "content": PORT}, user_id="ben", channel="web")
    assert "9443" in context(api, ASKED, user_id="ana")
    assert "9443" in context(api, ASKED, user_id="ben")


def test_a_project_is_made_by_its_name_and_stays_by_itself(api: Api) -> None:
    assert "9443" not in context(api, ASKED, project="shop")
    told(api, {"role": "user", "content": PORT}, project="shop")
    assert "9443" in context(api, ASKED, project="shop")
    assert "9443" not in context(api, ASKED, project="warehouse")
    assert "9443" not in context(api, ASKED)


def test_results_of_tools_and_files_are_kept_beside_what_was_said(api: Api) -> None:
    result = {"name": "Bash", "id": "c-1", "input": {"command": "ls"}, "output": "harbour.py"}
    assert told(api, {"role": "assistant", "content": "I looked.", "tool_results": [result, "plain"]}) == (1, 0)
    assert told(api, {"role": "tool", "content": "port = 9443", "file_path": "settings.py"}) == (1, 0)
    found = said(api, "channel=telegram")
    assert [one["role"] for one in found] == ["tool", "tool", "assistant", "tool"]
    assert found[0]["content"] == "Bash: ls harbour.py"
    assert found[3]["content"] == "Read: settings.py port = 9443"


def test_secrets_are_gone_before_anything_is_stored(api: Api) -> None:
    told(api, {"role": "user", "content": "The key is AKIAIOSFODNN7EXAMPLE, keep it."})
    assert "AKIAIOSFODNN7EXAMPLE" not in str(said(api, "channel=telegram"))


def test_where_capture_is_switched_off_nothing_is_accepted(api: Api) -> None:
    api.ask("PATCH", "/api/memory/settings", {"disabled_projects": ["shop"]})
    assert told(api, {"role": "user", "content": PORT}, project="shop") == (0, 0)
    assert told(api, {"role": "user", "content": PORT}) == (1, 0)
    assert len(said(api, "channel=telegram")) == 1


def test_what_was_forgotten_does_not_come_back(api: Api) -> None:
    message = {"role": "user", "content": PORT, "at": "2026-05-01T12:00:00Z"}
    told(api, message)
    idle(api.parts)
    forgotten = api.ask("POST", "/api/memory/forget", {"text": "staging server port 9443", "at_once": True})
    assert forgotten.status == 200, forgotten
    told(api, {**message, "at": "2026-05-01T12:00:01Z"})
    assert said(api, "channel=telegram") == []
    assert "9443" not in context(api, ASKED)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"role": "user", "content": " "}, "messages.0 is empty"),
        ({"role": "system", "content": "Be kind."}, "role"),
        ({"role": "user", "content": "Hello.", "at": "soon"}, "messages.0.at"),
        ({"role": "user", "content": "Hello.", "at": "0001-01-01"}, "messages.0.at"),
    ],
)
def test_a_message_that_cannot_be_used_is_named(silent: Api, message: dict[str, Any], named: str) -> None:
    reply = silent.ask("POST", "/memory/turns", {"channel": "web", "session_id": "s", "messages": [message]})
    assert (reply.status, named in reply.body["detail"]) == (400, True), reply


def test_what_a_tool_printed_is_found_by_a_search_and_stays_out_of_prompts(api: Api) -> None:
    read = {"name": "Read", "id": "c-1", "input": {"file_path": "broker.toml"}, "output": "host = quokka-17.internal"}
    ran = {"name": "Bash", "id": "c-2", "input": {"command": "make"}, "output": "zebrafish build: 3 warnings in 20 s"}
    told(api, {"role": "tool", "content": "", "tool_results": [read, ran]})
    idle(api.parts)
    for query in ("quokka-17", "zebrafish"):
        found = api.get(f"/api/memory/search?q={query}")
        assert any(query in str(one) for one in found), query
    assert "quokka" not in context(api, "Which host is quokka-17?")


def test_an_isolated_agent_is_given_what_it_was_told_itself(api: Api) -> None:
    api.ask("PATCH", "/api/memory/settings", {"isolation": True})
    told(api, {"role": "user", "content": PORT}, agent_id="planner")
    assert "9443" in context(api, ASKED, agent_id="planner")
    assert "9443" not in context(api, ASKED, agent_id="reviewer")
    assert "9443" not in context(api, ASKED)
