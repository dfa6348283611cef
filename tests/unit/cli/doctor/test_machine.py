"""What the doctor says of a machine and of a home."""

from __future__ import annotations

import os
from datetime import timedelta

from filrouge.core.clock import SystemClock
from filrouge.core.paths import BACKUPS, DATABASE, DISK_RESERVE, SPOOL

from .patient import Patient, mode_of, saw


def test_a_python_that_is_too_old_is_named(bare: Patient) -> None:
    saw(bare.finding("Python", python=(3, 10, 4)), "fail", "3.10.4 is too old", "Python 3.11")
    assert bare.finding("Python").state == "ok"


def test_a_system_without_unix_sockets_is_refused_and_32_bits_are_warned_of(bare: Patient) -> None:
    saw(bare.finding("Platform", system="Windows"), "fail", "Windows is not supported", "WSL 2")
    saw(bare.finding("Platform", system="Linux", bits=32), "warn", "32 bits", "64-bit")


def test_a_sqlite_that_may_lose_data_is_refused(bare: Patient) -> None:
    saw(bare.finding("SQLite", sqlite="3.51.2"), "fail", "SQLite 3.51.2 can corrupt", "pip install")


def test_a_sqlite_without_full_text_search_is_named(bare: Patient) -> None:
    found = bare.finding("SQLite features", sqlite_options=frozenset({"THREADSAFE=1"}))
    saw(found, "fail", "without ENABLE_FTS5", "apsw-sqlite3mc")
    assert bare.finding("SQLite features").state == "ok"


def nearly_full(_: str) -> int:
    return 150 << 20


def test_a_disk_that_is_nearly_full_is_told(bare: Patient) -> None:
    saw(bare.finding("Disk space", free=nearly_full), "fail", "150 MB are free", "Free some space")


def test_a_disk_that_was_full_left_its_mark(patient: Patient) -> None:
    assert patient.finding("Ballast").state == "ok"
    patient.path(DISK_RESERVE).unlink()
    saw(patient.finding("Ballast"), "warn", "the disk was full", "filrouge daemon start")


def test_a_limit_of_open_files_that_is_too_small_is_told(bare: Patient) -> None:
    saw(bare.finding("Open files", open_files=64), "warn", "64 files", "ulimit -n 1024")


def test_a_clock_that_was_set_back_is_noticed(patient: Patient) -> None:
    earlier = SystemClock().now() - timedelta(days=400)
    saw(patient.finding("Clock", now=earlier), "warn", "but the newest event", "Set the clock")
    assert patient.finding("Clock").state == "ok"


def test_a_home_that_is_not_there_is_made_when_asked(bare: Patient) -> None:
    saw(bare.finding("Home"), "warn", "does not exist yet", "filrouge doctor --fix")
    done = bare.mended("Home")
    assert (done.did, done.after.state, mode_of(bare.path())) == ((f"created {bare.home}",), "ok", 0o700)


def test_a_home_that_is_a_file_is_no_home(bare: Patient) -> None:
    bare.path().write_text("")
    saw(bare.finding("Home"), "fail", "is not a directory", "FILROUGE_HOME")


def test_a_home_that_others_look_into_is_closed(patient: Patient) -> None:
    patient.path().chmod(0o755)
    saw(patient.finding("Home"), "warn", "other users can look into", "chmod 700")
    assert patient.mended("Home").did == (f"{patient.home}: mode 755 became 700",)
    assert mode_of(patient.path()) == 0o700


def test_a_home_that_cannot_be_written_is_told(patient: Patient) -> None:
    patient.path().chmod(0o500)
    saw(patient.finding("Home"), "fail", "is not writable", "chmod u+rwx")


def test_a_directory_of_other_programs_is_not_closed(bare: Patient) -> None:
    bare.path().mkdir(mode=0o755)
    bare.path("letters").mkdir()
    saw(bare.finding("Home"), "warn", "other users can look into", "chmod 700")
    assert [mode_of(bare.path()), bare.finding("Home").state] == [0o755, "warn"]


def test_a_home_that_is_a_link_is_noted_and_one_to_nothing_fails(patient: Patient) -> None:
    elsewhere = patient.beside / "disk"
    patient.path().rename(elsewhere)
    patient.path().symlink_to(elsewhere)
    saw(patient.finding("Link"), "note", f"is a link to {elsewhere}", "the same path")
    elsewhere.rename(patient.beside / "gone")
    saw(patient.finding("Link"), "fail", "is a link to a path that does not exist", "Mount its disk")


def test_files_of_another_user_are_named(patient: Patient) -> None:
    saw(patient.finding("Owner", user=os.getuid() + 1), "fail", "belongs to another user", "chown")
    assert patient.finding("Owner").state == "ok"


def test_a_home_on_a_network_disk_is_refused(patient: Patient) -> None:
    mounts = f"/dev/sda1 / ext4 rw 0 0\nnas:/export {patient.beside} nfs4 rw 0 0\n"
    found = patient.finding("File system", mounts=mounts)
    saw(found, "fail", "a network disk (nfs4)", "a local disk")
    assert patient.finding("File system", mounts="/dev/sda1 / ext4 rw 0 0\n").cause == "ext4"


def test_a_file_in_the_place_of_a_folder_is_named(patient: Patient) -> None:
    patient.path(SPOOL).rmdir()
    patient.write(SPOOL, "")
    saw(patient.finding("Folders"), "fail", f"{SPOOL} is not a directory", "mv ")


def test_a_folder_that_cannot_be_written_is_opened_to_its_owner(patient: Patient) -> None:
    patient.path(BACKUPS).chmod(0o500)
    saw(patient.finding("Folders"), "fail", f"{BACKUPS} is not writable", "chmod u+rwx")
    assert patient.mended("Folders").after.state == "ok"


def test_a_database_that_others_can_read_is_closed(patient: Patient) -> None:
    patient.path(DATABASE).chmod(0o644)
    saw(patient.finding("File modes"), "warn", f"other users can read {DATABASE}", "chmod -R go-rwx")
    done = patient.mended("File modes")
    assert (done.did, done.after.state) == ((f"{DATABASE}: mode 644 became 600",), "ok")


def test_what_was_begun_and_never_finished_is_removed(patient: Patient) -> None:
    left = patient.write(".new-abc", "half")
    assert patient.finding("Left-overs").state == "ok"  # somebody may be writing it
    os.utime(left, (1, 1))
    saw(patient.finding("Left-overs"), "note", "1 temporary files were never finished", "filrouge doctor --fix")
    assert patient.mended("Left-overs").did == ("removed .new-abc",)
    assert not left.exists()
