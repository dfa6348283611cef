"""A symbolic link inside the home is not followed: what it names is neither written nor read, and it is named.

The home itself may be a link that its user made.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import filrouge
from filrouge.capture import inbox
from filrouge.core import paths as places
from filrouge.core.errors import CannotWrite
from filrouge.erasure.tombstones import HomeKey, Tombstone, TombstoneFile
from filrouge.hosts import hook_input
from tests.reliability.processes import environment, hook, lock_holder, prompt, run, servers, throw_away_home

TREASURE = b'{"auto_capture": false, "not": "ours"}'
STONE = Tombstone(hash=bytes(32), kind="row", at=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def home() -> Iterator[str]:
    with throw_away_home() as path:
        places.make_private(path)
        yield path


def planted(home: str, name: str) -> Path:
    """A link in the home to something of the user's outside it."""
    target = Path(home).parent / "elsewhere"
    if name in places.FOLDERS:
        target.mkdir()
    else:
        target.write_bytes(TREASURE)
    (Path(home) / name).symlink_to(target)
    return target


def content(target: Path) -> object:
    return sorted(target.iterdir()) if target.is_dir() else target.read_bytes()


@pytest.mark.parametrize("name", [*places.FILES, *places.FOLDERS])
def test_a_home_with_a_link_in_it_is_not_opened_and_the_link_is_named(home: str, name: str) -> None:
    target = planted(home, name)
    before = content(target)
    with pytest.raises(CannotWrite, match="symbolic link") as caught, filrouge.opened(home):
        pass
    assert os.path.join(home, name) in caught.value.message
    assert content(target) == before


@pytest.mark.parametrize("name", [places.DATABASE, places.FORGOTTEN, places.SPOOL])
def test_commands_and_daemons_write_nothing_through_a_link_and_name_it(home: str, name: str) -> None:
    target = planted(home, name)
    before = content(target)
    by_hand = subprocess.run(
        [sys.executable, "-m", "filrouge.server"], env=environment(home), capture_output=True, text=True, check=False
    )
    for code, said in ((by_hand.returncode, by_hand.stderr), *_commands(home)):
        assert code == CannotWrite.exit_code
        assert os.path.join(home, name) in said
        assert "symbolic link" in said
    assert content(target) == before
    assert (lock_holder(home), servers(home)) == (0, [])


def _commands(home: str) -> Iterator[tuple[int, str]]:
    for words in (("recall", "anything"), ("daemon", "start")):
        done = run(home, *words)
        yield done.code, done.err


WRITERS: dict[str, Callable[[str], object]] = {
    places.LOST_EVENTS: lambda home: inbox.add_losses(home, "failed"),
    places.FORGOTTEN: lambda home: TombstoneFile(home).append([STONE]),
    f"{places.FORGET_KEY}.new": lambda home: HomeKey(home).get_or_create(),
    places.FORGET_KEY: lambda home: HomeKey(home).read(),
    places.VAULT_KEY: lambda home: places.store_secret(home, places.VAULT_KEY, "a key"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_that_is_planted_later_is_not_followed(home: str, name: str) -> None:
    target = planted(home, name)
    with pytest.raises(OSError, match="symbolic links"):
        WRITERS[name](home)
    assert target.read_bytes() == TREASURE


def test_a_hook_neither_spools_through_a_link_nor_reads_settings_through_one(home: str) -> None:
    target = planted(home, places.SPOOL)
    ended = hook(home, prompt(home, "s", "p1", "the almanac service listens on port 19031"))
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert list(target.iterdir()) == []
    target.rmdir()
    planted(home, places.HOOK_SETTINGS)
    assert hook_input.settings_of(home).auto_capture


def test_a_spool_file_that_is_a_link_is_not_read(home: str) -> None:
    spool = os.path.join(home, places.SPOOL)
    path = inbox.append_event(spool, {"key": "prompt:1"})
    moved = os.path.join(home, "moved")
    os.rename(path, moved)
    os.symlink(moved, path)
    with pytest.raises(OSError, match="symbolic links"):
        inbox.read_spool_file(path)


def test_a_home_that_its_user_linked_elsewhere_works_and_holds_what_is_looked_at_for_links(home: str) -> None:
    link = os.path.join(os.path.dirname(home), "link")
    os.symlink(home, link)
    try:
        assert run(link, "remember", "the almanac service listens on port 19031").code == 0
        assert "19031" in run(link, "facts").out
        assert run(link, "forget", "almanac", "--yes").code == 0
        assert {places.FORGET_KEY, places.FORGOTTEN} <= set(os.listdir(home))
        assert set(os.listdir(home)) <= {*places.FILES, *places.FOLDERS, places.SOCKET}
    finally:
        assert run(link, "daemon", "stop").code == 0
