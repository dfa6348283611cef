"""What the recorded transcripts tell, read whole and in pieces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.capture.models import TranscriptRecord
from filrouge.hosts import transcripts
from tests.support.tiers import examples

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"
HOST_WORDS = (
    "purple heron", "Zephyr", "<task-notification>", "<local-command-", "<command-name>", "<environment_context>",
    "<system-reminder>", "tools-used-before-summary", "being continued from a previous",
    "Another language model started", "scripted failure", "API Error", "SUBTASK",
)  # fmt: skip


def sessions(host: str) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    for session in json.loads((FIXTURES / host / "sessions.json").read_text("utf-8")):
        yield session, (FIXTURES / host / session["file"]).read_bytes().splitlines()


def told(host: str, lines: list[bytes]) -> list[TranscriptRecord]:
    return list(transcripts.records(host, lines))


def line(**fields: Any) -> bytes:
    return json.dumps({"timestamp": "2026-11-22T00:35:04.487Z", **fields}).encode()


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_prompts_and_final_replies_are_those_of_the_session_in_order(host: str) -> None:
    for session, lines in sessions(host):
        records = told(host, lines)
        typed = [t["prompt"] for t in session["turns"] if not t["prompt"].startswith(("<", "/"))]
        assert [r.text for r in records if r.source == "prompt"] == typed, session["label"]
        finals = [t["final_text"] for t in session["turns"] if t.get("final_text")]
        replies = [r.text for r in records if r.source == "reply"]
        assert [f for f in finals if f in replies] == [f for f in finals if "API Error" not in f], session["label"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("claude-code", {"prompt": 26, "reply": 33, "command": 6, "task": 1, "summary": 2}),
        ("codex", {"prompt": 27, "reply": 32, "command": 6, "summary": 1}),
    ],
)
def test_the_recordings_tell_these_sources(host: str, expected: dict[str, int]) -> None:
    counts: Counter[str] = Counter()
    for _, lines in sessions(host):
        counts.update(record.source for record in told(host, lines))
    assert counts == expected


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_nothing_that_the_host_wrote_or_injected_is_told(host: str) -> None:
    for _, lines in sessions(host):
        for record in told(host, lines):
            assert not [word for word in HOST_WORDS if word in record.text]


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_keys_are_unique_and_every_message_names_its_prompt(host: str) -> None:
    for _, lines in sessions(host):
        records = told(host, lines)
        assert len({record.key for record in records}) == len(records)
        assert all(record.prompt_key.startswith("prompt:") for record in records)
        assert all(record.at > 1.7e9 for record in records)
        assert all(bool(record.call_id) == (record.role == "tool") for record in records)


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_reading_in_two_pieces_tells_the_same_messages(host: str) -> None:
    for _, lines in sessions(host):
        whole = {(record.key, record.text) for record in told(host, lines)}
        for cut in range(0, len(lines), 7):
            parts = told(host, lines[:cut]) + told(host, lines[cut:])
            assert {(record.key, record.text) for record in parts} == whole


def test_a_side_chain_tells_nothing() -> None:
    for path in FIXTURES.glob("claude-code/dot-claude/**/subagents/*.jsonl"):
        assert told("claude-code", path.read_bytes().splitlines()) == []


def test_blocks_of_one_answer_become_one_message() -> None:
    def block(uuid: str, text: str) -> bytes:
        content = [{"type": "text", "text": text}]
        return line(type="assistant", uuid=uuid, message={"id": "m1", "model": "x", "content": content})

    records = told("claude-code", [block("u1", "First."), block("u2", "Second.")])
    assert [(record.key, record.text) for record in records] == [("u1", "First.\n\nSecond.")]


def test_claude_code_tells_the_branch_of_each_message_and_none_where_none_is_checked_out() -> None:
    recorded = [record for _, lines in sessions("claude-code") for record in told("claude-code", lines)]
    assert {record.branch for record in recorded} == {"main"}

    def said(uuid: str, branch: str) -> bytes:
        return line(type="user", uuid=uuid, gitBranch=branch, message={"content": f"The words of {uuid}."})

    records = told("claude-code", [said("u1", "next"), said("u2", "HEAD")])
    assert [(record.key, record.branch) for record in records] == [("u1", "next"), ("u2", "")]


def test_an_older_rollout_tells_each_message_once() -> None:
    def response(role: str, text: str) -> bytes:
        content = [{"type": "input_text" if role == "user" else "output_text", "text": text}]
        return line(type="response_item", payload={"type": "message", "role": role, "content": content})

    def event(kind: str, text: str) -> bytes:
        return line(type="event_msg", payload={"type": kind, "message": text})

    responses = [
        response("user", "<environment_context>\n</environment_context>"),
        response("user", "# AGENTS.md instructions for /x"),
        response("user", "use uv"),
        response("assistant", "Noted."),
    ]
    both = [*responses, event("user_message", "use uv"), event("agent_message", "Noted.")]
    assert [r.text for r in told("codex", both)] == ["use uv", "Noted."]
    assert [r.text for r in told("codex", responses)] == ["use uv", "Noted."]
    assert {r.key for r in told("codex", both)} == {r.key for r in told("codex", responses)}


def test_an_older_shell_output_is_told_without_its_report() -> None:
    call = line(type="response_item", payload={"type": "function_call", "name": "shell", "call_id": "c"})
    output = json.dumps({"output": "hello\n", "metadata": {"exit_code": 0}})
    result = line(type="response_item", payload={"type": "function_call_output", "call_id": "c", "output": output})
    [record] = told("codex", [call, result])
    assert (record.text, record.source, record.call_id) == ("hello\n", "command", "c")


def test_an_unknown_host_has_no_transcript() -> None:
    assert told("nobody", [b"{}"]) == []


KEYS = st.sampled_from(
    ["type", "payload", "message", "content", "item", "uuid", "promptId", "id", "role", "text", "output"]
)
WORDS = st.sampled_from(
    ["user", "assistant", "event_msg", "response_item", "compacted", "message", "item_completed", "tool_result",
     "text", "UserMessage", "session_meta", "function_call_output", "CommandExecution", "x"]
)  # fmt: skip
ODD = st.recursive(
    WORDS | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(60))
@given(st.lists(st.dictionaries(KEYS, ODD, max_size=5), max_size=4), st.lists(st.binary(max_size=20), max_size=3))
def test_lines_of_any_shape_never_raise(raw: list[dict[str, Any]], noise: list[bytes]) -> None:
    lines = [json.dumps(item).encode() for item in raw] + noise
    for host in ("claude-code", "codex"):
        assert all(isinstance(record.text, str) for record in told(host, lines))


def test_codex_tells_how_full_its_context_is_and_claude_code_does_not() -> None:
    shares = [transcripts.context_usage("codex", lines) for _, lines in sessions("codex")]
    assert all(share is not None and 0 < share < 0.2 for share in shares)
    assert {transcripts.context_usage("claude-code", lines) for _, lines in sessions("claude-code")} == {None}
    broken = line(type="event_msg", payload={"type": "token_count", "info": {"model_context_window": 0}})
    assert transcripts.context_usage("codex", [broken, b"no json"]) is None
