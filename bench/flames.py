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
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
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

    @property
    def ms(self) -> float:
        """Processor milliseconds of one."""
        return self.stacks.total() / 1e6 / self.count


@dataclass(frozen=True, kw_only=True)
class Told:
    """A running daemon, and how it is spoken to."""

    python: str
    environ: dict[str, str]
    stacks: Path
    folder: str

    def hook(self, event: str, session: str, **fields: str) -> str:
        """Run the hook with an event, and return what it prints."""
        return run_hook(self.python, self.environ, session_id=session, hook_event_name=event, cwd=self.folder, **fields)

    def read(self, begin: float, end: float) -> Iterator[tuple[int, int, Stack]]:
        """What was seen between two moments."""
        for line in self.stacks.read_text("utf-8").splitlines():
            second, spent, *stack = json.loads(line)
            if begin <= second < end:
                yield second, spent, tuple(stack)

    def settle(self) -> float:
        """Wait until nothing is done any more; the moment at which it was."""
        patience = time.time() + PATIENCE_SECONDS
        while time.time() < patience:
            time.sleep(1)
            now = int(time.time())
            if sum(spent for _, spent, _ in self.read(now - IDLE_SECONDS, now)) < IDLE_SECONDS_OF_PROCESSOR * 1e9:
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


def measure(python: str) -> tuple[Seen, Seen]:
    """What prompts and turns cost the daemon of a checkout, whose interpreter this is."""
    projects = [json.loads(path.read_text("utf-8")) for path in PROJECTS]
    talks = [[turn for session in project["sessions"] for turn in session["turns"]] for project in projects]
    told = [turn for talk in talks for turn in talk[: len(talk) // 2]]
    prompts = [turn["user"] for talk in talks for turn in talk[len(talk) // 2 :]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "work")
        os.mkdir(folder)
        environ = environment(python, scratch)
        stacks = Path(scratch) / "stacks"
        running = subprocess.Popen([python, __file__, "--daemon", str(stacks)], env=environ, cwd=scratch)
        try:
            return tell(Told(python=python, environ=environ, stacks=stacks, folder=folder), told, prompts)
        finally:
            running.terminate()
            running.wait(60)


def tell(told: Told, talk: Sequence[dict[str, Any]], prompts: Sequence[str]) -> tuple[Seen, Seen]:
    """Tell a daemon some turns, then give it prompts, each in a new session."""
    deadline = time.time() + PATIENCE_SECONDS
    while not told.stacks.exists() or "filrouge" not in subprocess.run(
        [os.path.join(os.path.dirname(told.python), "filrouge"), "daemon", "status"],
        env=told.environ, capture_output=True, text=True, check=False,
    ).stdout.lower():  # fmt: skip
        if time.time() > deadline:
            raise SystemExit("the daemon does not start")
        time.sleep(0.5)
    warm = str(uuid.uuid4())
    for prompt in prompts[-WARM_UP:]:  # loads the model, and what is read or embedded once
        told.hook("UserPromptSubmit", warm, prompt=prompt)
    prompts = prompts[:-WARM_UP]
    begin = told.settle()
    for number in range(0, len(talk), 10):
        session = str(uuid.uuid4())
        for turn in talk[number : number + 10]:
            told.hook("UserPromptSubmit", session, prompt=turn["user"])
            told.hook("Stop", session, last_assistant_message=turn.get("assistant", ""))
    middle = told.settle()
    for prompt in prompts:
        told.hook("UserPromptSubmit", str(uuid.uuid4()), prompt=prompt)
        time.sleep(0.3)  # its own turn is taken in beside it otherwise
    end = told.settle()
    turns, asked = Seen(count=len(talk)), Seen(count=len(prompts))
    for second, spent, stack in told.read(begin, end):
        kind = of_turns(stack)
        if second < middle and kind:
            turns.stacks[stack] += spent
        if second >= middle and not kind:
            asked.stacks[stack] += spent
    return asked, turns


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
    versions = {"before": options.before} if options.before else {}
    for version, python in (versions | {"now": sys.executable}).items():
        asked_and_turn = measure(python)
        draw(options.out, version, *asked_and_turn)
        for kind, seen in zip(("prompt", "turn"), asked_and_turn, strict=True):
            print(f"{kind} {version}: {seen.ms:.1f} processor ms, n = {seen.count}")
            for function, share in heaviest(seen):
                print(f"   {100 * share:5.1f} %  {function}")


if __name__ == "__main__":
    main()
