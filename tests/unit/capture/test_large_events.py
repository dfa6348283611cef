"""One event that is far too large: its beginning is kept to the letter, what was cut is counted, and nobody waits."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture import inbox
from filrouge.capture.events import MAX_EVENT_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_VALUES
from filrouge.capture.models import ImportedTurn
from filrouge.capture.programs import Conversation, Message, deliver
from filrouge.capture.service import store_events
from filrouge.core.paths import SPOOL, inside
from filrouge.extraction.service import extract_now
from filrouge.maintenance.health import metrics
from filrouge.runtime.services import Parts
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import idle, running
from filrouge.transfer.service import ImportPage, import_page
from tests.support.given import event
from tests.support.waiting import eventually

SENTENCE = "The almanac service of the ferry office writes one line for each tide. "
LONG = SENTENCE * (2_000_000 // len(SENTENCE))
TOKEN = "ghp_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
MARK = re.compile(r"\n?\[filrouge: (\d+) characters cut\]\Z")


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path)) as found:
        yield found


def texts(parts: Parts) -> list[str]:
    """Every turn that is stored."""
    idle(parts, 120)
    rows = parts.readers.here(lambda tx: tx.all("tombstones.texts"))
    return [row["text"] for row in rows if row["place"] == "turns"]


def counted(parts: Parts, name: str) -> float:
    page = parts.readers.here(lambda tx: metrics(parts, tx)).decode()
    found = re.search(rf"^{name}_total (\S+)$", page, re.MULTILINE)
    assert found
    return float(found[1])


def by_hook(parts: Parts) -> None:
    store_events(parts, [event(text=LONG)]).result(60)


def by_spool(parts: Parts) -> None:
    file = Path(inbox.append_event(inside(parts.home, SPOOL), event(text=LONG).to_json()))
    eventually("the spool is taken in", lambda: not file.exists(), 60)


def by_program(parts: Parts) -> None:
    deliver(parts, Conversation(channel="bot", session="s"), [Message(role="user", content=LONG)])[1].result(60)


def by_extraction(parts: Parts) -> None:
    extract_now(parts, [Message(role="user", content=LONG)], source="bot")


def by_import(parts: Parts) -> None:
    turn = ImportedTurn(session="s", key="k", role="user", source="prompt", text=LONG, at=time.time())
    import_page(parts, ImportPage(source="claude-code", trusted=False, turns=[turn]))


def rarely(way: Any) -> Any:
    """A way in that ends in the same cut as a hook's; its test takes seconds."""
    return pytest.param(way, marks=pytest.mark.slow)


@pytest.mark.parametrize("way", [by_hook, by_spool, *map(rarely, [by_program, by_extraction, by_import])])
def test_the_beginning_is_kept_to_the_letter_and_what_was_cut_is_counted(parts: Parts, way: Any) -> None:
    way(parts)
    [text] = texts(parts)
    mark = MARK.search(text)
    assert mark
    # Not by `==`: the difference of two such texts would be looked for.
    assert (text[: mark.start()] == LONG[:MAX_TEXT_CHARACTERS]) is True
    assert int(mark[1]) == len(LONG) - MAX_TEXT_CHARACTERS
    assert (counted(parts, "memory_events_cut"), counted(parts, "memory_characters_cut")) == (1, int(mark[1]))


def test_tool_output_values_and_a_whole_event_have_their_own_limits(parts: Parts) -> None:
    calls = [{"name": "Bash", "id": f"c{n}", "input": None, "output": LONG} for n in range(5)]
    store_events(parts, [event("tools", calls=calls)]).result(60)
    found = sorted(map(len, texts(parts)))
    assert found[-1] <= MAX_TEXT_CHARACTERS + 100
    assert sum(found) <= MAX_EVENT_CHARACTERS + 1000
    assert len(found) == 5
    many = [{"line": n, "at": [n, n]} for n in range(50_000)]
    store_events(parts, [event("tools", session="t", calls=[{"name": "Bash", "id": "m", "output": many}])]).result(60)
    text = next(one for one in texts(parts) if '"line"' in one)
    assert text.count('"line"') <= MAX_VALUES
    assert counted(parts, "memory_values_cut") > 49_000


def test_a_secret_across_the_cut_is_masked_and_what_a_hook_cut_is_not_cut_again(parts: Parts) -> None:
    place = MAX_TEXT_CHARACTERS - 20
    store_events(parts, [event(text=LONG[:place] + " " + TOKEN + " " + LONG[place:])]).result(60)
    hooked = LONG[:MAX_TEXT_CHARACTERS] + "\n[filrouge: 77 characters cut]"
    store_events(parts, [event(session="t", text=hooked)]).result(60)
    masked, kept = texts(parts)
    assert TOKEN[:12] not in masked
    assert (kept == hooked) is True
    assert counted(parts, "memory_events_cut") == 1


class Held(TextAnalyser):
    """An analyser that stops at long texts until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.let_go = threading.Event(), threading.Event()

    def tokens(self, text: str) -> str:
        if len(text) > 100_000:
            self.reached.set()
            assert self.let_go.wait(60)
        return super().tokens(text)


@pytest.mark.parametrize("way", [by_hook, rarely(by_extraction)])
def test_others_write_while_a_large_event_is_analysed(parts: Parts, way: Any) -> None:
    held = Held()
    parts.analyser = held
    sender = threading.Thread(target=way, args=(parts,))
    sender.start()
    try:
        assert held.reached.wait(60)
        assert store_events(parts, [event(session="other", text="Please look at ticket 12.")]).result(30).accepted == 1
    finally:
        held.let_go.set()
        sender.join(60)
    assert len(texts(parts)) == 2
    assert json.dumps(texts(parts)).count("ticket 12") == 1
