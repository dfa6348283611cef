"""The schema and its SQL: migrations amount to the one page, each is all or nothing, and every query is wanted."""

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
from filrouge.runtime.sqlite import OLDEST_SQLITE, Database, check_engine, migrations, queries
from filrouge.testing import ManualClock, memory_database

SOURCE = Path(filrouge.__file__).parent
SCHEMA = SOURCE / "runtime/sql/sqlite/schema.sql"


def opened(path: str) -> Any:
    """A bare connection; apsw's stubs leave the types of its bindings open."""
    return apsw.Connection(path)


def plain(sql: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", sql).split()).removesuffix(";").strip()


def test_the_schema_on_one_page_is_what_all_migrations_make() -> None:
    page = re.split(r";\n(?=\s*(?:--|CREATE|\Z))", SCHEMA.read_text(encoding="utf-8"))
    written = {plain(part) for part in page} - {""}
    made = {plain(sql) for sql in memory_database().schema() if "_fts_" not in sql and "schema_migrations" not in sql}
    assert written == made


def test_the_schema_on_one_page_can_be_run() -> None:
    opened(":memory:").execute(SCHEMA.read_text(encoding="utf-8"))


def test_migrations_are_numbered_without_a_gap() -> None:
    steps = migrations("sqlite")
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert all(step.name.startswith(f"{step.number:04}_") for step in steps)


def test_a_database_is_migrated_once(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    assert database.migrate(ManualClock()) == [step.name for step in migrations("sqlite")]
    assert database.migrate(ManualClock()) == []


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    Database(path).migrate(ManualClock(), upto=1)
    coming = [step.name for step in migrations("sqlite") if step.number > 1]
    # A trigger of its last trigger's name makes the second step fail near its end.
    in_the_way = "create trigger memories_reindexed after delete on jobs begin select 1; end"
    opened(path).execute(in_the_way)
    with pytest.raises(StoreError, match="memories_reindexed"):
        Database(path).migrate(ManualClock())
    left = {name for (name,) in opened(path).execute("select name from sqlite_schema")}
    assert {name for name in left if "fts" in name or name.endswith("indexed")} == {"memories_reindexed"}
    assert list(opened(path).execute("select number from schema_migrations")) == [(1,)]
    opened(path).execute("drop trigger memories_reindexed")
    assert Database(path).migrate(ManualClock()) == coming


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


@pytest.mark.parametrize("version", [None, ".".join(map(str, OLDEST_SQLITE)), "3.51.10", "3.54.0.0", "4.0.0"])
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
    asked = set(re.findall(rf'"((?:{rooms})\.(?!json")[a-z_]+)"', text)) | {
        f"ids.{kind}" for kind in get_args(RecordKind)
    }
    assert asked == queries("sqlite").keys()
