"""What hooks left in the spool, and what only the transcript tells, comes in once and in order.

The spool is drained oldest first, a file goes only after its events are committed, and a file that is read twice
changes nothing. The recordings of real sessions are told by hooks, by their transcripts, and by both in either
order, with a resumed session read again: the turns are the same each time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from filrouge import hosts
from filrouge.capture import inbox
from filrouge.capture.events import Event
from filrouge.capture.service import drain_spool, reconcile, store_events
from filrouge.core import paths as places
from filrouge.core.clock import SystemClock, new_id
from filrouge.daemon import client
from filrouge.memories.models import SUMS
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.support.tiers import is_proof

from .processes import (
    PATIENCE,
    Forge,
    assert_sound,
    daemon,
    eventually,
    hook,
    kill,
    left,
    lock_holder,
    prompt,
    quiet,
    reply,
    session_start,
    spooled,
)

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hosts"
AWAY = {"FILROUGE_URL": "http://127.0.0.1:9"}  # nobody there: the hook spools and starts no daemon
SESSIONS: list[tuple[str, dict[str, Any]]] = [
    (host, session)
    for host in ("claude-code", "codex")
    for session in json.loads((FIXTURES / host / "sessions.json").read_text(encoding="utf-8"))
]
#: All of them in `make proof`; in `make test` the first of each host.
SOME = SESSIONS if is_proof() else list({host: (host, one) for host, one in reversed(SESSIONS)}.values())


def statement(number: int) -> str:
    return f"the kiosk-{number} service listens on port {19000 + number}"


def spool_one(home: str, number: int, **changed: Any) -> str:
    now = SystemClock().now()
    [event] = hosts.parse(
        prompt(home, "s", f"p{number}", statement(number)),
        host="claude-code", environ={}, at=now.timestamp(), new_id=partial(new_id, now),
    )  # fmt: skip
    return inbox.append_event(places.inside(home, places.SPOOL), event._replace(**changed).to_json())


def test_fifty_events_told_to_nobody_are_all_taken_in_in_order(home: str) -> None:
    for number in range(10):
        assert hook(home, prompt(home, "s", f"p{number}", statement(number)), **AWAY).code == 0
    for number in range(10, 50):
        spool_one(home, number)
    assert len(spooled(home)) == 50
    with daemon(home):
        eventually("all are understood", lambda: quiet(home))
        assert os.listdir(places.inside(home, places.SPOOL)) == []
    found = left(home)
    assert [row["key"] for row in found.events] == [f"prompt:p{number}" for number in range(50)]
    assert [row["text"] for row in found.turns] == [statement(number) for number in range(50)]
    assert Counter(row["text"] for row in found.memories) == Counter(map(statement, range(50)))
    assert_sound(home)


def test_a_session_that_is_compacted_as_soon_as_the_daemon_is_there_gets_back_what_the_spool_holds(home: str) -> None:
    decided, asked = (
        "For the kiosk we decided on Polars instead of pandas.",
        "Please add a CSV export to the kiosk page.",
    )
    for number, said in enumerate((decided, asked)):
        assert hook(home, prompt(home, "s", f"p{number}", said), **AWAY).code == 0
    assert hook(home, reply(home, "s", "p1", "I added the route and its test."), **AWAY).code == 0
    now = SystemClock().now()
    start = session_start(home, "s") | {"source": "compact"}
    [event] = hosts.parse(start, host="claude-code", environ={}, at=now.timestamp(), new_id=partial(new_id, now))
    with daemon(home):
        body = {"events": [event.to_json()], "context": True}
        told = str(client.request(home, "POST", "/hooks/events", body, timeout=PATIENCE).body["context"])
    assert [said for said in (decided, asked, "I added the route and its test.") if said not in told] == []


def test_a_daemon_killed_while_it_drains_loses_and_doubles_nothing(home: str) -> None:
    forge, total, interrupted = Forge(home), 0, 0
    # On a busy machine all of it may be taken in before the kill; then more is left, and the next daemon is killed.
    while interrupted < 3 and total < 2000:
        for _ in range(60 - len(spooled(home))):
            spool_one(home, total)
            total += 1
        waiting = len(spooled(home))
        pid = forge.daemon()
        eventually("it has drained a part", lambda waiting=waiting: len(spooled(home)) < waiting)
        rest = len(spooled(home))
        interrupted += kill(pid) and rest > 0
    copy = os.path.join(home, "copy")
    shutil.copytree(places.inside(home, places.SPOOL), copy)
    last = forge.daemon()
    eventually("all are understood", lambda: quiet(home))
    shutil.copytree(copy, places.inside(home, places.SPOOL), dirs_exist_ok=True)
    spool_one(home, 0)  # the same event under a new id: the host's own number tells
    eventually("what was read twice is recognised", lambda: spooled(home) == [] and quiet(home))
    os.kill(last, signal.SIGTERM)
    eventually("it is gone", lambda: lock_holder(home) == 0)
    forge.close()
    found = left(home)
    assert interrupted == 3
    assert Counter(row["key"] for row in found.events) == Counter(f"prompt:p{number}" for number in range(total))
    assert Counter(row["text"] for row in found.memories) == Counter(map(statement, range(total)))
    assert_sound(home)


def test_a_file_goes_only_after_its_events_are_committed(home: str) -> None:
    with running(home) as parts:
        idle(parts)
        parts.writer.close()
        path = spool_one(home, 1)
        with pytest.raises(Exception, match="stopping"):
            drain_spool(parts)
        assert os.path.exists(path)


def test_a_file_that_nobody_can_take_in_does_not_hold_up_the_others(home: str) -> None:
    spool_one(home, 1)
    poison = spool_one(home, 2, session="s\ud800")
    with open(spool_one(home, 3), "r+b") as file:
        file.truncate(30)
    spool_one(home, 4)
    with daemon(home):
        eventually("the others are understood", lambda: quiet(home))
        hook(home, prompt(home, "s", "p5", statement(5)))
        eventually("the new one, too", lambda: quiet(home))
    assert [row["key"] for row in left(home).events] == ["prompt:p1", "prompt:p4", "prompt:p5"]
    assert os.listdir(places.inside(home, places.SPOOL)) == [os.path.basename(poison) + ".aside"]
    assert_sound(home)


def test_what_a_killed_hook_had_almost_left_is_found_later(home: str) -> None:
    path = spool_one(home, 1)
    part = path.removesuffix(inbox.COMPLETE_SUFFIX) + inbox.PART_SUFFIX
    os.rename(path, part)
    os.utime(part, (1, 1))
    with daemon(home):
        eventually("it is understood", lambda: quiet(home))
    assert [row["key"] for row in left(home).events] == ["prompt:p1"]


def by_hooks(host: str, session: str, transcript: str = "") -> list[Event]:
    """What the recorded hooks of a session tell, in order."""
    events: list[Event] = []
    for line in (FIXTURES / host / "payloads.jsonl").read_text(encoding="utf-8").splitlines():
        payload = json.loads(line)
        if payload["session_id"] != session:
            continue
        now = SystemClock().now()
        told = hosts.parse(payload, host=host, environ={}, at=now.timestamp(), new_id=partial(new_id, now))
        events += [event._replace(transcript=transcript, project=("name:shop",)) for event in told]
    return events


def by_transcript(parts: Parts, host: str, session: str, path: str) -> None:
    """Read a transcript as the job does, to its end."""
    project = next((row["id"] for row in parts.readers.here(lambda tx: tx.all("projects.all"))), "")
    payload = {"path": path, "host": host, "session": session, "project": project}
    parts.writer.run(reconcile(parts, payload).write)
    parts.work_waiting.set()
    idle(parts)


def said(home: str) -> list[tuple[str, str]]:
    """Who said what, without the tools."""
    return sorted((row["role"], row["text"].strip()) for row in left(home).turns if row["role"] != "tool")


@pytest.mark.law
@pytest.mark.parametrize(("host", "session"), SOME, ids=[session["label"] for _, session in SOME])
def test_hooks_and_transcript_tell_one_story_in_either_order(home: str, host: str, session: dict[str, Any]) -> None:
    name, path = session["session_id"], str(FIXTURES / host / session["file"])
    stories: dict[str, list[tuple[str, str]]] = {}
    tools: dict[str, Counter[str]] = {}
    learned: dict[str, Counter[str]] = {}
    orders = {"hooks, transcript": "ht", "transcript, hooks": "th", "twice": "htth", "transcript alone": "t"}
    for order, steps in orders.items():
        place = os.path.join(home, steps)
        with running(place) as parts:
            for step in steps:
                if step == "t":
                    by_transcript(parts, host, name, path)
                else:
                    for event in by_hooks(host, name):
                        store_events(parts, [event]).result()
                    idle(parts)
        stories[order] = said(place)
        tools[order] = Counter(row["text"] for row in left(place).turns if row["role"] == "tool")
        # What a session came to depends on what of it was read together, and is no fact.
        facts = [row for row in left(place).memories if row["state"] == "live" and row["kind"] not in SUMS]
        learned[order] = Counter(row["text"] for row in facts)
        assert_sound(place)
    both = stories["hooks, transcript"]
    assert len(both) >= len(stories["transcript alone"])
    assert stories["transcript, hooks"] == both
    assert stories["twice"] == both
    assert learned["transcript, hooks"] == learned["hooks, transcript"] == learned["twice"]
    assert [text for text, times in tools["twice"].items() if times > tools["hooks, transcript"][text]] == []


def test_the_transcript_adds_what_the_hooks_missed(home: str) -> None:
    host, session = SESSIONS[0]
    name, path = session["session_id"], str(FIXTURES / host / session["file"])
    with running(home) as parts:
        for event in by_hooks(host, name)[::2]:
            store_events(parts, [event]).result()
        idle(parts)
        some = Counter(said(home))
        by_transcript(parts, host, name, path)
    whole = Counter(said(home))
    prompts = {turn["prompt"] for turn in session["turns"] if not turn["prompt"].startswith("/")}
    assert some < whole
    assert prompts - {text for role, text in whole if role == "user"} == set()


def test_a_torn_last_line_is_read_once_it_is_complete(home: str) -> None:
    path = os.path.join(os.path.dirname(home), "projects", "torn.jsonl")
    os.makedirs(os.path.dirname(path))
    first, second = (record(number, statement(number)) for number in (1, 2))
    with open(path, "wb") as file:
        file.write(first + second[:40])
    with daemon(home):
        hook(home, reply(home, "s", "p1", "Noted.", transcript_path=path))
        eventually("the whole line is read", lambda: quiet(home) and statement(1) in texts(home))
        assert statement(2) not in texts(home)
        with open(path, "ab") as file:
            file.write(second[40:])
        hook(home, reply(home, "s", "p2", "Noted, too.", transcript_path=path))
        eventually("the completed line is read", lambda: quiet(home) and statement(2) in texts(home))
    told = Counter(row["text"] for row in left(home).turns)
    assert (told[statement(1)], told[statement(2)]) == (1, 1)
    assert_sound(home)


def record(number: int, text: str) -> bytes:
    line = {
        "type": "user", "uuid": f"00000000-0000-4000-8000-{number:012d}", "sessionId": "s",
        "timestamp": "2026-11-22T00:00:00.000Z", "message": {"role": "user", "content": text},
    }  # fmt: skip
    return json.dumps(line).encode() + b"\n"


def texts(home: str) -> set[str]:
    return {row["text"] for row in left(home).turns}
