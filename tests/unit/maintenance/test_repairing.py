"""Repair: whatever page is hit, the rows on the others are saved, indexes are made anew, and the loss is listed."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.errors import Corrupt, NotFound
from filrouge.core.paths import DATABASE
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.repair import Pages, diagnose, repair
from filrouge.maintenance.restore import restore
from filrouge.memories.changes import remember
from filrouge.runtime.journal import Journal
from filrouge.runtime.sqlite import Database
from filrouge.testing import idle, running
from tests.support.given import event, known

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAGE = 4096
SEED = 20260301
QUESTION = "which port does service number140 of the shop listen on?"
PROJECT = ("origin:forge.example/ana/shop",)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A sound home, its rows, and what each of its pages is."""

    home: str
    rows: Mapping[str, int]
    pages: list[tuple[int, str, str]]

    def copy(self, to: Path) -> str:
        return str(shutil.copytree(self.home, to / "home"))

    def some(self, table: str, kind: str) -> int:
        """A page of a table: a leaf in its middle, or a branch."""
        found = [number for number, name, what in self.pages if (name, what) == (table, kind)]
        return found[len(found) // 2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    home = str(tmp_path_factory.mktemp("whole") / "home")
    with running(home) as parts:
        said = [
            event(
                "prompt" if number % 2 == 0 else "reply",
                session=f"s{number // 20}",
                text=f"Service number{number} of the shop listens on port {number + 1000}; "
                + "and so on, " * (number % 40),
            )
            for number in range(220)
        ]
        for future in [store_events(parts, [one]) for one in said]:
            future.result(60)
        idle(parts, 150)
        remember(parts, "the almanac service listens on port 19031", names=[], scope=None, host="cli")
        idle(parts)
    path = os.path.join(home, DATABASE)
    connection: Any = apsw.Connection(path)
    pages = list(connection.execute("select pageno, name, pagetype from dbstat"))
    connection.close()
    return Whole(home=home, rows=copies.content(path).rows, pages=pages)


def database(home: str) -> str:
    return os.path.join(home, DATABASE)


def hit(home: str, page: int, content: bytes, at: int = 0) -> None:
    with open(database(home), "r+b") as file:
        file.seek((page - 1) * PAGE + at)
        file.write(content)


def lost(whole: Whole, done: dict[str, Any]) -> dict[str, int]:
    return {
        table: whole.rows[table] - counts["saved"]
        for table, counts in done["tables"].items()
        if whole.rows[table] != counts["saved"]
    }


def test_the_pages_of_a_sound_file_hold_what_sqlite_reads(whole: Whole) -> None:
    pages = Pages(Path(database(whole.home)).read_bytes())
    connection: Any = apsw.Connection(database(whole.home))
    for table in ("turns", "events", "journal", "memories"):
        (root,) = connection.execute("select rootpage from sqlite_schema where name = ?", (table,)).fetchone()
        leaves = list(pages.walk(root))
        found = {row.rowid: row.values[1:] for leaf in leaves for row in leaf.rows}
        stored = {row[0]: row[1:] for row in connection.execute(f"select * from {table}")}
        assert sum(leaf.undecodable for leaf in leaves) == 0
        assert {key: _plain(value) for key, value in found.items()} == {
            key: _plain(value) for key, value in stored.items()
        }
    connection.close()


def _plain(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(value) if isinstance(value, int) else value for value in values)


def test_a_sound_memory_is_left_alone_and_made_anew_loses_nothing(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    before = Path(database(home)).read_bytes()
    assert diagnose(home) == []
    assert repair(home, NOW)["tables"] == {}
    assert Path(database(home)).read_bytes() == before
    done = repair(home, NOW, rebuild_sound=True)
    assert lost(whole, done) == {}
    assert diagnose(home) == []


@pytest.mark.parametrize("how", [pytest.param("zeros", marks=pytest.mark.slow), "noise"])
@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("turns", "internal"),
        ("events", "internal"),
        ("turns_by_session", "leaf"),
        ("sqlite_autoindex_turns_1", "internal"),
        ("messages_fts_data", "leaf"),
        ("messages_fts_data", "internal"),
        ("memories_fts_idx", "leaf"),
        ("messages_fts_config", "leaf"),
        ("sqlite_sequence", "leaf"),
    ],
)
def test_a_page_that_holds_no_rows_costs_none(whole: Whole, tmp_path: Path, table: str, kind: str, how: str) -> None:
    home = whole.copy(tmp_path)
    hit(home, whole.some(table, kind), bytes(PAGE) if how == "zeros" else random.Random(SEED).randbytes(PAGE))
    done = repair(home, NOW, rebuild_sound=True)
    assert {name: n for name, n in lost(whole, done).items() if name != "sqlite_sequence"} == {}
    assert diagnose(home) == []
    with running(home) as parts:
        idle(parts)
        assert [hit.item.text for hit in known(parts, QUESTION, PROJECT).hits][:1] != []


@pytest.mark.parametrize("how", [pytest.param("zeros", marks=pytest.mark.slow), "noise"])
@pytest.mark.parametrize("table", ["turns", "events", "memories", "journal"])
def test_a_page_of_rows_costs_its_own_and_what_rests_on_them(
    whole: Whole, tmp_path: Path, table: str, how: str
) -> None:
    home = whole.copy(tmp_path)
    hit(home, whole.some(table, "leaf"), bytes(PAGE) if how == "zeros" else random.Random(SEED).randbytes(PAGE))
    assert diagnose(home) != []
    done = repair(home, NOW)
    gone = lost(whole, done)
    leaves = sum((name, kind) == (table, "leaf") for _, name, kind in whole.pages)
    assert 0 < gone[table] <= 4 * whole.rows[table] / leaves + 1
    saved = sum(one["saved"] for one in done["tables"].values())
    assert saved >= 0.95 * sum(whole.rows[name] for name in done["tables"])
    assert diagnose(home) == []
    assert backup_files.find_manifest(home, done["kept"]) is not None


def test_a_lost_project_is_made_again_from_what_names_it(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    hit(home, whole.some("projects", "leaf"), bytes(PAGE))
    done = repair(home, NOW)
    assert done["tables"]["projects"]["remade"] == 1
    assert lost(whole, done) == {"projects": 1}
    assert diagnose(home) == []


def test_a_row_that_is_not_what_was_stored_is_no_part_of_what_is_saved(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    content = Path(database(home)).read_bytes()
    Path(database(home)).write_bytes(content.replace(b"almanac service listens on", b"almanac service listenz on"))
    assert any("not what was stored" in one for one in diagnose(home))
    done = repair(home, NOW)
    assert done["tables"]["memories"]["refused"] == 1
    assert "listenz" not in Path(database(home)).read_bytes().decode("latin-1")
    assert diagnose(home) == []


def test_a_journal_with_a_gap_is_closed_and_says_so(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    hit(home, whole.some("journal", "leaf"), bytes(PAGE))
    repair(home, NOW)
    opened = Database(database(home), readonly=True)
    journal = Journal(opened.tx)
    assert journal.verify().sound
    last = journal.entries_about("journal")[-1]
    assert (last.actor, last.action) == ("repair", "repaired")
    opened.close()


def test_vectors_that_are_none_are_made_again(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    connection: Any = apsw.Connection(database(home))
    (owner,) = connection.execute("select owner_id from vectors limit 1").fetchone()
    connection.execute("update vectors set vector = randomblob(length(vector)) where owner_id = ?", (owner,))
    connection.close()
    assert any("vectors are invalid" in one for one in diagnose(home))
    assert repair(home, NOW)["vectors"] == 1
    with running(home) as parts:
        idle(parts)
    assert diagnose(home) == []
    assert copies.content(database(home)).rows["vectors"] == whole.rows["vectors"]
    assert repair(home, NOW, vectors=True)["vectors"] == whole.rows["vectors"]
    with running(home) as parts:
        idle(parts)
    assert copies.content(database(home)).rows["vectors"] == whole.rows["vectors"]


def test_a_dry_run_says_what_would_come_of_it_and_replaces_nothing(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    hit(home, whole.some("events", "leaf"), bytes(PAGE))
    before = Path(database(home)).read_bytes()
    told = repair(home, NOW, dry_run=True)
    assert (lost(whole, told).keys(), told["kept"]) == ({"events"}, None)
    assert Path(database(home)).read_bytes() == before
    assert backup_files.list_backups(home) == []
    assert repair(home, NOW)["tables"] == told["tables"]


def test_what_was_damaged_is_kept_to_the_byte_with_its_log(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    hit(home, whole.some("events", "leaf"), bytes(PAGE))
    before = Path(database(home)).read_bytes()
    kept = repair(home, NOW)["kept"]
    assert Path(backup_files.path_of(home, kept)).read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_a_backup_helps(whole: Whole, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        repair(str(tmp_path / "nowhere"), NOW)
    home = whole.copy(tmp_path)
    good = str(tmp_path / "good.db")
    copies.copy(database(home), good)
    hit(home, 1, bytes(PAGE))
    before = Path(database(home)).read_bytes()
    with pytest.raises(Corrupt, match="cannot be read any more") as refused:
        repair(home, NOW)
    assert "filrouge restore" in refused.value.remedy
    assert Path(database(home)).read_bytes() == before
    restore(home, good, SystemClock())
    assert diagnose(home) == []


def test_a_vector_that_was_turned_over_is_noticed_by_the_backup_and_made_again(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    back_up(home, "hand", NOW)
    assert diagnose(home) == []
    connection: Any = apsw.Connection(database(home))
    owner, vector = connection.execute("select owner_id, vector from vectors limit 1").fetchone()
    place = next(place for place in range(1, len(vector), 2) if vector[place])
    turned = vector[:place] + bytes([vector[place] ^ 0x80]) + vector[place + 1 :]  # the sign: the length stays
    connection.execute("update vectors set vector = ? where owner_id = ?", (turned, owner))
    connection.close()
    assert diagnose(home) == ["1 rows of vectors differ from the newest backup"]
    assert repair(home, NOW)["vectors"] == whole.rows["vectors"]
    with running(home) as parts:
        idle(parts)
    assert diagnose(home) == []


def test_a_decision_that_was_changed_is_noticed_by_the_backup(whole: Whole, tmp_path: Path) -> None:
    home = whole.copy(tmp_path)
    back_up(home, "hand", NOW)
    connection: Any = apsw.Connection(database(home))
    connection.execute("update thread_decisions set similarity = similarity / 2 where seq = 7")
    connection.close()
    assert diagnose(home) == ["1 rows of thread_decisions differ from the newest backup"]


@pytest.mark.parametrize("name", [b"payload_hash  BLOB", b"CREATE TABLE turns (", b"CREATE INDEX turns_by_session"])
def test_a_schema_that_was_hit_is_noticed_and_made_anew(whole: Whole, tmp_path: Path, name: bytes) -> None:
    home = whole.copy(tmp_path)
    content = Path(database(home)).read_bytes()
    assert content.count(name) == 1
    Path(database(home)).write_bytes(content.replace(name, name[:-4] + bytes([name[-4] ^ 1]) + name[-3:]))
    assert diagnose(home) != []
    done = repair(home, NOW)
    assert lost(whole, done) == {}
    assert diagnose(home) == []
