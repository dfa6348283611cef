"""A database of the baseline's schema opens as it is, one of an older schema is refused, and both keep what they hold.

`schema_21.db.gz` is the database of a home whose schema was made by the 21 migrations that the baseline replaced. It
was written by the last version that had them, with this script in the root of its checkout (`BLOG`, `event` and `say`
are those of `tests/support/given.py`):

    with running(str(home)) as parts:
        say(parts, "We decided to use Drizzle for the database of the shop.")
        store_events(parts, [event("reply", text="I moved the schema of the shop to Drizzle.")]).result(60)
        say(parts, "Never push to main without a review.")
        say(parts, "We decided to write the blog with Hugo.", BLOG)
        say(parts, "We moved the shop from Drizzle to Prisma.")
        remember(parts, "The staging database of the shop listens on port 7421.", names=[], scope=None, host="cli")
        idle(parts)
    with open("schema_21.db.gz", "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as file:
        file.write((home / "filrouge.db").read_bytes())
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core.clock import SystemClock
from filrouge.core.errors import WrongEngine
from filrouge.core.paths import BACKUPS
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.repair import diagnose, repair
from filrouge.maintenance.restore import restore
from filrouge.runtime.soundness import problems, row_hashes
from filrouge.runtime.sqlite import Database, migrations
from filrouge.runtime.wiring import bring_up_to_date
from filrouge.testing import ManualClock, memory_database, running
from tests.support.given import known
from tests.support.schemas import ADVICE, TOO_OLD, kept_home, made_older, with_later

BASELINE = migrations("sqlite")[:1]
QUESTION = "What does the shop use for its database?"
ANSWER = "We moved the shop from Drizzle to Prisma."


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """The kept database of schema 21, in a home."""
    return kept_home(tmp_path / "home")


@pytest.fixture
def home(kept: str) -> str:
    return os.path.dirname(kept)


def test_a_database_of_the_baseline_opens_as_it_is(kept: str, home: str) -> None:
    before = written(kept)
    bring_up_to_date(home, SystemClock(), steps=BASELINE)
    database = Database(kept)
    assert database.migrate(SystemClock(), steps=BASELINE) == []
    assert problems(database.tx) == database.check() == []
    database.close()
    assert written(kept) == before
    assert not os.path.exists(os.path.join(home, BACKUPS))


def written(path: str) -> tuple[copies.Content, list[Any]]:
    """Every row, the journal and the record of migrations included, and the schema to the letter."""
    connection: Any = apsw.Connection(path)
    schema = list(connection.execute("select rootpage, type, name, sql from sqlite_schema order by rowid"))
    connection.close()
    return copies.content(path), schema


def test_a_new_database_has_the_schema_that_the_replaced_migrations_made(kept: str) -> None:
    old, new = Database(kept, readonly=True), Database(":memory:")
    assert new.migrate(SystemClock(), steps=BASELINE) == ["0021_baseline"]
    assert new.schema() == old.schema()
    assert [columns(new, name) for name in tables(old)] == [columns(old, name) for name in tables(old)]
    # The settings of the full-text indexes are rows; secure deletion is one of them.
    settings = ("messages_fts_config", "memories_fts_config", "vault_fts_config")
    assert [row_hashes(new.raw_connection)[name] for name in settings] == [
        row_hashes(old.raw_connection)[name] for name in settings
    ]


def tables(database: Database) -> list[str]:
    rows: list[Any] = list(database.raw_connection.execute("select name from pragma_table_list where schema = 'main'"))
    return [name for (name,) in rows]


def columns(database: Database, table: str) -> list[Any]:
    """Name, type, not null, default and place in the key of each column, in stored order."""
    return list(database.raw_connection.execute("select * from pragma_table_xinfo(?)", (table,)))


def test_a_database_of_the_baseline_is_brought_to_the_present_schema(kept: str, home: str) -> None:
    bring_up_to_date(home, SystemClock())
    database = Database(kept, readonly=True)
    assert database.schema() == memory_database().schema()
    database.close()
    assert diagnose(home) == []


def test_what_a_database_of_the_baseline_holds_is_found_backed_up_and_restored(
    kept: str, home: str, tmp_path: Path
) -> None:
    with running(home) as parts:
        assert ANSWER in texts(parts)
    made = back_up(home, "hand", SystemClock().now())
    assert made.verified == ("equal", "sound", "seals", "journal")
    new = str(tmp_path / "new")
    restored = restore(new, backup_files.path_of(home, made.name), SystemClock())
    assert (restored.schema, restored.rows) == (made.schema, made.rows)
    assert copies.content(os.path.join(new, os.path.basename(kept))).hash == made.hash
    with running(new) as parts:
        assert ANSWER in texts(parts)


def texts(parts: Any) -> list[str]:
    return [hit.text for hit in known(parts, QUESTION).hits]


def test_a_later_migration_makes_of_an_old_database_what_it_makes_of_a_new_one(kept: str) -> None:
    steps = with_later(
        "alter table memories add column mood text not null default 'calm'; create index memories_by_mood"
        " on memories (mood)",
        "create table moods (name text primary key) strict, without rowid; insert into moods values ('calm')",
    )
    old, new = Database(kept), Database(":memory:")
    names = [step.name for step in steps]
    assert old.migrate(ManualClock(), steps=steps) == [name for name in names if name != "0021_baseline"]
    assert new.migrate(ManualClock(), steps=steps) == names
    assert old.schema() == new.schema()
    assert {row[0] for row in old.raw_connection.execute("select mood from memories")} == {"calm"}
    assert old.check() == []


@pytest.mark.parametrize("schema", [1, TOO_OLD])
def test_a_database_from_before_the_baseline_is_refused_and_not_touched(
    kept: str, home: str, tmp_path: Path, schema: int
) -> None:
    before = made_older(kept, schema)
    found = rf"filrouge\.db was written by an older Filrouge: schema {schema}, the oldest known here is 21\."
    for opened in (
        lambda: bring_up_to_date(home, SystemClock()),
        lambda: restore(str(tmp_path / "new"), kept, SystemClock()),
        lambda: copies.schema_faults(kept),
    ):
        with pytest.raises(WrongEngine, match=found) as refused:
            opened()
        assert all(words in refused.value.remedy for words in ADVICE)
    with pytest.raises(WrongEngine, match=f"older Filrouge: schema {schema}"):
        repair(home, SystemClock().now(), rebuild_sound=True)
    assert Path(kept).read_bytes() == before
    assert not os.path.exists(os.path.join(home, BACKUPS))


def test_an_older_memory_is_not_replaced_by_a_backup(kept: str, home: str, tmp_path: Path) -> None:
    other = kept_home(tmp_path / "other")
    before = made_older(kept)
    with pytest.raises(WrongEngine, match="older Filrouge"):
        restore(home, other, SystemClock())
    assert Path(kept).read_bytes() == before


def test_a_migration_is_never_run_on_an_older_database(kept: str) -> None:
    made_older(kept)
    with pytest.raises(WrongEngine, match=f"This database was written by an older Filrouge: schema {TOO_OLD}"):
        Database(kept).migrate(SystemClock(), steps=with_later("drop table memories"))
    connection: Any = apsw.Connection(kept)
    assert connection.execute("select count(*) from memories").fetchone() == (5,)
