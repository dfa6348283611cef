"""Obsidian's plugin: a real server with a certificate of its own, that stops, changes, refuses and answers nonsense."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from filrouge.core.errors import BadInput, NotFound, Stale, VaultUnavailable
from filrouge.core.paths import store_secret
from filrouge.notes import vault as certificate
from filrouge.notes.pages import MAX_CHARACTERS, chunks
from filrouge.notes.vault import FolderVault, RestVault, Vaults
from tests.support.obsidian import KEY, Obsidian, obsidian

NOTE = "---\ntags: [atelier]\n---\n# Four\nLe four à pain chauffe trois heures. #cuisine\n"


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


@pytest.fixture
def app(tmp_path: Path, home: str) -> Iterator[Obsidian]:
    """A running Obsidian that is trusted, with one note in a folder."""
    with obsidian(tmp_path) as running:
        running.write("Maison/Four à pain.md", NOTE)
        store_secret(home, certificate.CERTIFICATE, running.pem)
        store_secret(home, certificate.KEY, KEY)
        yield running


def test_a_note_is_what_its_file_would_be(app: Obsidian, home: str, tmp_path: Path) -> None:
    vault = RestVault(app.address, home)
    assert list(vault.list().stamps) == ["Maison/Four à pain.md"]
    note = vault.read("Maison/Four à pain.md")
    (tmp_path / "folder/Maison").mkdir(parents=True)
    (tmp_path / "folder/Maison/Four à pain.md").write_text(NOTE)
    same = FolderVault(str(tmp_path / "folder")).read("Maison/Four à pain.md")
    assert (note.title, note.tags, note.text, note.hash) == (same.title, same.tags, same.text, same.hash)
    assert set(note.tags) == {"atelier", "cuisine"}
    assert note.stamp == vault.list().stamps[note.path]


def test_the_latest_come_first_and_what_is_no_note_is_left_out(app: Obsidian, home: str) -> None:
    app.write("b.md", "b", seconds=1_790_000_000)
    for path in (".obsidian/x.md", ".trash/y.md", "../z.md", "image.png", "a//b.md"):
        app.write(path, "no note")
    assert list(RestVault(app.address, home).list().stamps) == ["b.md", "Maison/Four à pain.md"]


def test_a_note_that_was_written_has_another_stamp(app: Obsidian, home: str) -> None:
    before = RestVault(app.address, home).list().stamps
    app.write("Maison/Four à pain.md", NOTE + "plus", seconds=1_790_000_000)
    assert RestVault(app.address, home).list().stamps != before


def test_a_vault_is_not_asked_at_every_look(app: Obsidian, home: str) -> None:
    vaults = Vaults(home)
    for _ in range(5):
        vaults(app.address).list()
    assert app.asked == ["/search/"]


def test_a_missing_note_is_said(app: Obsidian, home: str) -> None:
    with pytest.raises(NotFound, match="Nowhere"):
        RestVault(app.address, home).read("Nowhere.md")


def test_a_large_note_is_read_to_its_bound(app: Obsidian, home: str) -> None:
    app.write("large.md", "# Large\n" + "Le phare tourne. " * 6000)  # 100 KB
    app.write("larger.md", "x " * MAX_CHARACTERS)
    vault = RestVault(app.address, home)
    assert len(vault.read("large.md").text) > 100_000
    assert all(len(chunk.text) <= 1000 for chunk in chunks(vault.read("large.md")))
    assert "characters are searched" in vault.read("larger.md").problem


def test_a_stopped_app_is_said_and_takes_no_note_away(app: Obsidian, home: str, tmp_path: Path) -> None:
    vault = RestVault(app.address, home)
    with obsidian(tmp_path) as other:
        gone = other.address
    with pytest.raises(VaultUnavailable, match="does not answer") as told:
        RestVault(gone, home).list()
    assert "Start it" in told.value.remedy
    with pytest.raises(NotFound):  # what cannot be read for a moment is not taken out of the index
        RestVault(gone, home).read("Maison/Four à pain.md")
    assert vault.list().stamps


def test_another_certificate_is_refused_before_anything_is_sent(app: Obsidian, home: str, tmp_path: Path) -> None:
    with obsidian(tmp_path) as stranger:
        with pytest.raises(VaultUnavailable, match="another certificate") as told:
            RestVault(stranger.address, home).list()
        assert f"--trust {stranger.address}" in told.value.remedy
        assert stranger.asked == []


def test_without_a_trusted_certificate_nothing_is_sent(app: Obsidian, home: str) -> None:
    os.unlink(os.path.join(home, certificate.CERTIFICATE))
    with pytest.raises(VaultUnavailable, match="do not trust a certificate"):
        RestVault(app.address, home).list()
    assert app.asked == []


def test_a_damaged_certificate_is_said(app: Obsidian, home: str) -> None:
    store_secret(home, certificate.CERTIFICATE, "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
    with pytest.raises(VaultUnavailable, match="damaged"):
        RestVault(app.address, home).list()


def test_a_wrong_key_is_said(app: Obsidian, home: str) -> None:
    store_secret(home, certificate.KEY, "another")
    with pytest.raises(VaultUnavailable, match="rejects the key") as told:
        RestVault(app.address, home).list()
    assert "--key" in told.value.remedy


@pytest.mark.parametrize(
    "address", ["http://10.0.0.4:27123", "https://", "https://127.0.0.1:99999", "https://127.0.0.1/vault", "ftp://a"]
)
def test_an_address_that_cannot_be_used_is_refused(address: str) -> None:
    with pytest.raises(BadInput):
        certificate.host_and_port(address)


def test_a_place_without_a_scheme_is_a_folder(home: str, tmp_path: Path) -> None:
    assert isinstance(Vaults(home)(str(tmp_path)), FolderVault)


def test_a_person_trusts_the_certificate_and_enters_the_key(tmp_path: Path) -> None:
    home = tmp_path / "fresh"
    environ = {**os.environ, "FILROUGE_HOME": str(home)}

    def typed(*words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "filrouge.cli.main", "notes", *words]
        return subprocess.run(command, env=environ, input=said, capture_output=True, text=True, timeout=60, check=False)

    with obsidian(tmp_path) as app:
        app.write("a.md", "a")
        unasked = typed("--trust", app.address)
        assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
        assert not (home / certificate.CERTIFICATE).exists()
        done = typed("--trust", app.address, "--yes")
        assert done.returncode == 0, done.stderr
        assert certificate.fingerprint(app.pem) in done.stdout
        assert typed("--key", said=f"{KEY}\n").returncode == 0
        assert (home / certificate.KEY).stat().st_mode & 0o777 == 0o600
        assert list(RestVault(app.address, str(home)).list().stamps) == ["a.md"]
    assert typed("--trust", app.address, "--yes").returncode == 1  # it stopped
    assert typed("--key", said="\n").returncode == 2


def test_a_page_is_written_and_read_back(app: Obsidian, home: str) -> None:
    vault = RestVault(app.address, home)
    assert list(vault.list("Mémoire").stamps) == []
    vault.write("Mémoire/Projet né.md", "# Né\r\n", before=None)
    assert app.notes["Mémoire/Projet né.md"][0] == "# Né\r\n"
    assert vault.content("Mémoire/Projet né.md").text == "# Né\r\n"
    assert list(vault.list("Mémoire").stamps) == ["Mémoire/Projet né.md"]  # without waiting for the next look
    vault.write("Mémoire/Projet né.md", "# Neuf\n", before="# Né\r\n")
    assert vault.content("Mémoire/Projet né.md").text == "# Neuf\n"


@pytest.mark.parametrize("before", [None, "what was read"])
def test_a_page_that_somebody_else_wrote_is_not_written_over(app: Obsidian, home: str, before: str | None) -> None:
    app.write("Page.md", "theirs")
    with pytest.raises(Stale, match=r"Page\.md"):
        RestVault(app.address, home).write("Page.md", "ours", before=before)
    assert app.notes["Page.md"][0] == "theirs"
    assert not any(one.startswith("PUT") for one in app.asked)


def test_a_page_is_not_written_without_the_key_or_an_answer(app: Obsidian, home: str) -> None:
    store_secret(home, certificate.KEY, "another")
    with pytest.raises(VaultUnavailable, match="key"):
        RestVault(app.address, home).write("Page.md", "ours", before=None)
    assert "Page.md" not in app.notes
