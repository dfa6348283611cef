"""Filrouge inside a program: one owner of a home, and verbs that say what they cannot do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import filrouge
from filrouge.capture import inbox
from filrouge.capture.service import store_events
from filrouge.core.errors import BadInput, Busy, NotFound, Stale
from filrouge.core.paths import SPOOL, inside
from filrouge.daemon.process import home_lock, is_held
from filrouge.testing import idle, running
from tests.support.given import event

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "library.md"
WORDS_ONLY = {"FILROUGE_EMBEDDING_MODEL": "hashing"}


@pytest.fixture
def memory(tmp_path: Path) -> Generator[filrouge.Opened]:
    with filrouge.opened(str(tmp_path / "home"), environ=WORDS_ONLY) as opened:
        yield opened


def test_what_is_remembered_is_found_at_once_by_words_by_meaning_and_by_both(memory: filrouge.Opened) -> None:
    [port] = memory.remember("For the record: production listens on port 9443.")
    memory.remember("We decided to use Postgres for billing.")
    for alpha in (0.0, 0.5, 1.0):
        assert memory.hybrid_query("memories", "port of production", alpha=alpha).hits[0].item == port
    assert memory.hybrid_query(query_text="port of production", where_filter={"kind": "decision"}).hits[0].item != port
    assert memory.hybrid_query("turns", "port of production").hits[0].text.endswith("port 9443.")


def test_what_is_forgotten_is_what_the_preview_listed(memory: filrouge.Opened) -> None:
    memory.remember("For the record: production listens on port 9443.")
    shown = memory.forget("9443", dry_run=True)
    assert shown["counts"]["memories"] == {"erased": 1}
    assert memory.hybrid_query("memories", "port of production", alpha=0.0).hits
    with pytest.raises(Stale):
        memory.forget("production", token=shown["token"])
    assert memory.forget("9443", token=shown["token"])["ok"]
    assert not memory.hybrid_query("memories", "port of production", alpha=0.0).hits
    assert memory.forget("9443")["counts"] == {}


def test_a_daemon_does_not_start_while_a_program_has_the_home_open(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with filrouge.opened(home, environ=WORDS_ONLY):
        done = subprocess.run(
            [sys.executable, "-m", "filrouge.server"],
            env={**os.environ, **WORDS_ONLY, "FILROUGE_HOME": home},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == Busy.exit_code
    assert not is_held(home)


def test_a_home_with_an_owner_is_refused_with_the_way_out(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with home_lock(home), pytest.raises(Busy, match="has an owner already") as refused, filrouge.opened(home):
        pass
    assert "filrouge daemon stop" in refused.value.remedy


def test_what_a_hook_spooled_is_read_by_the_program_that_owns_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / SPOOL).mkdir(parents=True, mode=0o700)
    inbox.append_event(inside(str(home), SPOOL), event(text="The staging port is 7412.").to_json())
    with filrouge.opened(str(home), environ=WORDS_ONLY):
        assert inbox.waiting_files(inside(str(home), SPOOL)) == []


def test_a_home_can_be_opened_again_and_a_closed_one_says_that_it_is_closed(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with filrouge.opened(home, environ=WORDS_ONLY) as first:
        first.remember("Always use uv, never pip.")
    with pytest.raises(Busy, match="closed"):
        first.hybrid_query("memories", "uv")
    with filrouge.opened(home, environ=WORDS_ONLY) as second:
        assert [hit.text for hit in second.hybrid_query("memories", "uv").hits] == ["Always use uv, never pip."]


def test_the_lock_is_given_back_when_the_block_fails(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with pytest.raises(ZeroDivisionError), filrouge.opened(home, environ=WORDS_ONLY):
        raise ZeroDivisionError
    assert not is_held(home)


def test_bad_values_are_named(memory: filrouge.Opened) -> None:
    with pytest.raises(BadInput, match="'threads'"):
        memory.hybrid_query("threads", "port")
    with pytest.raises(BadInput, match="k1"):
        memory.hybrid_query("turns", "port", bm25_k1=-1)
    with pytest.raises(NotFound, match="'nowhere'"):
        memory.remember("The port is 9443.", project="nowhere")


def test_a_session_is_analysed_later_and_the_caller_is_called_back(memory: filrouge.Opened) -> None:
    heard: list[dict[str, Any]] = []
    history = [{"role": "user", "content": "We decided to use Typst for the invoice templates."}]
    now = memory.analyze_session_for_concepts("bot-1", history, user_id="ana")
    later = memory.analyze_session_async("bot-1", callback=heard.append)
    assert later.result(30) == now
    assert heard == [now]
    assert "Typst" in now["summary"]
    assert memory.analyze_history("bot-2", history)["concepts"] == now["concepts"]


def test_an_analysis_that_fails_calls_back_with_the_error(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []

    def analyst(*_: Any, **__: Any) -> Any:
        raise TimeoutError

    with running(str(tmp_path / "home")) as parts:
        parts.analyst = analyst
        store_events(parts, [event(text="We decided to use Typst."), event("reply", text="I installed it.")]).result(60)
        idle(parts)
        memory = filrouge.Opened(parts)
        assert memory.analyze_session_async("s", callback=heard.append).result(30) == {"error": "TimeoutError"}
        memory.close()
    assert heard == [{"error": "TimeoutError"}]


def test_what_is_queued_is_done_before_a_home_closes(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    with filrouge.opened(str(tmp_path / "home"), environ=WORDS_ONLY) as memory:
        for number in range(6):
            memory.analyze_session_async(f"s{number}", callback=heard.append)
    assert heard == [{"summary": "", "concepts": [], "entities": []}] * 6


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    first, sessions, second = (
        subprocess.run(
            [sys.executable, "-W", "error", "-c", example],
            env={**os.environ, **WORDS_ONLY, "FILROUGE_HOME": str(tmp_path / "home")},
            capture_output=True, text=True, timeout=60,
        )
        for example in examples
    )  # fmt: skip
    assert (first.stderr, sessions.stderr, second.stderr) == ("", "", "")
    assert "production listens on port 9443" in first.stdout.splitlines()[0]
    assert "bm25_score" in first.stdout.splitlines()[-1]
    assert second.stdout.startswith("b ")
