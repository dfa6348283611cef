"""The notes of the Memory screen: the folder, what of it goes into prompts, and what is read of one note."""

from __future__ import annotations

from pathlib import Path

from filrouge.notes.service import Watch

from .conftest import Site

FUSES = "# Cellar\n\nThe fuse box is behind the wine rack. <b>#house</b>\n"


def _vault(site: Site, folder: Path) -> None:
    (folder / "Work").mkdir(parents=True)
    (folder / "Work" / "Rules.md").write_text("---\ntags: mine\n---\n# Rules\n\nNever deploy on Fridays.\n")
    (folder / "Cellar.md").write_text(FUSES)
    site.send("/memory/notes/folder", folder=str(folder), back="/dashboard/memory/notes")
    Watch(site.api.parts).scan()


def test_without_a_folder_the_page_says_what_to_do(site: Site) -> None:
    assert "No notes yet Name a folder of Markdown files above." in site.text("/memory/notes")


def test_a_note_is_found_put_into_every_prompt_and_taken_out_again(site: Site, tmp_path: Path) -> None:
    _vault(site, tmp_path / "notes")
    assert "2 notes" in site.text("/memory/notes")
    assert [hit["id"] for hit in site.twin("/memory/notes.json?q=fuse+box")["hits"]] == ["Cellar.md"]
    added = site.send("/memory/notes/add", note="Cellar.md", back="/dashboard/memory/notes")
    assert "Added. Undo" in site.follow(added)
    again = site.send("/memory/notes/add", note="Cellar", back="/dashboard/memory/notes")
    assert "in the list already" in site.follow(again)
    assert [(one["name"], one["found"]) for one in site.twin("/memory/notes.json")["always"]] == [("Cellar.md", True)]
    site.send("/memory/notes/remove", note="Cellar.md", back="/dashboard/memory/notes")
    assert site.twin("/memory/notes.json")["always"] == []
    site.send("/settings/undo", former='{"notes_paths": ["Gone"]}', back="/dashboard/memory/notes")
    assert "Gone not found" in site.text("/memory/notes")


def test_a_preview_shows_what_is_indexed_and_opens_no_other_file(site: Site, tmp_path: Path) -> None:
    _vault(site, tmp_path / "notes")
    (tmp_path / "outside.md").write_text("not yours")
    html = site.page("/memory/notes?note=Cellar.md")
    assert "behind the wine rack. &lt;b&gt;#house&lt;/b&gt;" in html
    for path in ("../outside.md", str(tmp_path / "outside.md"), "nothing.md"):
        shown = site.text(f"/memory/notes?note={path}")
        assert "There is no note" in shown
        assert "not yours" not in shown


def test_notes_are_chosen_by_tag_and_switched_off_as_a_whole(site: Site, tmp_path: Path) -> None:
    _vault(site, tmp_path / "notes")
    shown = site.text("/memory/notes")
    assert "#mine Fixed outside the dashboard (the environment)." in shown
    assert "Work/Rules.md" in shown
    site.send("/memory/notes/enabled", back="/dashboard/memory/notes")
    assert "Notes do not go into prompts; they can be searched. Switch on" in site.text("/memory/notes")
    site.send("/memory/notes/enabled", enabled="on", back="/dashboard/memory/notes")
    assert "Notes go into prompts. Switch off" in site.text("/memory/notes")
