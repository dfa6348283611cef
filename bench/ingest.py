"""How fast Filrouge takes conversations in: acknowledged, and all the way to understood and indexed.

Agents talk at once, each in a session of its own: a prompt, a tool's result, an answer, one event at a time, each
waiting until its event is on disk. Then everything is waited for that follows: turns in the full-text index,
statements analysed and decided on, vectors stored and in the index in memory. The same run measures what bounds it on
this machine: how often a second the disk keeps what is appended to a file, and how fast the embedder alone embeds the
same texts in one call.

    export OPENBLAS_NUM_THREADS=1                            # as the daemon does
    python bench/ingest.py                                   # hashing: what the writing costs
    python bench/ingest.py --embedding e5 --events 600       # with the bundled model
    python bench/ingest.py --check                           # exit 1 when a gate is missed
    python bench/ingest.py --data ../shared/bench/data       # real conversations, one after the other

With `--data`, the conversations of LoCoMo's development split are taken in by the bundled model, one after the other
into one home, so that each meets the threads of those before it; a row for each.

Gates: with `hashing`, at least 1,500 events a second acknowledged and 100 turns a second indexed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import recall

from filrouge.capture.events import Event, EventKind
from filrouge.capture.service import store_events
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.testing import running

ACKNOWLEDGED_GATE: Final = 1500.0
INDEXED_GATE: Final = 100.0
FSYNCS: Final = 200
PATIENCE_SECONDS: Final = 1800.0

SERVICES: Final = ("billing", "ferry", "almanac", "kiosk", "search", "export", "ledger", "mailer", "gateway", "tide")
SAID: Final = (
    "For the record: the {service} service of customer {n} listens on port {port}.",
    "Why does the {service} job of customer {n} take so long since we moved the tables to shard {port}?",
    "le service {service} du client {n} garde ses journaux {days} jours, et les factures partent le lundi",
    "Please look at the {service} tests of customer {n}, two of them fail after {days} minutes on my machine.",
)
ANSWERED: Final = (
    "I looked at client_{n}.py: the {service} limit was {days}; I raised it, and all {port} tests pass now.",
    "Le fichier {service}_{n}.py ouvrait {days} connexions par requête ; il n'en ouvre plus qu'une seule.",
)


def conversation(agent: int, events: int) -> list[Event]:
    """What one agent sends: prompt, tool's result, answer, and again."""
    draw, made = random.Random(agent), list[Event]()
    kinds: tuple[EventKind, ...] = ("prompt", "tools", "reply")
    for number in range(events):
        kind = kinds[number % 3]
        words = {"service": draw.choice(SERVICES), "n": draw.randrange(10**6), "port": draw.randrange(1000, 9999)}
        text = draw.choice(ANSWERED if kind == "reply" else SAID).format(**words, days=draw.randrange(2, 90))
        listing = "\n".join(f"src/module_{draw.randrange(10**6)}.py: ok" for _ in range(20))
        call = {"id": f"t{agent}-{number}", "name": "Bash", "input": {"command": "make check"}, "output": listing}
        data = {"calls": [call]} if kind == "tools" else {"text": text}
        project = (f"origin:forge.example/ana/{SERVICES[agent % 3]}",)
        id_ = f"event-{agent}-{number}"
        made.append(
            Event(id_, "claude-code", kind, f"session-{agent}", time.time(), f"k{number}", "", project, "", "", data)
        )
    return made


def take_in(parts: Parts, talks: Sequence[Sequence[Event]]) -> tuple[float, float]:
    """Send all, an agent a thread; seconds until all is acknowledged, and until all is understood and indexed."""

    def talk(events: Sequence[Event]) -> None:
        for event in events:
            store_events(parts, [event]).result(PATIENCE_SECONDS)

    agents = [threading.Thread(target=talk, args=(events,)) for events in talks]
    begun = time.perf_counter()
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join()
    acknowledged = time.perf_counter() - begun
    while (left := parts.readers.here(lambda tx: Jobs(tx).count())).waiting + left.running:
        if time.perf_counter() - begun > PATIENCE_SECONDS:
            raise SystemExit(f"not done after {PATIENCE_SECONDS} s: {left}")
        time.sleep(0.05)
    return acknowledged, time.perf_counter() - begun


def grow(data: Path) -> None:
    """Take conversations into one home, one after the other, and print a row for each."""
    with tempfile.TemporaryDirectory() as directory, running(os.path.join(directory, "home"), embedding="e5") as parts:
        parts.resumed.wait(PATIENCE_SECONDS)
        parts.vectors.embedder.passages(["the model is loaded before the first conversation"])
        for number, store in enumerate(recall.stores(data, "locomo")):
            events = [
                recall.event(one)._replace(id=f"{number}-{at}", key=f"{number}-{at}")
                for at, one in enumerate(store.said)
            ]
            worked = time.process_time()
            _, indexed = take_in(parts, [events])
            row = {
                "conversation": number + 1,
                "messages": len(events),
                "messages/s": round(len(events) / indexed, 1),
                "processor ms per message": round(1000 * (time.process_time() - worked) / len(events), 1),
                "threads after it": parts.readers.here(lambda tx: tx.all("carrying.counts"))[0]["threads"],
                "load": round(os.getloadavg()[0], 1),
            }
            print(json.dumps(row), flush=True)


def fsyncs(directory: str) -> float:
    """How often a second the disk keeps a few hundred bytes more of a file."""
    with open(os.path.join(directory, "fsync"), "ab", buffering=0) as file:
        begun = time.perf_counter()
        for _ in range(FSYNCS):
            file.write(b"\0" * 400)
            os.fsync(file.fileno())
    return FSYNCS / (time.perf_counter() - begun)


def main() -> int:
    """Measure, print a row, and judge."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--events", type=int, default=6000, help="how many in all")
    asked.add_argument("--agents", type=int, default=32, help="how many talk at once")
    asked.add_argument("--embedding", default="hashing", help="the embedder's name")
    asked.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    asked.add_argument("--data", type=Path, help="take in real conversations instead, one after the other")
    options = asked.parse_args()
    if options.data:
        grow(options.data)
        return 0
    talks = [conversation(agent, options.events // options.agents) for agent in range(options.agents)]
    events = sum(map(len, talks))
    texts = [str(event.data["text"]) for events in talks for event in events if event.kind != "tools"]
    with tempfile.TemporaryDirectory() as directory:
        kept = fsyncs(directory)
        with running(os.path.join(directory, "home"), embedding=options.embedding) as parts:
            parts.resumed.wait(PATIENCE_SECONDS)
            begun = time.perf_counter()
            parts.vectors.embedder.passages([f"{text} " for text in texts])
            alone = time.perf_counter() - begun
            worked = time.process_time()
            acknowledged, indexed = take_in(parts, talks)
            worked = time.process_time() - worked
            dead = parts.readers.here(lambda tx: Jobs(tx).count()).dead
    row = {
        "embedding": options.embedding,
        "events": events,
        "agents": options.agents,
        "fsyncs/s": round(kept),
        "acknowledged/s": round(events / acknowledged),
        "acknowledged per fsync": round(events / acknowledged / kept, 2),
        "turns/s": round(events / indexed, 1),
        "embedder alone, texts/s": round(len(texts) / alone),
        "turns/s without embedding": round(events / max(indexed - alone, 1e-9), 1),
        "processor ms per turn": round(1000 * worked / events, 2),
        "dead": dead,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(row))
    missed = row["acknowledged/s"] < ACKNOWLEDGED_GATE or row["turns/s without embedding"] < INDEXED_GATE or dead > 0
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
