"""How long an agent waits for Filrouge: the whole hook process, from its start to its end.

A host starts one process per event and goes on when it has ended, so the interpreter's own start is part of
what the user waits for. Each round starts every kind of hook once, in a new random order, and in the same
rounds two controls that do nothing: the bare interpreter, and the barest one (`-I -S`, no site packages).
Their time is the floor of this machine, and the ratio to it is what carries over to another. The hooks talk
to a real daemon with a home of its own, filled with memories beforehand; the daemon works meanwhile on what
the hooks bring, as it does in use. Every payload is new, so no hook gets away with "seen before".

    python bench/hook.py                                    # 200 rounds on 10,000 memories
    python bench/hook.py --runs 50 --memories 1000 --check  # exit 1 when a gate is missed
    PYTHONPATH=CHECKOUT/src python bench/hook.py            # the hook of another checkout

Gates: the median of every capture hook <= 60 ms; the 99th percentile of the prompt hook <= 250 ms; and the
prompt hook recalls, since one that never injects anything is fast for the wrong reason.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import platform
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from filrouge.core.paths import socket_path

EXECUTABLE: Final = os.path.join(os.path.dirname(sys.executable), "filrouge")
RESULTS: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "hook.json")

CAPTURE_P50_MS: Final = 60.0
PROMPT_P99_MS: Final = 250.0
WARM_UP: Final = 3
BATCH: Final = 500
FILL_SECONDS: Final = 3600.0

SERVICES: Final = (
    "billing",
    "ferry",
    "almanac",
    "kiosk",
    "search",
    "export",
    "ledger",
    "mailer",
    "gateway",
    "tide",
)
PLACES: Final = ("production", "staging", "preview", "the demo site", "the load test", "the training site")
THINGS: Final = (
    "the {service} service of customer {n} listens on port {port} in {place}",
    "invoices of customer {n} are written by the {service} job every {hours} hours in {place}",
    "le service {service} du client {n} garde ses journaux {hours} jours dans {place}",
    "we decided on shard {n} for the {service} tables of {place}, because it is {hours} times faster",
)


# ---------------------------------------------------------------------------------------- what is run


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of process to start: a hook with a fresh payload each time, or a control with none."""

    name: str
    group: str
    """capture and prompt have gates; start and control are there to compare with."""
    command: tuple[str, ...]
    payload: Callable[[], dict[str, Any]] | None = None


@dataclass(kw_only=True)
class Measured:
    """The times and the processor times of one case, in milliseconds, and how often it printed something."""

    times: list[float] = field(default_factory=list[float])
    processor: list[float] = field(default_factory=list[float])
    answers: int = 0

    def percentile(self, share: float) -> float:
        """The smallest time that `share` of all runs did not exceed."""
        return sorted(self.times)[max(0, math.ceil(share * len(self.times)) - 1)]

    def median_processor(self) -> float:
        """The median processor time."""
        return statistics.median(self.processor)


def cases(cwd: str) -> list[Case]:
    """Every hook an agent waits for, in the payloads of Claude Code, and the controls."""
    hook = (EXECUTABLE, "hook", "--host", "claude-code")
    session = str(uuid.uuid4())
    draw = random.Random(7)

    def payload(event: str, **fields: Any) -> Callable[[], dict[str, Any]]:
        def fresh() -> dict[str, Any]:
            made = {name: value() if callable(value) else value for name, value in fields.items()}
            common = {"session_id": session, "transcript_path": "", "cwd": cwd, "hook_event_name": event}
            return {**common, "prompt_id": str(uuid.uuid4()), **made}

        return fresh

    def question() -> str:
        customer = draw.randrange(250) * len(THINGS)
        return f"Which port does the {draw.choice(SERVICES)} service of customer {customer} listen on?"

    def reply() -> str:
        return f"The limit is set in src/client_{draw.randrange(10**6)}.py; I raised it and the tests pass."

    def calls() -> list[dict[str, Any]]:
        listing = "\n".join(f"src/module_{draw.randrange(10**6)}.py: ok" for _ in range(40))
        tool = {"tool_name": "Bash", "tool_input": {"command": "make check"}, "tool_response": listing}
        return [{**tool, "tool_use_id": f"toolu_{uuid.uuid4().hex}"}]

    return [
        Case(name="python -I -S -c pass", group="control", command=(sys.executable, "-I", "-S", "-c", "pass")),
        Case(name="python -c pass", group="control", command=(sys.executable, "-c", "pass")),
        Case(name="Stop", group="capture", command=hook, payload=payload("Stop", last_assistant_message=reply)),
        Case(
            name="PostToolBatch",
            group="capture",
            command=hook,
            payload=payload("PostToolBatch", tool_calls=calls),
        ),
        Case(name="SessionEnd", group="capture", command=hook, payload=payload("SessionEnd", reason="other")),
        Case(
            name="SessionStart",
            group="start",
            command=hook,
            payload=payload("SessionStart", source="startup"),
        ),
        Case(
            name="UserPromptSubmit",
            group="prompt",
            command=hook,
            payload=payload("UserPromptSubmit", prompt=question),
        ),
    ]


def run_once(case: Case, env: dict[str, str], files: str) -> tuple[float, float, bool]:
    """Start one process and wait for its end: milliseconds, those of processor time, and whether it printed something.

    Its input is a file and so is its output: nothing of this process's own work is in the time.
    """
    given, printed = os.path.join(files, "stdin"), os.path.join(files, "stdout")
    with open(given, "w", encoding="utf-8") as file:
        json.dump(case.payload() if case.payload else {}, file)
    streams = (
        (os.POSIX_SPAWN_OPEN, 0, given, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    )
    begun = time.perf_counter()
    pid = os.posix_spawn(case.command[0], case.command, env, file_actions=streams)
    _, status, used = os.wait4(pid, 0)
    taken = (time.perf_counter() - begun) * 1000
    if os.waitstatus_to_exitcode(status):
        with open(printed, encoding="utf-8", errors="replace") as file:
            raise SystemExit(f"{case.name}: exit {os.waitstatus_to_exitcode(status)}\n{file.read()}")
    return taken, (used.ru_utime + used.ru_stime) * 1000, os.path.getsize(printed) > 0


def measure(todo: Sequence[Case], runs: int, env: dict[str, str], files: str) -> dict[str, Measured]:
    """Run every case `runs` times, interleaved, after a few rounds that do not count."""
    found = {case.name: Measured() for case in todo}
    order = random.Random(11)
    for number in range(-WARM_UP, runs):
        for case in order.sample(todo, len(todo)):
            taken, processor, answered = run_once(case, env, files)
            if number >= 0:
                found[case.name].times.append(taken)
                found[case.name].processor.append(processor)
                found[case.name].answers += answered
    return found


# ---------------------------------------------------------------------------------------- the home it runs on


class _Daemon(http.client.HTTPConnection):
    """HTTP over the daemon's unix socket."""

    def __init__(self, home: str) -> None:
        super().__init__("localhost", timeout=120)
        self._path = socket_path(home)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def post(self, path: str, body: dict[str, Any]) -> None:
        self.request("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
        answer = self.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"POST {path}: {answer.status} {text[:500]!r}")


def statements(count: int) -> Iterator[str]:
    """Texts like those that agents' users leave behind, each one different."""
    draw = random.Random(3)
    for n in range(count):
        yield THINGS[n % len(THINGS)].format(
            n=n,
            service=draw.choice(SERVICES),
            place=draw.choice(PLACES),
            port=draw.randrange(1024, 65536),
            hours=draw.randrange(2, 30),
        )


def fill(home: str, env: dict[str, str], count: int) -> tuple[int, float]:
    """Give the daemon `count` statements and wait until it has worked through them.

    Returns how many memories the store holds then, and the seconds it took.
    """
    begun = time.monotonic()
    subprocess.run([EXECUTABLE, "daemon", "start"], env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)
    texts = list(statements(count))
    daemon = _Daemon(home)
    for start in range(0, count, BATCH):
        daemon.post("/api/memory/facts", {"items": [{"text": text} for text in texts[start : start + BATCH]]})
    daemon.close()
    while (left := waiting(status(env))) > 0:
        if time.monotonic() - begun > FILL_SECONDS:
            raise SystemExit(f"{left} jobs still wait after {FILL_SECONDS:.0f} s")
        print(f"{left} jobs left", file=sys.stderr)
        time.sleep(5.0)
    return int(status(env)["memories"]), time.monotonic() - begun


def status(env: dict[str, str]) -> dict[str, Any]:
    """What `filrouge status` says."""
    done = subprocess.run([EXECUTABLE, "status", "--json"], env=env, check=True, timeout=60, capture_output=True)
    return cast("dict[str, Any]", json.loads(done.stdout))


def waiting(said: dict[str, Any]) -> int:
    """How much work the daemon has not done yet."""
    return int(said["queue"]["waiting"]) + int(said["queue"]["running"])


def make_project(place: str) -> str:
    """A git project as the hook reads it: from its files, without git."""
    project = os.path.join(place, "harbor")
    os.makedirs(os.path.join(project, ".git"))
    for name, text in (
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", '[remote "origin"]\n\turl = git@git.example.org:lea/harbor.git\n'),
    ):
        with open(os.path.join(project, ".git", name), "w", encoding="utf-8") as file:
            file.write(text)
    return project


# ---------------------------------------------------------------------------------------- what comes out


def table(todo: Sequence[Case], found: dict[str, Measured]) -> str:
    """The times as Markdown."""
    bare = found["python -c pass"].percentile(0.5)
    lines = [
        "| process | kind | n | p50 ms | p95 ms | p99 ms | max ms | p50 / bare | processor ms | answered |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in todo:
        it = found[case.name]
        p50, p95, p99, top = (it.percentile(share) for share in (0.5, 0.95, 0.99, 1.0))
        times = f"{p50:.1f} | {p95:.1f} | {p99:.1f} | {top:.1f} | {p50 / bare:.2f} | {it.median_processor():.1f}"
        lines.append(f"| {case.name} | {case.group} | {len(it.times)} | {times} | {it.answers} |")
    return "\n".join(lines)


def gates(todo: Sequence[Case], found: dict[str, Measured]) -> tuple[float, float]:
    """The two gated figures: the slowest capture hook's median, and the prompt hook's 99th percentile."""
    capture = max(found[case.name].percentile(0.5) for case in todo if case.group == "capture")
    prompt = max(found[case.name].percentile(0.99) for case in todo if case.group == "prompt")
    return capture, prompt


def report(
    todo: Sequence[Case], found: dict[str, Measured], runs: int, memories: int, seconds: float
) -> dict[str, Any]:
    """The same as JSON, with every single time."""
    capture, prompt = gates(todo, found)
    bare = found["python -c pass"].percentile(0.5)
    rows: dict[str, Any] = {}
    for case in todo:
        it = found[case.name]
        rows[case.name] = {
            "kind": case.group,
            "p50_ms": round(it.percentile(0.5), 3),
            "p95_ms": round(it.percentile(0.95), 3),
            "p99_ms": round(it.percentile(0.99), 3),
            "max_ms": round(it.percentile(1.0), 3),
            "ratio_to_bare": round(it.percentile(0.5) / bare, 3),
            "processor_p50_ms": round(it.median_processor(), 3),
            "answered": it.answers,
            "times_ms": [round(time_ms, 3) for time_ms in it.times],
        }
    return {
        "benchmark": "hook",
        "runs": runs,
        "memories": memories,
        "fill_seconds": round(seconds, 1),
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cpus": os.cpu_count(),
        },
        "gates": {
            "capture_p50_ms": {"value": round(capture, 3), "limit": CAPTURE_P50_MS},
            "prompt_p99_ms": {"value": round(prompt, 3), "limit": PROMPT_P99_MS},
        },
        "processes": rows,
    }


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="rounds that count")
    parser.add_argument("--memories", type=int, default=10_000, help="memories in the store beforehand")
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    parser.add_argument("--out", default=RESULTS, help="where the JSON goes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill a throw-away home, measure, print, write; 0, or 1 when `--check` finds a gate missed."""
    options = read_options(arguments)
    if not os.access(EXECUTABLE, os.X_OK):
        print("filrouge is not installed beside this Python: pip install -e .")
        return 2
    place = tempfile.mkdtemp(prefix="filrouge-bench-")
    home = os.path.join(place, "memory")
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": place,
        "LANG": "C.UTF-8",
        "FILROUGE_HOME": home,
    }
    try:
        memories, seconds = fill(home, env, options.memories)
        todo = cases(make_project(place))
        found = measure(todo, options.runs, env, place)
    finally:
        subprocess.run([EXECUTABLE, "daemon", "stop"], env=env, check=False, timeout=60, stdout=subprocess.DEVNULL)
        shutil.rmtree(place, ignore_errors=True)
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(report(todo, found, options.runs, memories, seconds), file, indent=1)
        file.write("\n")
    capture, prompt = gates(todo, found)
    silent = not any(found[case.name].answers for case in todo if case.group == "prompt")
    missed = silent or capture > CAPTURE_P50_MS or prompt > PROMPT_P99_MS
    print(f"{memories} memories, {options.runs} rounds, {os.cpu_count()} cpus\n")
    print(table(todo, found))
    if silent:
        print("\nThe prompt hook injected nothing in any round: these are not the times of a recall.")
    print(
        f"\nhook: capture p50 {capture:.1f} ms (gate {CAPTURE_P50_MS:.0f}),"
        f" prompt p99 {prompt:.1f} ms (gate {PROMPT_P99_MS:.0f}): {'missed' if missed else 'held'}"
    )
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
