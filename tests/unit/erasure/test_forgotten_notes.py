"""Notes of the vault that were forgotten stay forgotten when an older copy of the memory is put back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from filrouge.core.clock import SystemClock
from filrouge.core.paths import DATABASE, inside
from filrouge.erasure.service import ForgetRequest, forget_at_once
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_service import back_up
from filrouge.maintenance.copies import integrity_errors
from filrouge.maintenance.restore import restore
from filrouge.notes.repository import StoredVault
from filrouge.notes.service import Watch
from filrouge.runtime.services import Parts
from filrouge.testing import running
from tests.support.given import say

SECRET = "zanzibar"
SENTENCE = f"The {SECRET} supplier sends its invoices on the last Friday of the month.\n"
OTHER = "# Reverse proxy\nCaddy terminates TLS for the kiosk and forwards to port 8443.\n"
#: Larger than one chunk, so that only a part of the note says the word.
LONG = f"# Suppliers\n{'Every supplier has a number in the ledger. ' * 40}\n\n# Invoices\n{SENTENCE}"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "Notes"
    folder.mkdir()
    (folder / "Proxy.md").write_text(OTHER)
    (folder / "Suppliers.md").write_text(LONG)
    (folder / f"{SECRET}.md").write_text("# Contacts\nAsk for Ana in the mornings.\n")
    return folder


@pytest.fixture
def older(tmp_path: Path, vault: Path) -> Path:
    """A backup of before, kept elsewhere; the home has forgotten the word since, and no daemon runs."""
    home, kept = str(tmp_path / "home"), tmp_path / "elsewhere.db"
    with running(home, environ={"FILROUGE_NOTES_FOLDER": str(vault)}) as parts:
        say(parts, "For the record: production listens on port 8443.")
        indexed(parts)
        made = back_up(home, "hand", parts.clock.now())
        backup_files.copy_out(home, made.name, str(kept))
        # The note is edited before it is forgotten, so the older copy has its words in another text.
        (vault / "Suppliers.md").write_text(LONG.replace("last Friday", "first Monday"))
        indexed(parts)
        assert SECRET.encode() in stored(home)
        forget_at_once(parts, ForgetRequest(text=SECRET))
        indexed(parts)
    assert SECRET.encode() not in stored(home)
    return kept


def indexed(parts: Parts) -> None:
    Watch(parts).scan()
    Watch(parts).embed()


def stored(home: str) -> bytes:
    """The database with its log."""
    found = [Path(home, f"{DATABASE}{ending}") for ending in ("", "-wal")]
    return b"".join(path.read_bytes() for path in found if path.exists()).lower()


def notes(parts: Parts) -> set[str]:
    return set(parts.readers.here(lambda tx: StoredVault(tx).known()))


def test_a_restored_copy_holds_no_byte_of_it_before_any_daemon_starts(tmp_path: Path, older: Path, vault: Path) -> None:
    home = str(tmp_path / "home")
    assert SECRET.encode() in older.read_bytes().lower()
    done = restore(home, str(older), SystemClock())
    assert done.forgotten > 0
    assert SECRET.encode() not in stored(home)
    assert integrity_errors(inside(home, DATABASE)) == []
    with running(home, environ={"FILROUGE_NOTES_FOLDER": str(vault)}) as parts:
        indexed(parts)
        # What else the notes say is read again from their files; the forgotten parts are not.
        assert notes(parts) == {"Proxy.md", "Suppliers.md"}
        assert SECRET.encode() not in stored(home)
    assert (vault / f"{SECRET}.md").exists()
    assert restore(home, "latest", SystemClock()).forgotten == 0


def test_a_file_that_is_put_back_by_hand_loses_it_at_the_next_start(tmp_path: Path, older: Path, vault: Path) -> None:
    home = str(tmp_path / "home")
    shutil.copyfile(older, inside(home, DATABASE))
    with running(home, environ={"FILROUGE_NOTES_FOLDER": str(vault)}) as parts:
        indexed(parts)
        assert notes(parts) == {"Proxy.md", "Suppliers.md"}
    assert SECRET.encode() not in stored(home)


def test_a_dry_run_forgets_nothing(tmp_path: Path, older: Path) -> None:
    home = str(tmp_path / "home")
    before = stored(home)
    assert restore(home, str(older), SystemClock(), dry_run=True).forgotten > 0
    assert stored(home) == before
    assert SECRET.encode() in older.read_bytes().lower()
