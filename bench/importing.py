"""Reading a long history in: how fast, that a kill costs nothing, and that nobody who speaks now waits for the past.

A history of Claude Code is written by hand, 10,000 messages in 50 sessions, and read in by `filrouge import` into the
daemon of a throw-away home, real processes both. Then the same again, which must add nothing. In a second home the
daemon gets `kill -9` while it takes the history in; whoever reads goes on or is begun anew, and in the end both homes
must hold the same messages.

While the past is read in and understood, an agent delivers a prompt every second to the first home, as a hook does.
Measured are how long its answer takes and how long until what it says is a fact, before, during and after.

    python bench/importing.py                        # 10,000 messages, 8 kills, hashing
    python bench/importing.py --messages 2000 --kills 4
    python bench/importing.py --check                # exit 1 when a gate is missed

Gates: the second run adds 0, both homes hold the same, a prompt's fact is there within 2 s in nine of ten cases.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import apsw

from filrouge.core import paths as places
from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client

SPACE: Final = uuid.UUID("d5b4bd5e-6f6c-4a0b-8f5d-5f9a86c0c0de")
LIVE: Final = "name:live"
THINGS: Final = ("export", "ledger", "kiosk", "ferry", "almanac", "harbour", "lantern", "orchard", "gateway", "mailer")
SAID: Final = (
    "The {thing} worker of customer {n} is slow since we moved its tables to shard {m}, where do we look first?",
    "The {thing} of customer {n} waits for a lock that shard {m} holds; the report reads the same rows.",
    "We decided that the {thing} of customer {n} listens on port {m}.",
    "Noted: port {m} for the {thing} of customer {n}. The proxy and the health check are changed, too.",
    "Le {thing} du client {n} garde ses journaux {m} jours, est-ce que cela suffit pour l'audit ?",
    "Pour l'audit du client {n}, {m} jours suffisent ; le {thing} les compresse après une semaine.",
)
PATIENCE_SECONDS: Final = 3600.0


def history(root: str, messages: int, sessions: int) -> int:
    """A history of Claude Code; its bytes."""
    folder = os.path.join(root, "projects", "-srv-shop")
    os.makedirs(folder)
    size = 0
    for number in range(sessions):
        session = str(uuid.uuid5(SPACE, f"{number}"))
        rows: list[str] = []
        for place in range(number, messages, sessions):
            text = SAID[place // sessions % len(SAID)].format(
                thing=THINGS[number % len(THINGS)], n=number, m=1000 + place
            )
            is_prompt = place // sessions % 2 == 0
            content: Any = text if is_prompt else [{"type": "text", "text": text}]
            day = f"2025-{1 + place % 12:02}-{1 + place % 28:02}T{place % 24:02}:{place % 60:02}:00.000Z"
            rows.append(
                json.dumps({
                    "type": "user" if is_prompt else "assistant", "uuid": str(uuid.uuid5(SPACE, f"{number} {place}")),
                    "timestamp": day, "sessionId": session, "cwd": "/srv/shop", "promptId": f"p{place}",
                    "message": {"id": f"m{place}", "role": "user" if is_prompt else "assistant", "content": content},
                })
            )  # fmt: skip
        path = os.path.join(folder, f"{session}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
        size += os.path.getsize(path)
    return size


def environment(home: str) -> dict[str, str]:
    """What a process of this home sees."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    return {**kept, "HOME": home, "FILROUGE_HOME": home, "FILROUGE_EMBEDDING_MODEL": "hashing"}


@contextmanager
def daemon(home: str) -> Generator[None]:
    """A daemon that answers; it is ended, whichever it is by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "filrouge.server"], env=environment(home), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not answers(home):
            time.sleep(0.1)
        yield
    finally:
        if pid := holder(home):
            os.kill(pid, signal.SIGTERM)
        process.wait(60)


def answers(home: str) -> bool:
    """Whether a daemon is there."""
    try:
        return client.request(home, "GET", "/health", None, 2.0).status == 200
    except DaemonUnavailable:
        return False


def holder(home: str) -> int:
    """The process of the daemon, 0 for none."""
    with suppress(OSError, ValueError):
        with open(places.inside(home, places.RUNTIME), encoding="utf-8") as file:
            pid = int(json.load(file)["pid"])
        os.kill(pid, 0)
        return pid
    return 0


def importer(home: str, root: str) -> subprocess.Popen[str]:
    """`filrouge import claude-code`."""
    words = [sys.executable, "-m", "filrouge.cli.main", "import", "claude-code", "--from", root, "--json"]
    return subprocess.Popen(words, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def idle(home: str) -> bool:
    """Whether everything is understood."""
    queue = client.request(home, "GET", "/daemon/status", None, 30.0).body["queue"]
    return queue["waiting"] + queue["running"] == 0


class Agent:
    """Delivers prompts and sees when they are facts."""

    def __init__(self, home: str) -> None:
        self._home, self._number = home, 0

    def say(self) -> tuple[float, float]:
        """Milliseconds until the answer of the hook, and until what was said is a fact."""
        self._number += 1
        id_ = f"live-{self._number:06}"
        event = {
            "v": 1, "id": id_, "host": "codex", "kind": "prompt", "session": f"live-{self._number // 10}",
            "at": time.time(), "key": f"key:{id_}", "cwd": "", "project": [LIVE], "agent": "", "transcript": "",
            "data": {"text": f"For the record: backup server {self._number} listens on port {self._number + 2000}."},
        }  # fmt: skip
        began = time.perf_counter()
        client.request(self._home, "POST", "/hooks/events", {"events": [event]}, 30.0)
        answered = time.perf_counter() - began
        wanted = f"listens on port {self._number + 2000}"
        while True:
            found = client.request(self._home, "GET", f"/api/memory/facts?project={LIVE}&limit=5", None, 30.0).value
            if any(wanted in one["text"] for one in found):
                return answered * 1000, (time.perf_counter() - began) * 1000
            time.sleep(0.02)


def told(home: str) -> list[Any]:
    """The messages of the history that a home holds."""
    connection: Any = apsw.Connection(places.inside(home, places.DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(
            connection.execute(
                "select session_id, key, role, text, trust, at, project_id from turns where host = 'claude-code'"
                " order by 1, 2, 3, 4"
            )
        )
    finally:
        connection.close()


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Median, 90th percentile and largest."""
    ordered = sorted(values)
    nine = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return {"n": len(ordered), "p50": round(statistics.median(ordered), 1), "p90": round(nine, 1),
            "max": round(ordered[-1], 1)}  # fmt: skip


def undisturbed(home: str, root: str, before: int) -> dict[str, Any]:
    """Read the history in while an agent speaks, twice, and wait until it is understood."""
    with daemon(home):
        agent = Agent(home)
        phases: dict[str, list[tuple[float, float]]] = {"before": [agent.say() for _ in range(before)]}
        began = time.perf_counter()
        process = importer(home, root)
        phases["reading in"] = []
        while process.poll() is None:
            phases["reading in"].append(agent.say())
            time.sleep(0.2)
        first = json.loads(process.communicate()[0])
        again = json.loads(importer(home, root).communicate()[0])
        phases["understanding"] = []
        while not idle(home) and time.perf_counter() - began < PATIENCE_SECONDS:
            phases["understanding"].append(agent.say())
            time.sleep(1.0)
        understood = time.perf_counter() - began
        phases["after"] = [agent.say() for _ in range(before)]
    return {
        "first": first,
        "again": again,
        "understood_seconds": round(understood, 1),
        "answer_ms": {name: percentiles([one[0] for one in all_]) for name, all_ in phases.items() if all_},
        "fact_ms": {name: percentiles([one[1] for one in all_]) for name, all_ in phases.items() if all_},
    }


def killed(home: str, root: str, kills: int, chance: random.Random) -> dict[str, Any]:
    """Read the history in while its daemon is killed."""
    done, runs, began = 0, 0, time.perf_counter()
    with daemon(home):
        while True:
            process, runs = importer(home, root), runs + 1
            while process.poll() is None and done < kills:
                time.sleep(chance.uniform(0.1, 0.7))
                if process.poll() is None and (pid := holder(home)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        done += 1
            process.communicate()
            if process.returncode == 0:
                break
    return {"kills": done, "runs": runs, "seconds": round(time.perf_counter() - began, 1)}


def main() -> int:
    """Measure, print, and with `--check` judge."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--messages", type=int, default=10_000)
    asked.add_argument("--sessions", type=int, default=50)
    asked.add_argument("--kills", type=int, default=8)
    asked.add_argument("--before", type=int, default=20)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked.add_argument("--check", action="store_true")
    given = asked.parse_args()
    root = tempfile.mkdtemp(prefix="frl-")
    try:
        size = history(os.path.join(root, "claude"), given.messages, given.sessions)
        one, two = os.path.join(root, "one"), os.path.join(root, "two")
        os.makedirs(one, 0o700)
        os.makedirs(two, 0o700)
        found = undisturbed(one, os.path.join(root, "claude"), given.before)
        found["killed"] = killed(two, os.path.join(root, "claude"), given.kills, random.Random(given.seed))
        ours, theirs = told(one), told(two)
        found |= {"messages": len(ours), "bytes": size, "equal": ours == theirs, "seed": given.seed}
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(found, indent=2))
    slowest = max(one["p90"] for one in found["fact_ms"].values())
    held = found["equal"] and len(ours) == given.messages and found["again"]["turns"]["added"] == 0 and slowest <= 2000
    return 1 if given.check and not held else 0


if __name__ == "__main__":
    sys.exit(main())
