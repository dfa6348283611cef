"""The worker: jobs are done together, fail alone, and what is not prepared is given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.errors import EmbedderUnavailable, NotFound
from filrouge.core.paths import BRIEFS
from filrouge.core.protocols import Tx
from filrouge.runtime import wiring
from filrouge.runtime.jobs import Handler, JobResult, Jobs, Payload, Worker
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import AnotherHash, idle, running
from tests.support.given import SHOP, event, known

Prepare = Callable[[Parts, Sequence[Payload]], Sequence[JobResult]]


@contextmanager
def working(home: Path, prepare: Prepare, jobs: int, *, most: int = 8) -> Generator[Parts]:
    """A worker that does so many jobs `work`, numbered from 0, until it has nothing to do."""
    parts = wiring.build(str(home), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    now = parts.clock.now()
    parts.writer.run(lambda tx: [Jobs(tx).enqueue("work", {"n": n}, dedupe=str(n), at=now) for n in range(jobs)])
    worker = Worker(parts, {"work": Handler(prepare=prepare, max_together=most)})
    worker.start()
    try:
        assert parts.idle.wait(10)
        yield parts
    finally:
        worker.stop()
        parts.readers.close()
        parts.writer.close()


def noted(payload: Payload) -> JobResult:
    """What writes down that a job was done."""
    return JobResult(write=lambda tx: StoredSettings(tx).put({f"done {payload['n']}": True}, SystemClock().now()))


def done(parts: Parts) -> list[int]:
    stored = parts.readers.here(lambda tx: StoredSettings(tx).all())
    return sorted(int(key.removeprefix("done ")) for key in stored if key.startswith("done "))


def waiting(parts: Parts) -> list[tuple[str, str]]:
    """Jobs that failed once, with what is told of them."""
    jobs = (parts.readers.here(lambda tx, n=n: Jobs(tx).get_by_key(str(n))) for n in range(20))
    return [(job["state"], job["error"]) for job in jobs if job is not None]


def test_one_job_that_cannot_be_prepared_fails_alone(tmp_path: Path) -> None:
    def prepare(_: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
        if any(payload["n"] == 3 for payload in payloads):
            raise NotFound("Number 3 is gone.")
        return [noted(payload) for payload in payloads]

    with working(tmp_path, prepare, 8) as parts:
        assert done(parts) == [0, 1, 2, 4, 5, 6, 7]
        assert waiting(parts) == [("queued", "Number 3 is gone.")]


def test_one_job_that_cannot_be_written_fails_alone_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    def spoilt(payload: Payload) -> JobResult:
        def write(tx: Tx) -> None:
            noted(payload).write(tx)
            raise ZeroDivisionError

        return JobResult(write=write)

    def prepare(_: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
        return [spoilt(payload) if payload["n"] == 3 else noted(payload) for payload in payloads]

    with working(tmp_path, prepare, 8) as parts:
        assert done(parts) == [0, 1, 2, 4, 5, 6, 7]
        assert waiting(parts) == [("queued", "ZeroDivisionError")]


def test_one_job_whose_consequences_fail_keeps_none_from_theirs(tmp_path: Path) -> None:
    followed: list[int] = []

    def prepare(_: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
        def follow(number: int) -> None:
            followed.append(6 // (3 - number))

        return [JobResult(write=lambda _: None, afterwards=lambda n=payload["n"]: follow(n)) for payload in payloads]

    with working(tmp_path, prepare, 6) as parts:
        assert len(followed) == 5
        assert waiting(parts) == []


def test_what_was_taken_and_not_prepared_is_given_back_and_done_next(tmp_path: Path) -> None:
    taken: list[list[int]] = []

    def prepare(_: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
        taken.append([payload["n"] for payload in payloads])
        return [noted(payload) for payload in payloads[:3]]

    with working(tmp_path, prepare, 8, most=4) as parts:
        assert done(parts) == list(range(8))
    assert taken == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7]]


def test_an_embedder_that_is_down_is_asked_once_for_all_and_then_by_each_alone(tmp_path: Path) -> None:
    asked: list[int] = []

    def prepare(_: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
        asked.append(len(payloads))
        raise EmbedderUnavailable("The model is away.")

    with working(tmp_path, prepare, 5) as parts:
        assert asked == [5]
        assert waiting(parts) == [("queued", "The model is away.")] * 5
        deadline = time.monotonic() + 60
        while len(asked) < 6 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert asked[1:] == [1] * (len(asked) - 1)


def test_short_turns_reach_the_embedder_in_one_call(tmp_path: Path) -> None:
    class Counting(AnotherHash):
        calls: list[int]

        def passages(self, texts: Sequence[str]) -> Any:
            self.calls.append(len(texts))
            return super().passages(texts)

    embedder = Counting("counting")
    embedder.calls = []
    with running(str(tmp_path), embedding="counting", makers={"counting": lambda: embedder}) as parts:
        idle(parts)
        store_events(parts, [event("reply", text=f"The build number {n} is green.") for n in range(30)]).result(60)
        idle(parts)
        assert len(parts.vectors.turn_index) == 30
    assert 30 in embedder.calls


def test_a_long_turn_does_not_keep_short_ones_from_being_embedded(tmp_path: Path) -> None:
    long = "The committee met again and talked about the new curtains. " * 1500
    with running(str(tmp_path)) as parts:
        idle(parts)
        texts = ["A short answer.", long, "Another short answer.", long + "And again.", "The last one."]
        store_events(parts, [event("reply", text=text) for text in texts]).result(60)
        idle(parts)
        assert len(parts.vectors.turn_index) == 5


def test_prompts_that_are_understood_together_see_each_other(tmp_path: Path) -> None:
    said = [
        "For the record: production listens on port 8443.",
        "For the record: production listens on port 8443.",
        "Correction: production listens on port 9443, not 8443.",
    ]
    told: list[Mapping[str, int]] = []
    for home, together in ((tmp_path / "together", True), (tmp_path / "apart", False)):
        with running(str(home)) as parts:
            idle(parts)
            for some in [said] if together else [[text] for text in said]:
                store_events(parts, [event(text=text) for text in some]).result(60)
                idle(parts)
            rows = parts.readers.here(
                lambda tx: parts.memories(tx).within(project=SHOP[0], user="local", all_states=True)
            )
            told.append({memory.text: memory.mention_count for memory in rows})
            assert [hit.text for hit in known(parts, "What port does production listen on?").hits] == [rows[0].text]
    assert told[0] == told[1]


def test_no_job_begins_while_somebody_waits_for_a_context(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        idle(parts)
        began = Event()

        def recall(_: Tx) -> None:
            began.set()
            time.sleep(0.3)

        waited_for = parts.readers.submit_recall(recall)
        assert began.wait(5)
        store_events(parts, [event(text="Production listens on port 8443.")]).result(60)
        idle(parts)
        assert waited_for.done()


def test_the_brief_follows_what_was_understood(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        idle(parts)
        store_events(parts, [event(text=f"Always run `make check{n}` before you commit.") for n in range(3)]).result(60)
        idle(parts)
        briefs = [path.read_text(encoding="utf-8") for path in (tmp_path / BRIEFS).iterdir()]
        assert any(all(f"make check{n}" in text for n in range(3)) for text in briefs)
