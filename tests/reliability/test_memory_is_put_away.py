"""`filrouge init --reset`: the memory goes behind a proven backup, asked by a word, and all or nothing of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from filrouge.core import paths as places
from filrouge.daemon import client
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.repair import diagnose

from .processes import (
    Done,
    assert_sound,
    daemon,
    environment,
    eventually,
    hook,
    is_up,
    kill,
    lock_holder,
    prompt,
    quiet,
    reply,
    run,
    spooled,
    throw_away_home,
)
from .terminals import at_a_terminal

pytestmark = pytest.mark.slow

ROOMS: Final = 6
RESET: Final = ("init", "--host", "codex", "--reset")
#: Tables that are no memory, and go over.
STAY: Final = (
    "memory_settings",
    "tombstones",
    "tokens",
    "receipts",
    "transcripts",
    "llm_usage",
    "projects",
    "project_aliases",
)
#: Some of those that hold words, and what is made of them.
GO: Final = ("events", "turns", "memories", "evidence", "journal", "threads", "jobs", "vectors")

#: Puts a memory away in a process that ends itself, as `kill -9` would, at its N-th step on the disk.
_SUICIDE: Final = """
import os, signal, sys
from filrouge.maintenance.restore import reset
from filrouge.core.clock import SystemClock
STEPS = ("open", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "apsw.Connection", "os.truncate")
left = [int(sys.argv[2])]
def step(event, _):
    if event in STEPS:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
reset(sys.argv[1], SystemClock())
"""


@pytest.fixture(scope="module")
def template() -> Generator[str]:
    """A home that was told some things, whose daemon has gone; each test gets a copy."""
    with throw_away_home() as home:
        with daemon(home):
            items = [{"text": f"Server number{n} stands in room {n}"} for n in range(ROOMS)]
            asked = {"items": items, "scope": "user"}
            assert client.request(home, "POST", "/api/memory/facts", asked, 10.0).status < 300
            assert hook(home, prompt(home, "s", "1", "The ferry leaves at nine.")).code == 0
            eventually("all is understood", lambda: quiet(home))
        os.makedirs(os.path.join(home, ".codex"), exist_ok=True)
        yield home


@pytest.fixture
def told(template: str) -> Generator[str]:
    """A home that was told some things, whose daemon has gone."""
    with throw_away_home() as home:
        shutil.copytree(template, home)
        yield home


def put_away(home: str, *words: str) -> Done:
    return at_a_terminal(home, *RESET, "--yes", *words, typed="reset\n")


def rows(path: str) -> dict[str, int]:
    found = copies.content(path).rows
    return {table: found[table] for table in GO if found[table]}


def present(home: str) -> dict[str, int]:
    return rows(os.path.join(home, places.DATABASE))


def those_that_stay(path: str) -> dict[str, int]:
    found = copies.content(path).rows
    return {table: found[table] for table in STAY}


def said(home: str) -> list[str]:
    connection: Any = apsw.Connection(os.path.join(home, places.DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [text for (text,) in connection.execute("select text from turns order by seq")]
    finally:
        connection.close()


def kept(home: str) -> list[str]:
    return [one.name for one in backup_files.list_backups(home)]


def test_init_says_what_is_remembered_and_keeps_it(told: str) -> None:
    before = present(told)
    done = run(told, "init", "--host", "codex", "--yes")
    assert done.code == 0, done.err
    assert f"The memory of this home is kept: {ROOMS} memories and " in done.out
    again = at_a_terminal(told, "init", "--host", "codex", typed="\n\n\n\n")
    assert again.out.count("is kept: ") == 1
    assert "reset" not in again.out
    assert (present(told), kept(told)) == (before, [])
    memory = json.loads(run(told, "init", "--host", "codex", "--yes", "--json").out)["memory"]
    assert (memory["memories"], memory["reset"], memory["home"]) == (ROOMS, False, told)


def test_a_memory_is_put_away_behind_a_proven_backup_and_comes_back_by_its_name(told: str) -> None:
    before = present(told)
    done = put_away(told)
    assert done.code == 0, done.err
    shown, question = (
        done.out.index(f"puts away the memory of this home: {ROOMS} memories"),
        done.out.index("Type reset"),
    )
    assert shown < question
    [about] = backup_files.list_backups(told)
    assert f"filrouge restore {about.name}" in done.out
    assert (about.kind, about.verified) == ("hand", ("equal", "sound", "seals", "journal"))
    assert present(told) == {}
    assert diagnose(told) == []
    with daemon(told):
        eventually("nothing waits", lambda: quiet(told))
        assert json.loads(run(told, "search", "in which room is server number3", "--json").out) == []
    assert run(told, "restore", about.name, "--yes").code == 0
    assert present(told) == before
    assert_sound(told)


def test_the_doctor_finds_nothing_wrong_with_a_memory_that_began_anew(told: str) -> None:
    put_away(told)
    with daemon(told):
        assert run(told, "remember", "The almanac listens on port 19031").code == 0
        eventually("it is understood", lambda: quiet(told))
        found = json.loads(run(told, "doctor", "--deep", "--json").out)
        deep = {"Database", "Schema", "Seals", "Journal", "Vectors", "Against the backup", "Ledger"}
        assert {one["check"]: one["state"] for one in found if one["check"] in deep} == dict.fromkeys(deep, "ok")


@pytest.mark.parametrize("typed", ["\n", "y\n", "yes\n", "RESET please\n", "\x04"])
def test_another_word_changes_nothing_at_all(told: str, typed: str) -> None:
    before = present(told)
    done = at_a_terminal(told, *RESET, "--yes", typed=typed)
    assert done.code in (0, 130), done.err
    assert (present(told), kept(told)) == (before, [])
    assert os.listdir(os.path.join(told, ".codex")) == []


def test_yes_is_no_leave_where_nobody_can_be_asked(told: str) -> None:
    before = present(told)
    for words in ((*RESET, "--yes"), (*RESET, "--yes", "--json"), RESET):
        done = run(told, *words)
        assert (done.code, done.out, "terminal" in done.err, "filrouge forget" in done.err) == (2, "", True, True)
    assert at_a_terminal(told, *RESET, "--yes", "--json", typed="reset\n").code == 2
    assert (present(told), kept(told), os.listdir(os.path.join(told, ".codex"))) == (before, [], [])


def test_a_dry_run_shows_what_goes_and_a_program_may_ask_for_it(told: str) -> None:
    before = present(told)
    done = run(told, *RESET, "--dry-run")
    assert (done.code, "puts away the memory" in done.out) == (0, True)
    shown = json.loads(run(told, *RESET, "--dry-run", "--json").out)
    assert (shown["changed"], shown["memory"]["reset"], shown["memory"]["memories"]) == (False, True, ROOMS)
    assert (present(told), kept(told)) == (before, [])


def test_an_empty_home_has_nothing_to_put_away(told: str) -> None:
    os.unlink(os.path.join(told, places.DATABASE))
    done = at_a_terminal(told, *RESET, "--yes", typed="\n")
    assert (done.code, "no memory yet" in done.out, "Type reset" in done.out) == (0, True, False)


def test_reset_and_undo_are_not_one(told: str) -> None:
    done = at_a_terminal(told, *RESET, "--undo", "--yes", typed="reset\n")
    assert (done.code, kept(told)) == (2, [])


def test_settings_tokens_receipts_and_places_in_transcripts_stay(told: str) -> None:
    with daemon(told):
        assert run(told, "settings", "budget", "777").code == 0
        assert run(told, "token", "create", "--name", "ana").code == 0
        assert run(told, "forget", "Server number2 stands in room 2", "--yes").code == 0
    database = os.path.join(told, places.DATABASE)
    connection: Any = apsw.Connection(database)
    connection.execute(
        "insert into transcripts values ('/t.jsonl', 'claude-code', 's', 4711, 0, '2026-03-01T00:00:00Z')"
    )
    connection.close()
    before = those_that_stay(database)
    assert min(before[table] for table in STAY if table != "llm_usage") > 0
    assert put_away(told).code == 0
    assert those_that_stay(database) == before
    with daemon(told):
        assert "777" in run(told, "settings", "budget").out
        [token] = json.loads(run(told, "token", "list", "--json").out)["tokens"]
        assert token["name"] == "ana"
        [receipt] = json.loads(run(told, "forget", "--receipts", "--json").out)
        assert run(told, "forget", "--receipt", receipt["receipt"]).code == 0


def test_what_was_forgotten_before_stays_forgotten_in_the_backup_and_after(told: str) -> None:
    with daemon(told):
        assert run(told, "forget", "The ferry leaves at nine.", "--yes").code == 0
    assert put_away(told).code == 0
    with daemon(told):
        assert hook(told, prompt(told, "s", "1", "The ferry leaves at nine.")).code == 0
        assert hook(told, prompt(told, "s", "2", "The bridge opens at ten.")).code == 0
        eventually("nothing waits", lambda: quiet(told) and bool(said(told)))
        assert said(told) == ["The bridge opens at ten."]


def test_what_waits_in_the_spool_goes_with_the_old_memory(told: str) -> None:
    kill(lock_holder(told))
    left = environment(told, FILROUGE_URL="")
    assert hook(told, reply(told, "s", "9", "The lighthouse was painted."), **left).code == 0
    eventually("it is somewhere", lambda: bool(spooled(told)) or "lighthouse" in str(said(told)))
    assert put_away(told).code == 0
    assert "lighthouse" not in str(said(told))
    [name] = kept(told)
    assert b"lighthouse" in Path(backup_files.path_of(told, name)).read_bytes()


def test_a_daemon_makes_room_and_another_begins_with_the_empty_memory(told: str) -> None:
    with daemon(told):
        was = lock_holder(told)
        assert put_away(told).code == 0
        eventually("another daemon answers", lambda: is_up(told) and lock_holder(told) not in (0, was))
        assert hook(told, prompt(told, "new", "1", "The bridge opens at ten.")).code == 0
        eventually("it is heard", lambda: quiet(told) and said(told) == ["The bridge opens at ten."])


def test_the_history_of_an_agent_is_read_in_from_its_beginning_where_that_is_said(told: str) -> None:
    path = Path(told, ".claude/projects/-home-lea-shop/591203f2-b3a2-4f34-a08e-8b05a7af2b3d.jsonl")
    path.parent.mkdir(parents=True)
    line = {
        "type": "user",
        "uuid": "u-1",
        "sessionId": "591203f2-b3a2-4f34-a08e-8b05a7af2b3d",
        "timestamp": "2026-10-01T10:00:00.000Z",
        "cwd": "/home/lea/shop",
        "message": {"role": "user", "content": "The lighthouse was painted."},
    }
    path.write_text(json.dumps(line) + "\n")
    words = ("init", "--host", "claude-code", "--yes", "--backfill")
    with daemon(told):
        assert run(told, *words).code == 0
        assert "The lighthouse was painted." in said(told)
        done = at_a_terminal(told, *words, "--reset", typed="reset\n")
        assert done.code == 0, done.err
        assert said(told) == ["The lighthouse was painted."]


def test_a_damaged_memory_is_not_put_away(told: str) -> None:
    path = Path(told, places.DATABASE)
    path.write_bytes(path.read_bytes().replace(b"Server number3 stands in room 3", b"Server number3 stands in room 9"))
    before = copies.content(str(path)).hash
    done = put_away(told)
    assert (done.code, "damaged" in done.err) == (6, True)
    assert (copies.content(str(path)).hash, kept(told)) == (before, [])
    assert os.listdir(os.path.join(told, ".codex")) == []


def test_killed_at_any_step_the_memory_is_the_old_one_or_none(told: str) -> None:
    before, outcomes = present(told), list[bool]()
    for number in range(3, 400, 13):
        done = subprocess.run(
            [sys.executable, "-c", _SUICIDE, told, str(number)],
            env=environment(told),
            capture_output=True,
            check=False,
        )
        with daemon(told):
            pass
        outcomes.append(present(told) == {})
        assert present(told) in ({}, before)
        assert diagnose(told) == []
        if outcomes[-1]:
            [*_, last] = kept(told)
            assert rows(backup_files.path_of(told, last)) == before
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert outcomes[-1] is True
    assert outcomes[0] is False
