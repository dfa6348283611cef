"""The command `forget`, as a person types it."""

from __future__ import annotations

import json

from .test_changing import PORT, Shell, shell, typed

__all__ = ["shell"]


def test_it_shows_what_goes_and_changes_nothing_until_somebody_says_yes(shell: Shell) -> None:
    shell("remember", PORT)
    shown = shell("forget", "8443", "--dry-run")
    assert shown.code == 0
    assert "production listens on port 8443" in shown.out
    assert "memories: 1 erased" in shown.out
    assert shell("forget", "8443").code == 130  # nobody answers the question
    assert len(shell.json("forget", "8443", "--dry-run")["rows"]) > 1


def test_with_yes_it_is_done_in_one_call_and_a_receipt_stays(shell: Shell) -> None:
    shell("remember", PORT)
    done = shell.json("forget", "8443", "--yes")
    assert (done["ok"], done["counts"]["memories"]) == (True, {"erased": 1})
    assert "8443" not in json.dumps(done)
    [listed] = shell.json("forget", "--receipts")
    assert listed == shell.json("forget", "--receipt", done["receipt"])
    told = shell("forget", "--receipt", done["receipt"])
    assert told.code == 0
    assert "nothing" in told.out
    assert "snapshots of the file system" in " ".join(told.out.split())
    assert shell("recall", "Which port does production listen on?").out.count("8443") == 0


def test_an_id_names_one_memory(shell: Shell) -> None:
    [told] = [shell.json("remember", text)["actions"][0] for text in (PORT,)]
    shown = shell.json("forget", told["id"], "--dry-run")
    assert told["id"] in {row["id"] for row in shown["rows"] if row["table"] == "memories"}
    done = shell("forget", told["id"], "--yes")
    assert (done.code, "Receipt" in done.out) == (0, True)


def test_what_cannot_be_meant_is_refused(shell: Shell) -> None:
    for words in (["forget"], ["forget", "8443", "--json"], ["forget", "?!", "--yes"]):
        assert typed(shell.api.home, *words).code == 2
