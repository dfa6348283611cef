"""Which files are the history of an agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from filrouge.hosts.transcripts import agent_directory, find_transcripts, zstd
from tests.support.histories import Claude, session


def rollout(root: Path, name: str, **meta: Any) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"type": "session_meta", "payload": {"cwd": "/home/ana/shop", **meta}}) + "\n", "utf-8")
    return path


def test_the_directory_is_where_the_agents_own_variable_says_or_in_the_home() -> None:
    assert agent_directory("claude-code", {"CLAUDE_CONFIG_DIR": "/srv/claude"}) == "/srv/claude"
    assert agent_directory("codex", {"CODEX_HOME": "/srv/codex"}) == "/srv/codex"
    assert agent_directory("codex", {}) == os.path.join(os.path.expanduser("~"), ".codex")


def test_sessions_of_claude_code_are_found_oldest_first_and_what_else_lies_there_is_not(tmp_path: Path) -> None:
    newer, older = Claude(tmp_path, 2).prompt("b").write(), Claude(tmp_path, 1).prompt("a").write()
    helper = older.parent / session(1) / "subagents" / "agent-7.jsonl"
    helper.parent.mkdir(parents=True)
    helper.write_text("{}\n", "utf-8")
    (older.parent / "notes.jsonl").write_text("{}\n", "utf-8")
    (tmp_path / "history.jsonl").write_text("{}\n", "utf-8")
    os.mkfifo(older.parent / f"{session(9)}.jsonl")
    found = find_transcripts("claude-code", str(tmp_path))
    assert [(one.path, one.session) for one in found] == [(str(older), session(1)), (str(newer), session(2))]


def test_sessions_of_codex_are_named_by_their_first_line_and_archived_ones_count(tmp_path: Path) -> None:
    thread = session(3)
    rollout(tmp_path, "sessions/2026/11/22/rollout-2026-11-22T00-00-00-x.jsonl", session_id="one")
    rollout(tmp_path, f"archived_sessions/rollout-2026-01-01T00-00-00-{thread}.jsonl")
    rollout(tmp_path, "sessions/2026/11/22/rollout-2026-11-22T01-00-00-y.jsonl", source={"subagent": "review"}, id="h")
    assert {one.session for one in find_transcripts("codex", str(tmp_path))} == {"one", thread}
    assert {one.cwd for one in find_transcripts("codex", str(tmp_path))} == {"/home/ana/shop"}


def test_compressed_sessions_of_codex_count_unless_the_plain_one_is_still_there(tmp_path: Path) -> None:
    for number, is_left in ((1, False), (2, True)):
        one = rollout(tmp_path, f"sessions/2026/11/01/rollout-2026-11-01T00-00-00-{number}.jsonl", id=str(number))
        Path(f"{one}.zst").write_bytes(zstd.compress(one.read_bytes()))
        if not is_left:
            one.unlink()
    Path(tmp_path, "sessions/2026/11/01/rollout-broken.jsonl.zst").write_bytes(b"{}")
    found = {one.session: Path(one.path).suffix for one in find_transcripts("codex", str(tmp_path))}
    assert found == {"1": ".zst", "2": ".jsonl", "rollout-broken": ".zst"}
    assert {one.cwd for one in find_transcripts("codex", str(tmp_path)) if one.session in "12"} == {"/home/ana/shop"}
