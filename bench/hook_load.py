"""Hooks on a busy machine: which recalls reach the agent, and whether any event is lost.

Real hook processes speak to a real daemon beside processes that only count (`--busy`, at normal priority).

*Recalls*: prompts about things that were stated, 0.3 s apart, the first one right after the daemon answers. A recall
that has something to say is logged as delivered or late; the share that is delivered is the figure. What the hook
printed is counted too and must be the same number.

*Storm*: many hooks of one moment (replies and prompts), again and again. Every event must be stored or in the spool
afterwards. A hook is the installed console command, as a host runs it. Its wall time is compared with that of as many
bare interpreters started at once beside the same load: below that no Python program can be.

    python bench/hook_load.py                    # two busy loops, 60 recalls, 3 storms of 50
    python bench/hook_load.py --busy 10 --check  # exit 1 when a gate is missed
    python bench/hook_load.py --against OTHER/bin/filrouge  # storms of another installation's hook in between
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.reliability import processes

from filrouge.capture import inbox

PAUSE: Final = 0.3
DELIVERED: Final = 0.97
HOOK: Final = ("hook", "--host", "claude-code")
BARE: Final = (sys.executable, "-c", "pass")
TOWNS: Final = "Arles Bastia Calvi Dinan Evian Figeac Gap Hyeres Issoire Joigny Laval Menton Nantes Orange Pau".split()
NOUNS: Final = "ferry almanac kiosk ledger gateway mailer tide orchard quarry beacon".split()


@dataclass(frozen=True, kw_only=True)
class Recalls:
    """What became of the prompts; milliseconds are of the hook processes."""

    prompts: int
    printed: int
    delivered: int
    late: int
    empty: int
    words_only: int
    milliseconds: list[float]

    @property
    def share(self) -> float:
        """Of the recalls with something to say, those that arrived."""
        return self.delivered / max(1, self.delivered + self.late)


@dataclass(frozen=True, kw_only=True)
class Storm:
    """Events of hooks that ran at once."""

    sent: int
    kept: int
    counted_lost: int
    hooks: list[float]
    bare: list[float]
    others: list[float]


def statements() -> list[tuple[str, str]]:
    """Statements, each with a prompt that asks for it."""
    draw = random.Random(5)
    pairs = [(noun, town) for noun in NOUNS for town in TOWNS]
    draw.shuffle(pairs)
    return [
        (
            f"The {noun} service in {town} listens on port {draw.randrange(2000, 60000)}.",
            f"Which port does the {noun} service in {town} listen on?",
        )
        for noun, town in pairs
    ]


@contextmanager
def busy(number: int) -> Generator[None]:
    """Loops that take whatever processor time they get."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def recalls(home: str, environ: dict[str, str], loops: int, prompts: int) -> Recalls:
    """Ask for what was stated before, right after a start."""
    told = statements()
    with processes.started_daemon(home, **environ):
        items = [{"text": text} for text, _ in told]
        processes.client.request(home, "POST", "/api/memory/facts", {"items": items}, 60.0)
        processes.eventually("all is understood", lambda: processes.quiet(home), 600.0)
    times = list[float]()
    printed = 0
    with busy(loops), processes.started_daemon(home, **environ):
        processes.hook(home, processes.session_start(home, "load"), **environ)
        for number, (_, question) in enumerate(told[:prompts]):
            ended = processes.hook(home, processes.prompt(home, "load", f"p{number}", question), **environ)
            times.append(ended.seconds * 1000)
            printed += bool(ended.out)
            time.sleep(PAUSE)
        processes.eventually("all is understood", lambda: processes.quiet(home), 600.0)
    rows = [row for row in processes.left(home).recalls if row["user_message_preview"] != "[session_start]"]
    outcomes = [row["outcome"] for row in rows]
    return Recalls(
        prompts=prompts,
        printed=printed,
        delivered=outcomes.count("delivered"),
        late=outcomes.count("late"),
        empty=outcomes.count("empty"),
        words_only=sum("only words" in row["notices"] for row in rows),
        milliseconds=times,
    )


def at_once(command: Sequence[str], inputs: Sequence[bytes], env: dict[str, str], cwd: str) -> list[float]:
    """Start as many processes at once as there are inputs; the milliseconds of each, in the order they ended."""
    began: dict[int, float] = {}
    for raw in inputs:
        with tempfile.TemporaryFile() as file:
            file.write(raw)
            file.seek(0)
            at = time.perf_counter()
            one = subprocess.Popen(command, stdin=file, stdout=subprocess.DEVNULL, env=env, cwd=cwd)
        began[one.pid] = at
        one.returncode = 0  # reaped below
    took = list[float]()
    while began:
        pid, _ = os.wait()
        if pid in began:
            took.append((time.perf_counter() - began.pop(pid)) * 1000)
    return took


def storm(home: str, environ: dict[str, str], loops: int, number: int, rounds: int, against: str) -> Storm:
    """Many hooks at once; what was kept of their events. Storms of the command `against` come in between."""
    env = processes.environment(home, **environ)
    place = processes.workplace(home)
    hooks, bare, others, sent = list[float](), list[float](), list[float](), list[str]()
    commands = [(processes.EXECUTABLE, hooks), *([(against, others)] if against else [])]
    with processes.started_daemon(home, **environ), busy(loops):
        for turn in range(rounds):
            for executable, took in commands if turn % 2 else commands[::-1]:
                inputs = list[bytes]()
                for n in range(number):
                    session = f"storm-{turn}-{len(sent)}"
                    sent.append(session)
                    text = f"The lantern of pier {len(sent)} is lit at {turn}."
                    event = processes.reply if n % 2 else processes.prompt
                    inputs.append(json.dumps(event(home, session, "p", text)).encode())
                took += at_once([executable, *HOOK], inputs, env, place)
            bare += at_once(BARE, [b""] * number, env, place)
        waiting = {event["session"] for event in processes.spooled(home)}
        processes.eventually("all is understood", lambda: processes.quiet(home), 600.0)
    stored = {row["session_id"] for row in processes.left(home).events}
    kept = len(set(sent) & (stored | waiting))
    return Storm(
        sent=len(sent), kept=kept, counted_lost=inbox.read_losses(home).events, hooks=hooks, bare=bare, others=others
    )


def percentile(times: Sequence[float], share: float) -> float:
    """The smallest time that `share` of all did not exceed."""
    return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


def shown(times: Sequence[float]) -> str:
    """Three figures of some times."""
    return " | ".join(f"{percentile(times, share):.0f}" for share in (0.5, 0.99, 1.0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where `--check` finds a gate missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--busy", type=int, default=2, help="processes that only count")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--hooks", type=int, default=50, help="of one storm")
    parser.add_argument("--rounds", type=int, default=3, help="storms")
    parser.add_argument("--against", default="", help="the `filrouge` command of another installation")
    parser.add_argument("--embedder", default="e5")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    environ = {"FILROUGE_EMBEDDING_MODEL": options.embedder}
    load = os.getloadavg()[0]
    print(
        f"{options.busy} busy loops, {os.cpu_count()} processors, load {load:.1f} before, embedder {options.embedder}\n"
    )
    with processes.throw_away_home() as home:
        found = recalls(home, environ, options.busy, options.prompts)
    print("| prompts | printed | delivered | late | empty | words only | share | p50 ms | p99 ms | max ms |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    counts = f"{found.prompts} | {found.printed} | {found.delivered} | {found.late} | {found.empty}"
    print(f"| {counts} | {found.words_only} | {found.share:.3f} | {shown(found.milliseconds)} |\n")
    missed = found.share < DELIVERED or found.printed != found.delivered
    if options.rounds:
        with processes.throw_away_home() as home:
            kept = storm(home, environ, options.busy, options.hooks, options.rounds, options.against)
        print("| at once | sent | stored or spooled | counted as lost | process | p50 ms | p99 ms | max ms |")
        print("|--:|--:|--:|--:|---|--:|--:|--:|")
        counts = f"{options.hooks} | {kept.sent} | {kept.kept} | {kept.counted_lost}"
        print(
            f"| {counts} | hook | {shown(kept.hooks)} |\n| {options.hooks} | | | | bare Python | {shown(kept.bare)} |"
        )
        if kept.others:
            print(f"| {options.hooks} | | | | hook of {options.against} | {shown(kept.others)} |")
        missed = missed or kept.kept + kept.counted_lost < kept.sent or kept.counted_lost > 0
    print(f"\nhook_load: {'missed' if missed else 'held'}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
