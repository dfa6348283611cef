"""What `filrouge doctor` says of the ledger: every event that came in is accounted for, or it says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.capture.service import store_events
from filrouge.core.paths import DATABASE
from filrouge.testing import idle
from tests.support.given import event
from tests.unit.server.conftest import serving

from ..test_changing import typed


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home that took two prompts in, understood them, and whose daemon left."""
    with serving(str(tmp_path / "home")) as api:
        said = ("The ferry leaves at nine.", "The museum opens at ten.")
        store_events(api.parts, [event(text=text) for text in said]).result(60)
        idle(api.parts)
        assert ledger(api.home) == ledger_of_two(done=2)
    return str(tmp_path / "home")


def ledger(home: str) -> dict[str, Any]:
    """The finding of that check."""
    found = {one["check"]: one for one in json.loads(typed(home, "doctor", "--json").out)}
    return found["Ledger"]


def ledger_of_two(*, done: int) -> dict[str, Any]:
    """The finding of a ledger that adds up."""
    sums = f"0 queued + {done} done + 0 skipped + 0 dead + 0 forgotten"
    return {"check": "Ledger", "state": "ok", "cause": f"2 events received = {sums}", "remedy": ""}


def damaged(home: str, statement: str) -> None:
    """Change the database behind everybody's back."""
    connection: Any = apsw.Connection(str(Path(home) / DATABASE))
    connection.execute("PRAGMA foreign_keys = off")
    connection.execute(statement)
    connection.close()


def test_a_home_without_a_memory_has_nothing_to_account_for(tmp_path: Path) -> None:
    found = ledger(str(tmp_path / "home"))
    assert (found["state"], found["cause"]) == ("ok", "no event was received yet")


def test_an_event_that_is_gone_is_missed(home: str) -> None:
    damaged(home, "DELETE FROM events WHERE seq = 1")
    found = ledger(home)
    assert found["state"] == "fail"
    assert found["cause"].startswith("2 events received, but 0 queued + 1 done")
    assert "filrouge repair --dry-run" in found["remedy"]


def test_an_event_that_waits_for_nobody_is_told_of(home: str) -> None:
    damaged(home, "UPDATE events SET state = 'queued' WHERE seq = 1")
    found = ledger(home)
    assert (found["state"], found["cause"]) == ("fail", "1 events wait for extraction, and no job will process them")
    assert "Their text is stored" in found["remedy"]
