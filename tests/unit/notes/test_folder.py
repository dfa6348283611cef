"""A vault as a folder: its notes are read, and nothing outside of it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from filrouge.core.errors import NotFound, Stale, VaultUnavailable
from filrouge.notes.pages import MAX_CHARACTERS
from filrouge.notes.vault import FolderVault

SECRET = "outside of every vault"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vault = tmp_path / "vault"
    (vault / "work" / "deep").mkdir(parents=True)
    (tmp_path / "secret.md").write_text(SECRET, encoding="utf-8")
    for place in (".obsidian", ".trash", ".git", "work/.hidden"):
        (vault / place).mkdir()
        (vault / place / "a.md").write_text(SECRET, encoding="utf-8")
    (vault / "Été.md").write_text("---\ntags: A\n---\nLa plage. #Mer/Nord\n", encoding="utf-8")
    (vault / "work" / "deep" / "b.md").write_text("Deep.", encoding="utf-8")
    (vault / "work" / "picture.png").write_bytes(b"no note")
    (vault / ".hidden.md").write_text(SECRET, encoding="utf-8")
    return vault


def test_its_notes_are_the_markdown_files_outside_of_dot_folders(folder: Path) -> None:
    assert set(FolderVault(str(folder)).list().stamps) == {"Été.md", "work/deep/b.md"}


def test_a_note_is_read_with_its_tags(folder: Path) -> None:
    note = FolderVault(str(folder)).read("Été.md")
    assert (note.title, note.tags, note.text) == ("Été", ("a", "mer/nord"), "La plage. #Mer/Nord\n")
    assert note.stamp == FolderVault(str(folder)).list().stamps["Été.md"]


def test_those_written_last_come_first(folder: Path) -> None:
    os.utime(folder / "Été.md", (10, 10))
    os.utime(folder / "work/deep/b.md", (20, 20))
    assert list(FolderVault(str(folder)).list().stamps) == ["work/deep/b.md", "Été.md"]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md", "work/../../secret.md", "/etc/hosts.md", "", ".md", "work", "work/", ".trash/a.md",
        "work/.hidden/a.md", "work//deep/b.md", "./Été.md", "link.md", "linked/secret.md", "work/picture.png",
        "nowhere.md", "Été.md/b.md", "pipe.md", "a\0.md",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_it(folder: Path, path: str) -> None:
    (folder / "link.md").symlink_to(folder.parent / "secret.md")
    (folder / "linked").symlink_to(folder.parent, target_is_directory=True)
    os.mkfifo(folder / "pipe.md")
    with pytest.raises((NotFound, VaultUnavailable)):
        FolderVault(str(folder)).read(path)


def test_a_link_that_leads_out_is_refused_and_said(folder: Path) -> None:
    (folder / "link.md").symlink_to(folder.parent / "secret.md")
    (folder / "linked").symlink_to(folder.parent, target_is_directory=True)
    (folder / "within.md").symlink_to(folder / "Été.md")
    (folder / "work" / "round").symlink_to(folder, target_is_directory=True)
    listing = FolderVault(str(folder)).list()
    assert set(listing.stamps) == {"Été.md", "work/deep/b.md"}
    assert dict(listing.problems) == dict.fromkeys(("link.md", "linked"), "it is a link to a file outside of the vault")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(VaultUnavailable, match="nowhere"):
        FolderVault(str(tmp_path / "nowhere")).list()


def test_a_name_in_no_known_letters_is_passed_over_and_said(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/caf\xe9.md", "wb") as file:
        file.write(b"coffee")
    listing = FolderVault(str(folder)).list()
    assert len(listing.stamps) == 2
    assert list(listing.problems.values()) == ["its name is not UTF-8"]


def test_whatever_bytes_a_note_has_it_is_read(folder: Path) -> None:
    (folder / "odd.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree \xff")
    assert FolderVault(str(folder)).read("odd.md").text == "one\ntwo\nthree �"


def test_of_a_book_the_beginning_is_searched_and_that_is_said(folder: Path) -> None:
    (folder / "book.md").write_text("word " * MAX_CHARACTERS, encoding="utf-8")
    (folder / "large.md").write_text("word " * 20_000, encoding="utf-8")
    assert str(MAX_CHARACTERS) in FolderVault(str(folder)).read("book.md").problem
    assert FolderVault(str(folder)).read("large.md").problem == ""


def test_a_date_beyond_all_dates_keeps_no_note_away(folder: Path) -> None:
    os.utime(folder / "Été.md", (2**33, 2**33))
    assert FolderVault(str(folder)).read("Été.md").changed.year == 2100


def test_a_page_is_written_where_it_was_read_and_its_folders_are_made(tmp_path: Path) -> None:
    vault = FolderVault(str(tmp_path))
    vault.write("a/b/Page.md", "one\r\n", before=None)
    assert (tmp_path / "a/b/Page.md").read_bytes() == b"one\r\n"
    (tmp_path / "a/b/Page.md").chmod(0o640)
    vault.write("a/b/Page.md", "two\n", before="one\r\n")
    assert vault.content("a/b/Page.md").text == "two\n"
    assert (tmp_path / "a/b/Page.md").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "a/b") == ["Page.md"]
    assert list(vault.list("a").stamps) == ["a/b/Page.md"]
    assert list(vault.list("elsewhere").stamps) == []


@pytest.mark.parametrize("before", [None, "what was read"])
def test_a_page_that_was_written_meanwhile_is_not_written_over(tmp_path: Path, before: str | None) -> None:
    (tmp_path / "Page.md").write_text("theirs")
    with pytest.raises(Stale, match=r"Page\.md"):
        FolderVault(str(tmp_path)).write("Page.md", "ours", before=before)
    assert (tmp_path / "Page.md").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["Page.md"]


@pytest.mark.parametrize("path", ["../out.md", "a/../../out.md", ".obsidian/x.md", "/etc/x.md", "linked/x.md"])
def test_nothing_is_written_outside(tmp_path: Path, path: str) -> None:
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    vault.mkdir()
    outside.mkdir()
    (vault / "linked").symlink_to(outside)
    with pytest.raises(VaultUnavailable):
        FolderVault(str(vault)).write(path, "ours", before=None)
    assert os.listdir(outside) == []
    assert sorted(os.listdir(tmp_path)) == ["outside", "vault"]


def test_a_vault_that_is_gone_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(VaultUnavailable):
        FolderVault(str(tmp_path / "gone")).write("Page.md", "ours", before=None)
    with pytest.raises(VaultUnavailable):
        FolderVault(str(tmp_path / "gone")).list("a")
    assert os.listdir(tmp_path) == []
