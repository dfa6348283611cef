"""The bus: everybody who listens is told, nobody who tells waits, and who is too slow is told what they missed."""

from __future__ import annotations

from threading import Thread

import pytest

from filrouge.maintenance.consolidation import MemoryProgress
from filrouge.runtime.feed import Bus, Lost


def progress(current: int) -> MemoryProgress:
    return MemoryProgress(garden_id="g", session_id="s", current=current, total=9, phase="vectorizing")


def test_everybody_who_listens_is_told_in_order() -> None:
    bus = Bus()
    with bus.subscribed() as one, bus.subscribed() as other:
        bus.publish(progress(1))
        bus.publish(progress(2))
        assert [listener.get(0) for listener in (one, other) for _ in range(3)] == [
            progress(1), progress(2), None, progress(1), progress(2), None,
        ]  # fmt: skip


def test_who_is_too_slow_loses_the_oldest_and_is_told_how_many() -> None:
    bus = Bus()
    with bus.subscribed(capacity=2) as slow, bus.subscribed() as quick:
        for current in range(1, 6):
            bus.publish(progress(current))
        assert [slow.get(0) for _ in range(4)] == [Lost(count=3), progress(4), progress(5), None]
        bus.publish(progress(6))
        assert slow.get(0) == progress(6)
        assert quick.get(0) == progress(1)


def test_who_listens_no_more_is_told_nothing_and_who_comes_later_only_what_is_new() -> None:
    bus = Bus()
    with bus.subscribed() as early:
        pass
    bus.publish(progress(1))
    with bus.subscribed() as late:
        bus.publish(progress(2))
        assert late.get(0) == progress(2)
    assert early.get(0) is None


def test_who_waits_is_woken() -> None:
    bus = Bus()
    with bus.subscribed() as waiting:
        teller = Thread(target=lambda: bus.publish(progress(1)))
        teller.start()
        assert waiting.get(10) == progress(1)
        teller.join()


def test_messages_cannot_be_changed_by_who_reads_them() -> None:
    with pytest.raises(AttributeError):
        progress(1).current = 2  # pyright: ignore[reportAttributeAccessIssue]
