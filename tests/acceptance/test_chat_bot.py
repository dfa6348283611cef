"""The example chat bot, as its user runs it: what was said in one session is known in another, on another channel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.core.paths import socket_path
from filrouge.testing import idle
from tests.unit.server.conftest import Api, serving

BOT = Path(__file__).parents[2] / "examples" / "chat_bot.py"
ASKED = "Which port does the staging server listen on?"


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path)) as found:
        yield found


def chat(api: Api, said: str, *words: str) -> str:
    idle(api.parts)
    without = {key: value for key, value in os.environ.items() if not key.startswith("FILROUGE_")}
    ended = subprocess.run(
        [sys.executable, str(BOT), *words],
        env={**without, "FILROUGE_HOME": api.home, "FILROUGE_SOCKET": socket_path(api.home)},
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_what_was_said_in_one_session_is_known_in_another_on_another_channel(api: Api) -> None:
    assert "I know nothing about that yet." in chat(api, ASKED, "--channel", "web", "--session", "first")
    chat(
        api, "For the record: the staging server listens on port 9443.", "--channel", "terminal", "--session", "monday"
    )
    assert "9443" in chat(api, ASKED, "--channel", "web", "--session", "second")


def test_a_session_is_taken_up_again_and_people_are_kept_apart(api: Api) -> None:
    chat(api, "For the record: the staging server listens on port 9443.", "--user", "ana")
    assert chat(api, "", "--user", "ana").splitlines()[0].startswith("(user) For the record")
    assert chat(api, "", "--user", "ben") == ""
    assert "9443" not in chat(api, ASKED, "--user", "ben", "--session", "two")
    assert "9443" in chat(api, ASKED, "--user", "ana", "--session", "two")
