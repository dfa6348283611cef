"""A hub that is killed while it is pushed to loses nothing that it acknowledged, and stores nothing twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event as Flag
from threading import Thread

import httpx
import pytest

from filrouge.hub.models import Version
from tests.security.wire import free_port
from tests.support.postgres import Hub

from .shared import follow, pairs, team, version

START_SECONDS = 60.0


@contextmanager
def serving(hub: Hub, port: int) -> Generator[subprocess.Popen[bytes]]:
    """A hub as a program of its own, which answers."""
    command = [sys.executable, "-m", "filrouge.cli.main", "hub", "serve", "--port", str(port)]
    environ = {**os.environ, "FILROUGE_HUB_DATABASE": hub.serving}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2.0).status_code == 200:
                    break
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.proof)])
def test_what_a_killed_hub_acknowledged_is_there_once(hub: Hub, kills: int) -> None:
    secret, port = team(hub, "Ana")[0], free_port()
    acknowledged, sent, done = list[tuple[str, int]](), list[tuple[str, int]](), Flag()

    def push_all() -> None:
        """Push as a daemon does: the same versions again until the hub answers."""
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {secret}"}) as http:
            while not done.is_set():
                batch = [version(f"Number {n}.") for n in range(random.randint(1, 20))]
                sent.extend((one.memory, one.version) for one in batch)
                while not push(http, batch):
                    if done.is_set():
                        return
                    time.sleep(0.01)
                acknowledged.extend((one.memory, one.version) for one in batch)

    pushing = Thread(target=push_all)
    pushing.start()
    try:
        for _ in range(kills):
            with serving(hub, port):
                time.sleep(random.uniform(0, 0.4))
        with serving(hub, port):
            before = len(acknowledged)
            deadline = time.monotonic() + START_SECONDS
            while len(acknowledged) == before and time.monotonic() < deadline:
                time.sleep(0.01)
    finally:
        done.set()
        pushing.join()
    stored = pairs(follow(hub, secret, limit=1000)[0])
    assert len(acknowledged) > 0
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored) <= set(sent)


def push(http: httpx.Client, batch: list[Version]) -> bool:
    """Return whether the hub acknowledged all of it."""
    body = {"versions": [one.model_dump(mode="json") for one in batch]}
    try:
        answer = http.post("/hub/v1/push", json=body, timeout=10.0)
    except httpx.HTTPError:
        return False
    return answer.status_code == 200 and all(
        one["outcome"] in ("accepted", "duplicate") for one in answer.json()["answers"]
    )
