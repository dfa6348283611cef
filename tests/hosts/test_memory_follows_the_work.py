"""What is said in one session is there in the next one, in the other agent, and in no other project.

One story, played once for the module with the real agents: Léa works on `harbor` in Claude Code, corrects
herself in a second session, tells Codex two more things, and then asks. Every question is put in a new
session, so what the model is shown of the past can only come from Filrouge. Afterwards she works on `atlas`,
where none of it may appear but her name. Ports have five digits: no id a host makes up holds one by chance.
"""

from __future__ import annotations

import re

import pytest

from .command_lines import Answer, Desk, Host
from .scripted_model import Request, on

HOSTS: tuple[Host, ...] = ("claude-code", "codex")

RULE = "Ground rule before we start: in this repo always run the tests with `make check-tide`, never pytest."
DECISION = "We decided on Valkey instead of Redis for the job queue, because of the licence."
PORT = "FYI the staging API listens on port 17300."
PORT_FR = "Note que la base de préproduction écoute sur le port 15544, derrière PgBouncer."
NAME = "By the way, my name is Léa Moreau and I prefer short answers."
MOVED = "Heads-up, we moved the staging API: it listens on port 17412 now."
BUG = "Found it: the nightly export was slow because of a missing index on invoices.customer_id."
RULE_FR = "Règle pour ce dépôt : ne jamais pousser sur la branche stable-marée sans relecture."

ASK_PORT = "Which port does the staging API listen on?"
ASK_PORT_FR = "Sur quel port écoute la base de préproduction ?"
ASK_QUEUE = "Why did we pick Valkey for the job queue again?"
ASK_BUG = "What made the nightly export so slow?"
ASK_NAME = "What is my name, and how do I like my answers?"

#: Words of harbor which no question asked in atlas contains.
HARBORS_OWN = re.compile(
    r"check-tide|because of the licence|\b1(?:7300|7412|5544)\b|PgBouncer|customer_id|stable-marée"
)


@pytest.fixture(scope="module")
def harbor(desk: Desk) -> str:
    """The project, after everything was said in it."""
    desk.model.teach(on("Found it", "An index on customer_id fixes it."), on("Règle pour ce dépôt", "Entendu."))
    project = desk.project("harbor")
    desk.ask("claude-code", project, RULE, DECISION, PORT, PORT_FR, NAME)
    desk.product.understood()
    desk.ask("claude-code", project, MOVED)
    desk.ask("codex", project, BUG, RULE_FR)
    desk.product.understood()
    return project


@pytest.fixture(scope="module")
def asked_in_harbor(desk: Desk, harbor: str) -> dict[tuple[Host, str], Request]:
    """What the model was shown for every question, the first of each agent opening its session."""
    questions = (ASK_PORT, ASK_PORT_FR, ASK_QUEUE, ASK_BUG)
    return {(host, q): ask(desk, host, harbor, q) for host in HOSTS for q in questions}


@pytest.fixture(scope="module")
def atlas(desk: Desk, harbor: str) -> dict[Host, list[Answer]]:
    """The same questions in another project."""
    project = desk.project("atlas")
    return {host: desk.ask(host, project, ASK_PORT, ASK_PORT_FR, ASK_BUG, ASK_NAME) for host in HOSTS}


def ask(desk: Desk, host: Host, project: str, question: str) -> Request:
    """Put one question in a new session."""
    return desk.ask(host, project, question)[0].first


def test_what_was_said_is_kept_as_memories_and_rules(desk: Desk, harbor: str) -> None:
    known = desk.product.everything_known()
    for words in ("check-tide", "Valkey", "17412", "15544", "Léa Moreau", "customer_id", "stable-marée"):
        assert words in known


def test_a_corrected_value_is_history_and_no_longer_current(desk: Desk, harbor: str) -> None:
    history = [row for row in desk.product.facts_with_history() if "17300" in row["text"]]
    assert [row["state"] for row in history] == ["superseded"]
    assert "17412" in next(r["text"] for r in desk.product.facts() if r["id"] == history[0]["superseded_by"])
    assert "17300" not in desk.product.everything_known()


@pytest.mark.parametrize("host", HOSTS)
def test_a_new_session_gets_the_corrected_fact_and_not_the_old_one(
    host: Host, asked_in_harbor: dict[tuple[Host, str], Request]
) -> None:
    recalled = asked_in_harbor[host, ASK_PORT].recalled
    assert "17412" in recalled
    assert "17300" not in recalled


@pytest.mark.parametrize("host", HOSTS)
def test_a_question_in_french_finds_the_fact_told_in_french(
    host: Host, asked_in_harbor: dict[tuple[Host, str], Request]
) -> None:
    assert "15544" in asked_in_harbor[host, ASK_PORT_FR].recalled


@pytest.mark.parametrize("host", HOSTS)
def test_a_decision_comes_back_with_its_reason(host: Host, asked_in_harbor: dict[tuple[Host, str], Request]) -> None:
    assert "because of the licence" in asked_in_harbor[host, ASK_QUEUE].recalled


@pytest.mark.parametrize("host", HOSTS)
def test_what_codex_was_told_is_known_in_both_agents(
    host: Host, asked_in_harbor: dict[tuple[Host, str], Request]
) -> None:
    assert "customer_id" in asked_in_harbor[host, ASK_BUG].recalled


@pytest.mark.parametrize("host", HOSTS)
def test_the_rules_of_the_project_open_every_session(
    host: Host, asked_in_harbor: dict[tuple[Host, str], Request]
) -> None:
    recalled = asked_in_harbor[host, ASK_PORT].recalled
    assert "check-tide" in recalled
    assert "stable-marée" in recalled


@pytest.mark.parametrize("host", HOSTS)
def test_a_memory_is_one_line_inside_one_block_for_each_hook(
    host: Host, asked_in_harbor: dict[tuple[Host, str], Request]
) -> None:
    request = asked_in_harbor[host, ASK_PORT]
    assert 1 <= len(request.blocks) <= 2, "one block at SessionStart, one before the prompt"
    assert all(len(block) <= 6000 for block in request.blocks)
    assert request.text.count("<filrouge-memory") == len(request.blocks), "a block that is not closed"


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_said_in_one_project_reaches_the_model_in_another(host: Host, atlas: dict[Host, list[Answer]]) -> None:
    shown = [found[0] for a in atlas[host] for r in a.requests for found in HARBORS_OWN.finditer(r.text)]
    assert shown == []


@pytest.mark.parametrize("host", HOSTS)
def test_the_users_name_and_taste_are_known_in_every_project(host: Host, atlas: dict[Host, list[Answer]]) -> None:
    recalled = atlas[host][-1].first.recalled
    assert "Léa Moreau" in recalled
    assert "short answers" in recalled
