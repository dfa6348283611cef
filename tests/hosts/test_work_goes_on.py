"""Work that was put down is picked up where it stood: after a compaction, in a linked worktree, in the other agent.

The scripted model writes a summary that forgets everything, and new sessions begin with an empty history, so what the
model is shown of the work can only come from Filrouge.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import pytest

from .command_lines import Answer, Desk
from .product import eventually
from .scripted_model import Request, Shell, on

DECIDED = "For the tide tables we decided on Polars instead of pandas, since the buoy files no longer fit into memory."
ASKED = "Please add a CSV export to the tide report page."
REPORTED = "I added the export route and its test. Next I will write the download button."
SUMMARY = "<summary>\n1. The user and the assistant talked about the project.\n2. Nothing is pending.\n</summary>"


def said_by_others(request: Request) -> list[str]:
    """What of the work the model was shown by anybody but Filrouge."""
    text = request.text
    for block in request.quoted_blocks:
        text = text.replace(block, "")
    return [words for words in ("Polars", "CSV export", "download button") if words in text]


@dataclass(frozen=True, kw_only=True)
class Begun:
    """Work that was begun in a project, and what the agent was shown after the compaction."""

    project: str
    compacted: Answer


@pytest.fixture(scope="module")
def begun(desk: Desk) -> Begun:
    """Something is decided, asked for and begun in a session of Claude Code, which is compacted, goes on and ends."""
    desk.model.teach(
        on("CRITICAL: Respond with TEXT ONLY", SUMMARY),
        on("tide report page", Shell("mkdir -p app && echo route > app/export.txt"), REPORTED),
        on("go on", "Going on."),
        on("tide tables we decided", "Polars it is."),
        on("good morning", "Good morning."),
    )
    project = desk.project("lighthouse")
    with desk.open("claude-code", project) as session:
        session.say(DECIDED)
        session.say(ASKED)
        session.say("good morning")  # the host keeps the agent's last words beside its summary
        # The first start of this home was two seconds ago, and no model but this script sums up as fast: wait until the
        # daemon is there, and not until anything is understood.
        eventually("the daemon that the first hook sent for answers", lambda: desk.product.daemon_pid() > 0)
        session.say("/compact")
        compacted = session.say("go on")
    desk.product.understood()
    return Begun(project=project, compacted=compacted)


def test_a_compaction_keeps_the_decisions_and_the_state_of_the_work(begun: Begun) -> None:
    request = begun.compacted.first
    assert "Nothing is pending." in request.text, "the past is the summary"
    assert "Polars instead of pandas" in request.recalled
    assert f"Last asked: {ASKED}" in request.recalled
    assert "The agent reports: I added the export route" in request.recalled
    assert "Files written: app/export.txt" in request.recalled
    assert said_by_others(request) == []


def test_a_new_session_in_a_linked_worktree_knows_where_the_work_stands(desk: Desk, begun: Begun) -> None:
    tree = f"{begun.project}-buttons"
    subprocess.run(
        ["git", "worktree", "add", "-q", "-b", "buttons", tree], cwd=begun.project, env=desk.env, check=True, timeout=20
    )
    [answer] = desk.ask("claude-code", tree, "good morning")
    told = answer.first.recalled
    assert "Polars instead of pandas" in told
    assert f"Last asked: {ASKED}" in told
    assert "The agent reports: I added the export route and its test. Next I will write the download button." in told
    assert said_by_others(answer.first) == []


def test_codex_knows_it_as_well(desk: Desk, begun: Begun) -> None:
    [answer] = desk.ask("codex", begun.project, "good morning")
    told = answer.first.recalled
    assert "Polars instead of pandas" in told
    assert f"Last asked: {ASKED}" in told
    assert "download button" in told
    assert "claude-code" in told, "it says where that was"
    assert said_by_others(answer.first) == []


def test_another_project_knows_nothing_of_it(desk: Desk, begun: Begun) -> None:
    other = desk.project("bakery")
    assert other != begun.project
    [answer] = desk.ask("claude-code", other, "good morning")
    assert answer.first.recalled == ""
    assert said_by_others(answer.first) == []
