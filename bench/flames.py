"""Where the daemon's processor time goes: for a prompt that gets its memories, and for a turn that is taken in.

A daemon with a home of its own is told the first half of two projects of labelled talk through the hook of Claude Code,
and then given the prompts of the second half, each in a session of its own. A thread inside it looks at all others
every few milliseconds and weighs each stack by the processor time that its thread used since the last look, so threads
that wait count nothing. The threads of the worker and the writer belong to turns, embedding to whoever is served at the
time, and the rest to prompts.

    python bench/flames.py --out bench/results                            # flames_prompt.svg, flames_turn.svg
    python bench/flames.py --out DIR --before CHECKOUT/.venv/bin/python   # and those of another checkout

The width of a frame is its processor time, and its colour says whose code it is: ours, Python's, or a library's.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent
PROJECTS: Final = [ROOT / "data" / "talk" / "validation" / f"{name}.json" for name in ("a-en-08", "c-fr-06")]
PERIOD_SECONDS: Final = 0.004
#: All work is done when so many seconds used less processor time than this.
IDLE_SECONDS, IDLE_SECONDS_OF_PROCESSOR = 6, 0.18
PATIENCE_SECONDS: Final = 300.0
WARM_UP: Final = 4
#: So many turns, or prompts, one after the other; then it is the other daemon's turn.
TOGETHER: Final = 10
Stack = tuple[str, ...]


# In the daemon: what is looked at, a file of one line per second and stack.


def look(path: str) -> None:
    """Write the stacks of all other threads with their processor time, a second at a time, until the process ends."""
    used = dict[int, int]()
    me = threading.get_ident()
    with open(path, "w", encoding="utf-8", buffering=1) as file:
        while True:
            second, found = int(time.time()), Counter[Stack]()
            while int(time.time()) == second:
                time.sleep(PERIOD_SECONDS)
                names = {one.ident: one.name for one in threading.enumerate()}
                for thread, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage] (documented)
                    if thread != me:
                        now = time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
                        spent, used[thread] = now - used.get(thread, now), now
                        if spent > 0:
                            found[names.get(thread, "?"), *reversed(list(frames(frame)))] += spent
            for stack, spent in found.items():
                file.write(json.dumps([second, spent, *stack]) + "\n")


def frames(frame: Any) -> Iterator[str]:
    """The functions of a stack, innermost first."""
    while frame is not None:
        code = frame.f_code
        yield f"{code.co_qualname if sys.version_info >= (3, 11) else code.co_name} {short(code.co_filename)}"
        frame = frame.f_back


def short(path: str) -> str:
    """A file's path from its package on."""
    for mark in ("/site-packages/", "/src/", f"/python{sys.version_info[0]}.{sys.version_info[1]}/"):
        _, found, rest = path.rpartition(mark)
        if found:
            return rest
    return os.path.basename(path)


def daemon(path: str) -> None:
    """Be the daemon, looked at."""
    threading.Thread(target=look, args=(path,), name="looking", daemon=True).start()
    sys.argv = ["filrouge.server"]
    runpy.run_module("filrouge.server", run_name="__main__", alter_sys=True)


# Outside: what the daemon is told, and what was seen.


@dataclass(kw_only=True)
class Seen:
    """Processor nanoseconds by stack, of so many prompts or turns."""

    count: int
    stacks: Counter[Stack] = field(default_factory=Counter[Stack])

    def add(self, rows: Iterable[tuple[int, Stack]]) -> None:
        """Count what else was seen."""
        for spent, stack in rows:
            self.stacks[stack] += spent

    @property
    def ms(self) -> float:
        """Processor milliseconds of one."""
        return self.stacks.total() / 1e6 / self.count


@dataclass(frozen=True, kw_only=True)
class Told:
    """A running daemon, and how it is spoken to."""

    python: str
    environ: dict[str, str]
    process: subprocess.Popen[bytes]
    stacks: Path
    folder: str

    def hook(self, event: str, session: str, **fields: str) -> str:
        """Run the hook with an event, and return what it prints."""
        return run_hook(self.python, self.environ, session_id=session, hook_event_name=event, cwd=self.folder, **fields)

    def warm_up(self, prompts: Sequence[str]) -> None:
        """Wait until the daemon runs, and give it prompts: that loads the model, and what is read or embedded once."""
        deadline = time.time() + PATIENCE_SECONDS
        while not self.stacks.exists() or "filrouge" not in subprocess.run(
            [os.path.join(os.path.dirname(self.python), "filrouge"), "daemon", "status"],
            env=self.environ, capture_output=True, text=True, check=False,
        ).stdout.lower():  # fmt: skip
            if time.time() > deadline:
                raise SystemExit("the daemon does not start")
            time.sleep(0.5)
        session = str(uuid.uuid4())
        for prompt in prompts:
            self.hook("UserPromptSubmit", session, prompt=prompt)
        self.settle()

    def read(self, begin: float, end: float) -> Iterator[tuple[int, Stack]]:
        """What was seen between two moments: nanoseconds of the processor, and the stack."""
        for line in self.stacks.read_text("utf-8").splitlines():
            second, spent, *stack = json.loads(line)
            if begin <= second < end:
                yield spent, tuple(stack)

    def settle(self) -> float:
        """Wait until nothing is done any more; the moment at which it was."""
        patience = time.time() + PATIENCE_SECONDS
        while time.time() < patience:
            time.sleep(1)
            now = int(time.time())
            if sum(spent for spent, _ in self.read(now - IDLE_SECONDS, now)) < IDLE_SECONDS_OF_PROCESSOR * 1e9:
                return float(now)
        raise SystemExit("the daemon does not come to rest")


def environment(python: str, scratch: str) -> dict[str, str]:
    """Return what a process of a checkout sees whose home is in `scratch`; nothing of this machine's own Filrouge."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("FILROUGE_", "PYTHON"))},
        "HOME": scratch,
        "FILROUGE_HOME": os.path.join(scratch, "home"),
        "PATH": f"{os.path.dirname(python)}:{os.environ['PATH']}",
    }


def run_hook(python: str, environ: dict[str, str], **payload: str) -> str:
    """Run a checkout's hook of Claude Code, and return what it prints."""
    command = [os.path.join(os.path.dirname(python), "filrouge"), "hook", "--host", "claude-code"]
    return subprocess.run(
        command, input=json.dumps(payload), env=environ, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def measure(pythons: Sequence[str]) -> list[tuple[Seen, Seen]]:
    """What prompts and turns cost the daemons of checkouts, whose interpreters these are.

    They take turns every ten prompts, and the others are stopped meanwhile: the speed of a machine drifts.
    """
    projects = [json.loads(path.read_text("utf-8")) for path in PROJECTS]
    talks = [[turn for session in project["sessions"] for turn in session["turns"]] for project in projects]
    told = [turn for talk in talks for turn in talk[: len(talk) // 2]]
    prompts = [turn["user"] for talk in talks for turn in talk[len(talk) // 2 :]]
    with ExitStack() as running:
        return tell([running.enter_context(looked_at(python)) for python in pythons], told, prompts)


@contextmanager
def looked_at(python: str) -> Generator[Told]:
    """Start the daemon of a checkout in a home of its own, with the thread that looks; it ends with the block."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "work")
        os.mkdir(folder)
        environ = environment(python, scratch)
        stacks = Path(scratch) / "stacks"
        process = subprocess.Popen([python, __file__, "--daemon", str(stacks)], env=environ, cwd=scratch)
        try:
            yield Told(python=python, environ=environ, process=process, stacks=stacks, folder=folder)
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def alone(process: subprocess.Popen[bytes], processes: Sequence[subprocess.Popen[bytes]]) -> Generator[None]:
    """Stop the other processes meanwhile: each has upkeep of its own to do."""
    others = [other for other in processes if other is not process]
    for other in others:
        other.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            other.send_signal(signal.SIGCONT)


def tell(daemons: Sequence[Told], talk: Sequence[dict[str, Any]], prompts: Sequence[str]) -> list[tuple[Seen, Seen]]:
    """Tell daemons some turns, then give them prompts, each in a new session."""
    for told in daemons:
        told.warm_up(prompts[-WARM_UP:])
    prompts = prompts[:-WARM_UP]
    processes = [told.process for told in daemons]
    seen = [(Seen(count=len(prompts)), Seen(count=len(talk))) for _ in daemons]
    for number in range(0, len(talk), TOGETHER):
        for told, (_, turns) in zip(daemons, seen, strict=True):
            with alone(told.process, processes):
                begin, session = next_second(), str(uuid.uuid4())
                for turn in talk[number : number + TOGETHER]:
                    told.hook("UserPromptSubmit", session, prompt=turn["user"])
                    told.hook("Stop", session, last_assistant_message=turn.get("assistant", ""))
                turns.add(one for one in told.read(begin, told.settle()) if of_turns(one[1]))
    for number in range(0, len(prompts), TOGETHER):
        for told, (asked, _) in zip(daemons, seen, strict=True):
            with alone(told.process, processes):
                begin = next_second()
                for prompt in prompts[number : number + TOGETHER]:
                    told.hook("UserPromptSubmit", str(uuid.uuid4()), prompt=prompt)
                    time.sleep(0.3)  # its own turn is taken in beside it otherwise
                end = next_second()
                next_second()  # until a second is over, what was seen in it is not written
                asked.add(one for one in told.read(begin, end) if not of_turns(one[1]))
    return seen


def next_second() -> float:
    """Wait for the next whole second, and return it."""
    time.sleep(1 - time.time() % 1)
    return float(int(time.time()))


def of_turns(stack: Stack) -> bool:
    """Whether a stack is work on what was said, rather than an answer."""
    return any(name in stack[0] for name in ("worker", "writer", "embed", "feed", "words"))


# The picture.

WIDTH, HEIGHT, SMALLEST = 1600.0, 17.0, 1.2


def picture(seen: Seen, title: str) -> str:
    """A flame graph, root at the top."""
    total = seen.stacks.total()
    boxes = list(_boxes(seen.stacks, total))
    depth = max((level for level, *_ in boxes), default=0) + 1
    drawn = "\n".join(_drawn(*box, total) for box in boxes)
    height = (depth + 3) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" font-family="monospace" '
        f'font-size="11">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text x="8" y="{HEIGHT}" font-size="14">{html.escape(title)}: {seen.ms:.1f} processor ms, n = {seen.count}'
        f"</text>\n{drawn}\n</svg>\n"
    )


def _boxes(stacks: Counter[Stack], total: int) -> Iterator[tuple[int, float, float, str]]:
    """Level, first and last share, and name of each frame that is wide enough to be seen."""
    waiting: list[tuple[Counter[Stack], int, float]] = [(stacks, 0, 0.0)]
    while waiting:
        below, level, begin = waiting.pop()
        names = dict[str, Counter[Stack]]()
        for stack, spent in below.items():
            if stack:
                names.setdefault(stack[0], Counter())[stack[1:]] += spent
        for name, rest in sorted(names.items(), key=lambda one: -one[1].total()):
            end = begin + rest.total() / total
            if (end - begin) * WIDTH >= SMALLEST:
                yield level, begin, end, name
                waiting.append((rest, level + 1, begin))
            begin = end


def _drawn(level: int, begin: float, end: float, name: str, total: float) -> str:
    x, width, y = begin * WIDTH, (end - begin) * WIDTH, (level + 2) * HEIGHT
    function, _, file = name.partition(" ")
    colour = "#e07a5f" if file.startswith("filrouge/") else "#f2cc8f" if "/" in file else "#81b29a"
    room = int(width / 6.7)
    text = html.escape((function.rpartition(".")[2] if file else function)[:room]) if room > 3 else ""
    label = html.escape(f"{function} ({file}): {100 * (end - begin):.1f} %, {total * (end - begin) / 1e9:.2f} s in all")
    return (
        f'<g><title>{label}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT - 1}" '
        f'fill="{colour}"/><text x="{x + 2:.1f}" y="{y + 12:.1f}">{text}</text></g>'
    )


def heaviest(seen: Seen, count: int = 12) -> Iterator[tuple[str, float]]:
    """Our functions with the most processor time under them, and their share."""
    inclusive = Counter[str]()
    for stack, spent in seen.stacks.items():
        for name in {one for one in stack if " filrouge/" in one or "onnxruntime" in one}:
            inclusive[name] += spent
    for name, spent in inclusive.most_common(count):
        yield name, spent / seen.stacks.total()


def draw(out: Path, version: str, asked: Seen, turn: Seen) -> None:
    """Write the pictures of a prompt and a turn; `version` is "before" or "now"."""
    for kind, seen in (("prompt", asked), ("turn", turn)):
        name = f"flames_{kind}{'_before' if version == 'before' else ''}.svg"
        (out / name).write_text(picture(seen, f"A {kind}, {version}"), encoding="utf-8")


def main() -> None:
    """Measure, draw, and write the table."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--out", type=Path, help="where the pictures and the table are written")
    asked.add_argument("--before", help="the interpreter of another checkout's environment")
    asked.add_argument("--daemon", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.daemon:
        daemon(options.daemon)
        return
    if not options.out:
        asked.error("--out is missing")
    versions = ({"before": options.before} if options.before else {}) | {"now": sys.executable}
    for version, asked_and_turn in zip(versions, measure(list(versions.values())), strict=True):
        draw(options.out, version, *asked_and_turn)
        for kind, seen in zip(("prompt", "turn"), asked_and_turn, strict=True):
            print(f"{kind} {version}: {seen.ms:.1f} processor ms, n = {seen.count}")
            for function, share in heaviest(seen):
                print(f"   {100 * share:5.1f} %  {function}")


if __name__ == "__main__":
    main()
