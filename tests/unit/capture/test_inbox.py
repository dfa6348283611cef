"""The spool keeps every whole record, whatever happened to the last."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.capture import inbox
from tests.support.tiers import examples

EVENTS: list[dict[str, Any]] = [{"id": "a", "text": "héhé \ud800 \x00"}, {"id": "b", "n": [1, None]}, {"id": "c"}]


def raw_of(directory: Path, event: dict[str, Any]) -> bytes:
    return Path(inbox.append_event(str(directory), event)).read_bytes()


def test_an_event_comes_back_as_it_was_in_a_private_file(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    path = inbox.append_event(str(spool), EVENTS[0])
    assert inbox.read_spool_file(path) == inbox.SpoolFile([EVENTS[0]], torn=False, bad=0)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(spool).st_mode) == 0o700
    assert inbox.waiting_files(str(spool)) == [path]


def test_files_wait_oldest_first(tmp_path: Path) -> None:
    paths = [inbox.append_event(str(tmp_path), event) for event in EVENTS]
    (tmp_path / "99999-5.log").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    assert inbox.waiting_files(str(tmp_path)) == [str(tmp_path / "99999-5.log"), *paths]
    inbox.remove_spool_file(paths[0])
    inbox.remove_spool_file(paths[0])
    assert inbox.waiting_files(str(tmp_path))[1:] == paths[1:]
    assert inbox.read_spool_file(paths[0]) == inbox.SpoolFile([], torn=False, bad=0)
    assert inbox.waiting_files(str(tmp_path / "none")) == []


def test_a_file_that_a_hook_never_finished_is_found_later(tmp_path: Path) -> None:
    whole = Path(inbox.append_event(str(tmp_path), EVENTS[2]))
    part = whole.rename(whole.with_suffix(".part"))
    assert inbox.waiting_files(str(tmp_path)) == []
    assert inbox.waiting_files(str(tmp_path), abandoned_before=time.time() + 5) == [str(part)]
    assert inbox.read_spool_file(str(part)).events == [EVENTS[2]]


def test_a_record_cut_at_any_byte_costs_only_itself(tmp_path: Path) -> None:
    first, last = (raw_of(tmp_path, event) for event in EVENTS[:2])
    for length in range(len(last)):
        found = inbox.decode_events(first + last[:length])
        assert found.events == [EVENTS[0]]
        assert found.torn == (length > 0)
        assert found.bad == 0


def test_a_record_with_a_wrong_byte_is_counted_and_the_others_kept(tmp_path: Path) -> None:
    first, middle, last = (raw_of(tmp_path, event) for event in EVENTS)
    for place in range(len(middle)):
        broken = middle[:place] + bytes([middle[place] ^ 0x55]) + middle[place + 1 :]
        found = inbox.decode_events(first + broken + last)
        assert found.events[0] == EVENTS[0]
        assert found.bad + found.torn >= 1
        assert EVENTS[1] not in found.events
        assert EVENTS[2] in found.events


@settings(max_examples=examples(200))
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_a_failure(raw: bytes) -> None:
    assert inbox.decode_events(raw).events == []
    assert inbox.decode_events(inbox.MAGIC + raw).events == []


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        inbox.append_event(str(tmp_path / "file" / "spool"), EVENTS[0])


def test_a_file_set_aside_is_kept_and_no_longer_waits(tmp_path: Path) -> None:
    path = inbox.append_event(str(tmp_path), {"id": "a"})
    inbox.set_aside(path)
    inbox.set_aside(path)
    assert inbox.waiting_files(str(tmp_path)) == []
    assert inbox.read_spool_file(path + inbox.ASIDE_SUFFIX).events == [{"id": "a"}]
