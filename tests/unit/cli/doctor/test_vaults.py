"""What the doctor says of the vault: its folder or Obsidian's plugin, the daemon's looks at it, and single notes."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from filrouge.cli.doctor.report import examine
from filrouge.cli.doctor.scene import Daemon
from filrouge.core.clock import SystemClock
from filrouge.core.paths import store_secret
from filrouge.notes import vault
from filrouge.notes.service import Watch
from filrouge.runtime.services import StoredSettings
from tests.support.obsidian import KEY, obsidian
from tests.unit.server.conftest import Api, serving

from .patient import NAMED, Patient, saw, written


@pytest.fixture
def folder(patient: Patient) -> Path:
    """A vault of one note, named in the settings."""
    note = written(patient.user / "Notes" / "Proxy.md", "Caddy terminates TLS for the kiosk.")
    patient.environ["FILROUGE_NOTES_FOLDER"] = str(note.parent)
    return note.parent


@contextmanager
def watched(patient: Patient, folder: Path, *paths: str) -> Generator[Api]:
    """A daemon that has looked at that vault, and always brings these notes."""
    with serving(patient.home) as api:
        changes = {"notes_folder": str(folder), "notes_paths": list(paths)}
        api.parts.writer.run(lambda tx: StoredSettings(tx).put(changes, SystemClock().now()))
        Watch(api.parts).scan()
        yield api


def test_no_vault_is_no_trouble(patient: Patient) -> None:
    names = ("Vault", "Vault: Obsidian", "Vault: last look", "Vault: single notes")
    assert {patient.finding(name).cause for name in names} == {"no vault is configured"}
    assert patient.finding("Vault: notes that are always brought").state == "ok"


def test_a_folder_that_cannot_be_read_as_a_vault_is_told(patient: Patient, folder: Path) -> None:
    assert patient.finding("Vault").cause == "the folder exists"
    patient.environ["FILROUGE_NOTES_FOLDER"] = str(folder / "gone")
    saw(patient.finding("Vault"), "fail", f"{folder}/gone does not exist", "filrouge settings notes_folder PATH")
    patient.environ["FILROUGE_NOTES_FOLDER"] = str(folder / "Proxy.md")
    saw(patient.finding("Vault"), "fail", "is not a folder", "filrouge settings notes_folder PATH")
    patient.environ["FILROUGE_NOTES_FOLDER"] = "Notes"
    saw(patient.finding("Vault"), "warn", "not an absolute path", "filrouge settings notes_folder PATH")


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_folder_without_permissions_is_told(patient: Patient, folder: Path) -> None:
    folder.chmod(0)
    try:
        saw(patient.finding("Vault"), "fail", f"{folder} cannot be read", "chmod u+rx")
    finally:
        folder.chmod(0o700)


def test_a_vault_around_the_home_or_in_it_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_NOTES_FOLDER"] = str(patient.beside)
    saw(patient.finding("Vault"), "warn", "contains the home of Filrouge", "notes_folder PATH")
    (patient.path() / "notes").mkdir()
    patient.environ["FILROUGE_NOTES_FOLDER"] = str(patient.path("notes"))
    saw(patient.finding("Vault"), "warn", "is in the home of Filrouge", "notes_folder PATH")


def test_an_unencrypted_address_of_another_machine_is_refused(patient: Patient) -> None:
    patient.environ["FILROUGE_NOTES_FOLDER"] = "http://10.0.0.4:27123"
    saw(patient.finding("Vault"), "fail", "would send your notes unencrypted", "https")
    saw(patient.finding("Vault: Obsidian"), "note", "not used", "")


def test_obsidian_is_told_step_by_step_what_is_missing(patient: Patient) -> None:
    with obsidian(patient.beside) as app:
        patient.environ["FILROUGE_NOTES_FOLDER"] = app.address
        saw(patient.finding("Vault: Obsidian"), "fail", "no certificate of", f"filrouge notes --trust {app.address}")
        store_secret(patient.home, vault.CERTIFICATE, app.pem)
        saw(patient.finding("Vault: Obsidian"), "fail", "the key of", "filrouge notes --key")
        assert app.asked == []
        store_secret(patient.home, vault.KEY, "another")
        saw(patient.finding("Vault: Obsidian"), "fail", "rejects the key", "filrouge notes --key")
        store_secret(patient.home, vault.KEY, KEY)
        assert patient.finding("Vault: Obsidian").cause == f"{app.address} answers and takes the key"
    saw(patient.finding("Vault: Obsidian"), "fail", "does not answer", "Start it")


def test_another_certificate_is_told_and_nothing_is_sent(patient: Patient) -> None:
    with obsidian(patient.beside) as known, obsidian(patient.beside) as stranger:
        store_secret(patient.home, vault.CERTIFICATE, known.pem)
        store_secret(patient.home, vault.KEY, KEY)
        patient.environ["FILROUGE_NOTES_FOLDER"] = stranger.address
        saw(patient.finding("Vault: Obsidian"), "fail", "another certificate", f"--trust {stranger.address}")
        assert stranger.asked == []


def test_an_obsidian_that_hangs_holds_nobody_up(patient: Patient) -> None:
    with obsidian(patient.beside) as known, socket.create_server(("127.0.0.1", 0)) as silent:
        store_secret(patient.home, vault.CERTIFICATE, known.pem)
        store_secret(patient.home, vault.KEY, KEY)
        patient.environ["FILROUGE_NOTES_FOLDER"] = f"https://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        saw(patient.finding("Vault: Obsidian"), "fail", "does not answer", "Start it")
        assert time.monotonic() - began < 15


def test_the_daemon_s_look_is_told(patient: Patient, folder: Path) -> None:
    assert "no daemon answers" in patient.finding("Vault: last look").cause
    with watched(patient, folder) as api:
        assert patient.finding("Vault: last look").cause == "1 notes"
        later = SystemClock().now() + timedelta(hours=1)
        saw(
            patient.finding("Vault: last look", now=later),
            "warn",
            "the daemon last looked at the vault at",
            "filrouge daemon stop",
        )
        gone = folder.rename(folder.parent / "Moved")
        Watch(api.parts).scan()
        saw(patient.finding("Vault: last look"), "fail", f"The vault {folder} cannot be read", "filrouge notes")
        assert gone.is_dir()


def test_a_note_that_is_always_brought_and_is_not_there_is_told_without_its_name(
    patient: Patient, folder: Path
) -> None:
    with watched(patient, folder, "Proxy"):
        assert patient.finding("Vault: notes that are always brought").cause == "1 notes are always brought"
    with watched(patient, folder, "Proxy", "Zqsecretplan"):
        found = patient.finding("Vault: notes that are always brought")
    saw(found, "warn", "1 of 2 notes", "`filrouge notes` names them")
    assert "Zqsecretplan" not in json.dumps(found.to_json())


def test_troubles_of_single_notes_are_counted_by_kind_without_their_names(patient: Patient, folder: Path) -> None:
    with watched(patient, folder):
        assert patient.finding("Vault: single notes").cause == "all notes could be read"
    for number in range(3):
        (folder / f"Zqbread{number}.md").write_text("---\na: [\n---\nDough.", encoding="utf-8")
    (folder / "Zqlink.md").symlink_to(written(patient.beside / "outside.md", "x"))
    with watched(patient, folder):
        found = patient.finding("Vault: single notes")
    saw(
        found, "note", "4 notes could not be read completely: 3 × its frontmatter is not valid YAML", "`filrouge notes`"
    )
    assert "1 × it is a link to a file outside of the vault" in found.cause
    assert "Zq" not in json.dumps(found.to_json())


class Unlooked(Daemon):
    """A daemon in its first moment, which a real one leaves within a second."""

    def ask(self, path: str) -> dict[str, Any]:
        return {"folder": "/notes", "problem": "", "is_there": False, "looked_at": None, "waiting": 0}


def test_a_vault_that_was_never_looked_at_is_told(patient: Patient, folder: Path) -> None:
    scene = replace(patient.scene(), daemon=Unlooked(patient.home))
    [looked, brought] = examine(scene, [NAMED["Vault: last look"], NAMED["Vault: notes that are always brought"]])
    saw(looked, "warn", "has not looked at the vault yet", "filrouge logs")
    assert (brought.state, brought.cause) == ("ok", "unknown until the vault is read")
