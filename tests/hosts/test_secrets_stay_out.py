"""A secret that an agent saw, and a text its user marked private, are in no file of Filrouge.

The secrets are printed by a command the real agent runs, so they pass through the tool hooks, the host's
transcript and the daemon's later reading of it. Every byte below `FILROUGE_HOME` is searched while the daemon
works, and again after it stopped. A harmless word said in the same sessions must be found by the same search,
or the search proves nothing.
"""

from __future__ import annotations

from typing import Final

import pytest

from .command_lines import Desk, Host
from .scripted_model import Shell, on

HOSTS: Final[tuple[Host, ...]] = ("claude-code", "codex")
#: Written in two halves, so that no scanner takes this file for a leak.
SECRETS: Final = {
    "AWS_ACCESS_KEY_ID": "AKIA" + "QXN7RTPZ4LMD2VKC",
    "GITHUB_TOKEN": "ghp_" + "Vb3kQ9xTz7LmN2pRw5YcJ8sDf4GhK6aE1uXo",
    "STRIPE_KEY": "sk_live_" + "51Mq8ZtRw3NxVb7LpKc9YdHs",
    "DB_PASSWORD": "brume-saumon-" + "4471",
}
URL_PASSWORD: Final = "goeland-" + "9925"
PRIVATE: Final = "the buyer is Capitaine Quimper"
UNCLOSED: Final = "le prix convenu est un million quatre"
HARMLESS: Final = "lighthouse-keeper"


@pytest.fixture(scope="module")
def leaky(desk: Desk) -> Desk:
    """Sessions in both agents that print secrets and say private things."""
    project = desk.project("lighthouse")
    lines = [f"{name}={value}" for name, value in SECRETS.items()]
    lines.append(f"DATABASE_URL=postgres://app:{URL_PASSWORD}@db.example.org:5432/lighthouse")
    desk.write(project, ".env", "\n".join([*lines, "LOG_LEVEL=info", ""]))
    desk.model.teach(on("environment variables", Shell("cat .env"), "LOG_LEVEL is set, and five more."))
    for host in HOSTS:
        answers = desk.ask(
            host,
            project,
            f"Which environment variables does the {HARMLESS} service read? Look into .env please.",
            f"The {HARMLESS} demo is on Tuesday. <private>Mind you, {PRIVATE}.</private> Prepare it.",
            f"Le rendez-vous du {HARMLESS} est confirmé. <private>Entre nous, {UNCLOSED}",
        )
        assert SECRETS["DB_PASSWORD"] in answers[0].requests[-1].text, "the agent has read the file"
    desk.product.understood()
    return desk


@pytest.mark.parametrize("name", [*SECRETS, "DATABASE_URL"])
def test_a_secret_printed_by_a_command_is_in_no_file_while_the_daemon_runs(leaky: Desk, name: str) -> None:
    assert leaky.product.files_with(SECRETS.get(name, URL_PASSWORD)) == []


@pytest.mark.parametrize("said", [PRIVATE, UNCLOSED])
def test_private_words_of_a_prompt_are_in_no_file_while_the_daemon_runs(leaky: Desk, said: str) -> None:
    assert leaky.product.files_with(said) == []


def test_no_secret_is_in_any_file_after_the_daemon_has_stopped(leaky: Desk) -> None:
    leaky.product.stop()
    hidden = [*SECRETS.values(), URL_PASSWORD, PRIVATE, UNCLOSED]
    assert {value: leaky.product.files_with(value) for value in hidden} == {value: [] for value in hidden}
    assert leaky.product.files_with(HARMLESS), "the rest of the same sessions is kept"
