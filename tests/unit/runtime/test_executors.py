"""The writing lane: what it acknowledged is there, what failed is gone alone, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from filrouge.core.errors import Busy
from filrouge.core.protocols import Tx
from filrouge.runtime.executors import ReaderPool, Writer
from filrouge.runtime.services import StoredSettings
from filrouge.runtime.sqlite import Database
from filrouge.testing import ManualClock

NOW = ManualClock().now()


def write(key: str, tx: Tx) -> str:
    StoredSettings(tx).put({key: 1}, NOW)
    return key


class OnceBusy(Database):
    """A database that another process holds at its first transaction."""

    tries = 0

    @contextmanager
    def transaction(self) -> Generator[Tx]:  # pyright: ignore[reportIncompatibleMethodOverride]
        OnceBusy.tries += 1
        if OnceBusy.tries == 1:
            raise Busy("Another process has locked the memory database.")
        with super().transaction() as tx:
            yield tx


@pytest.fixture
def path(tmp_path: Path) -> str:
    found = str(tmp_path / "a.db")
    Database(found).migrate(ManualClock())
    return found


def keys(path: str) -> set[str]:
    return set(StoredSettings(Database(path, readonly=True).tx).all())


def test_what_many_threads_were_acknowledged_is_all_there(path: str) -> None:
    lane = Writer(lambda: Database(path))
    wanted = {f"{thread}-{number}" for thread in range(8) for number in range(50)}

    def told(key: str) -> str:
        return lane.run(lambda tx: write(key, tx))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(told, sorted(wanted))) == wanted
    assert keys(path) == wanted
    lane.close()


def test_a_write_is_on_disk_before_its_future_ends(path: str) -> None:
    lane = Writer(lambda: Database(path))
    assert lane.run(lambda tx: write("a", tx)) == "a"
    assert keys(path) == {"a"}
    lane.close()


def test_a_write_that_fails_rolls_back_alone(path: str) -> None:
    lane, gate = Writer(lambda: Database(path)), threading.Event()

    def fail(tx: Tx) -> None:
        write("lost", tx)
        raise ZeroDivisionError

    lane.submit(lambda _: gate.wait(5))  # holds the lane, so that the next three are one batch
    before, failing, after = (
        lane.submit(lambda tx: write("a", tx)),
        lane.submit(fail),
        lane.submit(lambda tx: write("b", tx)),
    )
    gate.set()
    assert (before.result(60), after.result(60)) == ("a", "b")
    with pytest.raises(ZeroDivisionError):
        failing.result(60)
    assert keys(path) == {"a", "b"}
    lane.close()


def test_a_busy_database_fails_its_batch_and_the_lane_goes_on(path: str) -> None:
    OnceBusy.tries = 0
    lane = Writer(lambda: OnceBusy(path))
    with pytest.raises(Busy, match="Another process"):
        lane.submit(lambda tx: write("a", tx)).result(60)
    assert lane.submit(lambda tx: write("b", tx)).result(60) == "b"
    assert keys(path) == {"b"}
    lane.close()


def test_a_write_that_nobody_waits_for_any_more_is_left_out_and_harms_nobody(path: str) -> None:
    lane, gate = Writer(lambda: Database(path)), threading.Event()
    lane.submit(lambda _: gate.wait(5))
    given_up = lane.submit(lambda tx: write("a", tx))
    assert given_up.cancel()
    gate.set()
    assert lane.submit(lambda tx: write("b", tx)).result(60) == "b"
    assert keys(path) == {"b"}
    lane.close()


def test_what_is_patient_lets_pass_whoever_waits_and_keeps_its_order(path: str) -> None:
    lane, held, go_on = Writer(lambda: Database(path)), threading.Event(), threading.Event()
    order: list[str] = []

    def hold(_: Tx) -> None:
        held.set()
        go_on.wait(5)

    patient = lane.submit_patient([hold, lambda _: order.append("patient 1"), lambda _: order.append("patient 2")])
    assert held.wait(5)
    waiting = [lane.submit(lambda _, number=number: order.append(f"waiting {number}")) for number in (1, 2)]
    go_on.set()
    for future in [*waiting, *patient]:
        future.result(60)
    assert order == ["waiting 1", "waiting 2", "patient 1", "patient 2"]
    lane.close()


def test_what_is_patient_has_its_turn_while_somebody_always_waits(path: str) -> None:
    lane, enough = Writer(lambda: Database(path)), threading.Event()

    def again(_: Tx) -> None:
        if not enough.is_set():
            lane.submit(again)

    lane.submit(again)
    for future in lane.submit_patient([lambda tx: write("a", tx), lambda tx: write("b", tx)]):
        future.result(60)
    enough.set()
    assert keys(path) == {"a", "b"}
    lane.close()


def test_a_closed_lane_finishes_what_it_took_and_refuses_the_rest(path: str) -> None:
    lane = Writer(lambda: Database(path))
    taken = [lane.submit(lambda tx, key=f"k{number}": write(key, tx)) for number in range(200)]
    lane.close()
    assert all(future.done() for future in taken)
    assert len(keys(path)) == 200
    with pytest.raises(Busy, match="stopping"):
        lane.submit(lambda tx: write("late", tx))


def test_whoever_writes_while_the_lane_closes_is_served_or_refused(path: str) -> None:
    lane, futures, refused = Writer(lambda: Database(path)), list[Future[str]](), threading.Event()

    def submit() -> None:
        try:
            while True:
                futures.append(lane.submit(lambda tx: write("a", tx)))
        except Busy:
            refused.set()

    thread = threading.Thread(target=submit)
    thread.start()
    while not futures:
        pass
    lane.close()
    thread.join(5)
    assert refused.is_set()
    assert {future.result(60) for future in futures} == {"a"}


def test_readers_see_what_was_committed_from_any_thread(path: str) -> None:
    lane, pool = Writer(lambda: Database(path)), ReaderPool(lambda: Database(path, readonly=True))
    assert pool.here(lambda tx: StoredSettings(tx).all()) == {}
    lane.run(lambda tx: write("a", tx))
    assert pool.here(lambda tx: StoredSettings(tx).all()) == {"a": 1}
    found = [pool.submit(lambda tx: StoredSettings(tx).all()).result(60) for _ in range(8)]
    assert found == [{"a": 1}] * 8
    pool.close()
    lane.close()
