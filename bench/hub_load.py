"""What one hub takes and gives on this machine: pushes, changes to many devices, polls, its memory and connections.

    python bench/hub_load.py --out bench/results/hub_load.md

A real `filrouge hub serve` on a real PostgreSQL (`tests/support/postgres.py`), asked over HTTP by threads of this
process, which share its processors: the figures are lower bounds. Memories have a vector of 384 dimensions. A device
polls as a daemon does: for the changes behind its cursor, of which there are none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import psycopg
from tests.security.wire import free_port
from tests.support import postgres
from tests.support.postgres import Hub

from filrouge.core.clock import SystemClock, new_id
from filrouge.core.errors import HubUnavailable
from filrouge.hub.client import HubClient
from filrouge.hub.limits import set_limits
from filrouge.hub.models import Device, Version, encoded_vector
from filrouge.hub.schema import connect

MEMORIES, BATCH, WRITERS, DEVICES, POLLS = 5_000, 50, 4, 50, 40
CONNECTIONS: Final = 10
CLOCK: Final = SystemClock()
WORDS: Final = "harbour crane port deploy proxy queue index cache worker release price invoice table user".split()


def memories(count: int) -> list[Version]:
    chance, random = Random(1), np.random.default_rng(1)
    return [
        Version(
            memory=new_id(CLOCK.now()), version=1, project="forge.example/acme/harbour", kind="decision",
            text=f"Number {number}: " + " ".join(chance.choices(WORDS, k=12)), valid_from=datetime.now(UTC),
            space="bench", vector=encoded_vector(random.normal(size=384).astype(np.float32)),
        )
        for number in range(count)
    ]  # fmt: skip


@contextmanager
def served(hub: Hub) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "filrouge.cli.main",
        "hub",
        "serve",
        "--database",
        hub.serving,
        "--port",
        str(port),
    ]
    process = subprocess.Popen([*command, "--connections", str(CONNECTIONS)], stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(30)


def wait(client: HubClient) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            client.status()
            return
        except HubUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def spread(work: Callable[[Any], object], items: Sequence[Any], threads: int) -> tuple[float, list[float]]:
    """Do all work in threads; return the seconds of the whole, and of each."""

    def timed(item: Any) -> float:
        began = time.perf_counter()
        work(item)
        return time.perf_counter() - began

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        each = list(pool.map(timed, items))
    return time.perf_counter() - began, each


def percentile(values: Sequence[float], share: float) -> str:
    return f"{1000 * float(np.quantile(values, share)):.0f}"


def rss_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(fields.split("VmRSS:")[1].split()[0]) / 1000


def measure(hub: Hub, url: str, process: subprocess.Popen[bytes]) -> list[str]:
    admin = hub.add_tenant("acme")
    with connect(hub.owner) as connection:
        set_limits(connection, admin.tenant, requests=10**8, versions=10**8)
    ana = HubClient(url, admin.secret)
    wait(ana)
    lines = ["| what | figure | p50 ms | p95 ms |", "|---|---|---|---|"]

    def row(what: str, figure: str, each: Sequence[float]) -> None:
        lines.append(f"| {what} | {figure} | {percentile(each, 0.5)} | {percentile(each, 0.95)} |")

    at_rest = rss_mb(process.pid)
    made = memories(MEMORIES)
    batches = [made[start : start + BATCH] for start in range(0, MEMORIES, BATCH)]
    seconds, each = spread(ana.push, batches, WRITERS)
    row(f"push, {BATCH} memories a request, {WRITERS} at once", f"{MEMORIES / seconds:.0f} memories/s", each)
    seconds, each = spread(ana.push, [[one] for one in memories(500)], WRITERS)
    row(f"push, one memory a request, {WRITERS} at once", f"{500 / seconds:.0f} memories/s", each)

    devices = [Device(device=new_id(CLOCK.now()), name=f"device {number}") for number in range(DEVICES)]
    cursors = dict[str, str]()

    def follow(device: Device) -> None:
        ana.join(device)
        page, count = ana.changes(after="", limit=500, device=device.device), 0
        while True:
            count += len(page.changes)
            if page.complete:
                break
            page = ana.changes(after=page.cursor, limit=500, device=device.device)
        assert count == MEMORIES + 500
        cursors[device.device] = page.cursor

    seconds, each = spread(follow, devices, 8)
    delivered = DEVICES * (MEMORIES + 500)
    row(f"all changes to {DEVICES} devices, 8 at once", f"{delivered / seconds:.0f} changes/s", each)

    def poll(device: Device) -> None:
        assert ana.changes(after=cursors[device.device], limit=50, device=device.device).complete

    seconds, each = spread(poll, devices * POLLS, 8)
    row("a poll that finds nothing, 8 at once", f"{DEVICES * POLLS / seconds:.0f} polls/s", each)
    with psycopg.connect(hub.superuser) as connection:
        used = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [hub.name]).fetchone()
        size = connection.execute("SELECT pg_database_size(%s)", [hub.name]).fetchone()
    assert used is not None
    assert size is not None
    count = MEMORIES + 500
    summary = (
        f"Memory of the hub's process: {at_rest:.0f} MB at rest, {rss_mb(process.pid):.0f} MB afterwards."
        f" Connections to PostgreSQL: {used[0]}, of at most {CONNECTIONS}."
        f" The database has {size[0] / 1e6:.0f} MB with {count:,} memories: {size[0] / count:,.0f} bytes each, indexes"
        " included."
    )
    return [*lines, "", summary]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    with postgres.server() as superuser, postgres.hub(superuser) as hub, served(hub) as (url, process):
        lines = measure(hub, url, process)
    head = (
        f"`python bench/hub_load.py --out bench/results/hub_load.md`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()}"
        " processors shared by the hub, PostgreSQL and the clients; load average when it ended:"
        f" {os.getloadavg()[0]:.1f}."
    )
    text = "\n".join(["# Load of the hub", "", head, "", *lines, ""])
    print(text)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
