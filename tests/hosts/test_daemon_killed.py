"""Killing the daemon in the middle of a turn costs the user nothing and loses nothing.

The scripted model kills it while the agent waits for an answer: after the prompt's hook, before the hook at
the end of the turn. It is killed again before the next prompt. Each time a hook finds nobody, keeps what it
has in the spool, and a new daemon takes it from there.
"""

from __future__ import annotations

import os

import pytest

from .command_lines import Desk, Host
from .product import eventually
from .scripted_model import Request, on

BEFORE = {
    "claude-code": "For the record, the tide tables are served by the almanac service on port 19031.",
    "codex": "For the record, the ferry tickets are printed by the kiosk service on port 19032.",
}
AMID = {
    "claude-code": "We decided on DuckDB instead of Parquet files for the tide tables, because of the joins.",
    "codex": "We decided on Typst instead of LaTeX for the ferry tickets, because it compiles faster.",
}
AFTER = {
    "claude-code": "Désormais la sauvegarde des marées tourne chaque nuit à 3h40 sur le serveur Ouessant.",
    "codex": "Désormais la purge des billets de ferry tourne chaque nuit à 4h20 sur le serveur Molène.",
}
LEARNED = {"claude-code": ("19031", "DuckDB", "Ouessant"), "codex": ("19032", "Typst", "Molène")}


AGREED = {
    "claude-code": "Agreed, the almanac reads its tables through one DuckDB file.",
    "codex": "Agreed, the kiosk compiles every ticket with one Typst template.",
}


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_session_goes_on_and_all_of_it_is_learned_when_the_daemon_is_killed(desk: Desk, host: Host) -> None:
    product, killed = desk.product, list[int]()

    def kill_and_agree(request: Request) -> str:
        killed.append(product.kill_daemon())
        return AGREED[host]

    desk.model.teach(on("We decided", kill_and_agree), on("For the record", "Noted."), on("Désormais", "Entendu."))
    with desk.open(host, desk.project("almanac")) as session:
        answers = [session.say(BEFORE[host]), session.say(AMID[host])]
        killed.append(product.kill_daemon())
        answers.append(session.say(AFTER[host]))

    assert [answer.text for answer in answers] == ["Noted.", AGREED[host], "Entendu."]
    eventually(
        f"{LEARNED[host]} are all known",
        lambda: all(word in product.everything_known() for word in LEARNED[host]),
    )
    product.understood()
    assert product.daemon_pid() not in {0, *killed}
    assert kept(desk, AGREED[host]), "the answer whose hook found no daemon"
    assert spooled(desk, AFTER[host]) == [], "what the daemon has taken over is no longer in the spool"


def spooled(desk: Desk, said: str) -> list[str]:
    return [path for path in desk.product.files_with(said) if f"{os.sep}spool{os.sep}" in path]


def kept(desk: Desk, said: str) -> list[str]:
    return [path for path in desk.product.files_with(said) if f"{os.sep}spool{os.sep}" not in path]
