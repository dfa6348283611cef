"""Threads through the product: the sets of bench/threads.py in a real store, by the real jobs.

    python bench/placed.py --data DIR                # both drivers, and how far they are apart
    python bench/placed.py --data DIR --check        # exit 1 when they are further apart than the gate; 2 without data
    python bench/placed.py --time                    # what placing costs, with 50, 200 and 3,000 threads in the project

A prompt is an event as a hook sends it, in a throw-away home whose clock stands at the moment at which it is said;
then everything is done that is due: its turn, what is learned of it, its vector, its place, bridges. Half an hour after
its last prompt a session ends, as a host would report it, and its project is regrouped; in between, what the daemon
looks at once a minute is looked at whenever a quarter of an hour of silence is over.

The pure driver plays the same streams with the same model. It takes every prompt; the product leaves out what says
nothing ("thanks!"), which goes where the prompt before it went. So both are compared on all pieces, and the pure driver
once more on streams without those prompts, which tells what that rule alone costs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from threads import SEED, SILENT, Driver, Embedded, Played, Pure, Stream, english, figures, french, whole_haystacks

from filrouge.capture.events import Event, EventKind
from filrouge.capture.intake import skip_reason
from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.capture.service import store_events
from filrouge.core.clock import from_text, new_id
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.scope import LOCAL_USER, Scope
from filrouge.extraction.sessions import IDLE_SECONDS, queue_idle
from filrouge.projects.repository import Projects
from filrouge.providers.calibration import bundled
from filrouge.runtime import wiring
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.services import Parts
from filrouge.search.repository import StoredVectors
from filrouge.testing import ManualClock
from filrouge.threads.models import Thread, ThreadState
from filrouge.threads.placing import PROMPTS_TOGETHER, place_prompts
from filrouge.threads.reports import get_thread_detail, search_threads, threads_now
from filrouge.threads.repository import ThreadDecisions, Threads
from filrouge.threads.upkeep import extract_topics, name_by_rules, update_vector

#: How far pairwise F1 of the two drivers may be apart.
APART: Final = 0.03
PROJECT: Final = ("origin:forge.example/ana/world",)
PATIENCE_SECONDS: Final = 120.0
KEPT: Final = (
    "sessions",
    "pieces",
    "prompts",
    "threads",
    "f1",
    "f1_interval",
    "precision",
    "recall",
    "continuation",
    "duplicates",
)
#: The daemon looks once a minute.
_LOOK: Final = timedelta(seconds=IDLE_SECONDS + 60)


class Product:
    """Plays a stream through a whole Filrouge."""

    def __init__(self, embedding: str) -> None:
        self._embedding = embedding

    def __call__(self, stream: Stream) -> Played:
        with tempfile.TemporaryDirectory() as home, opened(home, self._embedding) as (parts, clock):
            return _Life(parts, clock).played(stream)


@contextmanager
def opened(home: str, embedding: str) -> Generator[tuple[Parts, ManualClock]]:
    """A running Filrouge with a clock of its own."""
    clock = ManualClock()
    whole = wiring.start(home, environ={"FILROUGE_EMBEDDING_MODEL": embedding}, clock=clock)
    try:
        whole.warm_up_thread.join()
        for task in whole.periodic_tasks:  # they would look by the machine's minutes
            task.stop()
        yield whole.parts, clock
    finally:
        whole.stop()


class _Life:
    def __init__(self, parts: Parts, clock: ManualClock) -> None:
        self.parts, self.clock = parts, clock
        self.events = 0

    def played(self, stream: Stream) -> Played:
        moments = sorted(
            (piece.at + timedelta(minutes=3 * number) + (SILENT if number == len(piece.prompts) else timedelta()),
             piece.id, number, piece.prompts[number] if number < len(piece.prompts) else None)
            for piece in stream.pieces
            for number in range(len(piece.prompts) + 1)
        )  # fmt: skip
        self.clock.move(seconds=(moments[0][0] - self.clock.now()).total_seconds())
        for at, piece, _, text in moments:
            self.pass_to(at)
            self.tell("session_end" if text is None else "prompt", piece, {} if text is None else {"text": text})
            self.settle()
        self.pass_to(moments[-1][0] + timedelta(days=1))
        return self.found(stream)

    def pass_to(self, at: datetime) -> None:
        """Let time go by, with what the daemon looks at on the way."""
        if at - self.clock.now() > _LOOK:
            self.clock.move(seconds=_LOOK.total_seconds())
            queue_idle(self.parts)
            self.settle()
        self.clock.move(seconds=(at - self.clock.now()).total_seconds())

    def tell(self, kind: EventKind, session: str, data: dict[str, Any]) -> None:
        self.events += 1
        name = f"{self.events:08}"
        at = self.clock.now().timestamp()
        event = Event(name, "claude-code", kind, session, at, f"k{name}", "", PROJECT, "", "", data)
        store_events(self.parts, [event]).result(PATIENCE_SECONDS)

    def settle(self) -> None:
        """Wait until nothing is due; what waits for its time goes on waiting."""
        settle(self.parts)

    def found(self, stream: Stream) -> Played:
        """The threads of every piece's prompts; a piece of which none is in a thread is by itself."""
        told = self.parts.readers.here(
            lambda tx: [get_thread_detail(self.parts, tx, one.id) for one in threads_now(self.parts, tx)]
        )
        threads: defaultdict[str, list[str]] = defaultdict(list)
        for one in told:
            for turn in one["turns_shown"]:
                threads[turn["session_id"]] += [one["id"]] * (turn["role"] == "user")
        dead = self.parts.readers.here(lambda tx: Jobs(tx).count()).dead
        if dead:
            raise SystemExit(f"{stream.name}: {dead} jobs were set aside")
        return _whole(stream, Played(threads=threads, titles=[one["title"] for one in told]))


def _whole(stream: Stream, played: Played) -> Played:
    """With a place for every piece: what is in no thread is alone."""
    threads = {piece.id: played.threads.get(piece.id) or [f"none {piece.id}"] for piece in stream.pieces}
    return replace(played, threads=threads)


def settle(parts: Parts) -> None:
    """Wait until nothing is due; what waits for its time goes on waiting.

    Raises:
        SystemExit: it takes longer than anybody should wait.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        due, running = parts.readers.here(lambda tx: (Jobs(tx).next_due(), Jobs(tx).count().running))
        waits = due is None or from_text(due) > parts.clock.now()
        if waits and not running and parts.idle.is_set():
            return
        parts.work_waiting.set()
        if time.monotonic() > deadline:
            raise SystemExit(f"not done after {PATIENCE_SECONDS} s: {parts.readers.here(lambda tx: Jobs(tx).count())}")
        time.sleep(0.002)


class Spoken:
    """The pure driver, told only what the product places by what it says."""

    def __init__(self, pure: Driver) -> None:
        self._pure = pure

    def __call__(self, stream: Stream) -> Played:
        kept = [
            replace(piece, prompts=tuple(text for text in piece.prompts if not skip_reason(text, "prompt")))
            for piece in stream.pieces
        ]
        told = replace(stream, pieces=tuple(piece for piece in kept if piece.prompts))
        return replace(_whole(stream, self._pure(told)), placing=[])


def compared(name: str, streams: Sequence[Stream], drivers: dict[str, Driver]) -> dict[str, Any]:
    """The figures of each driver, and how far the product is from the pure one."""
    found: dict[str, Any] = {"set": name, "streams": [one.name for one in streams]}
    for driver, play in drivers.items():
        begun = time.monotonic()
        told = figures(name, streams, play)
        found[driver] = {key: told[key] for key in KEPT} | {"seconds": round(time.monotonic() - begun, 1)}
    return found | {"apart": round(found["product"]["f1"] - found["pure"]["f1"], 3)}


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    streams = {"fr": french(options.orders), "en": english(options.data)[1::2][: options.worlds]}
    streams["en haystacks"] = whole_haystacks(options.data, options.haystacks)
    embedded = Embedded(options.embedder)
    embedded.learn([text for own in streams.values() for one in own for piece in one.pieces for text in piece.prompts])
    texts = [text for one in bundled() for text in (one.text, one.same, one.question) if text]
    embedded.learn(texts)
    pure = Pure(embedded, np.stack([embedded[text] for text in texts]))
    drivers: dict[str, Driver] = {"pure": pure, "pure, spoken": Spoken(pure), "product": Product(options.embedder)}
    found: list[dict[str, Any]] = []
    for world, own in streams.items():
        if own:
            found.append(compared(world, own, drivers))
            print(json.dumps(found[-1]), flush=True)
    return found


# --- what placing costs


#: Threads of a project: active, suspended, archived.
SIZES: Final = ((50, 0, 0), (50, 150, 0), (50, 150, 2800))
#: Prompts of a thread, of two sessions; prompts that are placed and timed, after some that are not.
OF_A_THREAD, TIMED, WARM = 4, 64, 16
WRITE_GATE_MS: Final = 15.0
SUBJECTS: Final = (
    "coupon checkout form", "Postgres schema migration", "sauvegarde du serveur de paie", "ferry timetable parser",
    "quota de la file d'attente", "kiosk printer driver", "index de recherche des fiches", "ledger rounding rule",
)  # fmt: skip
SENTENCES: Final = (
    "The {subject} of customer {n} fails since we changed the {other} on shard {m}, please find out why",
    "Where in module_{n} is the {subject} handled, and does the {other} know of ticket {m}?",
    "Regarde la {subject} du client {n} : depuis le lot {m} elle attend {other} trop longtemps",
    "Write a test for the {subject} in module_{n}, and leave the {other} of build {m} as it is",
)


def said(chance: random.Random, subject: int) -> str:
    """A prompt of a thread: its subject and its number, beside something else."""
    number = subject * 7919 % 100_000
    words = {"subject": SUBJECTS[subject % len(SUBJECTS)], "other": chance.choice(SUBJECTS), "n": number}
    return chance.choice(SENTENCES).format(**words, m=chance.randrange(10**5))


def peopled(parts: Parts, clock: ManualClock, sizes: tuple[int, int, int]) -> None:
    """Fill a project with threads as placing would have left them."""
    chance, now, space_id = random.Random(SEED), clock.now(), parts.vectors.space.id
    texts = [[said(chance, subject) for _ in range(OF_A_THREAD)] for subject in range(sum(sizes))]
    vectors = iter(parts.vectors.embedder.passages([text for own in texts for text in own]))
    ages = [*[timedelta(days=1)] * sizes[0], *[timedelta(days=6)] * sizes[1], *[timedelta(days=60)] * sizes[2]]
    states: list[ThreadState] = [*["active"] * sizes[0], *["suspended"] * sizes[1], *["archived"] * sizes[2]]  # pyright: ignore[reportAssignmentType]

    def write(tx: Tx, subject: int) -> None:
        begun = now - ages[subject] - timedelta(minutes=subject)
        turns = [prompt(text, f"{subject}-{place // 2}", begun) for place, text in enumerate(texts[subject])]
        named = name_by_rules(turns, ())
        thread = Thread(
            id=new_id(begun), user=LOCAL_USER, project=PROJECT[0], channel="claude-code", state=states[subject],
            title=f"{named.title} {subject}", summary=named.summary, topics=named.topics, opened_at=begun,
            last_active=begun, suspended_at=now - timedelta(days=1) if states[subject] == "suspended" else None,
        )  # fmt: skip
        Threads(tx).add(thread)
        for turn in turns:
            parts.turns(tx).add(turn)
            StoredVectors(tx).put("turn", turn.id, space_id, next(vectors)[None, :])
            Threads(tx).place(turn.id, thread.id, turn.at, extract_topics(turn))
        update_vector(tx, thread.id, space_id)

    parts.writer.run(lambda tx: Projects(tx).resolve(PROJECT, at=now))
    for start in range(0, sum(sizes), 100):
        some = range(start, min(start + 100, sum(sizes)))
        parts.writer.run(lambda tx, some=some: [write(tx, subject) for subject in some])


def prompt(text: str, session: str, at: datetime) -> Turn:
    scope = Scope(user=LOCAL_USER, project=PROJECT[0], channel="claude-code", session=session)
    id_ = new_id(at)
    return Turn(
        id=id_, key=id_, scope=scope, host="claude-code", role="user", source="prompt", text=text, at=at,
        trust=TRUST_PROMPT,
    )  # fmt: skip


def timed(sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Milliseconds a prompt, prepared together and one at a time, and within the write transaction.

    Processor time of the thread that does it; beside it what a turn costs to be stored, in the same transaction.
    """
    with tempfile.TemporaryDirectory() as home:
        clock = ManualClock()
        parts = wiring.build(home, environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=clock)
        try:
            parts.vectors.ready.set()
            peopled(parts, clock, sizes)
            chance, space_id = random.Random(SEED + 1), parts.vectors.space.id
            spent: dict[str, list[float]] = defaultdict(list)
            told = list[str]()
            for number in range(0, WARM + TIMED, PROMPTS_TOGETHER):
                clock.move(minutes=3)
                subjects_now = [chance.randrange(sum(sizes) + 20) for _ in range(PROMPTS_TOGETHER)]
                turns = [prompt(said(chance, one), f"new-{one}-{number}", clock.now()) for one in subjects_now]
                vectors = parts.vectors.embedder.passages([turn.text for turn in turns])

                def store(tx: Tx, turns: list[Turn] = turns, vectors: Vectors = vectors) -> float:
                    begun = time.thread_time()
                    for turn in turns:
                        parts.turns(tx).add(turn)
                    stored = time.thread_time() - begun
                    for turn, vector in zip(turns, vectors, strict=True):
                        StoredVectors(tx).put("turn", turn.id, space_id, vector[None, :])
                    return stored

                stored = parts.writer.run(store)
                payloads = [{"turn": turn.id} for turn in turns]
                begun = time.thread_time()
                place_prompts(parts, payloads[:1])
                alone = time.thread_time() - begun
                begun = time.thread_time()
                outcomes = place_prompts(parts, payloads)
                together = time.thread_time() - begun
                writes = [parts.writer.run(partial(_write, one)) for one in outcomes]
                if number >= WARM:
                    spent["stored"].append(stored / PROMPTS_TOGETHER)
                    spent["prepared alone"].append(alone)
                    spent["prepared"].append(together / PROMPTS_TOGETHER)
                    spent["written"] += writes
                    told += [turn.id for turn in turns]
            decided = parts.readers.here(lambda tx: ThreadDecisions(tx).about(told))
            begun = time.thread_time()
            found = parts.readers.here(lambda tx: search_threads(parts, tx, said(chance, 7), mode="hybrid"))
            searched = time.thread_time() - begun
        finally:
            parts.readers.close()
            parts.writer.close()
            parts.embedders.close()
    ms = {name: round(1000 * statistics.median(own), 2) for name, own in spent.items()}
    return {
        "threads": sum(sizes),
        "active/suspended/archived": "/".join(map(str, sizes)),
        "prompts": len(spent["written"]),
        "prepared ms": ms["prepared"],
        "prepared alone ms": ms["prepared alone"],
        "written ms": ms["written"],
        "written p95 ms": round(1000 * float(np.quantile(spent["written"], 0.95)), 2),
        "a turn stored ms": ms["stored"],
        "written / a turn stored": round(ms["written"] / ms["stored"], 1),
        "a search ms": round(1000 * searched, 1),
        "found": len(found),
        "actions": dict(Counter(one.routing.action for one in decided)),
    }


def _write(outcome: JobResult, tx: Tx) -> float:
    begun = time.thread_time()
    outcome.write(tx)
    return time.thread_time() - begun


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or take the time, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    parser.add_argument("--orders", type=int, default=1, help="of the French sessions")
    parser.add_argument("--worlds", type=int, default=2, help="English streams of one session of each haystack")
    parser.add_argument("--haystacks", type=int, default=1, help="English streams of one haystack")
    parser.add_argument("--embedder", default="e5-onnx")
    parser.add_argument("--time", action="store_true", help="what placing costs")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.time:
        rows = [timed(sizes) for sizes in SIZES]
        for row in rows:
            print(json.dumps(row), flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return 1 if rows[0]["written ms"] >= WRITE_GATE_MS and options.check else 0
    if options.data is None or not (options.data / "longmemeval_s.jsonl.xz").exists():
        print(f"There is no longmemeval_s.jsonl.xz in {options.data}; --data takes the folder that holds it.")
        return 2
    found = compare(options)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    missed = [f"missed: {one['set']} {one['apart']} apart" for one in found if abs(one["apart"]) > APART]
    for line in missed:
        print(line)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
