"""The health check of the hub's image, against a hub that runs as the image runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.security.wire import free_port
from tests.support import images
from tests.support.postgres import Hub
from tests.support.waiting import eventually


def test_the_hub_is_healthy_when_it_and_its_database_answer(hub: Hub) -> None:
    image = {one.name: one.value for one in images.stages("hub.Dockerfile")[-1]}
    port = str(free_port())
    check = [word.replace("8790", port) for word in images.command(image["HEALTHCHECK"])]
    serve = [*images.command(image["ENTRYPOINT"]), *images.command(image["CMD"]), "--port", port]

    def is_healthy() -> bool:
        done = subprocess.run([sys.executable, *check[1:]], capture_output=True, timeout=30, check=False)
        return done.returncode == 0

    assert check[0] == "python"
    assert not is_healthy()
    process = subprocess.Popen(
        [sys.executable, "-m", "filrouge.cli.main", *serve[1:]],
        env={**os.environ, "FILROUGE_HUB_DATABASE": hub.serving},
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually("the hub is healthy", is_healthy)
        process.terminate()  # as `docker stop` does
        assert process.wait(30) in (0, -signal.SIGTERM)  # uvicorn ends, then raises the signal again
    finally:
        process.kill()
