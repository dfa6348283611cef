"""The schema and its SQL: migrations run once, in order, each all or nothing, and every query is wanted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import apsw
import pytest

import filrouge
from filrouge.core.clock import SystemClock
from filrouge.core.errors import StoreError, WrongEngine
from filrouge.runtime.repository import RecordKind
from filrouge.runtime.sqlite import MIN_SQLITE_VERSION, Database, check_engine, migrations, queries
from filrouge.testing import ManualClock
from tests.support.schemas import with_later

SOURCE = Path(filrouge.__file__).parent


def opened(path: str) -> Any:
    """A bare connection; apsw's stubs leave the types of its bindings open."""
    return apsw.Connection(path)


def plain(sql: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", sql).split()).removesuffix(";").strip()


def test_migrations_are_numbered_without_a_gap_from_the_baseline_on() -> None:
    steps = migrations("sqlite")
    assert [step.number for step in steps] == list(range(21, len(steps) + 21))
    assert all(step.name.startswith(f"{step.number:04}_") for step in steps)


def test_a_database_is_migrated_once(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    assert database.migrate(ManualClock()) == [step.name for step in migrations("sqlite")]
    assert database.migrate(ManualClock()) == []


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    Database(path).migrate(ManualClock())
    known = [step.number for step in migrations("sqlite")]
    steps = with_later(
        "create virtual table moods_fts using fts5 (mood); insert into moods_fts values ('calm');"
        " create trigger turns_mooded after insert on turns begin insert into moods_fts values ('calm'); end;"
        " create trigger memories_mooded after insert on memories begin insert into moods_fts values ('calm'); end"
    )
    # A trigger of its last trigger's name makes the step fail near its end.
    opened(path).execute("create trigger memories_mooded after delete on jobs begin select 1; end")
    with pytest.raises(StoreError, match="memories_mooded"):
        Database(path).migrate(ManualClock(), steps=steps)
    assert [name for (name,) in opened(path).execute("select name from sqlite_schema where name like '%mood%'")] == [
        "memories_mooded"
    ]
    assert [number for (number,) in opened(path).execute("select number from schema_migrations")] == known
    opened(path).execute("drop trigger memories_mooded")
    assert Database(path).migrate(ManualClock(), steps=steps) == [steps[-1].name]


def test_a_migration_that_ended_in_the_middle_is_run_by_the_next_start(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    steps = with_later("create table moods (name text) strict", "create table tempers (name text) strict")
    # What a power cut leaves: the first step is there, the second was never committed.
    assert Database(path).migrate(ManualClock(), upto=steps[-2].number, steps=steps) == [one.name for one in steps[:-1]]
    connection = opened(path)
    connection.execute("begin immediate; create table tempers (name text) strict")
    connection.close()
    assert Database(path).migrate(ManualClock(), steps=steps) == [steps[-1].name]
    assert Database(path).migrate(ManualClock(), steps=steps) == []


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    Database(path).migrate(ManualClock())
    opened(path).execute("insert into schema_migrations values (9999, '9999_later', '')")
    with pytest.raises(WrongEngine, match=r"newer Filrouge: schema 9999, known here \d+") as refused:
        Database(path).migrate(SystemClock())
    assert "pip install --upgrade" in refused.value.remedy


@pytest.mark.parametrize("version", ["3.51.2", "3.50.9", "2.99.99", "3.9.0"])
def test_a_sqlite_that_may_lose_data_is_refused(version: str) -> None:
    with pytest.raises(WrongEngine, match=re.escape(f"SQLite {version} can corrupt its write-ahead log; 3.51.3")):
        check_engine(version)


@pytest.mark.parametrize("version", [None, ".".join(map(str, MIN_SQLITE_VERSION)), "3.51.10", "3.54.0.0", "4.0.0"])
def test_a_sqlite_that_is_mended_is_accepted(version: str | None) -> None:
    check_engine(version)


def says_nothing(*_: object) -> int:
    return 0


def test_every_named_query_compiles() -> None:
    connection = opened(":memory:")
    for step in migrations("sqlite"):
        connection.execute(step.sql)
    connection.create_scalar_function("says", says_nothing, -1)  # every connection of ours knows it
    wrong = dict[str, str]()
    for name, sql in queries("sqlite").items():
        try:
            list(connection.execute(f"explain {sql}", dict.fromkeys(re.findall(r":(\w+)", sql))))
        except apsw.Error as error:
            wrong[name] = str(error)
        assert plain(sql), name
    assert wrong == {}


def test_every_query_is_asked_for_and_every_name_exists() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    rooms = "|".join({name.partition(".")[0] for name in queries("sqlite")})
    asked = set(re.findall(rf'"((?:{rooms})\.(?!(?:json|html)")[a-z_]+)"', text)) | {
        f"ids.{kind}" for kind in get_args(RecordKind)
    }
    assert asked == queries("sqlite").keys()
