"""What the doctor says of the database, of what waits for it, and of its backups."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from filrouge.capture import inbox
from filrouge.core.clock import SystemClock, to_text
from filrouge.core.paths import BACKUPS, DATABASE, SPOOL
from filrouge.maintenance import backup_files
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.sqlite import Database, migrations
from tests.support.schemas import ADVICE, TOO_OLD, made_older

from .patient import Patient, database, saw

JOB = "INSERT INTO jobs (id, kind, dedupe_key, payload, state, created_at, run_at) VALUES "


def later(**by: float):
    return SystemClock().now() + timedelta(**by)


def test_a_page_of_noughts_is_found(patient: Patient) -> None:
    with database(patient.path(DATABASE)) as connection:
        (page,) = connection.execute("select pageno from dbstat where name = 'turns_by_session'").fetchone()
    with open(patient.path(DATABASE), "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))
    saw(patient.finding("Database"), "fail", "", "filrouge repair --dry-run")


def test_a_file_that_is_no_database_is_told_once(patient: Patient) -> None:
    patient.path(DATABASE).write_bytes(b"no database at all " * 500)
    saw(patient.finding("Database"), "fail", "damaged", "")
    told = {
        name: patient.finding(name).state for name in ("Ledger", "Queue", "Schema version", "Journal mode", "Tokens")
    }
    assert set(told.values()) == {"note"}


def test_a_large_database_is_checked_only_when_there_is_time(patient: Patient) -> None:
    os.truncate(patient.path(DATABASE), 501_000_000)
    saw(patient.finding("Database"), "note", "477 MB are too much", "filrouge doctor --deep")


def test_a_home_without_a_database_is_no_trouble(bare: Patient) -> None:
    saw(bare.finding("Database"), "note", "there is no database yet", "filrouge daemon start")


def test_a_schema_of_a_newer_version_is_told_apart_from_an_older(patient: Patient) -> None:
    patient.sql("INSERT INTO schema_migrations VALUES (9999, '9999_later', '')")
    saw(patient.finding("Schema version"), "fail", "a newer Filrouge: schema 9999", "pip install --upgrade")
    patient.sql("DELETE FROM schema_migrations")
    known = migrations("sqlite")[-1].number
    saw(patient.finding("Schema version"), "note", f"schema 0; this version has {known}", "filrouge daemon start")
    assert patient.finding("Ledger").cause == "unknown while the database has another schema"


def test_a_schema_from_before_the_baseline_is_told_with_the_way_out(patient: Patient) -> None:
    path = str(patient.path(DATABASE))
    made_older(path)
    told = f"{path} was written by an older Filrouge: schema {TOO_OLD}"
    for check in ("Schema version", "Schema"):
        for words in ADVICE:
            saw(patient.finding(check), "fail", told, words)
    assert patient.finding("Ledger").cause == "unknown while the database has another schema"


def test_a_database_that_left_its_log_is_noted(patient: Patient) -> None:
    patient.sql("PRAGMA journal_mode = delete")
    saw(patient.finding("Journal mode"), "note", "it is `delete`, not `wal`", "filrouge daemon start")


def test_a_program_that_lets_nobody_write_is_told(patient: Patient) -> None:
    assert patient.finding("Write lock").state == "ok"
    with database(patient.path(DATABASE)) as connection:
        connection.execute("begin immediate")
        saw(patient.finding("Write lock"), "warn", "another program has locked the database", "fuser ")
        connection.execute("rollback")


def test_looking_for_the_lock_changes_nothing(patient: Patient) -> None:
    with database(patient.path(DATABASE)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("UPDATE memory_settings SET updated_at = 'now'")
        before = {path: path.read_bytes() for path in patient.path().glob(f"{DATABASE}*") if path.suffix != ".db-shm"}
        assert patient.finding("Write lock").state == "ok"
        assert {path: path.read_bytes() for path in before} == before


def test_a_log_of_changes_that_nobody_empties_is_told(patient: Patient) -> None:
    wal = patient.write(f"{DATABASE}-wal", "")
    os.truncate(wal, 300_000_000)
    saw(patient.finding("Write-ahead log"), "warn", "286 MB", "filrouge daemon stop")


def test_turns_that_an_earlier_version_indexed_are_noted(patient: Patient) -> None:
    assert patient.finding("Word index").state == "ok"
    patient.sql("UPDATE turns SET analyser = 0 WHERE seq = 1")
    saw(patient.finding("Word index"), "note", "1 of 2 turns", "filrouge daemon start")


def test_an_event_that_is_gone_is_missed(patient: Patient) -> None:
    patient.sql("DELETE FROM events WHERE seq = 1")
    saw(patient.finding("Ledger"), "fail", "2 events received, but", "filrouge repair --dry-run")


def test_a_backup_that_failed_is_told(patient: Patient) -> None:
    backup_files.record_failure(patient.home, to_text(SystemClock().now()), "there is no room")
    saw(patient.finding("Backups"), "fail", "the last one failed: there is no room", "filrouge backup")


def test_a_backup_that_is_too_old_is_told_once_something_changed(patient: Patient) -> None:
    assert patient.finding("Backups", now=later(days=9)).state == "ok"
    for path in Path(backup_files.backup_directory(patient.home)).glob("*"):
        path.unlink()
    saw(patient.finding("Backups", now=later(days=9)), "warn", "there is no backup yet", "filrouge backup")


def test_a_backup_that_is_not_what_was_verified_is_named(patient: Patient) -> None:
    assert patient.finding("Backups verified").cause.startswith("1 backups, each")
    [file] = patient.path(BACKUPS).glob("*.db")
    os.truncate(file, 4096)
    saw(patient.finding("Backups verified"), "warn", f"such as {file.stem}", f"delete {file}")


def test_a_home_that_is_never_backed_up_is_noted(patient: Patient) -> None:
    patient.environ["FILROUGE_BACKUP_HOURS"] = "0"
    saw(patient.finding("Backup schedule"), "note", "no backups are made automatically", "backup_hours 24")


def test_events_that_wait_for_a_daemon_are_counted(patient: Patient) -> None:
    inbox.append_event(str(patient.path(SPOOL)), {"id": "one"})
    saw(patient.finding("Spool"), "warn", "1 events wait for a daemon", "filrouge daemon start")


def test_records_that_nobody_can_read_are_told(patient: Patient) -> None:
    file = Path(inbox.append_event(str(patient.path(SPOOL)), {"id": "one", "text": "word " * 50}))
    file.write_bytes(file.read_bytes()[:-20])
    saw(patient.finding("Spool records"), "warn", f"cut off, such as {file.name}", "takes in complete records")
    inbox.set_aside(str(file))
    saw(patient.finding("Spool records"), "warn", "1 files could not be read", ".aside, then delete")


def test_events_that_hooks_could_not_keep_are_told_until_counting_begins_again(patient: Patient) -> None:
    assert patient.finding("Lost events").state == "ok"
    inbox.add_losses(str(patient.home), "cannot be written", 3)
    saw(patient.finding("Lost events"), "warn", "could not keep 3 events", "doctor --fix")
    inbox.clear_losses(str(patient.home))
    assert patient.finding("Lost events").state == "ok"


def test_a_hook_that_was_ended_while_it_wrote_is_noted(patient: Patient) -> None:
    part = patient.write(f"{SPOOL}/1-2.part", "half")
    assert patient.finding("Unfinished records").state == "ok"
    os.utime(part, (1, 1))
    saw(patient.finding("Unfinished records"), "note", "1 hooks were ended", "filrouge daemon start")


def test_jobs_that_were_set_aside_are_named_by_their_kind(patient: Patient) -> None:
    patient.sql(f"{JOB} ('a', 'understand', 'a', '{{}}', 'dead', '2026-01-01', '2026-01-01')")
    saw(patient.finding("Queue"), "warn", "1 jobs failed after eight attempts: understand", "filrouge logs")


def test_a_job_that_nobody_begins_is_told_with_its_age(patient: Patient) -> None:
    due = to_text(SystemClock().now() - timedelta(hours=7, minutes=10))
    patient.sql(f"{JOB} ('a', 'understand', 'a', '{{}}', 'queued', '{due}', '{due}')")
    saw(patient.finding("Queue age"), "warn", "due for 7 hours, and no daemon runs", "filrouge daemon start")


def test_answers_of_models_that_nobody_could_read_are_noted(patient: Patient) -> None:
    with database(patient.path(DATABASE)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(unread_answers)")]
        connection.execute("PRAGMA foreign_keys = off")
        values = ", ".join("x'00'" if name.endswith("hash") else f"'{name}'" for name in columns)
        connection.execute("PRAGMA ignore_check_constraints = on")
        connection.execute(f"INSERT OR IGNORE INTO unread_answers ({', '.join(columns)}) VALUES ({values})")
    saw(patient.finding("Unread answers"), "note", "1 answers", "filrouge extract --dead")


@pytest.mark.parametrize(
    ("name", "statement", "cause", "remedy"),
    [
        ("Schema", "DROP INDEX turns_by_session", "turns_by_session", "filrouge repair"),
        ("Seals", "UPDATE turns SET text = 'The ferry sank.' WHERE seq = 1", "1 rows differ", "filrouge repair"),
        ("Journal", "UPDATE journal SET hash = x'00' WHERE seq = 1", "entry 1", "filrouge repair"),
        ("Vectors", "UPDATE vectors SET vector = x'0000'", "do not fit their space", "filrouge repair"),
        (
            "Against the backup",
            "UPDATE events SET row_hash = x'00' WHERE seq = 1",
            "rows that never change",
            "filrouge repair",
        ),
        (
            "Against the backup",
            "UPDATE events SET session_id = 'another' WHERE seq = 1",
            "rows that never change",
            "filrouge repair",
        ),
    ],
)
def test_a_deep_look_finds_what_is_whole_and_wrong(
    patient: Patient, name: str, statement: str, cause: str, remedy: str
) -> None:
    assert patient.finding(name, deep=True).state == "ok"
    patient.sql(statement)
    saw(patient.finding(name, deep=True), "fail", cause, remedy)


def test_rows_of_another_past_that_a_backup_holds_are_no_damage(patient: Patient) -> None:
    assert patient.finding("Against the backup", deep=True).state == "ok"
    patient.sql("UPDATE events SET id = 'of-another-past', row_hash = x'01', session_id = 'another' WHERE seq = 1")
    assert patient.finding("Against the backup", deep=True).state == "ok"


def test_a_row_that_cannot_even_be_read_is_told_without_its_words(patient: Patient) -> None:
    patient.sql("UPDATE events SET received_at = 'Tuesday, said Ana' WHERE seq = (SELECT max(seq) FROM events)")
    found = patient.finding("Clock")
    saw(found, "fail", "ValueError", "filrouge repair")
    assert "Ana" not in found.cause


def test_the_queue_is_read_where_the_daemon_keeps_it(patient: Patient) -> None:
    store = Database(str(patient.path(DATABASE)))
    with store.transaction() as tx:
        Jobs(tx).enqueue("understand", {"event": "x"}, dedupe="x", at=SystemClock().now())
    store.close()
    assert patient.finding("Queue").cause == "1 waiting"
    assert json.loads(json.dumps(patient.finding("Queue").to_json()))["check"] == "Queue"
