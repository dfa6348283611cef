"""A statement that is too unsure to be remembered: kept where it replaces a memory, and only there."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from filrouge.capture.service import store_events
from filrouge.extraction.understanding import apply_reading, read_turns
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.support.given import event, say
from tests.support.mind import live

OLD, NEW = "The staging port is 8443.", "The staging port is 9443 now."


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path)) as parts:
        yield parts


def say_unsurely(parts: Parts, text: str) -> None:
    """Take in a turn whose statements are read as unsure."""
    store_events(parts, [event(session="unsure", text="Thanks!")]).result(60)
    idle(parts)
    [turn] = parts.readers.here(lambda tx: parts.turns(tx).get(sorted(parts.turns(tx).ids_of_session("unsure"))))
    [reading] = read_turns(parts, [replace(turn, text=text, skipped="")])
    unsure = tuple(
        replace(pending, statement=replace(pending.statement, only_replaces=True)) for pending in reading.pending
    )
    assert unsure
    parts.writer.run(lambda tx: apply_reading(parts, tx, replace(reading, pending=unsure)))


def test_it_replaces_the_memory_of_which_it_gives_another_value(parts: Parts) -> None:
    say(parts, OLD)
    say_unsurely(parts, NEW)
    assert [memory.text for memory in live(parts)] == [NEW]


def test_where_it_replaces_nothing_it_is_not_remembered(parts: Parts) -> None:
    say(parts, "We deploy with Ansible.")
    say_unsurely(parts, NEW)
    assert [memory.text for memory in live(parts)] == ["We deploy with Ansible."]
