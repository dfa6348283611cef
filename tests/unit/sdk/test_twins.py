"""The blocking memory is the async one for programs without an event loop: every verb, and no word of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import filrouge
from filrouge.core.errors import BadInput, Busy
from filrouge.daemon.process import is_held

from .given import WORDS_ONLY


def verbs(of: type) -> dict[str, object]:
    found = inspect.getmembers(of, inspect.isfunction)
    return {name: verb for name, verb in found if not name.startswith("_")}


def test_the_twins_have_the_same_verbs_with_the_same_parameters_defaults_and_words() -> None:
    mine, its = verbs(filrouge.Memory), verbs(filrouge.BlockingMemory)
    assert len(mine) > 25
    assert mine.keys() == its.keys()
    for name in mine:
        first, second = getattr(filrouge.Memory, name), getattr(filrouge.BlockingMemory, name)
        assert inspect.signature(first) == inspect.signature(second), name
        assert first.__doc__ == second.__doc__, name
        assert (inspect.iscoroutinefunction(first), inspect.iscoroutinefunction(second)) == (True, False), name
    assert inspect.signature(filrouge.Memory) == inspect.signature(filrouge.BlockingMemory)


@pytest.mark.parametrize("name", sorted(verbs(filrouge.Memory)))
def test_every_verb_says_what_it_does_and_takes_a_timeout(name: str) -> None:
    verb = getattr(filrouge.Memory, name)
    assert (inspect.getdoc(verb) or "").splitlines()[0].endswith((".", ":"))
    assert "timeout" in inspect.signature(verb).parameters


def test_threads_share_a_blocking_memory_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with filrouge.BlockingMemory.embedded(str(tmp_path), environ=WORDS_ONLY) as memory:
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(memory.remember, (f"Locker {n} belongs to crew {n}." for n in range(16))))
        assert len({one.id for [one] in done}) == 16
        with pytest.raises(BadInput, match="already open"), memory:
            pass
    assert set(threading.enumerate()) == before
    assert not is_held(str(tmp_path))
    with pytest.raises(BadInput, match="not open"):
        memory.search("locker")


def test_a_blocking_memory_that_cannot_be_opened_leaves_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with (
        filrouge.BlockingMemory.embedded(str(tmp_path), environ=WORDS_ONLY),
        pytest.raises(Busy, match="has an owner already"),
        filrouge.BlockingMemory.embedded(str(tmp_path)),
    ):
        pass
    assert set(threading.enumerate()) == before


def test_a_blocking_memory_may_be_used_where_an_event_loop_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        with filrouge.BlockingMemory.embedded(str(tmp_path), environ=WORDS_ONLY) as memory:
            assert memory.search("nothing yet") == []

    asyncio.run(scenario())
