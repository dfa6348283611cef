"""After Claude Code compacts a conversation, the rules that were lost with it come back.

The scripted model writes a summary that forgets everything. The next prompt is too short to be searched for,
so what the model sees of the rules afterwards was given by the hook at SessionStart(compact).
"""

from __future__ import annotations

from .command_lines import Desk
from .scripted_model import on

RULE = "Rule for this repo: always write the changelog entry in the same commit, never afterwards."
RULE_FR = "Règle : toujours lancer `make audit-balise` avant de livrer."
SUMMARY = "<summary>\n1. The user and the assistant talked about the project.\n2. Nothing is pending.\n</summary>"


def test_rules_come_back_when_claude_code_has_compacted_the_conversation(desk: Desk) -> None:
    desk.model.teach(on("CRITICAL: Respond with TEXT ONLY", SUMMARY), on("go on", "Going on."))
    with desk.open("claude-code", desk.project("beacon")) as session:
        session.say(RULE)
        session.say(RULE_FR)
        desk.product.understood()
        before = len(desk.hooks_run())
        session.say("/compact")
        compacted = desk.hooks_run()[before:]
        answer = session.say("go on")

    assert [event for event in compacted if event in ("PreCompact", "SessionStart")] == [
        "PreCompact",
        "SessionStart",
    ]
    assert answer.text == "Going on."
    assert "Nothing is pending." in answer.first.text, "the past is the summary"
    assert "changelog entry" in answer.first.recalled
    assert "audit-balise" in answer.first.recalled
    outside = answer.first.text
    for block in answer.first.blocks:
        outside = outside.replace(block, "")
    assert "audit-balise" not in outside, "nothing else in the request brings the rule back"
