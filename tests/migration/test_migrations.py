"""A database of every earlier schema opens today, with all that was in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.capture.models import Turn
from filrouge.capture.repository import Turns
from filrouge.core.clock import from_epoch, to_text
from filrouge.core.errors import BadInput
from filrouge.core.scope import Scope
from filrouge.memories.repository import Memories, Origin, Reviews
from filrouge.memories.undo_repository import Undoing
from filrouge.runtime.journal import Journal
from filrouge.runtime.sqlite import Database, migrations
from filrouge.search.analyser import TextAnalyser
from filrouge.search.repository import FullTextIndex, Spaces, StoredVectors
from filrouge.testing import ManualClock, memory_database

from .stores import STORED_TOKENS, insert

AT = from_epoch(1_750_000_000)
_BEFORE_REVIEWS = 6
TURN = Turn(
    id="t1", key="k1", scope=Scope(channel="codex", session="s"), host="codex", role="user", source="prompt",
    text="We decided on Drizzle.", at=AT, trust=2,
)  # fmt: skip


@pytest.mark.parametrize("begun", [step.number for step in migrations("sqlite")])
def test_what_an_earlier_schema_held_is_found_in_the_present_one(tmp_path: Path, begun: int) -> None:
    path = str(tmp_path / "a.db")
    old = Database(path)
    old.migrate(ManualClock(), upto=begun)
    tokens = {"tokens": "we decided decid0en decid0fr on drizzle"} if begun <= STORED_TOKENS else {}
    with old.transaction():
        insert(old, "turns", id="t1", key="k1", text=TURN.text, at=AT, **tokens)
        insert(old, "memories", id="m1", text="We decided on Drizzle", at=AT, **tokens)
        if not tokens:
            FullTextIndex(old.tx, TextAnalyser(), "turn").put("t1", TURN.text)
            FullTextIndex(old.tx, TextAnalyser(), "memory").put("m1", "We decided on Drizzle")
    old.close()

    new = Database(path)
    assert new.migrate(ManualClock()) == [step.name for step in migrations("sqlite") if step.number > begun]
    assert new.schema() == memory_database().schema()
    assert new.check() == []
    assert Turns(new.tx, TextAnalyser()).get(["t1"]) == [TURN]
    place = {"match": '"drizzle"', "project_id": None, "user_id": "local", "everywhere": True, "limit": 5}
    assert [row["id"] for row in new.tx.all("memories.best", place)] == ["m1"]
    assert [row["id"] for row in new.tx.all("turns.best", place)] == ["t1"]


def test_a_database_is_made_step_by_step_as_in_one_go(tmp_path: Path) -> None:
    stepwise = Database(str(tmp_path / "a.db"))
    for step in migrations("sqlite"):
        assert stepwise.migrate(ManualClock(), upto=step.number) == [step.name]
    assert stepwise.schema() == memory_database().schema()


def test_a_home_with_vectors_of_before_comes_up_with_its_fuller_space_current(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    Database(path).migrate(ManualClock(), upto=2)
    connection: Any = apsw.Connection(path)
    for id_, model, owners in (("e5/1", "multilingual-e5-small", 3), ("hash/1", "stable-hash", 1), ("no/1", "e5", 0)):
        connection.execute("insert into spaces values (?, ?, '1', 2, 'mean', '', 0.83, 0.77)", (id_, model))
        for owner in range(owners):
            connection.execute("insert into vectors values ('turn', ?, ?, 0, x'003c0000')", (f"t{owner}", id_))
    connection.close()

    new = Database(path)
    new.migrate(ManualClock())
    spaces = {one.id: (one.state, one.embedder, one.space.calibration) for one in Spaces(new.tx).all()}
    assert spaces == {
        "e5/1": ("current", "e5", None),
        "hash/1": ("retired", "hashing", None),
        "no/1": ("retired", "e5", None),
    }
    assert StoredVectors(new.tx).count() == 3


def test_what_was_quarantined_before_there_was_a_queue_waits_in_it(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock(), upto=_BEFORE_REVIEWS)
    with database.transaction():
        insert(database, "memories", id="m1", text="It rains", at=AT, state="quarantined")
        insert(database, "memories", id="m2", text="It snows", at=AT)
    database.migrate(ManualClock())
    reviews = Reviews(database.tx, TextAnalyser())
    assert [(one.id, one.kind, one.outcome, one.at) for one in reviews.all()] == [("m1", "quarantine", "open", AT)]
    reviews.settle("m1", "accept", Origin(scope=Scope(), trust=3, at=AT))
    assert Memories(database.tx, TextAnalyser()).get("m1").state == "live"


def test_an_earlier_journal_is_found_by_every_memory_that_it_closed(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock(), upto=_BEFORE_REVIEWS)
    connection: Any = database.tx._connection  # pyright: ignore[reportPrivateUsage] (an earlier schema has no queries)
    for seq, subject, payload in ((1, "m1", '{"text": "a"}'), (2, "m3", '{"closed": ["m1", "m2"]}'), (3, "m3", None)):
        connection.execute(
            "insert into journal (seq, at, actor, action, subject_id, payload, payload_hash, hash)"
            " values (?, ?, 'understand', 'update', ?, ?, x'', x'')",
            (seq, to_text(AT), subject, payload),
        )
    database.migrate(ManualClock())
    journal = Journal(database.tx)
    assert {id_: [entry.seq for entry in journal.of(id_)] for id_ in ("m1", "m2", "m3")} == {
        "m1": [1, 2], "m2": [2], "m3": [2, 3],
    }  # fmt: skip
    with pytest.raises(BadInput, match="changed nothing that can be put back"):
        Undoing(database.tx, TextAnalyser()).of(1)


@pytest.mark.parametrize("begun", [1, 2])
def test_a_memory_without_vectors_comes_up_with_no_space(tmp_path: Path, begun: int) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock(), upto=begun)
    database.migrate(ManualClock())
    assert (Spaces(database.tx).all(), Spaces(database.tx).current()) == ([], None)
