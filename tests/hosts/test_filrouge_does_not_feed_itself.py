"""Filrouge neither learns what it said itself nor makes the agents run.

An injected memory comes back in transcripts and in the model's replies; read as news it would be stored
again, each time a little more trusted. And a hook that starts an agent starts hooks. Both loops are looked
for here from outside: memories are counted, and so is every hook process and every request the model gets.
"""

from __future__ import annotations

import pytest

from .command_lines import Answer, Desk, Host, Session
from .scripted_model import Request, Shell, on

PORT = "FYI the billing service listens on port 18231 in production."
RULE = "Always bump the schema version when a migration changes; never edit an old migration."
QUESTION = "Which port does the billing service listen on in production?"
QUESTION_FR = "Sur quel port écoute le service billing en production ?"


def parrot(request: Request) -> str:
    """Repeat the memory as models do: in its own words, line by line, and with the delimiters around it."""
    if "18231" not in request.recalled:
        return "I do not know."
    quoted = "\n".join(request.quoted_blocks)
    return f"The billing service listens on port 18231 in production. I remember:\n{request.recalled}\n{quoted}"


def test_ten_rounds_of_injection_and_capture_add_no_memory(desk: Desk) -> None:
    project = desk.project("ferry")
    desk.model.teach(on("FYI the billing", "Noted: port 18231."), on("billing", parrot))
    with desk.open("claude-code", project) as told:
        told.say(PORT)
        told.say(RULE)
    desk.product.understood()
    before = desk.product.facts_with_history(), desk.product.rules()

    answers: list[Answer] = []
    with desk.open("claude-code", project, resume=told.id) as resumed:
        answers += [resumed.say(QUESTION) for _ in range(3)]
    for host in ("claude-code", "codex"):
        answers += desk.ask(host, project, QUESTION, QUESTION_FR)
    answers += desk.ask("codex", project, QUESTION, QUESTION, QUESTION_FR)
    desk.product.understood()

    assert len(answers) == 10
    assert ["18231" in answer.text for answer in answers] == [True] * 10, "every round injected and repeated"
    assert texts(desk.product.facts_with_history()) == texts(before[0])
    assert texts(desk.product.rules()) == texts(before[1])


def texts(rows: list[dict[str, str]]) -> list[str]:
    return sorted(row["text"] for row in rows)


def work(session: Session) -> list[Answer]:
    """Three ordinary turns: a question, a command, a thank-you."""
    return [
        session.say("Where is the retry limit of the ferry client set?"),
        session.say("list the files of this directory, please"),
        session.say("merci, c'est parfait"),
    ]


TALK = ("UserPromptSubmit", "Stop")
#: What each agent fires for the three turns of `work`; Codex opens and ends a session around every one.
FIRED: dict[Host, list[str]] = {
    "claude-code": ["SessionStart", *TALK, "UserPromptSubmit", "PostToolBatch", "Stop", *TALK, "SessionEnd"],
    "codex": [
        *("SessionStart", *TALK, "SessionEnd"),
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"),
        *("SessionStart", *TALK, "SessionEnd"),
    ],
}


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_only_the_users_own_turns_run_hooks_and_ask_the_model(desk: Desk, host: Host) -> None:
    desk.model.teach(on("list the files", Shell("ls -a"), "A README."), on("retry limit", "In client.toml."))
    before, asked = len(desk.hooks_run()), len(desk.model.requests)
    with desk.open(host, desk.project("ferry")) as session:
        answers = work(session)
    desk.product.understood()
    desk.product.stop()

    assert desk.hooks_run()[before:] == FIRED[host]
    assert [answer.text for answer in answers] == ["In client.toml.", "A README.", "OK."]
    by_turn = [len(answer.requests) for answer in answers]
    assert by_turn == [1, 2, 1], "the command's result is the only second request"
    assert len(desk.model.requests) - asked == sum(by_turn), "Filrouge itself asked the model"
