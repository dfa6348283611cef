"""What each recorded hook payload becomes, and what becomes of payloads no host should send."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge import hosts
from filrouge.capture.events import Event, event_from_json

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"
ODD: list[Any] = [
    None, True, False, 0, -1, 1e308, "", " ", "text", "\ud800", "\0", [], {}, [None], [{}], {"a": None}, [["x"]],
    {"text": 1}, [{"tool_name": 3, "tool_use_id": []}], "<system-reminder>", "/x/projects/y.jsonl", "rollout-1",
]  # fmt: skip
FIELDS = (
    "hook_event_name", "session_id", "transcript_path", "cwd", "prompt_id", "turn_id", "prompt", "source",
    "tool_name", "tool_input", "tool_use_id", "tool_response", "tool_calls", "error", "stop_hook_active",
    "last_assistant_message", "agent_id", "agent_type", "trigger", "compact_summary", "reason",
)  # fmt: skip
EVENTS = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch",
    "Stop", "StopFailure", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd", "Setup",
)  # fmt: skip


def recorded(host: str) -> list[dict[str, Any]]:
    lines = (FIXTURES / host / "payloads.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def parsed(payload: dict[str, Any], environ: dict[str, str] | None = None, host: str = "") -> Event | None:
    told = hosts.parse(payload, host=host, environ=environ or {}, at=1.0, new_id=lambda: "e" * 26)
    assert len(told) <= 1
    return told[0] if told else None


def events(host: str) -> list[Event]:
    return [event for payload in recorded(host) if (event := parsed(payload))]


def test_every_recorded_claude_code_payload_becomes_the_expected_kind() -> None:
    assert Counter(event.kind for event in events("claude-code")) == {
        "prompt": 26, "reply": 26, "session_start": 17, "tools": 16, "session_end": 15, "pre_compact": 2,
        "summary": 2, "subagent": 1,
    }  # fmt: skip


def test_every_recorded_codex_payload_becomes_the_expected_kind() -> None:
    assert Counter(event.kind for event in events("codex")) == {
        "prompt": 27, "reply": 26, "session_start": 28, "session_end": 27, "tools": 6, "pre_compact": 1,
    }  # fmt: skip


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_recorded_payload_tells_its_host_by_shape_alone(host: str) -> None:
    assert {event.host for event in events(host)} == {host}


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_the_prompts_are_those_that_the_user_typed_and_no_others(host: str) -> None:
    sessions = json.loads((FIXTURES / host / "sessions.json").read_text("utf-8"))
    typed = [turn["prompt"] for session in sessions for turn in session["turns"]]
    told = [event.data["text"] for event in events(host) if event.kind == "prompt"]
    assert all(text in typed for text in told)
    assert not [text for text in told if text.startswith("<")]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_prompt_and_reply_of_a_turn_are_keyed_by_the_same_number(host: str) -> None:
    told = events(host)
    prompts = {event.key.partition(":")[2] for event in told if event.kind == "prompt"}
    replies = [event.key.partition(":")[2] for event in told if event.kind == "reply"]
    assert len(prompts) == sum(event.kind == "prompt" for event in told)
    assert len(set(replies)) == len(replies)
    assert len(prompts & set(replies)) >= 25


def test_a_tool_and_its_batch_name_the_same_call() -> None:
    told = [event for event in events("claude-code") if event.kind == "tools"]
    single = {call["id"] for e in told if e.key.startswith("tool:") for call in e.data["calls"]}
    batched = {call["id"] for e in told if e.key.startswith("batch:") for call in e.data["calls"]}
    assert single == batched
    assert len(single) == 8


def test_a_failed_tool_is_told_with_its_error() -> None:
    failed = [
        call
        for event in events("claude-code")
        if event.kind == "tools"
        for call in event.data["calls"]
        if call["failed"]
    ]
    assert [call["output"].partition("\n")[0] for call in failed] == ["Exit code 1"]


def test_the_summary_of_a_compaction_comes_without_its_tag() -> None:
    texts = [event.data["text"] for event in events("claude-code") if event.kind == "summary"]
    assert [text[:7] for text in texts] == ["1. Rule", "1. La p"]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_an_event_survives_its_json_form(host: str) -> None:
    for event in events(host):
        assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "<task-notification>\nx"},
        {"prompt": "  <local-command-stdout>x"},
        {"prompt": " \n"},
        {"prompt": None},
        {"source": "system"},
        {"source": "loop_wakeup"},
        {"agent_id": "a1"},
        {"hook_event_name": "PreToolUse"},
        {"hook_event_name": "SomethingNew"},
        {"hook_event_name": None},
    ],
)
def test_what_no_user_typed_is_no_prompt(changed: dict[str, Any]) -> None:
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": "/", "prompt": "hello there"}
    assert parsed(payload) is not None
    assert parsed({**payload, **changed}) is None


def test_the_second_stop_of_a_prompt_has_a_key_of_its_own() -> None:
    stop = {"hook_event_name": "Stop", "prompt_id": "p", "last_assistant_message": "one", "cwd": "/"}
    keys = [
        event.key
        for event in (
            parsed(stop),
            parsed({**stop, "stop_hook_active": True, "last_assistant_message": "two"}),
            parsed({**stop, "stop_hook_active": True, "last_assistant_message": "three"}),
        )
        if event
    ]
    assert keys[0] == "reply:p"
    assert len(set(keys)) == 3


def test_camel_case_is_read_like_snake_case() -> None:
    event = parsed({"hookEventName": "UserPromptSubmit", "sessionId": "v-5", "cwd": "/", "prompt": "salut"})
    assert event is not None
    assert (event.kind, event.session, event.key, event.host) == ("prompt", "v-5", "", "claude-code")


def test_the_environment_decides_only_where_the_shape_does_not() -> None:
    plain = {"hook_event_name": "SessionEnd", "cwd": "/", "session_id": "s"}
    codex, claude = {"CODEX_HOME": "/c"}, {"CLAUDECODE": "1"}
    told = [
        parsed(plain, codex),
        parsed(plain, claude),
        parsed(plain, codex | claude),
        parsed(plain),
        parsed({**plain, "turn_id": "t"}, claude),
        parsed({**plain, "prompt_id": "p"}, codex),
        parsed(plain, claude, host="codex"),
        parsed(plain, codex, host="nobody"),
    ]
    assert [event.host for event in told if event] == [
        "codex", "claude-code", "claude-code", "claude-code", "codex", "claude-code", "codex", "codex",
    ]  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), max_size=8),
    st.sampled_from(EVENTS),
    st.sampled_from(["", "codex", "claude-code"]),
)
def test_a_payload_of_any_values_never_raises(payload: dict[str, Any], name: str, host: str) -> None:
    for candidate in (payload, {**payload, "hook_event_name": name}):
        event = parsed(candidate, host=host)
        assert event is None or event.id == "e" * 26
