"""`filrouge team`, as a person types it, with a hub that keeps nothing."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import small_hub
from tests.unit.server.conftest import serving

from .test_changing import SHOP, Shell

KIOSK = "The kiosk of the harbour closes at seven."


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path)) as api:
        yield Shell(api=api)


@pytest.fixture
def hub() -> Generator[str]:
    with small_hub.served(shared=(KIOSK,)) as url:
        yield url


def joined(shell: Shell, hub: str) -> str:
    """The id of a memory of a home that has joined."""
    [memory] = shell.api.remember("For the record: production listens on port 8443.", SHOP)
    assert shell("team", "join", hub, "--token", small_hub.TOKEN, "--device", "laptop").code == 0
    return memory["id"]


def test_a_person_joins_shares_takes_back_and_leaves(shell: Shell, hub: str) -> None:
    assert "filrouge team join URL" in shell("team", "status").out
    one = joined(shell, hub)
    assert shell("team", "share", "--policy", "ask", "--project", "shop").out == (
        "shop (forge.example/ana/shop): ask.\nOf all projects: 1 waiting for you (`filrouge team list`).\n"
    )
    assert shell("team", "list").out == f"{one}\tcandidate\tfact\tshop\tproduction listens on port 8443.\n"
    assert shell("team", "share", one[:20]).out.startswith(f"{one}\tqueued: you chose it\t")
    shown = shell("team", "sync").out.splitlines()
    assert shown[1] == "Memories: 1 shared, 1 received from colleagues."
    assert shown[-1] == "shop\task\tforge.example/ana/shop"
    assert KIOSK in shell("facts", "--all").out
    assert "1 shared, 1 received" in shell("status").out
    off = shell("team", "share", "--policy", "off", "--project", SHOP).out
    assert "stays shared until you take it back" in off
    assert shell("team", "unshare", one).out.startswith(f"{one}\tleaving\t")
    left = shell("team", "leave", "--yes").out
    assert left == "You left the team acme; 1 memory of a colleague was erased here.\n"
    assert KIOSK not in shell("facts", "--all").out
    assert "Team" not in shell("status").out


def test_an_admin_accepts_a_rule_for_everybody(shell: Shell, hub: str) -> None:
    fact = joined(shell, hub)
    body = {"text": "Sign every tag.", "project": [SHOP]}
    rule = shell.api.ask("POST", "/api/memory/rules", body).body["id"]
    refused = shell("team", "accept", rule)
    assert (refused.code != 0, "the team does not have it" in refused.err) == (True, True)
    shell("team", "share", rule, fact)
    shell("team", "sync")
    assert "it is no rule" in shell("team", "accept", fact).err
    assert shell("team", "accept", rule[:20]).out == "1 rule is accepted for everybody in the team.\n"


def test_leaving_is_asked_first(shell: Shell, hub: str) -> None:
    joined(shell, hub)
    refused = shell("team", "leave")
    assert (refused.code, "--yes" in refused.err, "--dry-run" in refused.err) == (2, True, False)
    assert shell.json("team", "status")["joined"]


def test_what_cannot_be_is_refused_with_what_can(shell: Shell, hub: str) -> None:
    joined(shell, hub)
    for words, remedy in (
        (("share",), "filrouge team share --help"),
        (("share", "0zzz", "--evidence"), "--policy"),
        (("share", "--policy", "all", "--project", "shop"), "all-memories"),
        (("share", "--policy", "ask", "--project", "atlas"), "filrouge project list"),
        (("share", "zzzz"), "filrouge facts --all"),
        (("list", "--state", "sent"), "queued"),
        (("join", hub, "--token", small_hub.TOKEN), "filrouge team leave"),
    ):
        refused = shell("team", *words)
        assert refused.code != 0, words
        assert (refused.out, remedy in refused.err) == ("", True), refused


def test_a_hub_that_is_away_is_named_and_keeps_nobody_from_sharing(shell: Shell) -> None:
    with small_hub.served() as hub:
        one = joined(shell, hub)
    assert shell("team", "share", one).out.startswith(f"{one}\tqueued: you chose it\t")
    shown = shell("team", "sync").out
    assert "1 to be sent" in shown
    assert f"The last exchange failed: The Filrouge hub at {hub} does not answer." in shown
    assert "the last exchange failed" in shell("status").out
