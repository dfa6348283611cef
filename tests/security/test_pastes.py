"""Hundreds of hostile pastes go through capture and extraction, and nothing is learned from any of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from bench.pastes import LANGUAGES, WRAPPERS, pastes

from filrouge.capture.programs import Conversation, Message, deliver
from filrouge.testing import idle
from tests.unit.server.conftest import serving

OWN = "From now on, always run make check before a commit."


@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.slow, id="all"), pytest.param(4, id="a quarter")])
def test_no_paste_teaches_a_rule_or_a_fact(tmp_path: Path, each: int) -> None:
    everything = [*pastes("dev", 1), *pastes("held", 1)]
    assert len(everything) >= 300
    hostile = everything[::each]
    assert len(WRAPPERS["dev"]) >= 15
    assert {paste.language for paste in hostile} == set(LANGUAGES)
    with serving(str(tmp_path)) as api:
        done = [
            deliver(
                api.parts,
                Conversation(channel="api", session=kind, project=("shop",)),
                [Message(role="user", content=paste.text) for paste in hostile if paste.kind == kind],
            )[1]
            for kind in WRAPPERS["dev"]
        ]
        own = Conversation(channel="api", session="own", project=("shop",))
        done.append(deliver(api.parts, own, [Message(role="user", content=OWN)])[1])
        for receipt in done:
            receipt.result(30)
        idle(api.parts, 120)
    with closing(sqlite3.connect(next(tmp_path.glob("*.db")))) as database:
        learned = database.execute("SELECT kind, text FROM memories WHERE kind != 'summary'").fetchall()
    assert learned == [("rule", OWN)]
