"""One very large event beside ordinary writers: how much memory the daemon takes, and how long the others wait.

    python bench/large_events.py --out bench/results/large_events.json
    python bench/large_events.py --source OTHER/src --mb 9.5      # the daemon of another checkout

For each size and shape a fresh daemon gets one event of so many megabytes over its socket, in one request. From the
moment the request begins until ten seconds after its answer, while the event is understood, a writer hands over a small
event every 50 ms and waits for the answer. Memory is the daemon's resident size, sampled every 10 ms, above what it
was when idle. The small events take memory too: what a second daemon takes for them alone is not counted to the large
one. With `--warm` the daemon has understood a prompt of the greatest length that is kept before, so that what
the first long prompt of any size costs once is not counted to the event.

Shapes: `prompt`, prose that a user pasted; `tool`, the output of one command; `lines`, a tool's answer of many small
values. Gates (`--check`): its own memory <= 2 times the event, the other writers' p99 <= 300 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.reliability import processes

from filrouge.capture.events import MAX_TEXT_CHARACTERS
from filrouge.core.clock import SystemClock, new_id
from filrouge.daemon import client

MOST_TIMES, MOST_WAIT_MS = 2.0, 300.0
AFTERWARDS = 10.0
#: Seconds after its start when a daemon has loaded all of itself; before that its idle size is of a part.
_LOADED = 14.0
SHAPES = ("prompt", "tool", "lines")
WORDS = (
    "the invoice service of the ferry office writes its ledger every night and the kiosk reads it in the morning"
    " because the almanac was moved to another port we decided to keep the old gateway until the tide table is done"
).split()


def prose(size: int, seed: int) -> str:
    """So many characters of sentences, no two of them alike for long."""
    draw, parts, length = random.Random(seed), list[str](), 0
    while length < size:
        parts.append(" ".join(draw.choices(WORDS, k=draw.randint(6, 20))).capitalize() + f" {draw.randint(0, 9999)}.\n")
        length += len(parts[-1])
    return "".join(parts)[:size]


def large(shape: str, size: int) -> dict[str, Any]:
    """The body of a request with one event of about so many bytes."""
    if shape == "prompt":
        return body("prompt", {"text": prose(size, 1)})
    output: Any = prose(size, 2) if shape == "tool" else [{"line": line} for line in prose(size, 3).splitlines()]
    call = {"name": "Bash", "id": new_id(SystemClock().now()), "input": {"command": "make all"}, "output": output}
    return body("tools", {"calls": [call | {"failed": False}]})


def body(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    id_ = new_id(SystemClock().now())
    event = {"id": id_, "host": "claude-code", "kind": kind, "session": "s", "at": time.time(), "key": f"{kind}:{id_}"}
    return {"events": [event | {"project": ["path:/home/ana/ferry"], "cwd": "/", "data": data}]}


class Watch:
    """Samples the resident size of a process."""

    def __init__(self, pid: int) -> None:
        self._file = f"/proc/{pid}/statm"
        self._page = os.sysconf("SC_PAGE_SIZE")
        self.highest = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def now(self) -> int:
        """Bytes."""
        with open(self._file, encoding="ascii") as file:
            return int(file.read().split()[1]) * self._page

    def _sample(self) -> None:
        while not self._ended.wait(0.01):
            self.highest = max(self.highest, self.now())

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a daemon and the other writer went through: bytes and milliseconds."""

    idle: int
    highest: int
    waits: list[float]
    failed: int
    status: int
    answered: float


def measured(shape: str, megabytes: float, source: str, *, warm: bool) -> dict[str, Any]:
    raw = large(shape, int(megabytes * 1e6))
    size = len(json.dumps(raw))
    alone, seen = watched(None, source, warm=warm), watched(raw, source, warm=warm)
    waits = sorted(seen.waits)
    above, others = seen.highest - seen.idle, alone.highest - alone.idle
    return {
        "shape": shape,
        "megabytes": round(size / 1e6, 1),
        "status": seen.status,
        "answered_s": round(seen.answered, 2),
        "idle_mb": round(seen.idle / 1e6, 1),
        "above_idle_mb": round(above / 1e6, 1),
        "others_alone_mb": round(others / 1e6, 1),
        "times_the_event": round((above - others) / size, 2),
        "others": len(waits),
        "others_failed": seen.failed,
        "others_p50_ms": round(waits[len(waits) // 2], 1),
        "others_p99_ms": round(waits[int(len(waits) * 0.99)], 1),
        "others_max_ms": round(waits[-1], 1),
    }


def watched(raw: dict[str, Any] | None, source: str, *, warm: bool) -> Seen:
    """A fresh daemon with the other writer, and with the large event where there is one."""
    environ = {"PYTHONPATH": source} if source else {}
    with processes.throw_away_home() as home, processes.started_daemon(home, **environ) as process:
        for number in range(20):
            send(home, small(number))
        if warm:
            send(home, body("prompt", {"text": prose(MAX_TEXT_CHARACTERS, 4)}))
        time.sleep(_LOADED)
        processes.eventually("it rests", lambda: processes.quiet(home), 120)
        watch = Watch(process.pid)
        waits, failed, sent, answer = list[float](), 0, threading.Event(), {"status": 0.0, "seconds": 0.0}
        try:
            idle = watch.now()

            def hand_over() -> None:
                began = time.monotonic()
                if raw is not None:
                    answer["status"] = client.request(home, "POST", "/hooks/events", raw, 600.0).status
                answer["seconds"] = time.monotonic() - began
                sent.set()

            other = threading.Thread(target=hand_over)
            other.start()
            number, until = 100, 0.0
            while not until or time.monotonic() < until:
                at = time.monotonic()
                failed += send(home, small(number)) != 200
                waits.append((time.monotonic() - at) * 1000)
                number += 1
                if sent.is_set() and not until:
                    until = time.monotonic() + AFTERWARDS
                time.sleep(0.05)
            other.join()
        finally:
            watch.end()
    return Seen(
        idle=idle,
        highest=watch.highest,
        waits=waits,
        failed=failed,
        status=int(answer["status"]),
        answered=answer["seconds"],
    )


def small(number: int) -> dict[str, Any]:
    return body("prompt", {"text": f"Please look at ticket {number} of the ferry office."})


def send(home: str, content: dict[str, Any]) -> int:
    try:
        return client.request(home, "POST", "/hooks/events", content, 60.0).status
    except Exception as error:
        print(f"  a writer failed: {error}", file=sys.stderr)
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, nargs="*", default=[9.5, 48.0])
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--source", default="", help="the src folder of the checkout whose daemon is measured")
    parser.add_argument("--out", default="")
    parser.add_argument("--check", action="store_true", help="exit 1 where a gate is missed")
    asked = parser.parse_args()
    rows = list[dict[str, Any]]()
    for megabytes in asked.mb:
        for shape in asked.shapes:
            rows.append(measured(shape, megabytes, asked.source, warm=asked.warm))
            print(json.dumps(rows[-1]), flush=True)
    if asked.out:
        told = {"machine": platform.platform(), "cores": os.cpu_count(), "rows": rows}
        Path(asked.out).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    missed = [
        row
        for row in rows
        if row["times_the_event"] > MOST_TIMES or row["others_p99_ms"] > MOST_WAIT_MS or row["others_failed"]
    ]
    return int(asked.check and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
