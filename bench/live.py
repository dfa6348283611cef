"""What the live feed costs who captures: with nobody listening, one, and thirty-two, and with the log of decisions.

Two measurements. Publishing one message on the bus, whose listeners do not read (the queues are full and lose the
oldest: the dearest case). And a whole Filrouge in this process that takes in event after event, each waited for until
it is on disk and all of them understood in the end; the arms follow each other in every round, in a new order each
time, and are told as ratios to nobody listening, with the middle half of the rounds.

    python bench/live.py                      # 7 rounds of 300 events
    python bench/live.py --rounds 3 --events 100 --check    # exit 1 when the gate is missed

Gate: with 32 listeners the median capture takes at most 1.5 times as long.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from filrouge.capture.events import Event
from filrouge.capture.service import store_events
from filrouge.daemon.process import log_to_file
from filrouge.runtime.feed import Bus
from filrouge.runtime.feed_messages import JobDead
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running

GATE: Final = 1.5
ARMS: Final = ("nobody", "1 listener", "32 listeners", "log of decisions")
LISTENERS: Final = {"1 listener": 1, "32 listeners": 32}


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One arm of one round: seconds of the median capture, and until everything was understood."""

    capture: float
    whole: float


def publishing(listeners: int, number: int) -> float:
    """Seconds of one message."""
    bus, message = Bus(), JobDead(id="j", kind="brief", attempts=8)
    with ExitStack() as open_:
        for _ in range(listeners):
            open_.enter_context(bus.subscribed())
        began = time.perf_counter()
        for _ in range(number):
            bus.publish(message)
        return (time.perf_counter() - began) / number


@contextmanager
def listening(parts: Parts, arm: str) -> Generator[None]:
    """So many who are told everything and read nothing."""
    with ExitStack() as open_:
        for _ in range(LISTENERS.get(arm, 0)):
            open_.enter_context(parts.bus.subscribed())
        if arm in LISTENERS:
            parts.readers.here(parts.feed.join)
            open_.callback(parts.feed.leave)
        yield


def captured(arm: str, events: int) -> Run:
    """A new home takes in so many prompts, one after the other."""
    with tempfile.TemporaryDirectory(prefix="filrouge-bench-live-") as home:
        logging.basicConfig(level=logging.WARNING, handlers=[logging.NullHandler()], force=True)
        if arm == "log of decisions":
            log_to_file(home)
        with running(home) as parts, listening(parts, arm):
            idle(parts)
            began, each = time.perf_counter(), list[float]()
            for number in range(events):
                start = time.perf_counter()
                store_events(parts, [_event(number)]).result()
                each.append(time.perf_counter() - start)
            idle(parts, 600)
            return Run(capture=statistics.median(each), whole=time.perf_counter() - began)


def _event(number: int) -> Event:
    said = f"We decided that service {number} listens on port {10_000 + number}."
    session, at = f"s{number // 20}", time.time()
    return Event(
        f"e{number:06}", "codex", "prompt", session, at, f"k{number}", "", ("name:shop",), "", "", {"text": said}
    )


def _spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> int:
    """Measure, print a table, and say whether the gate held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    print("| listeners | publish one message, ns |\n|---|--:|")
    for listeners in (0, 1, 32):
        best = min(publishing(listeners, 20_000) for _ in range(5))
        print(f"| {listeners} | {best * 1e9:,.0f} |")
    rounds = list[dict[str, Run]]()
    for number in range(asked.rounds):
        order = random.Random(number).sample(ARMS, len(ARMS))
        rounds.append({arm: captured(arm, asked.events) for arm in order})
    print("\n| who listens | median capture, ms | ratio to nobody | until understood, ratio |\n|---|--:|--:|--:|")
    ratio = 0.0
    for arm in ARMS:
        slower = [one[arm].capture / one["nobody"].capture for one in rounds]
        whole = [one[arm].whole / one["nobody"].whole for one in rounds]
        median = statistics.median(one[arm].capture for one in rounds)
        ratio = statistics.median(slower) if arm == "32 listeners" else ratio
        print(f"| {arm} | {median * 1e3:.2f} | {_spread(slower)} | {_spread(whole)} |")
    print(f"\nGate: 32 listeners, {ratio:.2f} <= {GATE}: {'held' if ratio <= GATE else 'missed'}")
    return int(asked.check and ratio > GATE)


if __name__ == "__main__":
    sys.exit(main())
