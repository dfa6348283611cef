"""`filrouge repair` says what it would save and lose before it asks, and is taken back as it was done."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core import paths as places
from filrouge.daemon import client
from filrouge.maintenance import backup_files
from filrouge.maintenance.repair import diagnose

from .processes import daemon, eventually, hook, is_up, kill, lock_holder, prompt, quiet, run, spooled, throw_away_home
from .terminals import asked, at_a_terminal

pytestmark = pytest.mark.slow

ROOMS = 12


@pytest.fixture(scope="module")
def template() -> Generator[str]:
    """A home whose memory has lost a page of an index; each test gets a copy."""
    with throw_away_home() as home:
        with daemon(home):
            items = [{"text": f"Server number{n} stands in room {n}"} for n in range(ROOMS)]
            told = {"items": items, "scope": "user"}
            assert client.request(home, "POST", "/api/memory/facts", told, 10.0).status < 300
            eventually("all is understood", lambda: quiet(home))
        damage(home)
        yield home


@pytest.fixture
def damaged(template: str) -> Generator[str]:
    """A home whose memory has lost a page of an index."""
    with throw_away_home() as home:
        shutil.copytree(template, home)
        yield home


@pytest.fixture(scope="module")
def repaired_template(template: str) -> Generator[str]:
    """The same home after a repair, whose damaged files are kept; each test gets a copy."""
    with throw_away_home() as home:
        shutil.copytree(template, home)
        assert run(home, "repair", "--yes").code == 0
        yield home


@pytest.fixture
def repaired(repaired_template: str) -> Generator[str]:
    """A home that was repaired, and whose damaged files are kept."""
    with throw_away_home() as home:
        shutil.copytree(repaired_template, home)
        yield home


def damage(home: str) -> None:
    path = os.path.join(home, places.DATABASE)
    connection: Any = apsw.Connection(path)
    (page,) = connection.execute("select pageno from dbstat where name = 'turns_by_session'").fetchone()
    connection.close()
    with open(path, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(random.Random(7).randbytes(4096))


def content(home: str) -> bytes:
    return Path(home, places.DATABASE).read_bytes()


def said(home: str) -> list[str]:
    """What was said in sessions."""
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [text for (text,) in connection.execute("select text from turns where host <> 'cli' order by seq")]
    finally:
        connection.close()


def kept(home: str) -> list[str]:
    return [one.name for one in backup_files.list_backups(home)]


def left_lying(home: str) -> list[str]:
    return [name for name in os.listdir(home) if name.startswith(".new-")]


def test_the_plan_is_shown_before_it_is_asked_and_no_changes_nothing(damaged: str) -> None:
    before = content(damaged)
    done = at_a_terminal(damaged, "repair", typed="n\n")
    assert done.code == 0, done.err
    found, saved, question = (
        done.out.index(word) for word in ("Found:", f"memories\t{ROOMS}\t0", "Replace the memory")
    )
    assert found < saved < question
    assert done.out.endswith("Nothing was changed.\n")
    assert "Checking a copy" in done.err
    assert (content(damaged), kept(damaged), left_lying(damaged)) == (before, [], [])


def test_yes_at_a_terminal_repairs_what_the_plan_said(damaged: str) -> None:
    done = at_a_terminal(damaged, "repair", typed="y\n")
    assert done.code == 0, done.err
    [name] = kept(damaged)
    assert done.out.endswith(f"Repaired. The damaged files are kept: backups/{name}.db\n")
    assert (diagnose(damaged), left_lying(damaged)) == ([], [])


def test_a_terminal_that_goes_away_at_the_question_changes_nothing(damaged: str) -> None:
    before = content(damaged)
    done = at_a_terminal(damaged, "repair", typed="\x04")
    assert (done.code, "Replace the memory" in done.out) == (130, True)
    assert (content(damaged), kept(damaged), left_lying(damaged)) == (before, [], [])


def test_where_nobody_can_be_asked_a_damaged_memory_stays_as_it_is(damaged: str) -> None:
    before = content(damaged)
    for words in (("repair",), ("repair", "--json")):
        done = run(damaged, *words)
        assert (done.code, done.out, "--yes" in done.err, "--dry-run" in done.err) == (2, "", True, True)
    assert (content(damaged), kept(damaged)) == (before, [])


def test_a_dry_run_shows_the_plan_and_asks_nothing(damaged: str) -> None:
    before = content(damaged)
    done = run(damaged, "repair", "--dry-run")
    assert done.code == 0, done.err
    assert f"memories\t{ROOMS}\t0" in done.out
    assert done.out.endswith("Nothing was changed.\n")
    told = json.loads(run(damaged, "repair", "--dry-run", "--json").out)
    assert (told["done"], told["kept"], told["tables"]) == (False, None, told["plan"]["tables"])
    assert content(damaged) == before


def test_a_program_gets_the_plan_and_what_was_done(damaged: str) -> None:
    told = json.loads(run(damaged, "repair", "--yes", "--json").out)
    assert told["done"] is True
    assert told["plan"] == {key: told[key] for key in ("found", "tables", "vectors", "redacted")} | {"kept": None}
    assert kept(damaged) == [told["kept"]]


def test_a_sound_memory_is_not_asked_about(repaired: str) -> None:
    before = content(repaired)
    assert at_a_terminal(repaired, "repair", typed="y\n").out == "Nothing is wrong.\n"
    done = run(repaired, "repair")
    assert (done.code, done.out) == (0, "Nothing is wrong.\n")
    assert json.loads(run(repaired, "repair", "--json").out)["done"] is False
    assert content(repaired) == before


def test_a_daemon_makes_room_for_the_question_and_comes_back(repaired: str) -> None:
    with daemon(repaired):
        was = lock_holder(repaired)
        assert at_a_terminal(repaired, "repair", "--all", typed="n\n").out.endswith("Nothing was changed.\n")
        eventually("another daemon answers", lambda: is_up(repaired) and lock_holder(repaired) not in (0, was))


def test_a_repair_is_taken_back_after_it_is_asked_and_only_once(damaged: str, repaired: str) -> None:
    before = content(damaged)
    was, [damage_kept] = content(repaired), kept(repaired)
    shown = run(repaired, "repair", "--undo", "--dry-run")
    assert (shown.code, damage_kept in shown.out) == (0, True)
    refused = run(repaired, "repair", "--undo")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert at_a_terminal(repaired, "repair", "--undo", typed="n\n").out.endswith("Nothing was changed.\n")
    assert content(repaired) == was

    done = at_a_terminal(repaired, "repair", "--undo", typed="y\n")
    assert done.code == 0, done.err
    assert content(repaired) == before
    [now, _] = kept(repaired)
    assert done.out.endswith(f"filrouge restore {now}\n")
    again = run(repaired, "repair", "--undo", "--yes")
    assert (again.code, "no repair to undo" in again.err) == (1, True)
    assert run(repaired, "restore", now, "--yes").code == 0
    assert diagnose(repaired) == []


def test_what_is_said_between_repair_and_undo_is_in_the_backup_that_is_named(repaired: str) -> None:
    with daemon(repaired):
        assert run(repaired, "remember", "The almanac listens on port 19031").code == 0
        eventually("it is understood", lambda: quiet(repaired))
    told = json.loads(run(repaired, "repair", "--undo", "--yes", "--json").out)
    assert told["done"] is True
    assert b"port 19031" not in content(repaired)
    assert b"port 19031" in Path(backup_files.path_of(repaired, told["kept"])).read_bytes()


def test_what_stood_in_the_log_comes_back_with_the_damaged_files(repaired: str) -> None:
    with daemon(repaired):
        assert run(repaired, "remember", "The almanac listens on port 19031").code == 0
        eventually("it is understood", lambda: quiet(repaired))
        kill(lock_holder(repaired))
    assert b"port 19031" in Path(repaired, f"{places.DATABASE}-wal").read_bytes()
    assert b"port 19031" not in content(repaired)
    told = json.loads(run(repaired, "repair", "--all", "--yes", "--json").out)
    assert os.path.exists(f"{backup_files.path_of(repaired, told['kept'])}-wal")
    undone = json.loads(run(repaired, "repair", "--undo", "--yes", "--json").out)
    assert (undone["undone"], undone["log"]) == (told["kept"], True)
    assert b"port 19031" in content(repaired)
    assert not os.path.exists(os.path.join(repaired, f"{places.DATABASE}-wal"))


def test_a_log_that_cannot_be_read_any_more_is_told_before_it_is_asked(repaired: str) -> None:
    with daemon(repaired):
        assert run(repaired, "remember", "The almanac listens on port 19031").code == 0
        kill(lock_holder(repaired))
    told = json.loads(run(repaired, "repair", "--all", "--yes", "--json").out)
    path = Path(backup_files.path_of(repaired, told["kept"]))
    log = Path(f"{path}-wal")
    for one in (path, log):
        one.write_bytes(b"no database" * 400 + one.read_bytes()[4400:])
    before = path.read_bytes(), log.read_bytes()
    done = at_a_terminal(repaired, "repair", "--undo", typed="y\n")
    assert done.out.index("Its log can no longer be read") < done.out.index("Put the damaged files back?")
    assert content(repaired) == before[0]
    assert (path.read_bytes(), log.read_bytes()) == before


def test_files_that_a_restore_kept_are_no_repair(repaired: str) -> None:
    [sound] = kept(repaired)
    made = json.loads(run(repaired, "backup", "--json").out)
    run(repaired, "daemon", "stop")
    damage(repaired)
    assert run(repaired, "restore", made["name"], "--yes").code == 0
    assert kept(repaired)[0] != sound
    done = run(repaired, "repair", "--undo", "--yes")
    assert (done.code, "no repair to undo" in done.err) == (1, True)


def test_undo_makes_nothing_anew(damaged: str) -> None:
    done = run(damaged, "repair", "--undo", "--all", "--yes")
    assert (done.code, "--undo" in done.err) == (2, True)


def test_what_is_said_while_the_question_stands_is_heard_afterwards(damaged: str) -> None:
    with asked(damaged, "repair", question="Replace the memory") as repairing:
        assert hook(damaged, prompt(damaged, "s", "1", "The ferry leaves at nine.")).code == 0
        assert [event["kind"] for event in spooled(damaged)] == ["prompt"]
        assert lock_holder(damaged) == repairing.pid
    assert repairing.returncode == 0
    eventually("the hook's daemon has gone", lambda: not lock_holder(damaged) or is_up(damaged))
    run(damaged, "daemon", "start")
    eventually("nothing waits", lambda: quiet(damaged) and not spooled(damaged))
    assert said(damaged) == ["The ferry leaves at nine."]
