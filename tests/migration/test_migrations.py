"""A database of every earlier schema opens today, with all that was in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from filrouge.clock import from_epoch
from filrouge.index.analyser import TextAnalyser
from filrouge.model.memory import Span, Statement
from filrouge.model.scope import Scope
from filrouge.model.turn import Turn
from filrouge.store.memories import Memories, Origin
from filrouge.store.sql import migrations
from filrouge.store.sqlite import Database
from filrouge.store.turns import Turns
from filrouge.testing import ManualClock, memory_database

AT = from_epoch(1_750_000_000)
TURN = Turn(
    id="t1", key="k1", scope=Scope(channel="codex", session="s"), host="codex", role="user", source="prompt",
    text="We decided on Drizzle.", at=AT, trust=2,
)  # fmt: skip
STATEMENT = Statement(kind="decision", text="We decided on Drizzle", span=Span(start=0, end=21), scope="user")


@pytest.mark.parametrize("begun", [step.number for step in migrations("sqlite")])
def test_what_an_earlier_schema_held_is_found_in_the_present_one(tmp_path: Path, begun: int) -> None:
    path = str(tmp_path / "a.db")
    old = Database(path)
    old.migrate(ManualClock(), upto=begun)
    with old.transaction() as tx:
        Turns(tx, TextAnalyser()).add(TURN)
        origin = Origin(scope=TURN.scope, trust=2, at=AT, turn_id="t1")
        made = Memories(tx, TextAnalyser()).add(STATEMENT, origin, "new")
    old.close()

    new = Database(path)
    assert new.migrate(ManualClock()) == [step.name for step in migrations("sqlite") if step.number > begun]
    assert new.schema() == memory_database().schema()
    assert new.check() == []
    assert Turns(new.tx, TextAnalyser()).get(["t1"]) == [TURN]
    found = Memories(new.tx, TextAnalyser()).matching('"drizzle"', project=None, user="local")
    assert [memory.id for memory, _ in found] == [made.memory_id]
    place = {"match": '"drizzle"', "project_id": None, "everywhere": True, "limit": 5}
    assert [row["id"] for row in new.tx.all("turns.matching", place)] == ["t1"]


def test_a_database_is_made_step_by_step_as_in_one_go(tmp_path: Path) -> None:
    stepwise = Database(str(tmp_path / "a.db"))
    for step in migrations("sqlite"):
        assert stepwise.migrate(ManualClock(), upto=step.number) == [step.name]
    assert stepwise.schema() == memory_database().schema()
