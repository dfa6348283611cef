"""What payloads of Gemini CLI, Cursor, VS Code, Copilot's command line, OpenClaw and OpenCode become."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge import hosts
from filrouge.capture.events import Event
from filrouge.capture.models import is_own_tool, source_of_tool
from filrouge.hosts import hook_input

SAMPLES = Path(__file__).parents[2] / "fixtures" / "hosts" / "samples"
FILES = {"gemini": "gemini-cli", "cursor": "cursor", "vscode": "vscode", "openclaw": "openclaw"}
UV = "In this repo use uv, never pip. Then add a CHANGELOG entry."
BACKUPS = "backups run every night to Backblaze B2, keep 30 days"
ODD: list[Any] = [None, True, 0, -1.5, 1e308, "", "text", "\ud800", [], {}, [None], [{}], {"a": None}, {"kind": 3}]
FIELDS = (
    "hook_event_name", "hookEventName", "session_id", "sessionId", "conversation_id", "workspace_roots", "timestamp",
    "prompt", "prompt_response", "text", "tool_response", "result_json", "edits", "tool_result", "toolArgs", "toolName",
    "source", "reason", "trigger", "hook", "event", "ctx", "host", "transcript_path", "cwd",
)  # fmt: skip
ENVELOPE = ("messages", "runId", "durationMs", "prompt", "currentUserMessage", "trigger", "sessionKey", "sessionId")


def parsed(payload: dict[str, Any], host: str = "", environ: dict[str, str] | None = None) -> list[Event]:
    ids = (f"{number:026}" for number in itertools.count())
    return hosts.parse(payload, host=host, environ=environ or {}, at=1000.0, new_id=lambda: next(ids))


def samples(host: str) -> list[dict[str, Any]]:
    lines = (SAMPLES / f"{FILES[host]}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def told(host: str) -> list[tuple[str, str]]:
    """The kind of each event of the samples, with its words."""
    return [(one.kind, str(one.data.get("text", ""))) for raw in samples(host) for one in parsed(raw)]


@pytest.mark.parametrize("host", FILES)
def test_a_sample_tells_its_host_by_shape_alone_whoever_s_shell_it_runs_in(host: str) -> None:
    for environ in ({}, {"CLAUDECODE": "1"}, {"CODEX_HOME": "/c"}):
        found = {one.host for raw in samples(host) for one in parsed(raw, environ=environ)}
        assert found == {host}


def test_gemini_s_turns_are_stored_once_though_told_twice() -> None:
    assert told("gemini") == [
        ("session_start", ""),
        ("prompt", UV),
        ("tools", ""),
        ("reply", "Understood: uv only. Added the entry under Unreleased."),
        ("prompt", "merci !"),
        ("reply", "Avec plaisir."),
        ("pre_compact", ""),
        ("session_end", ""),
    ]


def test_gemini_s_tool_is_told_with_what_the_model_saw() -> None:
    [tool] = [one for raw in samples("gemini") for one in parsed(raw) if one.kind == "tools"]
    assert tool.data["calls"][0]["output"] == "Output: # Changelog\nProcess Group PGID: 4711"
    failed = next(raw for raw in samples("gemini") if raw["hook_event_name"] == "AfterTool") | {
        "tool_response": {"error": {"message": "no such file"}}
    }
    [event] = parsed(failed)
    assert event.data["calls"][0] | {"input": None} == {
        "name": "run_shell_command", "id": "", "input": None, "output": "no such file", "failed": True,
    }  # fmt: skip


def test_what_hooks_said_in_front_of_gemini_s_prompt_is_not_the_user_s() -> None:
    block = (
        '<hook_context>&lt;filrouge-memory nonce="0123456789abcdef"&gt;\nkept\n&lt;/filrouge-memory&gt;</hook_context>'
    )
    before = next(raw for raw in samples("gemini") if raw["hook_event_name"] == "BeforeAgent")
    [event] = parsed(before | {"prompt": f"{block}\n\nlook at <hook_context>this</hook_context>"})
    assert event.data["text"] == "look at <hook_context>this</hook_context>"
    assert parsed(before | {"prompt": block}) == []


def test_gemini_s_compaction_is_one_only_where_the_user_asked_for_it() -> None:
    """It tells the automatic one before every question to its model, without doing it."""
    compress = [raw for raw in samples("gemini") if raw["hook_event_name"] == "PreCompress"]
    told = {raw["trigger"]: [one.kind for one in parsed(raw)] for raw in compress}
    assert told == {"auto": [], "manual": ["pre_compact"]}


def test_gemini_s_variables_say_what_its_payload_leaves_out() -> None:
    start = {"hook_event_name": "SessionStart", "source": "startup", "timestamp": "2026-11-21T10:00:00.000Z"}
    [event] = parsed(start, environ={"GEMINI_SESSION_ID": "g-2", "GEMINI_CWD": "/home/ana/shop"})
    assert (event.host, event.session, event.cwd) == ("gemini", "g-2", "/home/ana/shop")


def test_cursor_tells_prompts_answers_edits_and_the_session() -> None:
    assert [kind for kind, _ in told("cursor")] == [
        "session_start", "prompt", "tools", "tools", "reply", "prompt", "pre_compact", "session_end",
    ]  # fmt: skip
    events = [one for raw in samples("cursor") for one in parsed(raw)]
    assert {(one.session, one.cwd) for one in events} == {("c-77", "/home/ana/shop")}
    assert events[1].key == "prompt:gen-3"
    shell, edit = (one.data["calls"][0] for one in events if one.kind == "tools")
    assert shell["output"] == {"output": "src/report.py"}
    assert (edit["name"], edit["output"]) == ("Edit", "Purchase")


def test_two_answers_of_one_generation_of_cursor_are_two() -> None:
    answer = samples("cursor")[4]
    keys = [one.key for raw in (answer, answer | {"text": "And the tests."}) for one in parsed(raw)]
    assert len(set(keys)) == 2


def test_vs_code_tells_what_is_said_and_done_and_never_the_answer() -> None:
    assert told("vscode") == [
        ("session_start", ""),
        ("prompt", "Rappelle-toi que la prod est sur le port 8443, derrière Caddy."),
        ("tools", ""),
        ("pre_compact", ""),
    ]


def test_vs_code_is_known_when_it_runs_a_hook_that_names_claude_code() -> None:
    for raw in samples("vscode"):
        assert {one.host for one in parsed(raw, host="claude-code")} <= {"vscode"}
    [claude] = parsed({"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/"}, host="claude-code")
    assert claude.host == "claude-code"


def test_a_prompt_that_two_hooks_of_vs_code_tell_has_one_key() -> None:
    prompt = samples("vscode")[1]
    assert parsed(prompt, host="claude-code")[0].key == parsed(prompt, host="vscode")[0].key != ""


def test_copilot_s_command_line_names_no_event_and_is_read_by_its_fields() -> None:
    base = {"timestamp": 1795255200000, "cwd": "/home/ana/shop"}
    result = {"resultType": "success", "textResultForLlm": "3 passed"}
    tool = base | {"toolName": "bash", "toolArgs": '{"command":"make test"}'}
    payloads = [
        base | {"source": "new", "initialPrompt": "fix the build"},
        base | {"prompt": "fix the build"},
        tool,
        tool | {"toolResult": result},
        tool | {"toolResult": result | {"resultType": "failure"}},
        base | {"stopReason": "end_turn"},
        base | {"reason": "complete"},
    ]
    events = [one for raw in payloads for one in parsed(raw)]
    assert [one.kind for one in events] == ["session_start", "prompt", "tools", "tools", "session_end"]
    assert {one.host for one in events} == {"copilot-cli"}
    assert len({one.session for one in events}) == 1
    calls = [one.data["calls"][0] for one in events if one.kind == "tools"]
    assert [(call["input"], call["output"], call["failed"]) for call in calls] == [
        ({"command": "make test"}, "3 passed", False), ({"command": "make test"}, "3 passed", True),
    ]  # fmt: skip


def test_openclaw_tells_a_run_s_prompt_and_answer_and_nothing_of_a_heartbeat_or_a_failed_answer() -> None:
    assert told("openclaw") == [
        ("session_start", ""),
        ("prompt", "what did we decide about backups?"),
        ("prompt", BACKUPS),
        ("reply", "Noted: nightly backups to B2, 30 days kept."),
        ("prompt", BACKUPS),
        ("pre_compact", ""),
        ("session_end", ""),
    ]


def test_the_prompt_of_a_run_of_openclaw_has_the_time_it_was_said_and_each_event_an_id() -> None:
    events = parsed(samples("openclaw")[2])
    assert [one.at for one in events] == [994.88, 1000.0]
    assert len({one.id for one in events}) == 2


def test_a_prompt_that_openclaw_s_plugin_handed_over_before_is_not_told_again_at_the_end() -> None:
    raw = samples("openclaw")[2]
    assert [one.kind for one in parsed(raw | {"ctx": raw["ctx"] | {"prompted": True}})] == ["reply"]


def test_openclaw_s_tools_are_told_with_their_arguments() -> None:
    call = {"type": "toolCall", "id": "t1", "name": "exec", "arguments": {"command": "ls"}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [call]},
        {"role": "toolResult", "toolCallId": "t1", "toolName": "exec", "content": [{"type": "text", "text": "a.py"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
    ]
    events = parsed({"hook": "agent_end", "event": {"messages": messages}, "ctx": {"sessionId": "s"}})
    assert [one.kind for one in events] == ["prompt", "tools", "reply"]
    assert events[1].data["calls"] == [
        {"name": "exec", "id": "t1", "input": {"command": "ls"}, "output": "a.py", "failed": False}
    ]


@pytest.mark.parametrize(
    "ctx", [{"trigger": "cron"}, {"trigger": "memory"}, {"inputProvenance": {"kind": "inter_session"}}]
)
def test_what_no_person_set_off_in_openclaw_is_no_event(ctx: dict[str, Any]) -> None:
    for raw in samples("openclaw"):
        assert parsed(raw | {"ctx": raw["ctx"] | ctx}) == []


def test_a_helper_of_openclaw_answers_as_one_and_its_task_is_no_prompt() -> None:
    raw = samples("openclaw")[2]
    events = parsed(raw | {"ctx": raw["ctx"] | {"sessionKey": "agent:main:subagent:7"}})
    assert [(one.kind, one.agent) for one in events] == [("subagent", "agent:main:subagent:7")]


def test_opencode_s_plugin_speaks_the_common_words() -> None:
    base = {"host": "opencode", "session_id": "ses_1", "cwd": "/home/ana/shop", "message_id": "msg_1"}
    prompt = base | {"hook_event_name": "UserPromptSubmit", "prompt": "use uv"}
    reply = base | {"hook_event_name": "Stop", "last_assistant_message": "Noted."}
    events = [one for raw in (prompt, reply) for one in parsed(raw)]
    assert [(one.host, one.key) for one in events] == [("opencode", "prompt:msg_1"), ("opencode", "reply:msg_1")]


PRINTED: dict[tuple[str, str], Any] = {
    ("gemini", "session_start"): {"hookEventName": "SessionStart", "additionalContext": "known"},
    ("gemini", "prompt"): {"hookEventName": "BeforeAgent", "additionalContext": "known"},
    ("vscode", "session_start"): {"hookEventName": "SessionStart", "additionalContext": "known"},
    ("claude-code", "prompt"): {"hookEventName": "UserPromptSubmit", "additionalContext": "known"},
    ("cursor", "session_start"): "known",
    ("openclaw", "session_start"): "known",
    ("openclaw", "prompt"): "known",
    ("opencode", "prompt"): "known",
    ("copilot-cli", "session_start"): "known",
    ("copilot-cli", "prompt"): "known",
}


@pytest.mark.parametrize("host", hosts.HOSTS)
@pytest.mark.parametrize("kind", ["session_start", "prompt", "reply", "tools", "session_end"])
def test_a_context_is_printed_in_the_host_s_own_form_and_only_where_it_takes_one(host: str, kind: str) -> None:
    line = hook_input.line(hosts.HOSTS[host], kind, "known")
    if kind not in hosts.HOSTS[host].INJECTS:
        assert line == b""
        return
    output = json.loads(line)
    shown = output.get("hookSpecificOutput") or output.get("additional_context") or output.get("context")
    shown = shown or output["additionalContext"]
    assert shown == PRINTED.get((host, kind), shown)
    assert "known" in json.dumps(shown)


def test_hosts_that_cannot_take_a_context_before_a_prompt_say_so() -> None:
    before_a_prompt = {name for name, host in hosts.HOSTS.items() if "prompt" in host.INJECTS}
    assert before_a_prompt == {"claude-code", "codex", "gemini", "openclaw", "opencode", "copilot-cli"}
    assert all("session_start" in host.INJECTS for host in hosts.HOSTS.values())


@pytest.mark.parametrize(
    ("tool", "source"),
    [
        ("read_file", "file_read"), ("readFile", "file_read"), ("Read", "file_read"),
        ("replace_string_in_file", "file_write"), ("write_file", "file_write"), ("StrReplace", "file_write"),
        ("apply_patch", "file_write"), ("web_fetch", "fetch"),
        ("google_web_search", "fetch"), ("webfetch", "fetch"), ("runSubagent", "task"), ("task", "task"),
        ("runTerminalCommand", "command"), ("run_shell_command", "command"), ("exec", "command"), ("", "command"),
    ],
)  # fmt: skip
def test_each_host_s_name_for_a_tool_tells_what_it_does(tool: str, source: str) -> None:
    assert source_of_tool(tool) == source


@pytest.mark.parametrize(
    "tool",
    [
        "mcp__filrouge__memory_search", "mcp_filrouge_memory_get", "filrouge_memory_add", "filrouge__memory_search",
        "MCP:memory_context", "MCP:memory_team", "filrouge-memory_search",
    ],
)  # fmt: skip
def test_filrouge_s_own_tools_are_known_by_every_host_s_name_for_them(tool: str) -> None:
    assert is_own_tool(tool)
    assert not any(is_own_tool(other) for other in ("memory_search", "mcp__notes__memory_search", "MCP:memory_purge"))


@given(
    st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), max_size=9),
    st.dictionaries(st.sampled_from(ENVELOPE), st.sampled_from(ODD), max_size=5),
    st.sampled_from(["", *hosts.HOSTS]),
)
def test_a_payload_of_any_values_never_raises(payload: dict[str, Any], inner: dict[str, Any], host: str) -> None:
    hooks = ("before_prompt_build", "agent_end", "session_end")
    for candidate in (payload, *({"hook": hook, "event": inner, "ctx": inner} for hook in hooks)):
        for one in parsed(candidate, host=host):
            assert one.host in hosts.HOSTS
            json.dumps(one.to_json())
