"""Writing back, in a running Filrouge: pages of the vault say what is known, and an edit there corrects it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture.service import store_events
from filrouge.core.errors import BadConfig
from filrouge.core.settings import check
from filrouge.erasure.service import ForgetRequest, forget_at_once
from filrouge.memories import changes
from filrouge.memories.changes import put_fact
from filrouge.memories.models import Memory
from filrouge.notes.pages_service import MAX_DELETIONS
from filrouge.notes.service import search_notes, vault_status
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import idle, running
from tests.support.given import SHOP, event, say
from tests.support.waiting import eventually

PNPM = "Always use pnpm, never npm, in this repository."
#: Seconds ago: a little ahead, so that a machine that stalls has twice the time.
STILL_TYPING = -9.0
PORT = "The production port of the kiosk is 8443."


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Where a user waits a second for the next look, a test waits a twentieth."""
    for module in ("service", "pages_service"):
        monkeypatch.setattr(f"filrouge.notes.{module}._CHECK_SECONDS", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Notes").mkdir()
    return tmp_path / "Notes"


@pytest.fixture
def parts(tmp_path: Path, folder: Path) -> Generator[Parts]:
    environ = {"FILROUGE_NOTES_FOLDER": str(folder)}
    with running(str(tmp_path / "home"), environ=environ) as parts:
        change(parts, notes_write_folder="Filrouge/Memory")
        say(parts, PNPM)
        say(parts, PORT)
        yield parts


def change(parts: Parts, **settings: Any) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put(settings, parts.clock.now()))


def page(folder: Path) -> Path:
    """The page of the project, once it is there."""
    eventually("there is a page", lambda: list((folder / "Filrouge/Memory").glob("Project*.md")))
    return next((folder / "Filrouge/Memory").glob("Project*.md"))


def holds(path: Path, *words: str) -> Callable[[], bool]:
    return lambda: path.exists() and all(one in path.read_text(encoding="utf-8") for one in words)


def lacks(path: Path, word: str) -> Callable[[], bool]:
    return lambda: word not in path.read_text(encoding="utf-8")


def edit(path: Path, old: str, new: str, *, ago: float = 300.0) -> None:
    """Change a page as its user does, by now some minutes ago; it is in its place at once, with its date."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    beside = path.with_name(".edited")
    beside.write_text(text.replace(old, new), encoding="utf-8")
    age(beside, ago)
    beside.replace(path)


def age(path: Path, ago: float = 300.0) -> None:
    """Let a file be that old, so that nobody is taken to be typing in it."""
    at = time.time() - ago
    os.utime(path, (at, at))


def everything(parts: Parts) -> list[Memory]:
    return parts.readers.here(
        lambda tx: parts.memories(tx).within(project=None, user="local", everywhere=True, all_states=True)
    )


def says(parts: Parts, text: str) -> list[str]:
    """The states of the memories that say this."""
    return [one.state for one in everything(parts) if text in one.text]


def written(parts: Parts) -> dict[str, Any]:
    return parts.readers.here(lambda tx: vault_status(parts, tx))["written"]


def test_what_is_known_stands_on_a_page_of_its_project_under_its_kind(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    text = path.read_text(encoding="utf-8")
    assert text.startswith("---\nfilrouge-page: ")
    assert re.search(r"\n## Rules\n\n- .*pnpm.* \^frl-[0-9a-z]{26}\n", text)
    told: dict[str, Any] = {"folder": "Filrouge/Memory", "problem": "", "pages": 1, "memories": 2, "troubles": []}
    eventually("it is said what was written", lambda: written(parts) == told)


def test_pages_are_not_indexed_as_notes(parts: Parts, folder: Path) -> None:
    (folder / "Proxy.md").write_text("# Proxy\nCaddy forwards to the kiosk.\n", encoding="utf-8")
    eventually("they are written", holds(page(folder), "pnpm", "8443"))
    eventually("the vault is read", lambda: parts.readers.here(lambda tx: vault_status(parts, tx))["notes"] == 2)
    found = parts.readers.here(lambda tx: search_notes(parts, tx, "production port of the kiosk"))
    assert {hit.path for hit in found.hits} == {"Proxy.md"}


def test_an_edited_line_corrects_the_memory_and_says_so_in_its_history(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    before = path.read_text(encoding="utf-8").count("^frl-")
    edit(path, "8443", "9443")
    eventually("it is corrected", lambda: says(parts, "9443") == ["live"])
    assert says(parts, "8443") == ["superseded"]
    new = next(one for one in everything(parts) if "9443" in one.text)
    assert (new.made_by, new.trust) == ("user", 3)
    eventually("the line has the new memory's id", holds(path, f"^frl-{new.id.lower()}"))
    assert path.read_text(encoding="utf-8").count("^frl-") == before
    eventually("nothing is left over", lambda: written(parts)["troubles"] == [])


def test_what_changes_in_the_memory_changes_on_the_page_and_nothing_else_does(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    edit(path, "---\n\n# ", "tags:\n  - mine\naliases: [Kiosk]\n---\n\nA word of mine.\n\n# ")
    edit(path, "## Rules\n", "## Rules\n\n> because of the lockfile\n")
    say(parts, "The production port of the kiosk is now 9555, no longer 8443.")
    eventually("the page follows", holds(path, "9555"))
    eventually("the old words are gone", lacks(path, "is 8443"))
    text = path.read_text(encoding="utf-8")
    assert "tags:\n  - mine\naliases: [Kiosk]\n---\n\nA word of mine.\n\n# " in text
    assert "## Rules\n\n> because of the lockfile\n" in text


def test_what_both_sides_changed_is_left_as_it_stands_and_named(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    old = next(one for one in everything(parts) if "8443" in one.text)
    edit(path, "8443", "7000", ago=STILL_TYPING)
    new = changes.supersede(parts, old.id, "The production port of the kiosk is 9443.")
    os.utime(path, (time.time() - 300, time.time() - 300))
    eventually("it is named", lambda: [one["memory_id"] for one in written(parts)["troubles"]] == [old.id])
    assert "changed here and in the memory" in written(parts)["troubles"][0]["trouble"]
    text = path.read_text(encoding="utf-8")
    assert "7000" in text
    assert "9443" not in text
    assert says(parts, "9443") == ["live"]
    changes.supersede(parts, new.new_id, PORT.replace("8443", "7000"))
    eventually("both say the same", lambda: written(parts)["troubles"] == [])
    assert path.read_text(encoding="utf-8").count("7000") == 1


def test_a_line_in_conflict_that_is_removed_comes_back_with_the_memorys_words(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    old = next(one for one in everything(parts) if "8443" in one.text)
    edit(path, "8443", "7000", ago=STILL_TYPING)
    changes.supersede(parts, old.id, "The production port of the kiosk is 9443.")
    os.utime(path, (time.time() - 300, time.time() - 300))
    eventually("it is named", lambda: written(parts)["troubles"])
    line = next(line for line in path.read_text(encoding="utf-8").splitlines() if "7000" in line)
    edit(path, f"{line}\n", "")
    eventually("the memory's words are there", holds(path, "9443"))
    assert says(parts, "9443") == ["live"]
    eventually("nothing is named", lambda: written(parts)["troubles"] == [])


def test_a_line_that_is_removed_goes_into_the_bin_and_back(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    line = next(line for line in path.read_text(encoding="utf-8").splitlines() if "8443" in line)
    edit(path, f"{line}\n", "")
    eventually("it is in the bin", lambda: says(parts, "8443") == ["binned"])
    assert says(parts, "pnpm") == ["live"]
    gone = next(one for one in everything(parts) if "8443" in one.text)
    changes.restore(parts, gone.id)
    eventually("it is written again", holds(path, "8443"))


def test_many_lines_that_go_at_once_take_no_memory_along(parts: Parts, folder: Path) -> None:
    for number in range(MAX_DELETIONS + 1):
        say(parts, f"We decided that worker {number} of the kiosk listens on port {7100 + number}.")
    path = page(folder)
    eventually("all are there", holds(path, *(str(7100 + number) for number in range(MAX_DELETIONS + 1))))
    head = path.read_text(encoding="utf-8").split("\n## ")[0]
    path.write_text(head + "\n", encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    eventually("it is named", lambda: "removed at once" in str(written(parts)["troubles"]))
    assert says(parts, "port 71") == ["live"] * (MAX_DELETIONS + 1)
    say(parts, "We decided that the cellar of the kiosk is painted green.")
    eventually("what is new is written", holds(path, "green"))
    assert "7100" not in path.read_text(encoding="utf-8")


def test_a_page_that_is_removed_stays_away_until_it_is_asked_for(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    path.unlink()
    eventually("it is named", lambda: "was removed" in str(written(parts)["troubles"]))
    assert (says(parts, "pnpm"), says(parts, "8443")) == (["live"], ["live"])
    assert not path.exists()
    parts.vault.anew.set()
    eventually("it is written again", holds(path, "pnpm", "8443"))


def test_a_page_may_be_renamed(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    age(path)
    path.rename(path.with_name("My kiosk.md"))
    say(parts, "We decided that the cellar of the kiosk is painted green.")
    eventually("the page is followed", holds(path.with_name("My kiosk.md"), "green"))
    assert not path.exists()


def test_what_is_forgotten_is_taken_out_of_the_page(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    forget_at_once(parts, ForgetRequest(text="8443"))
    eventually("it is gone", lacks(path, "8443"))
    assert "pnpm" in path.read_text(encoding="utf-8")


def test_what_was_forgotten_while_nothing_was_written_goes_from_the_page_afterwards(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", lambda: written(parts)["memories"] == 2)
    change(parts, notes_write_folder="")
    eventually("it rests", lambda: written(parts)["pages"] == 0)
    age(path)
    forget_at_once(parts, ForgetRequest(text="8443"))
    change(parts, notes_write_folder="Filrouge/Memory")
    eventually("it is gone", lacks(path, "8443"))


def test_what_was_forgotten_is_not_taken_in_by_an_edit(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    forget_at_once(parts, ForgetRequest(text="8443"))
    eventually("it is gone", lacks(path, "8443"))
    edit(path, PNPM, PORT)
    eventually("it is named", lambda: "forgotten text" in str(written(parts)["troubles"]))
    assert says(parts, "8443") == []
    assert says(parts, "pnpm") == ["live"]


def test_a_page_that_was_cut_off_takes_no_memory_along(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are known", lambda: written(parts)["memories"] == 2)
    path.write_text("", encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    eventually("it is named", lambda: "filrouge-page" in str(written(parts)["troubles"]))
    assert (says(parts, "pnpm"), says(parts, "8443")) == (["live"], ["live"])


def test_a_line_that_was_moved_into_a_file_of_the_users_own_stays_there(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are known", lambda: written(parts)["memories"] == 2)
    line = next(line for line in path.read_text(encoding="utf-8").splitlines() if "8443" in line)
    mine = path.with_name("Mine.md")
    mine.write_text(f"mine\n{line}\n", encoding="utf-8")
    edit(path, f"{line}\n", "")
    say(parts, "We decided that the cellar of the kiosk is painted green.")
    eventually("what is new is written", holds(path, "green"))
    assert mine.read_text(encoding="utf-8") == f"mine\n{line}\n"
    assert says(parts, "8443") == ["live"]


def test_a_file_that_is_no_text_keeps_nothing_from_being_taken_in(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    path.with_name("Odd.md").write_bytes(b"\xff\xfe\x00 no text")
    line = next(line for line in path.read_text(encoding="utf-8").splitlines() if "8443" in line)
    edit(path, f"{line}\n", "")
    eventually("it is in the bin", lambda: says(parts, "8443") == ["binned"])


def test_a_page_with_a_date_of_tomorrow_is_read(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    edit(path, "8443", "9443")
    os.utime(path, (time.time() + 90_000, time.time() + 90_000))
    eventually("it is corrected", lambda: says(parts, "9443") == ["live"])


def test_a_core_fact_is_corrected_with_or_without_its_name(parts: Parts, folder: Path) -> None:
    put_fact(parts, "kiosk_colour", "green", names=SHOP, scope="project")
    path = page(folder)
    eventually("it is there", holds(path, "kiosk\\_colour: green"))
    edit(path, "kiosk\\_colour: green", "teal")
    eventually("it is corrected", lambda: says(parts, "kiosk_colour: teal") == ["live"])
    eventually("the line has its name again", holds(path, "kiosk\\_colour: teal"))
    edit(path, "colour: teal", "colour: white")
    eventually("it is corrected again", lambda: says(parts, "kiosk_colour: white") == ["live"])
    assert written(parts)["troubles"] == []


def test_a_session_that_was_summed_up_stands_on_the_page_of_its_month(parts: Parts, folder: Path) -> None:
    store_events(parts, [event("session_end", reason="exit")]).result(60)
    idle(parts)
    eventually("there is a page of sessions", lambda: list((folder / "Filrouge/Memory").glob("Sessions 20*.md")))


def test_a_secret_in_an_edited_line_is_not_taken_in(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    edit(path, "8443", "8443 and the password is hunter2-Tr0ub4dor")
    eventually("it is named", lambda: "secret" in str(written(parts)["troubles"]))
    assert says(parts, "8443") == ["live"]
    assert says(parts, "Tr0ub4dor") == []
    assert "Tr0ub4dor" in path.read_text(encoding="utf-8")


def test_a_page_that_its_user_is_writing_is_left_alone(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    edit(path, "8443", "94", ago=STILL_TYPING)
    say(parts, "We decided that the cellar of the kiosk is painted green.")
    time.sleep(0.5)  # ten looks
    assert says(parts, "8443") == ["live"]
    assert "green" not in path.read_text(encoding="utf-8")
    edit(path, " 94", " 9443")
    eventually("the whole word is taken in", lambda: says(parts, "9443") == ["live"])
    eventually("and what waited is written", holds(path, "green"))


def test_a_file_of_somebody_else_under_that_name_is_not_touched(tmp_path: Path, folder: Path) -> None:
    mine = folder / "Filrouge" / "Project shop.md"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    with running(str(tmp_path / "home"), environ={"FILROUGE_NOTES_FOLDER": str(folder)}) as parts:
        say(parts, PNPM)
        change(parts, notes_write_folder="Filrouge")
        eventually("another name is taken", holds(folder / "Filrouge" / "Project shop (2).md", "pnpm"))
    assert mine.read_text(encoding="utf-8") == "mine"


def test_pages_of_before_are_taken_up_and_nothing_stands_twice(parts: Parts, folder: Path) -> None:
    path = page(folder)
    eventually("both are there", holds(path, "pnpm", "8443"))
    before = path.read_text(encoding="utf-8")
    change(parts, notes_write_folder="")
    eventually("it rests", lambda: written(parts)["pages"] == 0)
    assert path.read_text(encoding="utf-8") == before
    edit(path, "8443", "9443")
    change(parts, notes_write_folder="Filrouge/Memory")
    eventually("what was edited meanwhile corrects", lambda: says(parts, "9443") == ["live"])
    eventually("all is known", lambda: written(parts)["memories"] == 2)
    assert path.read_text(encoding="utf-8").count("^frl-") == 2


def test_nothing_is_written_through_a_link_that_leads_out_of_the_vault(tmp_path: Path, folder: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "Filrouge").symlink_to(outside)
    with running(str(tmp_path / "home"), environ={"FILROUGE_NOTES_FOLDER": str(folder)}) as parts:
        say(parts, PNPM)
        change(parts, notes_write_folder="Filrouge")
        eventually("it is named", lambda: "cannot be written" in str(written(parts)["troubles"]))
    assert list(outside.iterdir()) == []


def test_nothing_is_written_unless_a_folder_is_named(tmp_path: Path, folder: Path) -> None:
    with running(str(tmp_path / "home"), environ={"FILROUGE_NOTES_FOLDER": str(folder)}) as parts:
        say(parts, PNPM)
        eventually("the vault is looked at", lambda: parts.readers.here(lambda tx: vault_status(parts, tx))["is_there"])
        assert written(parts)["folder"] == ""
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "/..", ".obsidian", "a/./b", "a//b", "~", "c:\\x"])
def test_a_folder_that_is_none_of_the_vaults_is_refused(name: str) -> None:
    with pytest.raises(BadConfig, match="notes_write_folder"):
        check({"notes_write_folder": name}, where="stored")
